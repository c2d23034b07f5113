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
"""Chooses the queues of the catalogue that a node satisfies now, with the priority of their jobs.

The filters and weighers are those of the scheduler; ``requests`` groups the queues for which a
rule answers alike.
"""

import functools
import itertools
import operator
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from nova_sched import errors
from nova_sched.claims.reconcile import settle
from nova_sched.conf import CONF
from nova_sched.engine.catalog import Rules
from nova_sched.engine.decide import survivors, weigh
from nova_sched.extensions.queues.brokers import of_flavor
from nova_sched.extensions.queues.catalogue import Catalogue
from nova_sched.extensions.queues.node.subscriptions import NONE
from nova_sched.extensions.queues.requests import Names, Question, Requests
from nova_sched.filters import Filter
from nova_sched.filters.pci_passthrough import PciPassthroughFilter
from nova_sched.state.cluster import Cluster
from nova_sched.state.columns import ResourceColumns
from nova_sched.state.facts import LASTING
from nova_sched.state.host_aggregate import HostAggregate
from nova_sched.state.hosts import Hosts, WhatIf
from nova_sched.state.report import Report
from nova_sched.state.request import Request
from nova_sched.weighers import Weigher

ROW = np.zeros(1, dtype=np.intp)
SERIALS = itertools.count()
MAX_SHARED = 4096  # sets of queues
EMPTY, NOW, FULL = ROWS = np.arange(3)


