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
"""ExclusiveDomain, always on: hosts that a top group has for itself are closed to everybody
else."""

from nova_sched.filters import Filter, reasons


class ExclusiveDomain(Filter):
    """Of each policy that makes the host part of an exclusive domain, the request is a member."""

    def mask(self, hosts, request):
        return hosts.open_to(request.fences)

    def why(self, hosts, request, rows):
        return reasons.causes(len(rows), [(len(rows), 'kept for another group')])
