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
"""Placing a request: several instances, groups, replaced claims, alternates, and the answer."""

import dataclasses
import json
import random

import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED, MEMORY_MB, PENDING, VCPU
from nova_sched.engine import Settings
from nova_sched.engine.answer import select, selections
from nova_sched.engine.place import Placer
from nova_sched.filters.server_group_affinity import ServerGroupAffinityFilter
from nova_sched.filters.server_group_anti_affinity import ServerGroupAntiAffinityFilter
from nova_sched.state.request import RequestedDestination
from nova_sched.tests.builders import CELL, aggregate, claim, cluster, report, request, uuid_of
from nova_sched.tests.rows import each, table
from nova_sched.tests.unit.engine.world import Named, Score, names, picture, rules, spreading
from nova_sched.weighers.ram import RAMWeigher

REBUILD = {'_nova_check_type': ['rebuild']}
CELLS = [uuid_of('cell 1'), uuid_of('cell 2')]


class Breaks(Named):
    def mask(self, hosts, request):
        if request.instance_uuid == uuid_of('instance 2'):
            raise ZeroDivisionError
        return True


def requests(count, **words):
    """Requests of one call, for instances 0 to count - 1."""
    return [
        request(instance_uuid=uuid_of(f'instance {number}'), **words) for number in range(count)
    ]


def placer(made, chain=None, seed=1):
    return Placer(made, chain or spreading(), random.Random(seed))


def place(made, asked, chain=None, seed=1, alternates=False, **settings):
    """The hosts that are chosen, and the decision."""
    decision = placer(made, chain, seed).decide(asked, Settings(**settings), alternates)
    return names(made.hosts, decision.rows), decision


def answered(made, asked, chain=None, alternates=2):
    """For each instance the chosen host and the alternates."""
    one, settings = placer(made, chain), Settings(alternates=alternates)
    answer = selections(one, one.decide(asked, settings, True), settings, True)
    return [[selected.host for selected in chosen] for chosen in answer]


class TestSeveralInstances:
    def test_each_sees_the_earlier_ones(self):
        made = cluster(3, memory_mb=[4096, 3072, 1024])
        chosen, _ = place(made, requests(6, memory_mb=1024))
        # Free memory, in GiB, before each: 431, 331, 231 (equal ones in order), 221, 121, 111.
        assert chosen == ['host-0', 'host-0', 'host-1', 'host-0', 'host-1', 'host-0']

    def test_all_are_consumed(self):
        made = cluster(2, memory_mb=1024)
        _, decision = place(made, requests(2, memory_mb=1024, vcpus=3), pending_ttl_s=60.0)
        assert made.hosts.resource(MEMORY_MB).free.tolist() == [0, 0]
        assert made.hosts.resource(VCPU).used.tolist() == [3, 3]
        assert [one.consumer_uuid for one in decision.claims] == [
            uuid_of('instance 0'),
            uuid_of('instance 1'),
        ]
        assert {one.expires_s - one.created_s for one in decision.claims} == {60.0}

    @table(
        'chain, error, memory_mb',
        {
            'no room for the last': (None, errors.NoValidHost, 700),
            'a rule breaks': (rules([Breaks()], always_on=[]), ZeroDivisionError, 300),
        },
    )
    def test_all_or_nothing(self, chain, error, memory_mb):
        made = cluster(2, memory_mb=1024)
        made.add(claim(uuid_of('instance 1'), made.hosts.nodes[1].uuid, memory_mb=100))
        before = picture(made)
        with pytest.raises(error):
            place(made, requests(3, memory_mb=memory_mb), chain)
        assert picture(made) == before

    @table(
        'memory_mb, found',
        {
            'the first instance': (1025, 0),
            'the last one, of what the others left': (1024, 2),
        },
    )
    def test_the_refusal_tells_what_removed_whom(self, memory_mb, found):
        with pytest.raises(
            errors.NoValidHost,
            match=f'{found} of 3 instances found a host. Of 2 hosts, '
            'ResourceCapacity removed the last 2: '
            f'{memory_mb} MiB of memory asked',
        ) as refused:
            place(cluster(2, memory_mb=1024), requests(3, memory_mb=memory_mb))
        assert refused.value.steps[-1] == ('ResourceCapacity', 2, 0)
        assert refused.value.details['found'] == found

    @table(
        'made, words, reason',
        {
            'no nodes': (lambda: cluster(0), {}, 'No compute node has reported yet'),
            'forced to nowhere': (
                lambda: cluster(3),
                {'force_hosts': ['nowhere']},
                'Of 3 hosts, force_hosts removed the last 3',
            ),
            'unsupported': (
                lambda: cluster(3),
                {'unsupported': ('accel:device_profile',)},
                'asks for what no rule knows: accel:device_profile',
            ),
            'unsupported, but something else came first': (
                lambda: cluster(3),
                {'unsupported': ('accel:device_profile',), 'force_hosts': ['nowhere']},
                'force_hosts removed the last 3',
            ),
        },
    )
    def test_reasons(self, made, words, reason):
        with pytest.raises(errors.NoValidHost, match=reason):
            place(made(), requests(1, **words))


