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
"""Understood, always on: a request for something that no rule knows is refused, not ignored."""

from nova_sched.filters import Filter, reasons


class Understood(Filter):
    """No part of the request asks for what this scheduler cannot give, or does not say how.

    Several groups of resources need a group_policy, as Placement wants it.
    """

    run_filter_once_per_request = True

    def mask(self, hosts, request):
        return hosts.everywhere(False) if request.unsupported or lacks_policy(request) else True

    def why(self, hosts, request, rows):
        if request.unsupported:
            return (
                f'the request asks for what no rule knows: {reasons.listed(request.unsupported)}'
            )
        count = len(request.groups)
        return (
            f'the request has {count} groups of resources, but no group_policy (none or isolate)'
        )


def lacks_policy(request):
    """Nobody said whether the groups may share a provider."""
    return len(request.groups) > 1 and request.group_policy is None
