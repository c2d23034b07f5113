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
"""Placing requests for NUMA cells and PCI devices: what each gets, what the next one sees gone,
and races."""

import dataclasses
import random

import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED, PENDING
from nova_sched.claims import ClaimSelector, Placement
from nova_sched.engine import Settings
from nova_sched.engine.answer import selections
from nova_sched.engine.place import Placer
from nova_sched.filters.numa_topology import NUMATopologyFilter
from nova_sched.filters.pci_passthrough import PciPassthroughFilter
from nova_sched.hardware.numa import NumaLimits
from nova_sched.tests.builders import claim, cluster, report, request
from nova_sched.tests.rows import table
from nova_sched.tests.stores import MemoryClaimStore
from nova_sched.tests.unit.engine.stores import Contested, Unsteady
from nova_sched.tests.unit.engine.world import (
    A,
    B,
    C,
    Score,
    World,
    end_claims,
    fresh,
    names,
    node,
    picture,
    rules,
)
from nova_sched.tests.unit.hardware.builders import (
    cell,
    dedicated,
    machine,
    pool,
    told,
    wanted,
)
from nova_sched.tests.unit.hardware.builders import request as device

SMALL = machine(cell(0, [0], [1, 2]), cell(1, [], [3, 4]), pools=[pool(1, 0), pool(1, 1)])
PAIR = wanted(dedicated(2))
NIC = wanted(requests=[device(1)])
HERE = {'memory_mb': 4096, **told(SMALL)}


def strict(*weighers):
    return rules([PciPassthroughFilter(), NUMATopologyFilter()], weighers)


def lenient():
    return rules()


def asks(instance=A, pieces=PAIR, **words):
    return request(instance_uuid=instance, pieces=pieces, **words)


def placer(made, chain):
    return Placer(made, chain, random.Random(1))


def place(made, *asked, chain=None):
    """The hosts that are chosen, and the claims."""
    decision = placer(made, chain or strict()).decide(list(asked), Settings())
    return names(made.hosts, decision.rows), decision.claims


def cpus(one):
    """Host CPUs that a claim holds alone; None if it holds no parts."""
    if one.parts is None:
        return None
    cells = one.parts.cells.cells if one.parts.cells else ()
    return sorted(cpu for placed in cells for cpu in placed.host_cpus)


class TestOneScheduler:
    def test_the_next_one_sees_them_gone(self):
        made = cluster(2, **HERE)
        found = [place(made, asks(instance)) for instance in (A, B, C)]
        assert [hosts for hosts, _ in found] == [['host-0'], ['host-0'], ['host-1']]
        assert [cpus(one) for _, (one,) in found] == [[1, 2], [3, 4], [1, 2]]

    @table(
        'pieces, rule, why',
        {
            'CPUs': (
                wanted(dedicated(3)),
                'NUMATopologyFilter',
                'guest cell 0 needs 3 dedicated CPUs, the best host cell has 2',
            ),
            'devices': (
                wanted(requests=[device(3)]),
                'PciPassthroughFilter',
                'nic: 3 devices asked, 2 free that match',
            ),
            'devices of two cells': (
                wanted(dedicated(2), requests=[device(2)]),
                'NUMATopologyFilter',
                (
                    'host cells [0] fit, but not with the PCI devices: '
                    'nic: 2 devices asked, 1 near to the NUMA cells'
                ),
            ),
        },
    )
    def test_the_refusal_names_the_cause(self, pieces, rule, why):
        with pytest.raises(errors.NoValidHost) as refused:
            place(cluster(2, **HERE), asks(pieces=pieces))
        assert f'{rule} removed the last 2: {why}' in str(refused.value)

    def test_alternates_would_take_it_and_hold_nothing(self):
        made = cluster(4, **{**HERE, 'numa_topology': [*[told(SMALL)['numa_topology']] * 3, None]})
        one, settings = placer(made, strict(Score(1, 3, 2, 9))), Settings(alternates=3)
        (selected,) = selections(one, one.decide([asks()], settings, True), settings, True)
        assert [chosen.host for chosen in selected] == ['host-1', 'host-2', 'host-0']
        assert [node.machine == SMALL for node in made.hosts.nodes[:3]] == [True, False, True]

    def test_the_same_instance_again(self):
        """What it has on the way is not in its own way."""
        whole = wanted(dedicated(2), dedicated(2), requests=[device(2)])
        world = World(chain=strict())
        world.report(report(**HERE))
        for _ in range(2):
            assert world.place(asks(pieces=whole)) == [['host-0']]
        assert len(world.store.claims()) == 1


