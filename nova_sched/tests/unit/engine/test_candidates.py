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
"""Tests of candidates: what is offered, in which order, for how long, and what becomes of a
claim."""

import pytest

from nova_sched import errors
from nova_sched.engine.candidates import HostOffers, MemoryCandidates
from nova_sched.engine.cycle import PLACE, Order
from nova_sched.tests.builders import CELL, NOW, report, request, uuid_of
from nova_sched.tests.functional.harness import eventually
from nova_sched.tests.rows import each, table
from nova_sched.tests.stores import MemoryClaimStore
from nova_sched.tests.unit.db.test_stores import Candidates, candidate
from nova_sched.tests.unit.engine.world import A, B, C, World, end_claims

VCPU = 'VCPU'


class TestMemory(Candidates):
    @pytest.fixture
    def candidates(self):
        return MemoryCandidates()


class Unsteady(MemoryCandidates):
    """It does what it is told, but the first ``forgets`` answers do not get through."""

    def __init__(self, forgets):
        super().__init__()
        self.forgets = forgets

    def write(self, *args):
        assert all(self.read(one['uuid']) is None for one in args[2])
        super().write(*args)
        if self.forgets:
            self.forgets -= 1
            raise errors.StoreUnavailable('the answer is lost')

    @property
    def count(self):
        return len(self._kept)


class Offering(World):
    """A world whose candidates turn its loop themselves. Hosts have 4, 3, 2 … GiB of memory, and 2
    vCPUs."""

    def __init__(self, hosts=3, store=None, offers=None, **settings):
        super().__init__(store, **settings)
        self.offers = MemoryCandidates() if offers is None else offers
        self.context.candidates = self.offers
        self.candidates = HostOffers(
            self.context,
            self._decide,
            self.scheduler._until_done,
            self.state_sync,
            self.claim_service,
        )
        sizes = [1024 * (hosts + 1 - number) for number in range(hosts)]
        self.report(*(report(f'host-{n}', memory_mb=mb, vcpus=2) for n, mb in enumerate(sizes)))

    def _decide(self, requests, **words):
        future = self.loop.send(PLACE, Order(requests, **words))
        self.turn_until(future)
        return future.result()

    def offer(self, *requests, count=None):
        """Candidates of each of the requests."""
        return self.candidates.offer(list(requests), 'spec', count)

    def claim(self, candidate, asked=None):
        found, _ = self.candidates.find(candidate.uuid)
        return self.call(
            self.candidates.claim, found, asked or request(instance_uuid=found.instance_uuid)
        )

    def claimed(self):
        """host -> instances with a claim there."""
        return {node.host: sorted(node.claims) for node in self.cluster if node.claims}


def hosts_of(offered):
    return [[one.host for one in found] for found in offered]


class TestOffer:
    def test_what_is_told_of_each(self):
        world = Offering(candidates_ttl_s=60.0)
        ((best, *rest),) = world.offer(request(instance_uuid=A))
        assert (best.instance_uuid, best.host, best.nodename) == (A, 'host-0', 'host-0')
        assert (best.node_uuid, best.expires_s) == (uuid_of('node host-0'), NOW + 60)
        assert [one.rank for one in (best, *rest)] == [1, 2, 3]
        assert len({one.uuid for one in (best, *rest)}) == 3

    def test_what_cannot_be_told_is_not_kept(self):
        world = Offering(offers=Unsteady(0))

        def told(candidate):
            raise errors.MalformedObject('Candidate.host', 'it cannot be told')

        with pytest.raises(errors.MalformedObject):
            world.candidates.offer([request(instance_uuid=A)], 'spec', convert=told)
        assert world.offers.count == 0

    @table(
        'count, found',
        {
            'as many as are allowed': (None, 4),
            'one': (1, 1),
            'some': (3, 3),
            'more than are allowed': (5, 4),
        },
    )
    def test_how_many(self, count, found):
        world = Offering(hosts=6, candidates_max=4)
        expected = [f'host-{number}' for number in range(found)]
        assert hosts_of(world.offer(request(instance_uuid=A), count=count)) == [expected]

    def test_no_more_than_pass(self):
        world = Offering(hosts=3)
        assert hosts_of(world.offer(request(instance_uuid=A, memory_mb=3000))) == [
            ['host-0', 'host-1']
        ]

    @each(
        'asked, found',
        [
            # 4, 3, 2 GiB; the first takes 1.5 of host-0, the second 1.5 of host-1.
            pytest.param(
                {'memory_mb': 1536},
                [
                    ['host-0', 'host-1', 'host-2'],
                    ['host-1', 'host-0', 'host-2'],
                    ['host-0', 'host-2', 'host-1'],
                ],
                id='ranked as it finds them',
            ),
            pytest.param(
                {'memory_mb': 10, 'vcpus': 2},
                [['host-0', 'host-1', 'host-2'], ['host-1', 'host-2'], ['host-2']],
                id='hosts that earlier ones fill are none of theirs',
            ),
            pytest.param(
                {'group': {'policy': 'anti-affinity'}},
                [['host-0', 'host-1', 'host-2'], ['host-1', 'host-2'], ['host-2']],
                id='the policy of their group is kept',
            ),
        ],
    )
    def test_several_instances_see_the_earlier_ones_take_their_best(self, asked, found):
        world = Offering()
        requests = [request(instance_uuid=uuid, **asked) for uuid in (A, B, C)]
        assert hosts_of(world.offer(*requests)) == found

    def test_of_the_cell_of_the_best(self):
        world = Offering(hosts=1)
        world.report(report('host-8', cell_uuid=uuid_of('far'), memory_mb=1024))
        world.report(report('host-9', cell_uuid=CELL, memory_mb=512))
        assert hosts_of(world.offer(request(instance_uuid=A))) == [['host-0', 'host-9']]

    def test_no_valid_host(self):
        world = Offering()
        with pytest.raises(errors.NoValidHost):
            world.offer(request(instance_uuid=A, vcpus=99))
        assert world.offers._kept == {}

    def test_of_a_try_whose_answer_was_lost_nothing_is_told(self):
        """Its rows may be there, and expire; their UUIDs are not used again."""
        offers = Unsteady(forgets=3)
        world = Offering(offers=offers)
        ((best, *_),) = world.offer(request(instance_uuid=A))
        assert offers.count == 4 * 3
        assert world.claim(best).node_uuid == best.node_uuid


