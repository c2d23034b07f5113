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
"""BuildFailureWeigher."""

from nova_sched.weighers import Weigher


class BuildFailureWeigher(Weigher):
    """Fewer failed builds since the last successful one are better: the multiplier is applied
    negatively."""

    option = 'build_failure_weight_multiplier'
    sign = -1.0
    request_facts = ()

    def raw(self, hosts, rows, request):
        return hosts.failed_builds[rows]