class TestLenient:
    """Without the filters NUMA cells and devices are claimed where they fit, and else left to the
    node."""

    def test_what_fits_is_claimed(self):
        made = cluster(1, **HERE)
        _, (one,) = place(made, asks(), chain=lenient())
        assert cpus(one) == [1, 2]

    @table(
        'pieces',
        {
            'CPUs': wanted(dedicated(3)),
            'devices': wanted(requests=[device(3)]),
        },
    )
    @table(
        'chain, words',
        {
            'no filter': (lenient, {}),
            'forced, so no filter is asked': (strict, {'force_hosts': ['host-0']}),
        },
    )
    def test_what_does_not_fit_is_not_claimed(self, pieces, chain, words):
        made = cluster(1, **HERE)
        hosts, (one,) = place(made, asks(pieces=pieces, **words), chain=chain())
        assert (hosts, one.parts) == (['host-0'], None)
        assert one.resources == asks().resources
        assert made.hosts.nodes[0].machine == SMALL

    def test_a_node_that_tells_nothing(self):
        hosts, (one,) = place(cluster(1), asks(), chain=lenient())
        assert (hosts, one.parts) == (['host-0'], None)


class TestLimits:
    """What the compute node shall check again."""

    @table(
        'chain, words, limits',
        {
            'ratios of the host': (strict, {}, {'numa_topology': NumaLimits(4.0, 1.5)}),
            'networks of the request': (
                strict,
                {'pieces': wanted(dedicated(2), physnets=frozenset('a'), tunneled=True)},
                {'numa_topology': NumaLimits(4.0, 1.5, frozenset('a'), True)},
            ),
            'devices alone': (strict, {'pieces': NIC}, {}),
            'neither': (strict, {'pieces': wanted()}, {}),
            'forced, so no filter was asked': (strict, {'force_hosts': ['host-0']}, {}),
            'no filter': (lenient, {}, {}),
        },
    )
    def test_of_the_chosen_host(self, chain, words, limits):
        made = cluster(1, vcpus_ratio=4.0, memory_mb_ratio=1.5, **HERE)
        assert [one.limits for one in self.selected(made, chain(), asks(**words))] == [limits]

    def selected(self, made, chain, asked):
        one, settings = placer(made, chain), Settings(alternates=2)
        (found,) = selections(one, one.decide([asked], settings, True), settings, True)
        return found

    def test_of_alternates(self):
        made = cluster(2, vcpus_ratio=[4.0, 2.0], **HERE)
        found = self.selected(made, strict(), asks())
        assert [one.limits['numa_topology'].cpu_ratio for one in found] == [4.0, 2.0]


# Several schedulers.


class Interrupted(MemoryClaimStore):
    """Something happens just before the next commits: ``before`` has a work for each."""

    def __init__(self):
        super().__init__()
        self.before = []

    def commit(self, placements):
        if self.before:
            self.before.pop(0)()
        return super().commit(placements)


def two_worlds(count=1, **words):
    """Two schedulers on one store, both of which know the same hosts."""
    store = MemoryClaimStore()
    first, second = (World(store, strict(), refresh_interval_s=1e9) for _ in range(2))
    reports = [report(f'host-{number}', **{**HERE, **words}) for number in range(count)]
    for facts in first.report(*reports):
        second.state_sync.adopt(facts)
    return first, second


def in_step(*worlds):
    """Every scheduler knows in the end what the store does, and no CPU is held twice."""
    for world in worlds:
        world.state_sync.refresh()
        assert picture(world.cluster) == picture(fresh(world.store))
    for facts in worlds[0].store.changes({}).nodes:
        taken = [cpu for one in facts.claims for cpu in cpus(one) or ()]
        assert len(taken) == len(set(taken))


