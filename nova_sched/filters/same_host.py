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
"""SameHostFilter."""

import numpy as np

from nova_sched.filters import Filter, reasons
from nova_sched.state.facts import HostFacts


def uuids(hint):
    """Return the instances that a hint names: one, or a list; an empty hint names none."""
    return [hint] if hint and isinstance(hint, str) else list(hint or ())


class SameHostFilter(Filter):
    """The host holds one of the instances that the hint `same_host` names."""

    for_tenants = 'the hint same_host does not allow them'
    run_filter_once_per_request = True
    host_facts = HostFacts.MEMBERS
    request_facts = ('hints',)

    def mask(self, hosts, request):
        named = uuids(request.hint('same_host'))
        return hosts.count_instances(named) > 0 if named else True

    def why(self, hosts, request, rows):
        named = uuids(request.hint('same_host'))
        known = np.count_nonzero(hosts.count_instances(named))
        where = reasons.count(known, 'other host') if known else 'no known host'
        return f'the hint same_host names {reasons.count(len(named), "instance")}, on {where}'
