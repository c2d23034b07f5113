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
"""Several schedulers fill one cloud, each seeing the others late: conflicts, and how well it is
filled.

All is in one process and in a fixed order, so that figures of two ways to choose can be compared.
"""

import collections
import contextlib
import dataclasses
import random
import statistics
import time
import uuid

from nova_sched import errors, service
from nova_sched.conf import CONF
from nova_sched.engine.context import Context
from nova_sched.engine.cycle import MAX_LOSSES
from nova_sched.engine.decide import settings_for
from nova_sched.engine.place import Placer
from nova_sched.engine.sync.state_sync import StateSync
from nova_sched.extensions.simulator import trace
from nova_sched.hardware.machine import HardwareAllocation
from nova_sched.hardware.numa.topology import Fitted
from nova_sched.state.cluster import Cluster
from nova_sched.state.report import Inventory, Report
from nova_sched.tests.bench import fleet
from nova_sched.tests.stores import MemoryClaimStore

HOSTS = 200
# vCPUs and GiB of each kind of host; nothing is oversubscribed.
ALIKE, MIXED = ((64, 128),), ((48, 96), (64, 128), (64, 192), (96, 160))
FLAVORS = {(1, 768), (1, 1792), (2, 3584), (4, 7168), (8, 14336)}  # 98 of 100 servers of the trace
LARGE = max(FLAVORS)
DISK_GB = 20  # for each vCPU
PIECES = HardwareAllocation(
    cells=Fitted(())
)  # the store does not look into what is held of a node
BEYOND = 200  # requests after the first refusal


@dataclasses.dataclass(frozen=True, slots=True)
class Scene:
    """A cloud, what is in use at first (shares of each host's vCPUs, from and to), and how it is
    filled.

    ``guarded``: any claim on a node makes one lose that was decided before, as among requests for
    NUMA cells.
    """

    kinds: tuple = ALIKE
    used: tuple[float, float] = (0.0, 0.0)
    packed: bool = False
    guarded: bool = False

    def __str__(self):
        state = {0.0: 'empty', 0.2: 'half full', 0.75: 'nearly full'}[self.used[0]]
        requests = 'NUMA' if self.guarded else 'plain'
        return f'{state}, {"packed" if self.packed else "spread"}, {requests}'


@dataclasses.dataclass(frozen=True, slots=True)
class Way:
    """How the schedulers keep out of each other's way, if they do."""

    name: str
    subset_size: int = 1
    shuffle: bool = False
    sliced: bool = False


NOTHING, SLICES = Way('nothing'), Way('slices', sliced=True)
WAYS = (
    NOTHING,
    Way('subset of 8', 8),
    Way('subset of 32', 32),
    Way('shuffle', shuffle=True),
    SLICES,
)
SCENES = [
    Scene(kinds, used, packed, guarded)
    for kinds, used in ((ALIKE, (0.0, 0.0)), (MIXED, (0.2, 0.8)), (MIXED, (0.75, 0.98)))
    for packed in (False, True)
    for guarded in (False, True)
]


@dataclasses.dataclass(slots=True)
class Tally:
    """Counts of servers and of lost claims; ``lost`` servers lost at least one claim.

    ``late``: servers that would have been refused, without a look at the store, though a host had
    room; ``given_up``: servers whose claims were lost too often. ``uneven`` is the standard
    deviation of the hosts' use in % of vCPUs, and ``large`` the largest servers that still fit,
    when half of the free vCPUs are taken; ``full`` is the use at the first refusal.
    """

    placed: int = 0
    conflicts: int = 0
    lost: int = 0
    late: int = 0
    refused: int = 0
    given_up: int = 0
    uneven: float = 0.0
    large: int = 0
    full: float = 0.0