class TestTwoSchedulers:
    @table(
        'count, found',
        {
            'there is another host': (2, [['host-1']]),
            'there is none': (1, None),
        },
    )
    def test_both_want_the_last_cell(self, count, found):
        first, second = two_worlds(count)
        first.place(asks(A))
        second.state_sync.refresh()
        assert first.place(asks(B)) == [['host-0']]
        if found:
            assert second.place(asks(C)) == found
        else:
            with pytest.raises(
                errors.NoValidHost, match='2 free dedicated CPUs, the best host cell has 0'
            ):
                second.place(asks(C))
        assert second.scheduler.figures.conflicts == 1
        in_step(first, second)

    def test_amounts_alone_are_no_reason_to_lose(self):
        first, second = two_worlds()
        first.place(asks(A))
        second.place(asks(B, pieces=wanted()))
        assert second.scheduler.figures.conflicts == 0
        in_step(first, second)

    def test_a_report_that_the_other_has_taken(self):
        first, second = two_worlds()
        first.report(report(**{**HERE, 'vcpus_ratio': 2.0}))
        assert second.place(asks(A)) == [['host-0']]
        assert second.scheduler.figures.conflicts == 1
        in_step(first, second)

    def test_a_batch_on_one_node(self):
        world, other = two_worlds()
        futures = [world.send_place(asks(instance)) for instance in (A, B)]
        world.turn_until(*futures)
        assert [future.result()[0][0].host for future in futures] == ['host-0', 'host-0']
        assert (world.scheduler.figures.batches, world.scheduler.figures.conflicts) == (1, 0)
        in_step(world, other)

    def test_a_lost_move_does_not_give_away_what_it_would_have_left(self):
        """B was given the CPUs that A was about to leave; but A did not get its new host."""
        store = Contested()
        world = World(store, strict())
        world.report(*(report(host, **{**HERE, 'vcpus': 4}) for host in ('host-0', 'host-1')))
        whole = wanted(dedicated(2), dedicated(2))
        world.place(asks(A, whole))
        store.rivals = [[Placement((claim(C, node('host-1'), vcpus=4),))]]
        moves = world.send_place(asks(A, whole, ignore_hosts=['host-0']))
        comes = world.send_place(asks(B))
        world.turn_until(moves, comes)
        assert isinstance(moves.exception(), errors.NoValidHost)
        assert isinstance(comes.exception(), errors.NoValidHost)
        assert {one.consumer_uuid: cpus(one) for one in store.claims() if one.parts} == {
            A: [1, 2, 3, 4]
        }
        in_step(world)

    def test_a_node_that_left_moves_no_row_under_an_answer(self):
        store = Interrupted()
        world = World(store, rules([NUMATopologyFilter()], [Score(3, 2, 1)]))
        world.report(*(report(f'host-{number}', **HERE) for number in range(3)))
        store.before = [lambda: store.remove_node(node())]
        loses = world.send_place(asks(A))
        wins = world.send_place(asks(B, ignore_hosts=['host-0', 'host-1']))
        world.loop.turn()
        assert (wins.result()[0][0].host, loses.done()) == ('host-2', False)
        assert world.scheduler.figures.batches == 1, 'each was decided once'
        world.turn_until(loses)
        assert loses.result()[0][0].host in ('host-1', 'host-2')
        in_step(world)

    def test_who_loses_chooses_among_more_of_the_best(self):
        """Or those who lost would all want the same host again."""
        chosen = set()
        for seed in range(30):
            store = Interrupted()
            world = World(
                store, rules([NUMATopologyFilter()], [Score(*range(9, 0, -1))]), seed=seed
            )
            world.report(*(report(f'host-{number}', **HERE) for number in range(9)))
            news = report('host-0', **{**HERE, 'vcpus_ratio': 2.0})
            store.before = [lambda store=store, news=news: store.report([news], 0.0)]
            chosen.add(world.place(asks())[0][0])
            assert world.scheduler.figures.conflicts == 1
            assert world.place(asks(B)) == [['host-0']], 'who has not lost takes the best'
        assert chosen == {'host-0', 'host-1', 'host-2', 'host-3'}

    def test_too_many_conflicts(self):
        store = Interrupted()
        world = World(store, strict(), max_claim_attempts=3)
        world.report(report(**HERE))
        news = iter(range(1, 100))
        store.before = [
            lambda: store.report([report(**{**HERE, 'vcpus_ratio': 1 + next(news)})], 0.0)
        ] * 3
        with pytest.raises(errors.TooManyConflicts):
            world.place(asks(A))
        assert world.place(asks(A)) == [['host-0']]
        in_step(world)


# Claims that callers ask for by name.


