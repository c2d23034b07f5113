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
"""Whatever schedulers, nodes and callers do in whatever order, an audit finds nothing, and stores
agree."""

import dataclasses
import random

import pytest

from nova_sched.claim import DISK_GB, MEMORY_MB, MOVES, PENDING, PLANNED, VCPU
from nova_sched.claims import (
    ClosedDomain,
    GroupGuard,
    GroupRecord,
    NodeFacts,
    Placement,
    PlacementOutcome,
    ServerGroupPolicy,
)
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.hardware.machine import Machine
from nova_sched.state.request import AFFINITY, ANTI_AFFINITY
from nova_sched.tests.builders import NOW, claim, guarded, report, still, uuid_of
from nova_sched.tests.cases import cases
from nova_sched.tests.explorer.store import ExplorerStore
from nova_sched.tests.stores import assert_clean
from nova_sched.tests.unit.claims.batteries.steps import remove, seen
from nova_sched.tests.unit.claims.databases import cleared
from nova_sched.tests.unit.hardware.builders import cell, dedicated, machine, pool, told, wanted
from nova_sched.tests.unit.hardware.builders import request as device

HOSTS = [f'host-{number}' for number in range(4)]
HAS = machine(cell(0, [], range(4), memory_mb=4096), pools=[pool(2, x='1')])
GROUPS = [
    ServerGroupPolicy(uuid_of('together'), AFFINITY),
    ServerGroupPolicy(uuid_of('apart'), ANTI_AFFINITY, 1),
]
WISHES = [wanted(dedicated(1)), wanted(dedicated(2)), wanted(requests=[device(1)])]


