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
"""One replay: every arrival of a workload, through the engine and its claims, by a policy; and
moves of servers meanwhile."""

import dataclasses
import functools
import pathlib
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from nova_sched import errors, service
from nova_sched.claim import LIVE_MIGRATION
from nova_sched.claims import ClaimSelector
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.db import schema
from nova_sched.engine.context import Context
from nova_sched.engine.scheduler import Scheduler
from nova_sched.extensions.optimize import Optimize
from nova_sched.extensions.optimize.rebalance import greedy
from nova_sched.extensions.optimize.rebalance.problem import MOVABLE, RebalanceProblem, Servers
from nova_sched.extensions.simulator.replay import Clock
from nova_sched.state.cluster import Cluster
from nova_sched.state.request import Request

EPOCH_S = 1_000_000.0  # the engine's time at second 0 of a workload
MARKS = (80, 90, 100)  # load, in % of the capacity, at which the allocated share is recorded
STEP = 1.0  # load between two samples, in % of the capacity


# Policies: each is a set of options of the configuration.

GROUP = 'filter_scheduler'
# Nodes report once, at the start.
ALWAYS = {'default.service_down_time': 10**9}
MULTIPLIERS = (
    'ram cpu disk io_ops num_instances pci hypervisor_version build_failure fragmentation '
    'exit_time'.split()
)


def _only(**multipliers):
    """The options of a policy that has no other weights."""
    values = dict.fromkeys(MULTIPLIERS, 0.0) | multipliers
    return {f'{GROUP}.{name}_weight_multiplier': value for name, value in values.items()}


# The multipliers of a policy replace those of a configuration file. Hosts of equal weight are
# taken in their order.
BUILT_IN = {
    'nova': {},
    'first-fit': _only(),
    'best-fit': _only(ram=-1.0, cpu=-1.0),
    'fragmentation': _only(fragmentation=1.0),
    'keep-empty': _only(fragmentation=1.0) | {f'{GROUP}.keep_empty': True},
    'exit-time': _only(fragmentation=1.0, exit_time=0.1) | {f'{GROUP}.keep_empty': True},
}


def read_policy(text):
    """Read ``NAME``, one of BUILT_IN, or ``NAME=FILE``, a configuration file. Return (name,
    options, file or None). Raise BadConfig."""
    name, _, path = text.partition('=')
    if path:
        if not pathlib.Path(path).is_file():
            raise errors.BadConfig(f'--policy {text}', f'there is no file {path}')
        return name, {}, path
    if name not in BUILT_IN:
        known = ', '.join(BUILT_IN)
        raise errors.BadConfig(f'--policy {text}', f'give NAME=FILE, or one of {known}')
    return name, BUILT_IN[name], None


def apply_options(conf, *options):
    """Set options (mappings with keys ``group.name``) of a configuration; later ones count."""
    for name, value in [pair for values in (ALWAYS, *options) for pair in values.items()]:
        group, _, option = name.partition('.')
        conf.set_override(option, value, group=None if group == 'default' else group)


# The replay.


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """The state at a time, in seconds: load and allocated share in % of the capacity, servers that
    were refused so far, hosts without servers."""

    time_s: float
    load: float
    allocated: float
    refused: int
    empty: int


@dataclasses.dataclass(slots=True)
class Course:
    """What became of the servers. Shares are in % of the capacity.

    ``allocated`` is the share in the end, ``marks`` that at a load of MARKS, without times only.
    ``first_refusal`` is the number of servers placed before the first that was refused, None if
    none was. ``kinds`` has (placed, asked) by kind of server. ``empty`` is the mean share of hosts
    without servers from ``Workload.measured_s`` on, over time; None without times. ``took_s``:
    seconds of each decision with its claim, by server.
    """

    hosts: int = 0
    servers: int = 0
    refused: int = 0
    left: int = 0
    allocated: float = 0.0
    marks: dict[int, float] = dataclasses.field(default_factory=dict)
    first_refusal: int | None = None
    kinds: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    empty: float | None = None
    samples: list[Sample] = dataclasses.field(default_factory=list)
    took_s: list[float] = dataclasses.field(default_factory=list)


class EmptyShare:
    """The mean number of empty hosts over time, from ``begin_s`` to ``end_s``."""

    def __init__(self, begin_s, end_s):
        self._begin_s, self._end_s = begin_s, end_s
        self._last_s, self._sum = begin_s, 0.0

    def until(self, now_s, empty):
        """Count ``empty`` hosts from the last call until now."""
        now_s = min(max(now_s, self._begin_s), self._end_s)
        self._sum += empty * (now_s - self._last_s)
        self._last_s = now_s

    @property
    def mean(self):
        return self._sum / max(self._end_s - self._begin_s, 1e-9)