class TestClaim:
    @pytest.fixture
    def world(self):
        return Offering(candidates_ttl_s=60.0)

    @pytest.fixture
    def offered(self, world):
        ((best, *rest),) = world.offer(request(instance_uuid=A))
        return best, *rest

    def test_on_the_node_that_was_offered(self, world, offered):
        claim = world.claim(offered[1])
        assert (claim.consumer_uuid, claim.node_uuid) == (A, uuid_of('node host-1'))
        assert world.claimed() == {'host-1': [A]}

    def test_twice_is_one(self, world, offered):
        for _ in range(2):
            assert world.claim(offered[0]).node_uuid == offered[0].node_uuid
        assert len(world.store.claims(A)) == 1
        assert world.cluster.hosts.resource(VCPU).used.tolist() == [1, 0, 0]

    @pytest.mark.parametrize(
        'later_s, known',
        [
            pytest.param(59.9, True, id='just in time'),
            pytest.param(60.0, False, id='too late'),
        ],
    )
    def test_it_expires(self, world, offered, later_s, known):
        world.now_s += later_s
        if known:
            assert world.claim(offered[0])
        else:
            with pytest.raises(errors.CandidateNotFound, match=offered[0].uuid):
                world.claim(offered[0])
            assert world.claimed() == {}

    def test_one_that_was_never_offered(self, world):
        with pytest.raises(errors.CandidateNotFound):
            world.candidates.find(uuid_of('nothing'))

    def test_a_node_that_left(self, world, offered):
        world.call(world.state_sync.remove_node, 'host-0', 'host-0')
        with pytest.raises(errors.NodeNotFound, match='host-0 on host host-0'):
            world.claim(offered[0])

    def test_a_node_that_another_one_has_replaced_under_its_name(self, world, offered):
        world.call(world.state_sync.remove_node, 'host-0', 'host-0')
        world.report(report('host-0', node_uuid=uuid_of('a new machine')))
        with pytest.raises(errors.NodeNotFound):
            world.claim(offered[0])
        assert world.claimed() == {}

    def test_a_node_that_moved_to_another_host(self, world, offered):
        world.now_s += 30
        world.call(world.state_sync.set_service, 'host-0', None, None, True, 0.0)
        world.report(report('host-9', nodename='host-0', vcpus=2))
        assert world.claim(offered[0]).node_uuid == uuid_of('node host-0')
        assert world.claimed() == {'host-9': [A]}


class TestBySeveral:
    """One scheduler offers, another one claims, before it has looked at what the first has
    done."""

    @pytest.fixture
    def two(self):
        store, offers = MemoryClaimStore(), MemoryCandidates()
        other = Offering(0, store, offers)
        return Offering(2, store, offers), other

    def test_a_node_that_it_has_not_heard_of(self, two):
        one, other = two
        ((best, *_),) = one.offer(request(instance_uuid=A))
        assert len(other.cluster) == 0
        assert other.claim(best).consumer_uuid == A
        assert other.claimed() == {'host-0': [A]}

    def test_a_node_that_was_full_when_it_looked(self, two):
        one, other = two
        one.place(request(instance_uuid=B, vcpus=2))
        other.state_sync.refresh()
        one.call(end_claims, one.claim_service, B)
        ((best, *_),) = one.offer(request(instance_uuid=A))
        assert other.claim(best).consumer_uuid == A
        assert other.claimed() == {'host-0': [A]}

    def test_a_node_that_left_while_it_did_not_look(self, two):
        one, other = two
        other.state_sync.refresh()
        ((best, *_),) = one.offer(request(instance_uuid=A))
        one.call(one.state_sync.remove_node, 'host-0', 'host-0')
        with pytest.raises(errors.NodeNotFound):
            other.claim(best)


def test_the_watch_drops_what_has_expired():
    store = MemoryCandidates()
    world = World(candidates=store, refresh_interval_s=0.001)
    store.write('spec', NOW - 1, [candidate('old')])
    store.write('spec', NOW + 1, [candidate('new')])
    world.scheduler.start()
    try:
        eventually(lambda: store.read(uuid_of('old')) is None)
        assert store.read(uuid_of('new'))
    finally:
        world.scheduler.stop()
