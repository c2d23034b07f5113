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
"""The requests of all queues; one answer of a filter is reused for all queues with equal facts.

A filter reads a few facts of a request, and returns the same for every request with equal facts.
Therefore it is evaluated for one queue of each kind, and the facts that it reads are recorded. The
kinds are defined by these facts.
"""

import dataclasses
import uuid
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

import numpy as np

from nova_sched.groups.definition import Flavor
from nova_sched.queues.catalogue import Catalogue, Queue
from nova_sched.queues.special import PCI, RESOURCE, TRAIT, ZONE, Special, with_special
from nova_sched.state.request import Request

NOBODY = str(uuid.UUID(int=0))  # the instance of a future job: no host has it
MOST = 4096  # requests that are cached per question: those with messages are large
EVERYTHING = '*'  # recorded when the message itself is read
RESOURCES = 'resources'  # the set of classes; the amount of one is `resources:CLASS`

FACTS = frozenset(field.name for field in dataclasses.fields(Request)) - {'spec', 'instance_uuid'}
# Facts that are equal for all queues: hints, a group, hosts by their names.
STEADY = frozenset(['hint', 'check_type', 'is_rebuild', 'forced', 'group_uuid'])
CHANGED_BY = {
    PCI: frozenset(['pieces', 'extra_specs']),
    RESOURCE: frozenset([RESOURCES, 'extra_specs']),
    TRAIT: frozenset(['required_traits', 'extra_specs']),
    ZONE: frozenset(['availability_zone']),
}


def fact(catalogue: Catalogue, flavor: Flavor, special: Special | None, name: str) -> Any:
    """Returns one field of the Request of a flavor's queue."""
    value = getattr(catalogue.bare[str(flavor.name)], name)
    if special is None or name not in CHANGED_BY[special.kind]:
        return value
    if name == 'extra_specs':
        return with_special(value, special)
    if special.kind == PCI:
        return dataclasses.replace(
            value, requests=(*value.requests, catalogue.device(flavor, special))
        )
    if special.kind == RESOURCE:
        return {**value, special.name: 1}
    return value | {special.name} if special.kind == TRAIT else special.name


class Asked:
    """The Request of a queue, which records the facts that are read in ``read``."""

    def __init__(self, catalogue: Catalogue, flavor: Flavor, special: Special | None):
        self.read = set[str]()
        self._catalogue, self._flavor, self._special = catalogue, flavor, special
        self._known: dict[str, Any] = {'instance_uuid': NOBODY}

    def __getattr__(self, name: str) -> Any:
        if name.startswith('__'):
            raise AttributeError(name)
        if name in FACTS:
            self.read.add(name)
        elif name not in STEADY and name != 'instance_uuid':
            self.read.add(EVERYTHING)
        if name not in self._known:
            self._known[name] = self._find(name)
        return self._known[name]

    def _find(self, name: str) -> Any:
        if name in STEADY:
            return getattr(self._catalogue.bare[str(self._flavor.name)], name)
        if name not in FACTS:
            return getattr(self._catalogue.request(Queue.of(self._flavor, self._special)), name)
        found = fact(self._catalogue, self._flavor, self._special, name)
        return Amounts(found, self.read) if name == RESOURCES else found


class Amounts(Mapping[str, int]):
    """Units by resource class; records the classes whose amounts are read."""

    def __init__(self, amounts: Mapping[str, int], read: set[str]):
        self._amounts, self._read = amounts, read

    def __getitem__(self, name: str) -> int:
        self._read.add(f'{RESOURCES}:{name}')
        return self._amounts[name]

    def __contains__(self, name: object) -> bool:
        return name in self._amounts

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)