class Member:
    """One of the schedulers."""

    def __init__(self, store, settings, position_and_count, seed):
        self._store, self._settings, self._position_and_count = store, settings, position_and_count
        self.cluster = Cluster()
        context = Context(self.cluster, store, lambda: settings, time.time)
        self.state_sync = StateSync(context)
        self.state_sync.refresh()
        self.cluster.hosts.now_s = time.time()
        self._placer = Placer(self.cluster, service.rules(CONF), random.Random(seed))

    def place(self, request, guarded, tally):
        """Decide and claim until the claim is won; False if no host has room, or too many were
        lost."""
        for losses in range(self._settings.max_claim_attempts):
            decision = self._decide(request, losses, tally)
            if decision is None:
                tally.refused += 1
                return False
            if self._commit(decision, guarded):
                tally.placed += 1
                return True
            tally.conflicts += 1
            tally.lost += not losses
            if losses + 1 >= MAX_LOSSES:
                self.state_sync.refresh()
        tally.given_up += 1
        return False

    def _decide(self, request, losses, tally):
        """A decision; before a refusal, one more with what the others did."""
        settings = settings_for(self._settings, self._position_and_count, losses)
        with contextlib.suppress(errors.NoValidHost):
            return self._placer.decide([request], settings)
        self.state_sync.refresh()
        with contextlib.suppress(errors.NoValidHost):
            decision = self._placer.decide([request], settings)
            tally.late += 1
            return decision
        return None

    def _commit(self, decision, guarded):
        (claim,) = decision.claims
        if guarded:
            claim = dataclasses.replace(claim, parts=PIECES)
        (outcome,) = self._store.commit([self.state_sync.placement([claim], decision.requests)])
        if outcome.won:
            self.state_sync.committed([outcome])
        else:
            self._placer.undo(decision)
            self.state_sync.catch_up([claim.node_uuid], {})
        return outcome.won


def flavors(seed):
    """Sizes of servers as they came to a public cloud, without end: vCPUs and MiB."""
    sizes = [
        (arrival.flavor.vcpus, arrival.flavor.memory_mb)
        for arrival in trace.load()
        for _ in range(len(arrival))
    ]
    sizes = [size for size in sizes if size in FLAVORS]
    at = random.Random(seed).randrange(len(sizes))
    while True:
        yield sizes[at % len(sizes)]
        at += 1


def filled(scene, chance):
    """A store with the scene's nodes."""
    store, sizes = MemoryClaimStore(), flavors(chance.random())
    reports = []
    for place in range(HOSTS):
        vcpus, memory_gb = chance.choice(scene.kinds)
        inventory = {'VCPU': vcpus, 'MEMORY_MB': memory_gb * 1024, 'DISK_GB': 4000}
        used, wanted = collections.Counter(), vcpus * chance.uniform(*scene.used)
        for size in (next(sizes) for _ in range(vcpus if wanted else 0)):
            after = used + collections.Counter(amounts(*size))
            if after['VCPU'] <= wanted and all(after[name] <= inventory[name] for name in after):
                used = after
        reports.append(
            Report(
                node_uuid=str(uuid.UUID(int=chance.getrandbits(128))),
                host=f'compute-{place:06}',
                nodename=f'compute-{place:06}',
                inventories={name: Inventory(total) for name, total in inventory.items()},
                used=used,
                supported_instances=fleet.SUPPORTED,
            )
        )
    store.report(reports, time.time())
    return store


def amounts(vcpus, memory_mb):
    return {'VCPU': vcpus, 'MEMORY_MB': memory_mb, 'DISK_GB': DISK_GB * vcpus}


@contextlib.contextmanager
def weighing(packed):
    """The memory, CPU and disk weighers as by default, or those of memory and CPU turned round.

    Nothing is ever confirmed here, so builds under way would tell nothing.
    """
    values = {'ram': -1.0, 'cpu': -1.0, 'disk': 0.0, 'io_ops': 0.0} if packed else {'io_ops': 0.0}
    names = {f'{name}_weight_multiplier': value for name, value in values.items()}
    for name, value in names.items():
        CONF.set_override(name, value, 'filter_scheduler')
    try:
        yield
    finally:
        for name in names:
            CONF.clear_override(name, 'filter_scheduler')


