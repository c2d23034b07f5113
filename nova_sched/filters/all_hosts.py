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
"""AllHostsFilter."""

from nova_sched.filters import Filter
from nova_sched.state.facts import NOTHING


class AllHostsFilter(Filter):
    """Every host passes."""

    run_filter_once_per_request = True
    host_facts = NOTHING
    request_facts = ()

    def mask(self, hosts, request):
        return True
