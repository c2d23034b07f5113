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

"""Compares the usage that this node counts with the usage that the scheduler counts on it, and
logs once when they differ and once when they agree again."""

import collections
import dataclasses
import logging
from collections.abc import Collection, Mapping, Set
from typing import Any

from nova_sched.claim import CONFIRMED

LOG = logging.getLogger(__name__)

SETTLE_S = 2.0  # seconds that a difference lasts before it is logged
MAX_LOGGED = 10  # differences in one log line
Amounts = Mapping[str, int]  # units by resource class


@dataclasses.dataclass(frozen=True, slots=True)
class Counted:
    """The usage of the node as one side counts it.

    ``capacity`` and ``used`` are without reserved amounts; ``claims`` are by instance.
    ``confirmed`` are the instances that this side knows to be on the node.
    """

    capacity: Amounts
    used: Amounts
    claims: Mapping[str, Amounts]
    confirmed: Collection[str] = ()


def here(inventories: Mapping[str, Mapping[str, Any]], held: Mapping[str, Amounts]) -> Counted:
    """Return the node's own record.

    ``inventories`` are in Placement's form; ``held`` are the amounts that each instance holds.
    """
    capacity = {
        name: int((inventory['total'] - inventory['reserved']) * inventory['allocation_ratio'])
        for name, inventory in inventories.items()
    }
    used: collections.Counter[str] = collections.Counter()
    for resources in held.values():
        used.update(resources)
    return Counted(capacity, used, held, held.keys())


def there(answer: Any) -> Counted | None:
    """Return the scheduler's record from its answer to a report; None if the answer has none."""
    counted = answer.get('counted') if answer else None
    if counted is None:
        return None
    claims = {uuid: size['resources'] for size in counted['sizes'] for uuid in size['instances']}
    confirmed = [uuid for uuid, state in answer['claims'].items() if state == CONFIRMED]
    return Counted(counted['capacity'], counted['used'], claims, confirmed)


def differences(ours: Counted, theirs: Counted) -> frozenset[str]:
    """Return one phrase for each difference. A claim whose instance has not arrived yet is
    none."""
    phrases = [
        f'instance {uuid}: not here, {_words(theirs.claims[uuid])} claimed'
        for uuid in theirs.confirmed
        if uuid not in ours.claims
    ]
    for name in ours.capacity.keys() | theirs.capacity.keys():
        our_amount, their_amount = ours.capacity.get(name, 0), theirs.capacity.get(name, 0)
        if our_amount != their_amount:
            phrases.append(
                f'capacity of {name}: {our_amount} here, {their_amount} by the scheduler'
            )
    for uuid, held in ours.claims.items():
        claimed = theirs.claims.get(uuid)
        if claimed is None:
            phrases.append(f'instance {uuid}: {_words(held)} here, no claim')
            continue
        names = [name for name in {**held, **claimed} if held.get(name, 0) != claimed.get(name, 0)]
        if names:
            our_words, their_words = (
                _words({name: side.get(name, 0) for name in names}) for side in (held, claimed)
            )
            phrases.append(f'instance {uuid}: {our_words} here, {their_words} claimed')
    return frozenset(phrases)


def comparison(
    classes: Collection[str], ours: Counted, theirs: Counted | None, instance_uuid: str
) -> str:
    """Return a text that compares both counts of the resource classes that an instance asks for.

    The text explains a refusal.
    """
    if theirs is None:
        return 'The scheduler has not reported its count of this node yet'
    sides = {name: (_use(ours, name), _use(theirs, name)) for name in sorted(classes)}
    apart = [
        f'{name}: {our_use} here, {their_use} there'
        for name, (our_use, their_use) in sides.items()
        if our_use != their_use
    ]
    text = 'By its last answer the scheduler counts the same usage'
    if apart:
        text = f'By its last answer the scheduler counts different usage: {"; ".join(apart)}'
    claimed = theirs.claims.get(instance_uuid)
    return f'{text}, with {_words(claimed)} claimed for this instance' if claimed else text


def _use(side: Counted, name: str) -> str:
    return f'{side.used.get(name, 0)} of {side.capacity.get(name, 0)}'


def _words(amounts: Amounts) -> str:
    return ' '.join(f'{name}={amounts[name]}' for name in sorted(amounts)) or 'nothing'


class DifferenceLog:
    """The differences that last. One that ends within ``SETTLE_S`` is not logged.

    While a server is built, moves or is resized, one side knows of it a moment before the other.
    """

    def __init__(self, settle_s: float = SETTLE_S):
        self._settle_s = settle_s
        self._since_s: dict[str, float] = {}
        self._told: frozenset[str] = frozenset()
        self._is_open = False  # a difference was logged, and its end was not

    def update(self, node: str, differences: Set[str], now_s: float) -> bool:
        """Log the new ones among the differences that were found now.

        Return whether some are too recent to be logged; call again in ``SETTLE_S`` seconds.
        """
        self._since_s = {
            difference: self._since_s.get(difference, now_s) for difference in differences
        }
        settled = {
            difference
            for difference, since_s in self._since_s.items()
            if now_s - since_s >= self._settle_s
        }
        new = sorted(settled - self._told)
        self._told = (self._told & differences) | settled
        if new:
            self._is_open = True
            more = f'; and {len(new) - MAX_LOGGED} more' if len(new) > MAX_LOGGED else ''
            LOG.warning(
                'Node %s and the scheduler count differently. %s%s',
                node,
                '; '.join(new[:MAX_LOGGED]),
                more,
            )
        elif self._is_open and not differences:
            self._is_open = False
            LOG.info('Node %s and the scheduler count the same again', node)
        return bool(differences - self._told)
