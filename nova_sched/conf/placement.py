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
"""Options of the [placement] group: how the scheduler reaches Placement. Most are Nova's."""

from oslo_config import cfg

from nova_sched.conf import keystone

GROUP = 'placement'
OPTS = [
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


def register_opts(conf):
    conf.register_opts(OPTS, group=GROUP)


def register_keystone_opts(conf):
    """Register the options of keystoneauth, for a process that uses or checks them."""
    conf.register_opts(keystone_opts(), group=GROUP)


def keystone_opts():
    return keystone.options('placement')