class TestChoice:
    WEIGHTS = Score(1.0, 3.0, 2.0, 3.0)

    def test_the_first_of_the_best(self):
        chosen, _ = place(cluster(4), requests(1), rules([], [self.WEIGHTS]))
        assert chosen == ['host-1']

    def test_a_subset_larger_than_what_is_left(self):
        chain = rules([Named('host-0', 'host-2')], [self.WEIGHTS])
        found = {
            place(cluster(4), requests(1), chain, seed, subset_size=9)[0][0] for seed in range(50)
        }
        assert found == {'host-0', 'host-2'}

    def test_forced_hosts_are_weighed(self):
        chosen, _ = place(
            cluster(4),
            requests(1, force_hosts=['HOST-0', 'host-2']),
            rules([Named()], [self.WEIGHTS]),
        )
        assert chosen == ['host-2']

    def test_force_skips_filters_but_not_capacity(self):
        made = cluster(2, vcpus=[0, 4])
        chain = rules([Named()])
        assert place(made, requests(1, force_hosts=['host-1']), chain)[0] == ['host-1']
        with pytest.raises(errors.NoValidHost):
            place(made, requests(1, force_hosts=['host-0']), chain)


class TestGroups:
    def group(self, policy, members=(), hosts=(), **rules):
        return {'policy': policy, 'members': members, 'hosts': hosts, 'rules': rules}

    def test_anti_affinity_within_one_request(self):
        chosen, _ = place(cluster(3), requests(3, group=self.group('anti-affinity')))
        assert sorted(chosen) == ['host-0', 'host-1', 'host-2']
        with pytest.raises(errors.NoValidHost):
            place(cluster(2), requests(3, group=self.group('anti-affinity')))

    def test_the_members_of_the_group_are_the_instances_themselves(self):
        members = [uuid_of(f'instance {number}') for number in range(3)]
        chosen, _ = place(cluster(3), requests(3, group=self.group('anti-affinity', members)))
        assert sorted(chosen) == ['host-0', 'host-1', 'host-2']

    def test_so_many_members_on_one_host(self):
        group = self.group('anti-affinity', max_server_per_host=2)
        chosen, _ = place(cluster(2), requests(4, group=group))
        assert sorted(chosen) == ['host-0', 'host-0', 'host-1', 'host-1']
        with pytest.raises(errors.NoValidHost):
            place(cluster(2), requests(5, group=group))

    def test_affinity_within_one_request(self):
        chosen, _ = place(
            cluster(3, memory_mb=[1024, 3072, 4096]),
            requests(4, memory_mb=1024, group=self.group('affinity')),
        )
        assert chosen == ['host-2'] * 4
        with pytest.raises(errors.NoValidHost):
            place(
                cluster(3, memory_mb=1024),
                requests(2, memory_mb=1024, group=self.group('affinity')),
            )

    def test_affinity_to_a_member_that_was_placed_just_before(self):
        """Its claim tells where it is, long before the caller's list of hosts does."""
        made = cluster(3)
        made.add(claim(uuid_of('member'), made.hosts.nodes[2].uuid))
        chosen, _ = place(made, requests(1, group=self.group('affinity', [uuid_of('member')])))
        assert chosen == ['host-2']

    def test_affinity_to_the_hosts_that_the_caller_names(self):
        chosen, _ = place(cluster(3), requests(2, group=self.group('affinity', hosts=['host-1'])))
        assert chosen == ['host-1', 'host-1']

    def test_the_caller_keeps_its_request(self):
        (asked,) = requests(1, group=self.group('affinity'))
        place(cluster(1), [asked])
        assert (asked.group.members, asked.group.hosts) == (frozenset(), frozenset())


