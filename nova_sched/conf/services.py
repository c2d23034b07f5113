# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.
"""How a scheduler reaches Placement, Neutron and Nova's API: limits of time, and the options of
keystoneauth for each of them."""

import copy

from oslo_config import cfg

NOVA_API_OPTS = [
    cfg.FloatOpt(
        'connect_timeout',
        default=3.0,
        min=0.1,
        help="Seconds to wait for a connection to Nova's API.",
    ),
    cfg.FloatOpt(
        'read_timeout',
        default=20.0,
        min=0.1,
        help="Seconds to wait for an answer of Nova's API. After that a scheduler does not know "
        'whether Nova moves the server: it looks at the migrations of the server before it asks '
        'again. If [nova_api] timeout is set, that is used for both.',
    ),
]
PLACEMENT_OPTS = [
    cfg.IntOpt(
        'in_flight',
        default=8,
        min=1,
        max=256,
        help='Requests of one scheduler process that write allocations at the same time. The '
        'others wait; those for one server are written one after the other.',
    ),
    cfg.FloatOpt(
        'connect_timeout',
        default=3.0,
        min=0.1,
        help='Seconds to wait for a connection to Placement.',
    ),
    cfg.FloatOpt(
        'read_timeout',
        default=20.0,
        min=0.1,
        help='Seconds to wait for an answer of Placement. A scheduler does not know whether a '
        'request that took longer was done: it reads the allocations before it repeats the '
        'request. If [placement] timeout is set, that is used for both.',
    ),
]
OPTS = {'neutron': [], 'nova_api': NOVA_API_OPTS, 'placement': PLACEMENT_OPTS}
# The type of each of these services in Keystone's catalogue.
SERVICE_TYPES = {'neutron': 'network', 'nova_api': 'compute', 'placement': 'placement'}


def register_keystone_opts(conf, group):
    """Register the options of keystoneauth, for a process that uses or checks them."""
    conf.register_opts(keystone_opts(group), group=group)


def keystone_opts(group):
    """The options of a session, an adapter and an authentication plugin, with Nova's defaults."""
    from keystoneauth1 import loading  # late: it takes long, and few commands need it

    defaults = {'service-type': SERVICE_TYPES[group], 'valid-interfaces': ['internal', 'public']}
    opts = [
        *loading.get_session_conf_options(),
        *loading.get_adapter_conf_options(include_deprecated=False),
    ]
    for option in opts:
        if option.name in defaults:
            option.default = copy.copy(defaults[option.name])
    return [*_with_sentences(opts), *auth_options()]


def auth_options():
    """The options that name an authentication plugin."""
    from keystoneauth1 import loading  # late, as above

    return _with_sentences(loading.get_auth_common_conf_options())


def _with_sentences(opts):
    for option in opts:
        option.help = option.help.rstrip('. ') + '.'
    return opts


def has_nova_account(conf):
    """Whether there is an account for Nova's API: without one no servers are moved."""
    register_keystone_opts(conf, 'nova_api')
    return bool(conf.nova_api.auth_type or conf.nova_api.auth_section)
