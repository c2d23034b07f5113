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
"""The quota of plans: the limits of a project, and what a plan adds before it is claimed.

The store judges the claims. What is known before refuses a plan without a search for hosts, and a
dry run as the plan itself would be refused.
"""

import collections

from nova_sched.claim import PLANNED
from nova_sched.claims import plan_quota


def no_limits(_project_id):
    return {}


def limits_of(limits, project_id):
    """The limits of a project on what plans use, by resource, without those that are none.

    ``limits(project_id)`` may ask another service: not for the loop.
    """
    if project_id is None:
        return {}
    # Of Keystone's limits, only the registered ones: the others would be 0.
    known = dict(limits(project_id))
    return {
        name: most for name, most in known.items() if most >= 0 and plan_quota.is_counted(name)
    }


def check(store, draft, record, nodes=None, tokens=frozenset()):
    """Raises QuotaExceeded if the plan of a Draft would exceed the limits of its project.

    ``record`` is the group's new record, ``store`` a ClaimStore. ``nodes`` are those of the plan,
    one for each member, and ``tokens`` those of its exclusive domains. Without nodes, moves of
    servers and exclusive domains do not count.
    """
    more = _planned(draft, nodes)
    more.update(plan_quota.of_record(record))
    more.subtract(plan_quota.of_record(store.top_group(record.uuid)))
    if nodes is not None:
        own = {token for token, one in store.domains().items() if one.top_group == record.uuid}
        more[plan_quota.DOMAINS] = len(tokens) - len(own)
    plan_quota.check(record.project_id, store.plan_usage(record.project_id), more, draft.limits)


def _planned(draft, nodes):
    """What the planned claims of the group would use, less what they use now."""
    more: collections.Counter[str] = collections.Counter()
    for claim in draft.left:
        more.subtract(plan_quota.of_claim(claim))
    for place, state in enumerate(draft.member_states):
        if state.planned:
            more.subtract(plan_quota.of_claim(state.planned))
        here = (state.built or state.planned) if nodes is None else state.on(nodes[place].uuid)
        if draft.kept(state, here) is None:
            more.update(plan_quota.amounts(_resources(state.request)))
        elif here.state == PLANNED:
            more.update(plan_quota.of_claim(here))
    return more


def _resources(request):
    """The resources of a request, including those of its groups."""
    found = collections.Counter(request.resources)
    for group in request.groups:
        found.update(dict(group.resources))
    return found