def with_devices(rules: Rules) -> Rules:
    """Return the rules with the PCI filter added if it is missing: a node always claims its
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
        """Return bool for each queue of the catalogue: whether the node satisfies it."""
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

    def priorities(self, cluster: Cluster) -> np.ndarray:
        """Return int16 for each queue: the priority, 0 to ``steps`` - 1, or NONE if the node does
        not satisfy it.

        Raises BadConfig where the weighers do.
        """
        left = self.judge(cluster)
        priorities = np.full(len(left), NONE, np.int16)
        if left.any():
            steps = self._score.of(cluster.hosts, left)
            np.copyto(priorities, steps, where=left, casting='unsafe')
        return priorities

    def _last(self, hosts: Hosts) -> np.ndarray:
        """Return a bit per queue: the result of the filters that depend on lasting facts.

        Equal nodes share the array.
        """
        left = np.ones(len(self.names), dtype=bool)
        for lasting in self._lasting:
            left &= lasting.verdict(hosts)
        bits = np.packbits(left)
        if len(self._shared) >= MAX_SHARED:
            self._shared.clear()
        return self._shared.setdefault(bits.tobytes(), bits)


class NodeFit:
    """The queues of a catalogue that one node can serve.

    A change of the catalogue, of an aggregate or of a service record requires a new one.
    ``fit`` may be shared by any number of nodes. ``aggregates`` may include those of other
    nodes: if one names a zone, hosts without an aggregate are not in that zone. ``clock`` gives
    seconds since the epoch.
    """

    def __init__(
        self,
        fit: Fit,
        aggregates: Iterable[HostAggregate] = (),
        disabled: bool = False,
        clock: Callable[[], float] = time.time,
    ):
        self._fit, self._disabled, self._clock = fit, disabled, clock
        self._cluster = Cluster(capacity=1)
        for aggregate in aggregates:
            self._cluster.set_aggregate(aggregate.id, aggregate)

    @property
    def names(self) -> Sequence[str]:
        """Return the queues at the broker: the same object for all views of one Fit."""
        return self._fit.names

    def judge(self, report: Report) -> np.ndarray:
        """Return int16 for each name: the node's priority for that queue's jobs, NONE for no
        jobs.

        The report includes all instances of the node, hidden ones too.
        """
        self._see(report)
        return self._fit.priorities(self._cluster)

    def takes(self, report: Report, request: Request) -> bool:
        """Whether the filters keep the node for this request. Raises InvalidRequest."""
        self._see(report)
        return bool(survivors(self._fit.rules, self._cluster.hosts, request).left)

    def _see(self, report: Report) -> None:
        cluster, now_s = self._cluster, self._clock()
        for node in cluster.snapshot():
            if node.uuid != report.node_uuid:
                cluster.remove(node.uuid)
        if self._disabled:
            cluster.set_service(report.host, True, None, False)
        settled = settle(report, {})
        cluster.put(report, (), settled.foreign, settled.foreign_instances, seen_s=now_s)
        cluster.hosts.now_s = now_s


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
        used_numbers, first, self._of = np.unique(numbers, return_index=True, return_inverse=True)
        self._kinds = [
            requests.request(place) if number else None
            for number, place in zip(used_numbers.tolist(), first.tolist(), strict=True)
        ]

    @classmethod
    def of(cls, rule: Filter, requests: Requests) -> 'Lasting | None':
        """Return None for a filter that depends on other facts for every queue."""
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
        answers = Question(requests).answers(number, lambda request: names, everything)
        numbers = np.broadcast_to(answers, len(requests))
        return cls(rule, requests, numbers) if numbers.any() else None

    def verdict(self, hosts: Hosts) -> np.ndarray | bool:
        """Return the result by queue; True for the queues that are evaluated elsewhere."""
        verdicts = [
            request is None or verdict(self._rule, hosts, request) for request in self._kinds
        ]
        if all(verdicts):
            return True
        return np.array(verdicts, dtype=bool)[self._of]


class Passing:
    """A filter that is evaluated each time, for all queues or for ``those`` (bool)."""

    def __init__(self, rule: Filter, requests: Requests, those: np.ndarray | None):
        self._rule, self._those = rule, those
        self._question = Question(requests)

    def narrow(self, left: np.ndarray, hosts: Hosts) -> None:
        """Remove the queues that the filter refuses from those that are ``left`` (bool)."""
        open_ = left if self._those is None else left & self._those
        if self._those is not None and not open_.any():
            return
        ask = functools.partial(verdict, self._rule, hosts)
        needs = functools.partial(self._rule.request_facts_for, hosts)
        kept = self._question.answers(ask, needs, open_)
        if kept.ndim:
            left &= kept.astype(bool) if self._those is None else kept.astype(bool) | ~self._those
        elif not kept:
            left[open_] = False


class Room:
    """The verdicts of a rule that judges each resource class by itself, for all queues of a
    catalogue.

    A queue requests the amounts of its flavor and those of its special thing. The two have no
    resource class in common, so each distinct amount is judged only once. No queue uses shared
    CPUs for dedicated ones: that requires NUMA cells, and a flavor with NUMA cells has no queue.
    """

    def __init__(self, rule: Filter, requests: Requests):
        catalogue = requests.catalogue
        bare = [catalogue.bare[str(flavor.name)].resources for flavor in catalogue.flavors]
        more = [
            {special.name: 1} if special.kind == 'resource' else {}
            for special in catalogue.specials
        ]
        demands = [*bare, {}, *more]
        amounts = sorted({pair for demand in demands for pair in demand.items()})
        # Nothing at all comes first: an empty request asks for it, so that no request is empty.
        number = {pair: 1 + place for place, pair in enumerate(amounts)}
        places = [[number[pair] for pair in demand.items()] or [0] for demand in demands]
        self._rule, self._count = rule, 1 + len(amounts)
        self._units = [
            (name, np.array([units for _, units in pairs], np.int64))
            for name, pairs in itertools.groupby(amounts, operator.itemgetter(0))
        ]
        self._of = np.array([place for of_demand in places for place in of_demand], np.intp)
        self._starts = np.cumsum([0, *(len(of_demand) for of_demand in places[:-1])])
        self._flavor, self._special = requests.flavor, requests.special + len(bare)

    def fits(self, hosts: Hosts) -> np.ndarray:
        """Return bool for each queue, for the one node of these hosts."""
        gives, end = np.ones(self._count, dtype=bool), 1
        for name, units in self._units:
            start, end = end, end + len(units)
            gives[start:end] = self._rule.gives(hosts, name, units)
        parts = np.logical_and.reduceat(gives[self._of], self._starts)
        return parts[self._flavor] & parts[self._special]


class Score:
    """The priority of a node for jobs, 0 to ``steps`` - 1: its weight between an empty and a full
    node's; the highest step if no weigher distinguishes the three.

    The weighers and multipliers are those of the scheduler. Weighers compare hosts with each
    other, and a worker has only its own node. Therefore the node is compared with itself without
    instances and without free capacity.
    """

    def __init__(self, weighers: Sequence[Weigher], requests: Requests, steps: int):
        self._weighers, self._steps = weighers, steps
        self._question = Question(requests)

    def of(self, hosts: Hosts, left: np.ndarray) -> np.ndarray:
        """Return the step for the one node of these hosts, by queue that is ``left`` (bool), or
        one for all."""
        if self._steps == 1:
            return np.zeros((), np.int32)
        states = ends(hosts)
        names: Names = ()  # what the weighers read; those without a multiplier here read nothing
        for weigher in self._weighers:
            if names is not None and np.any(weigher.multiplier(states, ROWS)):
                read = weigher.request_facts
                names = None if read is None else (*names, *read)

        def step(request: Request) -> int:
            weights = weigh(self._weighers, states, ROWS, request)
            low, high = sorted((weights[EMPTY], weights[FULL]))
            if high == low:
                return self._steps - 1 if weights[NOW] >= high else 0
            share = (weights[NOW] - low) / (high - low)
            return int(min(max(share * self._steps, 0), self._steps - 1))

        return self._question.answers(step, lambda request: names, left)


def ends(hosts: Hosts) -> WhatIf:
    """Return a node in three states: without instances, as it is, and full.

    The full one has no free resources, and as many instances and builds as the options of
    NumInstancesFilter and IoOpsFilter allow, whose ends are not known. Failed builds count only
    for the node as it is. Unknown facts of the other two, such as metrics, are the same for all
    three.
    """
    view, options = hosts.what_if(np.zeros(len(ROWS), dtype=np.intp)), CONF.filter_scheduler
    view.resources = Classes(hosts)
    view.failed_builds[[EMPTY, FULL]] = 0
    view.free_pci_devices[FULL] = 0
    view.exit_s[EMPTY], view.exit_s[FULL] = 0.0, np.inf
    for column, limit in (
        (view.num_instances, options.max_instances_per_host),
        (view.num_io_ops, options.max_io_ops_per_host),
    ):
        column[EMPTY], column[FULL] = 0, max(limit, column[NOW])
    return view


class Classes(Mapping[str, ResourceColumns]):
    """The resource classes of the three states, each made at its first use."""

    def __init__(self, hosts: Hosts):
        self._hosts = hosts
        self._made: dict[str, ResourceColumns] = {}

    def __getitem__(self, name: str) -> ResourceColumns:
        if name not in self._made:
            ends = self._hosts.resources[name].copy(np.zeros(len(ROWS), dtype=np.intp))
            ends.take(EMPTY, -ends.used[NOW])
            ends.take(FULL, ends.free[NOW])
            self._made[name] = ends
        return self._made[name]

    def __setitem__(self, name: str, resource: ResourceColumns) -> None:
        """Add a class that the node does not have: a weigher asks for its columns."""
        self._made[name] = resource

    def __iter__(self) -> Iterator[str]:
        return iter(self._hosts.resources)

    def __len__(self) -> int:
        return len(self._hosts.resources)
