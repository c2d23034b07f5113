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
"""Understood, always on: a request with an unknown requirement is refused, not ignored."""

from nova_sched.filters import Filter, reasons
from nova_sched.state.facts import NOTHING


class Understood(Filter):
    """Every requirement of the request is supported and unambiguous.

    Several groups of resources need a group_policy, as in Placement.
    """

    run_filter_once_per_request = True
    host_facts = NOTHING
    request_facts = ('unsupported', 'groups', 'group_policy')

    def mask(self, hosts, request):
        lacks_policy = len(request.groups) > 1 and request.group_policy is None
        return hosts.everywhere(False) if request.unsupported or lacks_policy else True

    def why(self, hosts, request, rows):
        if request.unsupported:
            return (
                f'the request asks for what no rule knows: {reasons.listed(request.unsupported)}'
            )
        count = len(request.groups)
        return (
            f'the request has {count} groups of resources, but no group_policy (none or isolate)'
        )