def run(scene, schedulers, unseen, way, seed=1):
    """Fill the scene's cloud; each scheduler looks what the others did once in ``unseen``
    requests."""
    chance, tally = random.Random(seed), Tally()
    settings = dataclasses.replace(
        service.settings(CONF), subset_size=way.subset_size, shuffle=way.shuffle
    )
    with weighing(scene.packed):
        store = filled(scene, chance)
        crowd = schedulers if way.sliced else 1
        members = [
            Member(store, settings, (place if way.sliced else 0, crowd), seed)
            for place in range(schedulers)
        ]
        fill(scene, members, unseen, chance, tally, Look(store))
    return tally


def fill(scene, members, unseen, chance, tally, look):
    """Place servers until some time after the first refusal."""
    half = (look.used() + look.capacity) / 2
    taken, beyond = look.used(), 0
    for number, size in enumerate(flavors(chance.random())):
        if number % len(members) == 0:
            chance.shuffle(order := list(members))
        request = fleet.request(*size, disk_gb=DISK_GB * size[0])
        if order[number % len(members)].place(request, scene.guarded, tally):
            before, taken = taken, taken + size[0]
            if before < half <= taken:
                tally.uneven, tally.large = look.uneven(), look.large()
        elif tally.refused and not tally.full:
            tally.full = 100 * taken / look.capacity
        beyond += bool(tally.full)
        if beyond > BEYOND:
            return
        for place, member in enumerate(members if len(members) > 1 else ()):
            if (number + place * unseen // len(members)) % unseen == 0:
                member.state_sync.refresh()


class Look:
    """What is really free and in use, as the store knows it."""

    def __init__(self, store):
        self._store = store
        self._totals = {uuid: facts.report.inventories for uuid, facts in self._facts().items()}
        self.capacity = sum(one['VCPU'].capacity for one in self._totals.values())

    def _facts(self):
        return {
            facts.report.node_uuid: facts
            for facts in self._store.read_nodes(list(self._store.heads())).nodes
        }

    def _use(self):
        for node, facts in self._facts().items():
            used = collections.Counter(facts.foreign)
            for claim in facts.claims:
                used.update(claim.resources)
            yield self._totals[node], used

    def used(self):
        """vCPUs."""
        return sum(used['VCPU'] for _, used in self._use())

    def uneven(self):
        return statistics.pstdev(
            100 * used['VCPU'] / totals['VCPU'].capacity for totals, used in self._use()
        )

    def large(self):
        wanted = amounts(*LARGE)
        return sum(
            min((totals[name].capacity - used[name]) // wanted[name] for name in wanted)
            for totals, used in self._use()
        )


def rows(budget_s=None):
    """A row for each scene and way; it takes as long as it takes."""
    for scene in SCENES:
        yield row(scene, 1, 0, NOTHING)
        for schedulers, unseen, ways in (
            (2, 128, (NOTHING, SLICES)),
            (4, 128, (NOTHING, SLICES)),
            (8, 128, WAYS),
            (8, 32, (NOTHING, SLICES)),
            (8, 512, (NOTHING, SLICES)),
        ):
            for way in ways:
                yield row(scene, schedulers, unseen, way)


def row(scene, schedulers, unseen, way):
    tally = run(scene, schedulers, unseen, way)
    return {
        'what': str(scene),
        'schedulers': schedulers,
        'unseen': unseen,
        'way': way.name,
        'conflicts': f'{100 * tally.conflicts / tally.placed:.1f} %',
        'lost': f'{100 * tally.lost / tally.placed:.1f} %',
        'late': tally.late,
        'given up': tally.given_up,
        'full': f'{tally.full:.1f} %',
        'uneven': f'{tally.uneven:.1f} %',
        'large': tally.large,
    }
