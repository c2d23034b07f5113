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
"""A compute node of a stock Nova cloud: its claims, as Placement and the cell have the instances.

Placement says which instances are there, and how large they are: an instance holds what is
allocated to it, and to its migrations. A migration has the amounts of the node that the instance
leaves, or of the size that it had, until the move is settled. So the larger part of what Nova does
needs no rule here: the claim follows the amounts. What Placement does not have is a claim that its
scheduler has not written yet: it stays as it is.

Allocations can be lost: a consumer that is removed and made again has the generations that it had,
so that a request which stood still in between may remove what is not its own. The claim of an
instance that the cell has on the node therefore stays whatever Placement says; `cloud.reconciler`
writes the allocations again.

The row of the node counts the CPUs, pages and devices of an instance as used, or not yet. It does
once the cell names the instance so; until then they are held for the claim.
"""

import collections
import dataclasses
from collections.abc import Callable, Mapping, Set
from typing import NamedTuple

from nova_sched.claim import Claim

Amounts = Mapping[str, int]  # by resource class


@dataclasses.dataclass(frozen=True, slots=True)
class NovaUse:
    """What one instance uses of a node.

    ``own`` is allocated to itself, ``moved`` to its migrations; None: nothing. The cell has the
    instance on the node if it ``is_here``. The row of the node counts the hardware of an instance
    that ``is_tracked``.
    """

    own: Amounts | None = None
    moved: Amounts | None = None
    is_here: bool = False
    is_tracked: bool = False

    @property
    def is_allocated(self) -> bool:
        return self.own is not None or self.moved is not None

    @property
    def amounts(self) -> Amounts:
        return _sum(self.own, self.moved)


class NodeOfNova(NamedTuple):
    """The claims on a node by consumer, the consumers whose claims end, and the unclaimed rows:
    amounts by consumer."""

    claims: Mapping[str, Claim]
    ended: list[str]
    unclaimed: Mapping[str, Amounts]


def uses(
    allocations: Mapping[str, Amounts],
    migrations: Mapping[str, str],
    here: Set[str],
    tracked: Set[str],
) -> dict[str, NovaUse]:
    """Return the NovaUse of each instance of a node.

    ``allocations`` are those of the node, by consumer; a consumer of a child provider alone has no
    amounts. ``migrations`` maps the UUIDs of migrations to those of their instances. By the cell,
    the instances ``here`` are on the node, and its row counts the ``tracked`` ones.
    """
    own: dict[str, Amounts] = {}
    moved: dict[str, Amounts] = {}
    for consumer, amounts in allocations.items():
        instance = migrations.get(consumer, consumer)
        kind = own if instance == consumer else moved
        kind[instance] = _sum(kind.get(instance), amounts)
    return {
        instance: NovaUse(
            own.get(instance),
            moved.get(instance),
            instance in here,
            # While an instance is resized on its node, the row may count the old size alone. One
            # that leaves was counted before.
            instance not in own if instance in moved else instance in tracked,
        )
        for instance in own.keys() | moved.keys() | here
    }


def settle(
    instances: Mapping[str, NovaUse],
    claims: Mapping[str, Claim],
    has_seen: Callable[[Claim], bool],
    unclaimed: Mapping[str, Amounts],
) -> NodeOfNova:
    """Return the node on which Nova has these instances. It had these claims and ``unclaimed``
    rows, by consumer.

    ``has_seen`` returns whether the data were read after a claim's last change. If not, the claim
    stays as it is, and so does the row of what its instance had before.
    """
    after: dict[str, Claim] = {}
    ended: list[str] = []
    rows = {consumer: use.amounts for consumer, use in instances.items() if consumer not in claims}
    for consumer, claim in claims.items():
        use = instances.get(consumer)
        if not has_seen(claim):
            after[consumer] = claim
            if consumer in unclaimed:
                rows[consumer] = unclaimed[consumer]
        elif use and use.is_allocated and (use.own is not None or claim.is_confirmed):
            after[consumer] = _as_allocated(claim, use)
        elif claim.is_confirmed and not (_is_to_be_written(claim) or (use and use.is_here)):
            ended.append(consumer)
        else:
            after[consumer] = claim
            if use is not None and use.moved is not None:
                rows[consumer] = use.moved  # the claim is for the size that it gets
    return NodeOfNova(after, ended, rows)


def _is_to_be_written(claim: Claim) -> bool:
    """Whether a scheduler has given its instance another size, and may still write that. The
    instance may be elsewhere: then the claim remains from a reverted move, and the instance
    returns."""
    return claim.resizing is not None and claim.expires_s is not None and not claim.is_given_up


def _as_allocated(claim: Claim, use: NovaUse) -> Claim:
    """The claim of an instance that has allocations on the node, of itself or of a migration."""
    if claim.resizing is not None and use.moved is not None:
        # What the migration has is the old size, even if an earlier resize is not settled yet.
        if _without_zeros(claim.resizing.old) != use.moved:
            resizing = dataclasses.replace(claim.resizing, old=use.moved)
            claim = dataclasses.replace(claim, resizing=resizing)
        if use.own is not None:
            return dataclasses.replace(_sized(claim, use.amounts), expires_s=None)
        # The new size is not written yet.
        return claim.reverted() if claim.is_given_up else claim
    if claim.resizing is not None:
        is_as_before = use.own == _without_zeros(claim.resizing.old)
        claim = claim.reverted() if is_as_before else claim.finished()
    claim = _sized(claim.confirmed(), use.amounts)
    if claim.parts and use.is_tracked and not claim.counted:
        claim = dataclasses.replace(claim, counted=True)
    return claim


def _sized(claim: Claim, amounts: Amounts) -> Claim:
    if claim.resources == amounts or _without_zeros(claim.resources) == amounts:
        return claim
    return dataclasses.replace(claim, resources=amounts)


def _sum(amounts: Amounts | None, other: Amounts | None) -> Amounts:
    # Nearly always there is one of both.
    if not amounts or not other:
        return amounts or other or {}
    return dict(collections.Counter(amounts) + collections.Counter(other))


def _without_zeros(amounts: Amounts) -> Amounts:
    return {name: amount for name, amount in amounts.items() if amount}
