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
"""Computes which queues of the catalogue one node satisfies now, and the priority of
their jobs."""

import functools
import itertools
from collections.abc import Hashable, Sequence

import numpy as np

from nova_sched import errors
from nova_sched.engine.catalog import Rules
from nova_sched.filters import Filter
from nova_sched.filters.pci_passthrough import PciPassthroughFilter
from nova_sched.queues.brokers import of_flavor
from nova_sched.queues.catalogue import Catalogue
from nova_sched.queues.node.subscriptions import NONE
from nova_sched.queues.requests import Question, Requests
from nova_sched.queues.room import Room
from nova_sched.queues.score import Score
from nova_sched.state.cluster import Cluster
from nova_sched.state.facts import LASTING
from nova_sched.state.hosts import Hosts
from nova_sched.state.request import Request

ROW = np.zeros(1, dtype=np.intp)
SERIALS = itertools.count()
MOST_SHARED = 4096  # sets of queues


def with_devices(rules: Rules) -> Rules:
    """Returns the rules with the PCI filter added if it is missing: a node always claims its
    devices."""
    devices = PciPassthroughFilter()
    if any(rule.name == devices.name for rule in rules.filters):
        return rules
    return Rules(rules.always, (*rules.filters, devices), rules.weighers)


class Fit:
    """The filters and weighers over a catalogue, for any number of nodes, each in its own Cluster.

    A queue is satisfied if ``engine.decide.survivors`` keeps the node for the queue's Request. A
    request that a filter raises InvalidRequest for is satisfied nowhere. Filters are evaluated for
    one queue of each kind. Those that depend on lasting facts are only evaluated when one of these
    facts changes. ``names`` are those of the queues at the broker. A change of options requires a
    new Fit.
    """

    def __init__(self, rules: Rules, catalogue: Catalogue, steps: int = 1):
        self.catalogue, self.rules = catalogue, rules
        self.names: Sequence[str] = tuple(of_flavor(queue.name) for queue in catalogue.queues)
        self._requests = Requests(catalogue)
        self._serial = next(SERIALS)
        self._shared: dict[bytes, np.ndarray] = {}
        self._rooms = list[Room]()
        self._lasting = list[Lasting]()
        self._passing = list[Passing]()
        self._score = Score(rules.weighers, self._requests, steps)
        for rule in rules.always + rules.filters if self.names else ():
            if rule.by_class:
                self._rooms.append(Room(rule, self._requests))
                continue
            lasting = Lasting.of(rule, self._requests)
            if lasting is not None:
                self._lasting.append(lasting)
            others = None if lasting is None else lasting.others
            if others is None or others.any():
                self._passing.append(Passing(rule, self._requests, others))

    def judge(self, cluster: Cluster) -> np.ndarray:
        """Returns bool for each queue of the catalogue: whether the node satisfies it."""
        hosts = cluster.hosts
        bits = hosts.cache.get(('queues', self._serial), lambda: self._last(hosts))
        left = np.unpackbits(bits, count=len(self.names)).view(bool)
        for room in self._rooms:
            left &= room.fits(hosts)
        for passing in self._passing:
            if not left.any():
                break
            passing.narrow(left, hosts)
        return left

    def priority(self, cluster: Cluster, left: np.ndarray) -> np.ndarray:
        """Returns 0 to ``steps`` - 1 for each of the queues that are ``left`` (bool), or one for
        all.

        Raises BadConfig where the weighers do.
        """
        return self._score.of(cluster.hosts, left)

    def priorities(self, cluster: Cluster) -> np.ndarray:
        """Returns int16 for each queue: the priority, or NONE if the node does not satisfy it."""
        left = self.judge(cluster)
        found = np.full(len(left), NONE, np.int16)
        if left.any():
            np.copyto(found, self.priority(cluster, left), where=left, casting='unsafe')
        return found

    def _last(self, hosts: Hosts) -> np.ndarray:
        """Returns a bit per queue: the result of the filters that depend on lasting facts.

        Equal nodes share the array.
        """
        left = np.ones(len(self.names), dtype=bool)
        for lasting in self._lasting:
            left &= lasting.verdict(hosts)
        bits = np.packbits(left)
        if len(self._shared) >= MOST_SHARED:
            self._shared.clear()
        return self._shared.setdefault(bits.tobytes(), bits)


def verdict(rule: Filter, hosts: Hosts, request: Request) -> bool:
    """Whether the filter keeps the node."""
    try:
        kept = rule.judge(hosts, request, ROW)
    except errors.Invalid:
        return False
    return kept is True or bool(kept[0])


class Lasting:
    """A filter for the queues where it depends on lasting facts only; ``others`` (bool) are the
    rest."""

    def __init__(self, rule: Filter, requests: Requests, numbers: np.ndarray):
        self._rule = rule
        self.others = numbers == 0
        found, first, self._of = np.unique(numbers, return_index=True, return_inverse=True)
        self._kinds = [
            requests.request(place) if number else None
            for number, place in zip(found.tolist(), first.tolist(), strict=True)
        ]

    @classmethod
    def of(cls, rule: Filter, requests: Requests) -> 'Lasting | None':
        """Returns None for a filter that depends on other facts for every queue."""
        if LASTING not in rule.host_facts or rule.request_facts is None or rule.judges_rows:
            return None
        known: dict[Hashable, int] = {}

        def number(request: Request) -> int:
            try:
                value = rule.depends_on(request)
            except errors.Invalid:
                return 0  # invalid at each evaluation too
            return 0 if value is None else known.setdefault(value, len(known) + 1)

        everything, names = np.ones(len(requests), dtype=bool), rule.request_facts
        found = Question(requests).answers(number, lambda request: names, everything)
        numbers = np.broadcast_to(found, len(requests))
        return cls(rule, requests, numbers) if numbers.any() else None

    def verdict(self, hosts: Hosts) -> np.ndarray | bool:
        """Returns the result by queue; True for the queues that are evaluated elsewhere."""
        found = [one is None or verdict(self._rule, hosts, one) for one in self._kinds]
        if all(found):
            return True
        return np.array(found, dtype=bool)[self._of]


class Passing:
    """A filter that is evaluated each time, for all queues or for ``those`` (bool)."""

    def __init__(self, rule: Filter, requests: Requests, those: np.ndarray | None):
        self._rule, self._those = rule, those
        self._question = Question(requests)

    def narrow(self, left: np.ndarray, hosts: Hosts) -> None:
        """Remove the queues that the filter refuses from those that are ``left`` (bool)."""
        asked = left if self._those is None else left & self._those
        if self._those is not None and not asked.any():
            return
        ask = functools.partial(verdict, self._rule, hosts)
        needs = functools.partial(self._rule.request_facts_for, hosts)
        kept = self._question.answers(ask, needs, asked)
        if kept.ndim:
            left &= kept.astype(bool) if self._those is None else kept.astype(bool) | ~self._those
        elif not kept:
            left[asked] = False