class TestLiftedClaims:
    def held(self, **fields):
        made = cluster(2, vcpus=[4, 2])
        made.add(claim(uuid_of('instance 0'), made.hosts.nodes[0].uuid, vcpus=4, **fields))
        return made

    def test_a_claim_of_an_earlier_try_is_not_in_the_way(self):
        made = self.held()
        chosen, decision = place(made, requests(1, vcpus=3))
        assert chosen == ['host-0']
        assert made.hosts.resource(VCPU).used.tolist() == [3, 0]
        assert [one.resources[VCPU] for one in decision.replaced] == [4]

    def test_it_moves_with_the_decision(self):
        made = self.held()
        chosen, _ = place(made, requests(1, ignore_hosts=['host-0']))
        assert chosen == ['host-1']
        assert made.hosts.resource(VCPU).used.tolist() == [0, 1]
        assert made.hosts.count_instances([uuid_of('instance 0')]).tolist() == [0, 1]

    def test_a_confirmed_claim_stays(self):
        made = self.held(state=CONFIRMED)
        chosen, decision = place(made, requests(1, vcpus=2))
        assert (chosen, decision.replaced) == (['host-1'], [])
        assert made.hosts.resource(VCPU).used.tolist() == [4, 2]

    def test_a_confirmed_claim_grows_on_its_own_node(self):
        made = cluster(1, vcpus=8)
        made.add(claim(uuid_of('instance 0'), made.hosts.nodes[0].uuid, vcpus=2, state=CONFIRMED))
        before = picture(made)
        _, decision = place(made, requests(1, vcpus=3))
        assert made.hosts.resource(VCPU).used.tolist() == [3]
        assert made.hosts.nodes[0].claims[uuid_of('instance 0')].is_confirmed
        placer(made).undo(decision)
        assert picture(made) == before

    def test_a_refusal_puts_it_back(self):
        made = self.held()
        before = picture(made)
        with pytest.raises(errors.NoValidHost):
            place(made, requests(1, vcpus=5))
        assert picture(made) == before

    def test_undo_after_its_node_left(self):
        made = self.held()
        _, decision = place(made, requests(1, ignore_hosts=['host-0']))
        made.remove(made.find('host-0', 'host-0').uuid)
        placer(made).undo(decision)
        assert made.hosts.resource(VCPU).used.tolist() == [0]
        assert made.hosts.places == {}

    def test_a_rebuild_check_changes_nothing(self):
        made = self.held()
        before = picture(made)
        chosen, decision = place(
            made, requests(1, hints=REBUILD, force_hosts=['host-0'], vcpus=100), rules()
        )
        assert (chosen, decision.claims) == (['host-0'], ())
        assert picture(made) == before


class TestRunning:
    """A request for an instance that runs on Host-0."""

    def asks(self, is_written=False, **words):
        made = cluster(2, host=['Host-0', 'Host-1'])
        running = claim(uuid_of('instance 0'), made.hosts.nodes[0].uuid, vcpus=1)
        made.add(running.confirmed())
        asked = requests(1, **{'vcpus': 1, 'memory_mb': 0, **words})
        decision = placer(made, rules()).decide(asked, Settings(), repeatable=not is_written)
        return names(made.hosts, decision.rows)

    @table(
        'words',
        {
            'away from its host': {'ignore_hosts': ['HOST-0']},
            'to another host': {'force_hosts': ['HOST-1']},
            'to a destination': {'destination': RequestedDestination('Host-1')},
            'of another size': {'vcpus': 2},
        },
    )
    def test_a_move_is_placed(self, words):
        assert len(self.asks(**words)) == 1

    @table(
        'words',
        {
            'as it is': {},
            'not on another host': {'ignore_hosts': ['HOST-1']},
            'on its host, in other capitals': {'force_hosts': ['HOST-0']},
            'on its host': {'destination': RequestedDestination('Host-0')},
        },
    )
    def test_what_is_no_move_is_late(self, words):
        with pytest.raises(errors.AlreadyRunning):
            self.asks(**words)
        # Where it is written elsewhere, that tells whether the instance runs.
        assert len(self.asks(is_written=True, **words)) == 1


