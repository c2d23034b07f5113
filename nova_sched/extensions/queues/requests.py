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
"""The requests of all queues; one answer of a rule is reused for all queues with equal facts.

A rule declares the facts that it reads of a request, and returns the same for every request with
equal facts. Therefore it is evaluated for one queue of each kind. The kinds are defined by these
facts.
"""

import dataclasses
import uuid
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from nova_sched.extensions.queues.catalogue import (
    PCI,
    RESOURCE,
    TRAIT,
    ZONE,
    Catalogue,
    Special,
    with_special,
)
from nova_sched.groups.definition import MemberFlavor
from nova_sched.state.facts import CLASSES, HARDWARE, RESOURCES, amount_of, fact_of
from nova_sched.state.request import Request

NO_INSTANCE = str(uuid.UUID(int=0))  # the instance of a future job: no host has it
MAX_CACHED = 4096  # requests that are cached per question: those with messages are large

# The fields of a Request that a special thing of each kind changes.
CHANGED_BY = {
    PCI: frozenset([HARDWARE, 'extra_specs']),
    RESOURCE: frozenset([RESOURCES, 'extra_specs']),
    TRAIT: frozenset(['required_traits', 'extra_specs']),
    ZONE: frozenset(['availability_zone']),
}

Names = tuple[str, ...] | None  # of facts, as rules declare them. None: everything
Facts = frozenset[str] | None


def fact(catalogue: Catalogue, flavor: MemberFlavor, special: Special | None, name: str) -> Any:
    """Return one field of the Request of a flavor's queue."""
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
        self._bare = [
            dataclasses.replace(
                catalogue.bare[str(flavor.name)], instance_uuid=NO_INSTANCE, spec=None
            )
            for flavor in catalogue.flavors
        ]
        self._kinds: dict[Facts, QueueKinds] = {}

    def __len__(self) -> int:
        return len(self.flavor)

    def kinds(self, names: Facts) -> 'QueueKinds':
        """Return the kinds of queues that are equal in these facts."""
        if names not in self._kinds:
            numbers = self._numbers(names)
            _, first, of = np.unique(numbers, return_index=True, return_inverse=True)
            self._kinds[names] = QueueKinds(
                names, first, of.astype(np.int32) if len(first) > 1 else None
            )
        return self._kinds[names]

    def request(self, place: int, with_message: bool = False) -> Request:
        """Return the Request of a queue; with its message for rules that may read everything."""
        catalogue, number = self.catalogue, int(self.special[place])
        if with_message:
            request = catalogue.request(catalogue.queues[place])
            return dataclasses.replace(request, instance_uuid=NO_INSTANCE)
        flavor = catalogue.flavors[int(self.flavor[place])]
        special = catalogue.specials[number - 1] if number else None
        changed = CHANGED_BY[special.kind] if special else ()
        return dataclasses.replace(
            self._bare[int(self.flavor[place])],
            **{name: fact(catalogue, flavor, special, name) for name in changed},
        )

    def _numbers(self, names: Facts) -> np.ndarray:
        """Return int64 for each queue, which differ where one of the facts differs."""
        if names is None:
            return np.arange(len(self), dtype=np.int64)
        known: dict[Hashable, int] = {}
        of_flavor = [
            known.setdefault(tuple(fact_of(request, name) for name in names), len(known))
            for request in self._bare
        ]
        of_special = [0]
        for number, special in enumerate(self.catalogue.specials, 1):
            changed = CHANGED_BY[special.kind]
            if special.kind == RESOURCE:
                changed = changed | {CLASSES, amount_of(special.name)}
            of_special.append(0 if changed.isdisjoint(names) else number)
        return (
            np.array(of_flavor, np.int64)[self.flavor] * len(of_special)
            + np.array(of_special, np.int64)[self.special]
        )


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class QueueKinds:
    """Queues that are equal in all of the ``facts`` are of one kind; ``of`` has its number by
    queue.

    With one kind only, ``of`` is None. ``first`` has the first queue of each kind.
    """

    facts: Facts
    first: np.ndarray
    of: np.ndarray | None

    def __len__(self) -> int:
        return len(self.first)

    def with_facts(self, names: Names) -> Facts:
        """Return the facts, and these."""
        if names is None or self.facts is None:
            return None
        return self.facts if self.facts.issuperset(names) else self.facts.union(names)

    def among(self, left: np.ndarray) -> list[int]:
        """Return the kinds of these queues (bool for each queue)."""
        if self.of is None:
            return [0]
        return np.flatnonzero(np.bincount(self.of[left])).tolist()

    def spread(self, answers: np.ndarray) -> np.ndarray:
        """Expand the answers from kinds to queues; a single answer for all is returned
        unchanged."""
        return answers[0] if self.of is None else answers[self.of]


class Question:
    """A question that is repeated over queues, whose kinds are those of all facts needed so
    far."""

    def __init__(self, requests: Requests):
        self._requests = requests
        # The kinds of queues, and one request of each kind; in one tuple, because threads may
        # share a question.
        self._known: tuple[QueueKinds, dict[int, Request]] = requests.kinds(frozenset()), {}

    def answers(
        self,
        ask: Callable[[Request], int],
        needs: Callable[[Request], Names],
        left: np.ndarray,
    ) -> np.ndarray:
        """Return int32 for each queue, or one for all.

        It is 0 for a queue that is not among those ``left`` (bool). ``needs`` returns the facts
        that the answer for a request depends on.
        """
        while True:
            kinds, known = self._known
            answers = np.zeros(len(kinds), np.int32)
            for kind in kinds.among(left):
                request = known.get(kind)
                if request is None:
                    first = int(kinds.first[kind])
                    request = self._requests.request(first, with_message=kinds.facts is None)
                    if len(known) < MAX_CACHED:
                        known[kind] = request
                more = kinds.with_facts(needs(request))
                if more is not kinds.facts:
                    self._known = self._requests.kinds(more), {}
                    break
                answers[kind] = ask(request)
            else:
                return kinds.spread(answers)
