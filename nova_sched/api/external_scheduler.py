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
"""The operation for a scheduler that has its hosts filtered and ordered here."""

from nova_sched import errors
from nova_sched.api.handlers import reply

# Flags of a body, and the check of the request that each one stands for.
CHECKS = {'rebuild': 'rebuild', 'resize': 'resize', 'live': 'live_migrate'}


class ExternalSchedulerHandlers:
    """``rank`` is `rank_hosts` of a client of the RPC namespace `explain` that waits ``timeout_s``
    seconds."""

    def __init__(self, rank, policy, timeout_s):
        self._rank, self._policy, self._timeout_s = rank, policy, timeout_s

    def rank_hosts(self, call):
        context, body = call.context, call.body
        self._policy.demand(context, 'external_scheduler', context.project_id, context.user_id)
        flags = [check for flag, check in CHECKS.items() if body.get(flag)]
        if len(flags) > 1:
            raise errors.InvalidRequest('body', f'it cannot be for {" and ".join(flags)} at once')
        pairs = [(one['host'], one.get('hypervisor_hostname')) for one in body['hosts']]
        try:
            found = self._rank(
                spec_obj=body['spec'],
                hosts=pairs,
                weights=body.get('weights') or {},
                check_type=flags[0] if flags else None,
                context=context,
            )
        except (errors.NoAnswer, errors.Outdated):
            raise errors.DeadlinePassed('The order of the hosts', self._timeout_s) from None
        return reply({'hosts': found})