class TestMoving:
    """A request for an instance with a move to host-0."""

    def asks(self, *their_ids, move='live-migration', state=PENDING, vcpus=1):
        theirs, ours = their_ids
        made = cluster(2, host=['host-0', 'host-1'])
        moving = claim(uuid_of('instance 0'), made.hosts.nodes[0].uuid, vcpus=1)
        made.add(dataclasses.replace(moving, move=move, state=state, request_id=theirs))
        asked = requests(1, vcpus=vcpus, force_hosts=['host-1'])
        decision = placer(made, rules()).decide(asked, Settings(), request_id=ours)
        return names(made.hosts, decision.rows)

    @each('ids', [('one', 'two'), ('one', None), (None, 'two'), (None, None)])
    def test_another_request_does_not_take_it(self, ids):
        with pytest.raises(errors.Superseded):
            self.asks(*ids)

    def test_its_own_request_does(self):
        assert self.asks('one', 'one') == ['host-1']

    @each('ours, is_late', [('one', True), ('two', False), (None, False)])
    def test_a_request_by_which_the_instance_has_moved(self, ours, is_late):
        if is_late:
            with pytest.raises(errors.Superseded):
                self.asks('one', ours, state=CONFIRMED, vcpus=2)
        else:
            assert self.asks('one', ours, state=CONFIRMED, vcpus=2) == ['host-1']

    def test_a_claim_that_is_of_no_move_gives_way(self):
        assert self.asks('one', 'two', move=None) == ['host-1']


class TestAlternates:
    @table(
        'columns, words, alternates, found',
        {
            'the next best': ({}, {}, 2, ['3', '2', '1']),
            'no more than there are': ({}, {}, 9, ['3', '2', '1', '0']),
            'none are asked for': ({}, {}, 0, ['3']),
            'of the same cell': ({'cell_uuid': [*CELLS, *CELLS]}, {}, 2, ['3', '1']),
            'that pass all filters': ({'memory_mb': [10, 600, 900, 990]}, {}, 9, ['3', '2', '1']),
            'of the forced hosts': ({}, {'force_hosts': ['host-3', 'host-0']}, 9, ['3', '0']),
            'not beside the host asked for': (
                {},
                {'destination': RequestedDestination('host-1')},
                9,
                ['1'],
            ),
            'affinity is kept': (
                {},
                {'group': {'policy': 'affinity', 'hosts': ['host-2']}},
                9,
                ['2'],
            ),
            'the first of a group goes anywhere': (
                {},
                {'group': {'policy': 'affinity'}},
                1,
                ['3', '2'],
            ),
        },
    )
    def test_of_one_instance(self, columns, words, alternates, found):
        made = cluster(4, **{'memory_mb': [1001, 1002, 1003, 1004], **columns})
        hosts = answered(made, requests(1, **words), alternates=alternates)
        assert hosts == [[f'host-{number}' for number in found]]

    def test_of_several_instances_are_distinct_from_all_chosen(self):
        made = cluster(4, memory_mb=[2000, 2000, 1500, 1400])
        assert answered(made, requests(2, memory_mb=600)) == [
            ['host-0', 'host-2', 'host-3'],
            ['host-1', 'host-2', 'host-3'],
        ]

    def test_of_several_instances_have_room_besides_earlier_claims(self):
        """What an earlier request has taken, and this one, counts."""
        made = cluster(3, vcpus=[4, 4, 4], memory_mb=[1000, 900, 800])
        made.add(claim(uuid_of('other'), made.hosts.nodes[2].uuid, vcpus=3, memory_mb=0))
        assert answered(made, requests(2, vcpus=2, memory_mb=10)) == [
            ['host-0', 'host-1'],
            ['host-0', 'host-1'],
        ]

    def test_of_several_instances_in_two_cells(self):
        made = cluster(6, cell_uuid=CELLS * 3, memory_mb=[3000, 3000, 2000, 2000, 1000, 1000])
        group = {'policy': 'anti-affinity'}
        assert answered(made, requests(2, group=group), alternates=1) == [
            ['host-0', 'host-2'],
            ['host-1', 'host-3'],
        ]

    def test_of_several_instances_keep_anti_affinity(self):
        made = cluster(4)
        made.add(claim(uuid_of('member'), made.hosts.nodes[3].uuid))
        group = {'policy': 'anti-affinity', 'members': [uuid_of('member')]}
        assert answered(made, requests(2, group=group), alternates=9) == [
            ['host-0', 'host-2'],
            ['host-1', 'host-2'],
        ]

    def test_of_several_instances_keep_affinity(self):
        assert answered(cluster(4), requests(2, group={'policy': 'affinity'}), alternates=9) == [
            ['host-0'],
            ['host-0'],
        ]