class Requests:
    """The requests of all queues of a catalogue, in their order.

    ``flavor`` and ``special`` are positions in its lists; ``special`` starts at 1, because 0 is
    none.
    """

    def __init__(self, catalogue: Catalogue):
        self.catalogue = catalogue
        flavors = {str(flavor.name): place for place, flavor in enumerate(catalogue.flavors)}
        specials = {special: place + 1 for place, special in enumerate(catalogue.specials)}
        self.flavor = np.array(
            [flavors[str(queue.flavor.name)] for queue in catalogue.queues], np.int32
        )
        self.special = np.array(
            [specials[queue.special] if queue.special else 0 for queue in catalogue.queues],
            np.int32,
        )
        self._kinds: dict[frozenset[str], Kinds] = {}

    def __len__(self) -> int:
        return len(self.flavor)

    def kinds(self, facts: frozenset[str]) -> 'Kinds':
        """Returns the kinds of queues that are equal in these facts."""
        found = self._kinds.get(facts)
        if found is None:
            found = self._kinds[facts] = Kinds(self, facts)
        return found

    def asked(self, place: int) -> Asked:
        flavor, special = int(self.flavor[place]), int(self.special[place])
        catalogue = self.catalogue
        return Asked(
            catalogue,
            catalogue.flavors[flavor],
            catalogue.specials[special - 1] if special else None,
        )

    def numbers(self, facts: frozenset[str]) -> np.ndarray:
        """Returns int64 for each queue, which differ where one of the facts differs."""
        if EVERYTHING in facts:
            return np.arange(len(self), dtype=np.int64)
        bare = [self.catalogue.bare[str(flavor.name)] for flavor in self.catalogue.flavors]
        known: dict[Hashable, int] = {}
        of_flavor = [known.setdefault(_value(request, facts), len(known)) for request in bare]
        of_special = [0] + [
            place + 1 if _changes(special, facts) else 0
            for place, special in enumerate(self.catalogue.specials)
        ]
        count = len(of_special)
        return (
            np.array(of_flavor, np.int64)[self.flavor] * count
            + np.array(of_special, np.int64)[self.special]
        )


def _value(request: Request, facts: frozenset[str]) -> Hashable:
    return tuple(_plain(request, name) for name in sorted(facts))


def _plain(request: Request, name: str) -> Hashable:
    """Returns a fact as a comparable value; false differences only cost an additional
    evaluation."""
    if name.startswith(f'{RESOURCES}:'):
        return request.resources.get(name.partition(':')[2], 0)
    value = getattr(request, name)
    if name == RESOURCES:
        return frozenset(value)
    if name == 'pieces':
        return value.key
    if isinstance(value, Mapping):
        return repr(sorted(value.items()))
    return value


def _changes(special: Special, facts: frozenset[str]) -> bool:
    changed = CHANGED_BY[special.kind]
    if special.kind == RESOURCE:
        changed = changed | {f'{RESOURCES}:{special.name}'}
    return not changed.isdisjoint(facts)


class Kinds:
    """Queues that are equal in all of the ``facts`` are of one kind; ``of`` has its number by
    queue.

    With one kind only, ``of`` is None. ``first`` has the first queue of each kind.
    """

    def __init__(self, requests: Requests, facts: frozenset[str]):
        self.facts = facts
        _, self.first, of = np.unique(
            requests.numbers(facts), return_index=True, return_inverse=True
        )
        self.of = of.astype(np.int32) if len(self.first) > 1 else None

    def __len__(self) -> int:
        return len(self.first)

    def among(self, left: np.ndarray) -> list[int]:
        """Returns the kinds of these queues (bool for each queue)."""
        if self.of is None:
            return [0]
        return np.flatnonzero(np.bincount(self.of[left])).tolist()

    def spread(self, answers: np.ndarray) -> np.ndarray:
        """Expands the answers from kinds to queues; a single answer for all is returned
        unchanged."""
        return answers[0] if self.of is None else answers[self.of]


class Question:
    """A question that is repeated over queues; it records the facts on which its answers
    depend."""

    def __init__(self, requests: Requests):
        self._requests = requests
        # The kinds of queues, and one request of each kind; in one tuple, because threads may
        # share a question.
        self._known: tuple[Kinds, dict[int, Asked]] = requests.kinds(frozenset()), {}

    def answers(self, ask: Callable[[Asked], int], left: np.ndarray) -> np.ndarray:
        """Returns int32 for each queue, or one for all.

        It is 0 for a queue that is not among those ``left`` (bool).
        """
        while True:
            kinds, known = self._known
            found = np.zeros(len(kinds), np.int32)
            for kind in kinds.among(left):
                asked = known.get(kind) or self._keep(kinds, kind, known)
                found[kind] = ask(asked)
                if not asked.read <= kinds.facts:
                    self._known = self._requests.kinds(kinds.facts | asked.read), {}
                    break
            else:
                return kinds.spread(found)

    def _keep(self, kinds: Kinds, kind: int, known: dict[int, Asked]) -> Asked:
        found = self._requests.asked(int(kinds.first[kind]))
        if len(known) < MOST:
            known[kind] = found
        return found
