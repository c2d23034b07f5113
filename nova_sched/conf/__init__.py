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

"""Every option of the service, registered on oslo.config's global object.

The global one, because oslo.messaging registers its tracing options nowhere else. The service
reads options once, in ``service.py``; filters and weighers read them when they are called.
"""

import copy

from oslo_config import cfg

from nova_sched.conf import agent, base, claims, filter_scheduler, scheduler, stats

CONF = cfg.CONF
MODULES = (agent, base, claims, filter_scheduler, scheduler, stats)

for _module in MODULES:
    _module.register_opts(CONF)


def list_opts():
    """All options by group, as oslo-config-generator asks for them."""
    return [(module.GROUP, copy.deepcopy(module.OPTS)) for module in MODULES]
