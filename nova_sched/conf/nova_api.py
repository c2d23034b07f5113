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
"""Options of the [nova_api] group: how a scheduler reaches Nova's API, to have servers moved."""

from oslo_config import cfg

from nova_sched.conf import keystone

GROUP = 'nova_api'
OPTS = [
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


def register_opts(conf):
    conf.register_opts(OPTS, group=GROUP)


def register_keystone_opts(conf):
    """Register the options of keystoneauth, for a process that uses or checks them."""
    conf.register_opts(keystone_opts(), group=GROUP)


def keystone_opts():
    return keystone.options('compute')


def is_set(conf):
    """Whether there is an account for Nova's API: without one no servers are moved."""
    register_keystone_opts(conf)
    return bool(conf.nova_api.auth_type or conf.nova_api.auth_section)