class InlineScheduler(Scheduler):
    """A scheduler without threads, which is never started: it handles each call at once, in the
    thread of the caller."""

    def call(self, work, *args):
        return work(*args)

    def begin_place(self, *args, **kwargs):
        answer = super().begin_place(*args, **kwargs)
        while not answer.future.done():
            self.loop.turn()
        return answer


class EngineReplay:
    """Replay a workload by the present configuration.

    ``hourly(scheduler, cluster)`` is called at each full hour, and may move servers by the
    scheduler's claims (``HourlyMoves``). With ``until_refusal`` the replay ends with the
    first refused server.
    """

    def __init__(
        self,
        workload,
        conf,
        seed=0,
        hourly: Callable[[Any, Any], None] | None = None,
        until_refusal=False,
    ):
        self._workload, self._seed = workload, seed
        self._hourly, self._until_refusal = hourly, until_refusal
        self._clock, self._used, self._asked = Clock(), 0, 0
        settings = dataclasses.replace(service.settings(conf), explain_retention_s=0)
        self._cluster, self._store = Cluster(), SqlClaimStore(schema.in_memory(), self._now_s)
        self._building: dict[str, str] = {}  # host by server
        chance, rules = random.Random(seed), service.rules(conf)
        context = Context(self._cluster, self._store, lambda: settings, self._now_s, chance, rules)
        self.scheduler = InlineScheduler(context, {'optimize': Optimize()})
        self._hosts = self._cluster.hosts
        self.scheduler.state_sync.refresh()
        for facts in self._store.report(workload.reports, self._now_s()):
            self.scheduler.state_sync.adopt(facts)  # in the order of the workload

    def _now_s(self):
        return EPOCH_S + self._clock()

    def run(self):
        """Return the Course."""
        workload = self._workload
        course = Course(hosts=len(workload.reports))
        counts: Counter[str] = Counter()
        placed: Counter[str] = Counter()
        end_s = workload.end_s
        self._empty = None if end_s is None else EmptyShare(workload.measured_s, end_s)
        for arrival in workload.arrivals(self._seed):
            if not course.servers:
                list(self._clock.move(arrival.time_s))  # nothing is due before
                if self._hourly is not None:
                    self._clock.at(arrival.time_s + 3600.0, self._each_hour)
            self._move(arrival.time_s, course)
            is_placed, count = self._place(arrival, course), len(arrival.requests)
            course.servers += count
            counts[arrival.kind] += count
            placed[arrival.kind] += count * is_placed
            if self._until_refusal and not is_placed:
                break
            self._sample(course)
        if end_s is not None:
            self._move(end_s, course)
            course.empty = 100.0 * self._empty.mean / course.hosts
        course.allocated = self._share(self._used)
        course.kinds = {kind: (placed[kind], count) for kind, count in sorted(counts.items())}
        return course

    def _each_hour(self, course):
        self._hourly(self.scheduler, self._cluster)
        self._clock.at(self._clock() + 3600.0, self._each_hour)

    def _move(self, to_s, course):
        """Let time pass: servers leave."""
        if to_s == self._clock():
            return
        self._confirm()
        for event in self._clock.move(to_s):
            self._count_empty(self._clock())
            event(course)
        self._count_empty(to_s)

    def _count_empty(self, now_s):
        if self._empty is not None:
            self._empty.until(now_s, self._empty_hosts())

    def _empty_hosts(self):
        return int((self._hosts.num_instances == 0).sum())

    def _place(self, arrival, course):
        """Whether the servers were placed.

        The weigher learns between two requests, not in a thread: a run is the same each time.
        """
        scheduler, requests = self.scheduler, arrival.requests
        self._asked += arrival.amount * len(requests)
        mix = scheduler.parts['optimize'].mix
        if mix.learns and mix.is_due:
            mix.refresh()
        begin_s = time.perf_counter()
        try:
            placements = scheduler.place(list(requests))
        except errors.NoValidHost:
            course.refused += len(requests)
            if course.first_refusal is None:
                course.first_refusal = course.servers
            return False
        finally:
            course.took_s.append((time.perf_counter() - begin_s) / len(requests))
        for request, (chosen,) in zip(requests, placements, strict=True):
            self._building[request.instance_uuid] = chosen.host
        if self._empty is None:
            self._confirm()
        self._used += arrival.amount * len(requests)
        for request, lifetime_s in zip(requests, arrival.lifetimes_s, strict=False):
            if lifetime_s is not None:
                leave = functools.partial(self._leave, request.instance_uuid, arrival.amount)
                self._clock.at(arrival.time_s + lifetime_s, leave)
        return True

    def _confirm(self):
        """All servers that were placed are built."""
        hosts = set(self._building.values())
        nodes = {node.uuid for host in hosts for node in self._cluster.nodes_of(host)}
        changed = self._store.confirm(list(self._building), nodes)
        for uuid in {claim.node_uuid for claim in changed}:
            node = self._cluster.node(uuid)
            self._cluster.set_generation(node, node.generation + 1)
        for claim in changed:
            self._cluster.adopt(claim.confirmed())
        self._building = {}

    def _leave(self, uuid, amount, course):
        service = self.scheduler.claim_service
        for claim in service.claims_of(uuid):
            service.abort_claim(uuid, None, ClaimSelector(claim.name))
        self._used -= amount
        course.left += 1

    def _sample(self, course):
        """Record the state if a share of the load, or time, has passed since the last one."""
        load, now_s = self._share(self._asked), self._clock()
        is_timed = self._workload.end_s is not None
        for mark in MARKS if not is_timed else ():
            if load >= mark and mark not in course.marks:
                course.marks[mark] = self._share(self._used)
        if course.samples:
            last = course.samples[-1]
            if now_s == last.time_s if is_timed else load < last.load + STEP:
                return
        used = self._share(self._used)
        course.samples.append(Sample(now_s, load, used, course.refused, self._empty_hosts()))

    def _share(self, amount):
        return 100.0 * amount / self._workload.capacity


