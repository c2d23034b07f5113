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
"""Options of the [neutron] group: how the scheduler reaches Neutron. They are Nova's."""

from nova_sched.conf import keystone

GROUP = 'neutron'
OPTS: list = []


def register_opts(conf):
    """None but those of keystoneauth."""


def register_keystone_opts(conf):
    """Register the options of keystoneauth, for a process that uses or checks them."""
    conf.register_opts(keystone_opts(), group=GROUP)


def keystone_opts():
    return keystone.options('network')