class World:
    """Nodes that have instances, and a store that is told of it; ``now_s`` goes on with each
    step."""

    def __init__(self, store, chance, has_groups=True):
        self.store, self.chance, self.now_s = store, chance, NOW
        self.has_groups = has_groups
        store.clock = lambda: self.now_s
        self.has = {host: set() for host in HOSTS}
        self.consumers = [uuid_of(f'instance {number}') for number in range(12)]
        groups = [None, *GROUPS] if has_groups else [None]
        self.groups = {one: chance.choice(groups) for one in self.consumers}
        self.won, self.plans, self.created = 0, 0, 0
        for host in HOSTS:
            self.report(host)

    def step(self):
        self.now_s += self.chance.randrange(60)
        often = self.place, self.place, self.place, self.tell, self.tell
        seldom = (
            self.resize,
            self.move,
            self.settle,
            self.take_back,
            self.release,
            self.expire,
            self.leave,
            self.renew,
            self.watch,
        )
        groups = self.plan, self.create, self.create, self.drop_group, self.replan
        sweeps = self.store.forget_groups, self.store.end_domains
        of_groups = [*groups, *sweeps] if self.has_groups else []
        self.chance.choice([*often, *seldom, *of_groups])()

    # What callers ask for.

    def place(self):
        self.commit(self.chance.choice(self.consumers), self.chance.choice(HOSTS))

    def move(self):
        mine = [one for one in self.store.claims() if one.is_confirmed]
        if mine:
            one = self.chance.choice(mine)
            self.commit(
                one.consumer_uuid, self.chance.choice(HOSTS), move=self.chance.choice(MOVES)
            )

    def resize(self):
        mine = [one for one in self.store.claims() if one.is_confirmed]
        if mine:
            one = self.chance.choice(mine)
            host = next(host for host in HOSTS if uuid_of(f'node {host}') == one.node_uuid)
            self.commit(one.consumer_uuid, host, vcpus=self.chance.randrange(1, 4))

    def commit(self, consumer, host, vcpus=1, move=None):
        facts = {one.report.host: one for one in self.store.changes({}).nodes}.get(host)
        if facts is None:
            return
        free = Machine.from_texts(*facts.report.pieces)
        for held in facts.claims:
            for parts in held.uncounted:
                free = free.hold(parts)
        wish = self.chance.choice([None, *WISHES])
        parts = wish and free.fit(wish)
        if wish and not parts:
            return
        group = self.groups[consumer]
        made = claim(
            consumer,
            facts.report.node_uuid,
            vcpus,
            parts=parts,
            move=move,
            group_uuid=group and group.group_uuid,
            created_s=self.now_s,
            expires_s=self.now_s + 300,
        )
        # Now and then on an old picture of the node.
        generations = {facts.report.node_uuid: facts.generation - (self.chance.random() < 0.1)}
        guard = GroupGuard((group,)) if group else None
        # Now and then without the word that it has a claim already.
        known = (
            {one.uuid for one in self.store.claims(consumer)} if self.chance.random() < 0.9 else ()
        )
        placement = Placement((made,), (), generations if parts else {}, frozenset(known), guard)
        self.won += self.store.commit([placement])[0].won

    def settle(self):
        consumer, host = self.chance.choice(self.consumers), self.chance.choice(HOSTS)
        change = self.chance.choice(
            [self.store.finish, lambda one, nodes: self.store.confirm([one], nodes)]
        )
        change(consumer, [uuid_of(f'node {host}')])

    def take_back(self):
        self.store.revert(self.chance.choice(self.consumers))

    def release(self):
        claims = self.store.claims()
        if claims:
            self.store.release([self.chance.choice(claims).key])

    def expire(self):
        self.store.expire(self.now_s)

    def renew(self):
        pending = [one for one in self.store.claims() if one.state == PENDING]
        if pending:
            self.store.renew_claim(self.chance.choice(pending), 300)

    def watch(self):
        """Schedulers look for claims to end; now and then, none did for long."""
        self.store.expire(unwatched_s=120)

    # What placement groups ask for.

    def plan(self):
        """A group of three, now and then with a pair of hosts for itself."""
        if self.chance.random() < 0.8:  # schedulers do it before each plan
            self.store.end_domains()
        group = uuid_of(f'placement group {self.chance.random()}')
        hosts, domain = HOSTS, None
        if self.chance.random() < 0.5:
            hosts = self.chance.sample(HOSTS, 2)
            domain = ClosedDomain(
                f'exclusive domain of {group}',
                frozenset(uuid_of(f'node {host}') for host in hosts),
            )
        members = [self.member(group, path, self.chance.choice(hosts), domain) for path in 'abc']
        record = GroupRecord(group, created_s=self.now_s, updated_s=self.now_s)
        placement = guarded(
            tuple(members), record=record, serial=0, closed_domains=(domain,) if domain else ()
        )
        self.plans += self.store.commit([placement])[0].won

    def member(self, group, path, host, domain):
        return claim(
            uuid_of(f'{group} {path}'),
            uuid_of(f'node {host}'),
            state=PLANNED,
            top_group=group,
            member=path,
            fences=(domain.token,) if domain else (),
            created_s=self.now_s,
            expires_s=self.now_s + 600,
        )

    def create(self):
        """An instance of a member comes in place of its plan."""
        planned = [one for one in self.store.claims() if one.state == PLANNED]
        if planned:
            old, consumer = self.chance.choice(planned), self.chance.choice(self.consumers)
            made = dataclasses.replace(
                old, consumer_uuid=consumer, state=PENDING, uuid=uuid_of(str(self.chance.random()))
            )
            known = frozenset(one.uuid for one in self.store.claims(consumer))
            placement = guarded((made,), (old.key,), replaces=known, planned_releases=(old.key,))
            self.created += self.store.commit([placement])[0].won

    def replan(self):
        """A planned member goes to another host, if its exclusive domain is there."""
        planned = [one for one in self.store.claims() if one.state == PLANNED]
        if planned:
            old = self.chance.choice(planned)
            serial = self.store.top_group(old.top_group).serial
            fresh = uuid_of(str(self.chance.random()))
            node = uuid_of(f'node {self.chance.choice(HOSTS)}')
            later = dataclasses.replace(old, node_uuid=node, uuid=fresh)
            self.store.commit(
                [guarded((later,), (old.key,), planned_releases=(old.key,), serial=serial)]
            )

    def drop_group(self):
        records = self.store.top_groups()
        if records:
            record = self.chance.choice(records)
            planned = tuple(
                one.key for one in self.store.group_claims(record.uuid) if one.state == PLANNED
            )
            gone = dataclasses.replace(record, deleted=True)
            assert self.store.commit([guarded((), planned, record=gone, serial=record.serial)])[
                0
            ].won

    # What happens on nodes.

    def tell(self):
        """A node builds some of what waits for it and loses some of what it has, and reports."""
        host = self.chance.choice(HOSTS)
        waiting = {
            one.consumer_uuid
            for one in self.store.claims()
            if one.node_uuid == uuid_of(f'node {host}') and one.state != PLANNED
        }
        kept = self.has[host] & waiting
        # In one order: a set of texts has another in each process.
        self.has[host] = {one for one in sorted(kept) if self.chance.random() < 0.8}
        self.has[host] |= {one for one in sorted(waiting) if self.chance.random() < 0.6}
        self.report(host)

    def report(self, host):
        """Its claims of instances that it has are in use, and nothing else."""
        free = HAS
        used = dict.fromkeys((VCPU, MEMORY_MB, DISK_GB), 0)
        uuid = uuid_of(f'node {host}')
        for one in self.store.claims():
            if one.node_uuid == uuid and one.consumer_uuid in self.has[host]:
                for name, amount in one.resources.items():
                    used[name] += amount
                free = free.hold(one.parts) if one.parts else free
        words = {'instances': frozenset(self.has[host]), 'used': used, **told(free)}
        told_all = {'order': seen(self.store, host), **words}
        self.store.report([report(host, vcpus=6, **told_all)], self.now_s)

    def leave(self):
        if self.chance.random() < 0.1:
            host = self.chance.choice(HOSTS)
            self.has[host] = set()
            remove(self.store, host)