class TestNamedNode:
    @pytest.fixture
    def world(self):
        made = World(Interrupted(), strict())
        made.report(report('host-0', **HERE), report('host-1', **HERE))
        yield made
        in_step(made)

    @staticmethod
    def claim(world, instance=A, host='host-0', pieces=PAIR, leaving=None, **words):
        claims = world.store.claims(instance) if leaving else ()
        meant = ClaimSelector(claims[0].name if claims else None)
        place = asks(instance, pieces, **words), host, host, None, leaving, None, False, meant
        return world.call(world.claim_service.claim, *place)

    def test_it_holds_its_parts(self, world):
        assert [cpus(self.claim(world, instance)) for instance in (A, B)] == [[1, 2], [3, 4]]
        with pytest.raises(errors.ComputeResourcesUnavailable) as short:
            self.claim(world, C)
        assert short.value.shortages == (
            'guest cell 0 needs 2 free dedicated CPUs, the best host cell has 0'
        )

    def test_it_is_never_lenient(self, world):
        with pytest.raises(errors.ComputeResourcesUnavailable, match='3 devices asked, 2 free'):
            self.claim(world, pieces=wanted(requests=[device(3)]))
        assert world.store.claims() == []

    def test_a_node_that_has_moved_on_is_looked_at_again(self, world):
        world.store.before = [
            lambda: world.store.report([report(**{**HERE, 'vcpus_used': 1})], 0.0),
            lambda: world.store.commit([Placement((claim(B, node()),))]),
        ]
        assert cpus(self.claim(world)) == [1, 2]
        assert len(world.store.claims(A)) == 1

    def test_what_another_took_meanwhile_is_not_given_again(self, world):
        taken = SMALL.fit(PAIR)
        rival = Placement((claim(B, node(), parts=taken),))
        world.store.before = [lambda: world.store.commit([rival])]
        assert cpus(self.claim(world)) == [3, 4]

    def test_a_node_that_never_rests(self, world):
        news = iter(range(1, 100))
        world.store.before = [
            lambda: world.store.report([report(**{**HERE, 'vcpus_ratio': 1 + next(news)})], 0.0)
        ] * world.settings.max_claim_attempts
        with pytest.raises(
            errors.ComputeResourcesUnavailable, match='taken by another request meanwhile'
        ):
            self.claim(world)
        assert world.store.claims() == []

    def test_an_alternate(self, world):
        first = self.claim(world)
        moved = self.claim(world, host='host-1', leaving='host-0')
        assert cpus(moved) == cpus(first)
        assert [node.machine == SMALL for node in world.cluster.hosts.nodes] == [True, False]

    def test_an_alternate_without_room_leaves_the_parts_where_they_were(self, world):
        first = self.claim(world)
        whole = wanted(dedicated(2), dedicated(2))
        self.claim(world, B, 'host-1', whole)
        with pytest.raises(errors.ComputeResourcesUnavailable):
            self.claim(world, host='host-1', leaving='host-0')
        assert world.cluster.hosts.nodes[0].machine == SMALL.hold(first.parts)

    def test_confirm_and_abort(self, world):
        made = self.claim(world)
        world.call(world.claim_service.confirm_claim, A, 'host-0')
        node = world.cluster.hosts.nodes[0]
        assert node.machine == SMALL.hold(made.parts), 'the node has not counted them yet'
        world.report(report('host-0', **{**HERE, **told(SMALL.hold(made.parts))}))
        assert node.claims[A].counted
        assert node.machine == SMALL.hold(made.parts), 'and now not twice'
        world.call(end_claims, world.claim_service, A)
        assert node.machine == SMALL.hold(made.parts), 'the node still has them in use'
        world.report(report('host-0', **HERE))
        assert node.machine == SMALL


def test_when_the_answer_is_lost_it_is_claimed_once():
    world = World(Unsteady(), strict())
    world.report(report(**HERE))
    for instance, work in (
        (A, world.place),
        (B, lambda one: TestNamedNode.claim(world, one.instance_uuid)),
    ):
        world.store.forgets = 1
        work(asks(instance))
    assert sorted(map(cpus, world.store.claims())) == [[1, 2], [3, 4]]
    assert len({one.consumer_uuid for one in world.store.claims()}) == 2
    in_step(world)


def test_a_node_that_gave_other_parts_than_were_claimed():
    """The node has the last word: what it has in use is gone, and what was claimed is free."""
    world = World(chain=strict())
    world.report(report(**HERE))
    world.place(asks(A))
    other = SMALL.hold(SMALL.hold(SMALL.fit(PAIR)).fit(PAIR))
    before = world.store.claims()[0]
    assert (before.state, cpus(before)) == (PENDING, [1, 2])
    world.report(report(instances=frozenset([A]), **{**HERE, **told(other)}))
    (one,) = world.store.claims()
    assert (one.state, one.counted) == (CONFIRMED, True)
    assert world.cluster.hosts.nodes[0].machine == other
    world.place(asks(B))
    assert cpus(world.store.claims(B)[0]) == [1, 2]


def test_the_larger_request_grows_in_place():
    """A resize on its own host: the old CPUs are in use there, and the new ones are others."""
    world = World(chain=strict())
    world.report(report(**HERE))
    world.place(asks(A))
    first = world.store.claims()[0]
    world.report(report(instances=frozenset([A]), **{**HERE, **told(SMALL.hold(first.parts))}))
    larger = asks(A)
    world.place(dataclasses.replace(larger, vcpus=2, resources={**larger.resources, 'VCPU': 2}))
    (one,) = world.store.claims()
    assert (one.uuid, cpus(one), one.counted) == (first.uuid, [1, 2], True)
    assert cpus(one.resizing) == [3, 4]
    with pytest.raises(errors.NoValidHost):
        world.place(asks(B))
