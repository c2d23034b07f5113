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
"""What the plans of a project count against its quota, and whether a change keeps the limits.

A planned claim counts while it exists, whatever ends it: its server, the end of the plan, or the
removal of its node. So the usage is never stored, but read in the transaction that changes it.
"""

import collections
from collections.abc import Iterable, Mapping

from nova_sched import errors
from nova_sched.claim import PLANNED, Claim
from nova_sched.claims.values import GroupRecord
from nova_sched.hardware.machine import HardwareAllocation

SERVERS, CLASS = 'planned_servers', 'planned_class:'
MEMBERS, DOMAINS, BYTES = 'group_members', 'exclusive_domains', 'group_bytes'

NO_LIMIT = -1


def is_counted(resource: str) -> bool:
    """Whether plans use this resource."""
    return resource in (SERVERS, MEMBERS, DOMAINS, BYTES) or resource.startswith(CLASS)


def amounts(resources: Mapping[str, int], number: int = 1) -> collections.Counter[str]:
    """The usage of planned claims of these resources: so many claims, all equal."""
    used = {f'{CLASS}{name}': number * units for name, units in resources.items() if units}
    return collections.Counter({SERVERS: number, **used})


def resources_of(
    resources: Mapping[str, int], parts: HardwareAllocation | None, node_uuid: str
) -> collections.Counter[str]:
    """The resources of a claim together with those of child providers, which are in its parts."""
    total = collections.Counter(resources)
    for provider in parts.providers if parts else ():
        if provider.provider_uuid != node_uuid:
            total.update(provider.resources)
    return total


def of_claim(claim: Claim) -> collections.Counter[str]:
    """The usage of a planned claim."""
    return amounts(resources_of(claim.resources, claim.parts, claim.node_uuid))


def added(
    changes: Iterable[tuple[Claim | None, Claim | None]],
    before: GroupRecord | None,
    after: GroupRecord,
    domains: int,
) -> collections.Counter[str]:
    """The usage that a change of a group adds, by resource; negative where it frees some.

    ``changes`` are claims before and after, ``before`` and ``after`` the record of the group;
    ``domains``: how many more domains are exclusive.
    """
    more: collections.Counter[str] = collections.Counter()
    for old, new in changes:
        if old is not None and old.state == PLANNED:
            more.subtract(of_claim(old))
        if new is not None and new.state == PLANNED:
            more.update(of_claim(new))
    more.update(of_record(after))
    more.subtract(of_record(before))
    more[DOMAINS] = domains
    return more


def of_record(record: GroupRecord | None) -> collections.Counter[str]:
    """The usage of the definition of a group: its members, and its text as long as it is
    stored."""
    if record is None:
        return collections.Counter()
    members = 0 if record.deleted else record.members
    return collections.Counter({MEMBERS: members, BYTES: len(record.definition or '')})


def check(
    project: str | None,
    used: Mapping[str, int],
    more: Mapping[str, int],
    limits: Mapping[str, int],
) -> None:
    """Raise QuotaExceeded if ``more`` adds to a resource and exceeds its limit. A project that
    already exceeds its limit keeps what it has."""
    for name, amount in sorted(more.items()):
        limit, usage = limits.get(name, NO_LIMIT), used.get(name, 0)
        if amount > 0 and 0 <= limit < usage + amount:
            raise errors.QuotaExceeded(project, name, amount, usage, limit)