@pytest.mark.parametrize('seed', range(cases(6)))
def test_nothing_is_found(sqlite, seed):
    database = cleared(sqlite)
    world = World(SqlClaimStore(database, still), random.Random(seed))
    for _ in range(20):
        for _ in range(20):
            world.step()
        world.expire()
        assert_clean(database, world.now_s)
    assert world.won > 10
    assert world.plans > 2
    assert world.created > 2


class Twins:
    """Two stores to which the same happens, and which must say the same of it."""

    def __init__(self, *stores):
        self.stores = stores

    @property
    def clock(self):
        return self.stores[0].clock

    @clock.setter
    def clock(self, clock):
        for store in self.stores:
            store.clock = clock

    def __getattr__(self, name):
        return lambda *args, **words: self._both(name, args, words)

    def _both(self, name, args, words):
        one, other = (getattr(store, name)(*args, **words) for store in self.stores)
        if name != 'changes':  # the explorer has no small tables
            assert ordered(one) == ordered(other)
        return one


def ordered(found):
    """The same with all claims and nodes in one order."""
    if isinstance(found, list | tuple):
        made = [ordered(one) for one in found]
        return made if found and isinstance(found[0], PlacementOutcome) else sorted(made, key=repr)
    match found:
        case PlacementOutcome():
            used = {
                node: {name: use for name, use in its.items() if use}
                for node, its in found.used.items()
            }
            claims = tuple(ordered(found.claims))
            return dataclasses.replace(found, claims=claims, fresh=ordered(found.fresh), used=used)
        case NodeFacts():
            return dataclasses.replace(found, claims=ordered(found.claims))
        case _:
            return found


@pytest.mark.parametrize('seed', range(cases(3)))
def test_the_store_of_the_explorer_is_alike(sqlite, seed):
    twins = Twins(ExplorerStore(still), SqlClaimStore(cleared(sqlite), still))
    world = World(twins, random.Random(seed), has_groups=False)
    for _ in range(300):
        world.step()
        one, other = (ordered(store.changes({}).nodes) for store in world.store.stores)
        assert one == other
    world.expire()
    assert world.won > 10