def test_the_answer_of_a_check_claims_nothing():
    made, settings = cluster(1), Settings()
    one = placer(made, rules())
    ((selected,),) = selections(
        one, one.decide(requests(1, hints=REBUILD), settings), settings, False
    )
    assert (selected.allocation_request, selected.allocation_version) == ('null', None)
    ((selected,),) = selections(one, one.decide(requests(1, vcpus=3), settings), settings, False)
    resources = json.loads(selected.allocation_request)['allocations'][selected.node_uuid][
        'resources'
    ]
    assert resources == {VCPU: 3, MEMORY_MB: 512}


def test_two_nodes_of_one_host_are_told_apart():
    made = cluster(0)
    for number in range(2):
        made.put(report('metal', nodename=f'node {number}', vcpus=1), seen_s=1.0)
    chain = rules([ServerGroupAntiAffinityFilter(), ServerGroupAffinityFilter()], [RAMWeigher()])
    one, settings = placer(made, chain), Settings()
    answer = selections(one, one.decide(requests(1), settings, True), settings, True)
    assert [selected.nodename for selected in answer[0]] == ['node 0', 'node 1']


OTHER_CELL = uuid_of('other cell')


@table(
    'aggregates, zone',
    {
        'no aggregate': ([], 'home'),
        'an aggregate without a zone': ([aggregate(1, ['host-0'], ssd='true')], 'home'),
        'one': ([aggregate(1, ['host-0'], availability_zone='b')], 'b'),
        'several, in order': (
            [
                aggregate(1, ['host-0'], availability_zone='b'),
                aggregate(2, ['host-0'], availability_zone='a, b'),
            ],
            'a,b',
        ),
        'of another host': ([aggregate(1, ['host-1'], availability_zone='b')], 'home'),
    },
)
def test_zone(aggregates, zone):
    assert select(cluster(1, aggregates).hosts, 0, request(), 'home').availability_zone == zone


@table(
    'cell, wanted, told',
    {
        'its own': (CELL, None, CELL),
        'its own, whatever was asked for': (CELL, OTHER_CELL, CELL),
        'unknown: the one asked for': (None, OTHER_CELL, OTHER_CELL),
        'unknown': (None, None, None),
    },
)
def test_cell(cell, wanted, told):
    asked = request(destination=RequestedDestination(cell_uuid=wanted) if wanted else None)
    assert select(cluster(1, cell_uuid=cell).hosts, 0, asked, 'home').cell_uuid == told


def test_a_claim_is_described_as_placement_does():
    selected = select(
        cluster(1).hosts, 0, request(), 'home', json.dumps({'VCPU': 2, 'CUSTOM_GOLD': 1})
    )
    assert json.loads(selected.allocation_request) == {
        'allocations': {uuid_of('node host-0'): {'resources': {'VCPU': 2, 'CUSTOM_GOLD': 1}}},
        'mappings': {'': [uuid_of('node host-0')]},
    }
    assert selected.allocation_version == '1.36'