def fewest_hosts(workload_of, conf, low, high):
    """Return the lowest number of hosts, from ``low`` to ``high``, on which nothing is refused;
    None if something is refused on ``high``.

    ``workload_of`` returns the Workload with a number of hosts. More hosts are taken to refuse no
    more.
    """
    fewest = None
    while low <= high:
        middle = (low + high) // 2
        if EngineReplay(workload_of(middle), conf, until_refusal=True).run().refused:
            low = middle + 1
        else:
            fewest, high = middle, middle - 1
    return fewest


# Moves of servers at each full hour, by the planner of rebalances.

FIRST_HOUR = 12  # of the replay; before, the cloud fills


class HourlyMoves:
    """Empties hosts by moving a share (0..1) of the running servers each hour.

    Hosts of a replay have no rules but their capacity. A move is made at once: the claim on
    the destination is confirmed, which ends that on the source. ``made`` counts the moves.
    """

    def __init__(self, share):
        self._share, self._hours, self.made = share, 0, 0

    def __call__(self, scheduler, cluster):
        self._hours += 1
        if self._hours < FIRST_HOUR:
            return
        problem = problem_of(cluster)
        plan = greedy.empty(problem, int(self._share * len(problem.servers.uuids)))
        for move in plan.to_moves():
            source, node = cluster.node(move.source), cluster.node(move.destination)
            held = source.claims[move.server]
            request = Request(move.server, resources=held.resources, project_id=held.project_id)
            claims = scheduler.claim_service
            claim = claims.claim(request, node.host, node.nodename, move=LIVE_MIGRATION)
            claims.confirm_claim(move.server, node.host, ClaimSelector(claim.uuid))
            self.made += 1


def problem_of(cluster):
    """Return the cluster as the planner reads it; every server may go to every host."""
    hosts, nodes = cluster.hosts, cluster.hosts.nodes
    names = list(hosts.resources)
    claims = [claim for node in nodes for claim in node.claims.values()]
    sizes = [tuple(claim.resources.get(name, 0) for name in names) for claim in claims]
    kinds = {size: number for number, size in enumerate(sorted(set(sizes)))}
    total = [hosts.resources[name].total for name in names]
    count = len(claims)
    servers = Servers(
        uuids=[claim.consumer_uuid for claim in claims],
        host=np.repeat(np.arange(len(nodes)), [len(node.claims) for node in nodes]).astype(
            np.int32
        ),
        kind=np.array([kinds[size] for size in sizes], dtype=np.int32),
        fixed=np.full(count, MOVABLE, dtype=np.int16),
        families=np.full((count, 1), -1, dtype=np.int32),
        confined=np.zeros(count, dtype=bool),
        created_s=np.array([claim.created_s for claim in claims]),
    )
    everywhere = np.ones(len(nodes), dtype=bool)
    return RebalanceProblem(
        nodes=[node.uuid for node in nodes],
        names=[node.host for node in nodes],
        columns=names,
        total=np.array(total).T,
        free=np.array([hosts.resources[name].free for name in names]).T,
        demand=np.array(list(kinds), dtype=np.int64).reshape(len(kinds), len(names)),
        allowed=np.ones((len(kinds), len(nodes)), dtype=bool),
        closed_by=[None] * len(kinds),
        servers=servers,
        strangers=np.zeros(len(nodes), dtype=np.int64),
        domain=np.zeros(len(nodes), dtype=np.int32),
        sources=everywhere,
        destinations=everywhere,
        reasons=[''],
    )
