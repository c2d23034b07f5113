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
"""The contract of every ClaimStore, as tests that each store runs.

A module of tests brings the fixture ``store``, on an empty store, and ``another``: a function that
opens one more store object on the same data.
"""

import dataclasses

import pytest

from nova_sched.claims import Placement, ServiceFacts
from nova_sched.objects.claim import (
    CONFIRMED,
    DISK_GB,
    MEMORY_MB,
    PCPU,
    PENDING,
    PLANNED,
    VCPU,
    Claim,
)
from nova_sched.state.report import Inventory
from nova_sched.tests.builders import NOW, aggregate, claim, report, uuid_of

A, B, C = (uuid_of(f'instance {letter}') for letter in 'ABC')
HOST, OTHER, THIRD = 'host-0', 'host-1', 'host-2'


def node(host=HOST):
    return uuid_of(f'node {host}')


def ready(store, *hosts, now_s=NOW, **words):
    """Let hosts report, HOST if none is named; the facts of each."""
    return store.report([report(host, **words) for host in hosts or (HOST,)], now_s)


def place(store, *claims, releases=()):
    """Commit one placement; its outcome."""
    known = {one.uuid for claim in claims for one in store.claims(claim.consumer_uuid)}
    return store.commit([Placement(claims, tuple(releases), replaces=frozenset(known))])[0]


def facts(store, host=HOST):
    """All that the store knows of a node."""
    return {one.report.host: one for one in store.changes({}).nodes}[host]


def generation(store, host=HOST):
    return facts(store, host).generation


def kept(store):
    """What each consumer has where: (consumer, node) -> state."""
    return {one.key: one.state for one in store.claims()}


def vcpus(store):
    return {one.key: one.resources[VCPU] for one in store.claims()}


def judged_by(store, uuid=None):
    """The use that a claim on the node is judged by, as a claim that cannot be granted is told."""
    outcome = place(store, claim(uuid_of('too large'), uuid or node(), vcpus=10**6))
    assert not outcome.won
    return nonzero(outcome.used[uuid or node()])


def nonzero(amounts):
    return {name: amount for name, amount in amounts.items() if amount}


def confirmed(consumer, host=HOST, **words):
    return claim(consumer, node(host), state=CONFIRMED, **words)


def check_usage(store):
    """The use that claims are judged by is, on every node, that of its claims and the unclaimed
    usage."""
    changes = store.changes({})
    for one in changes.nodes:
        total = dict(one.foreign)
        for held in one.claims:
            assert held.node_uuid == one.report.node_uuid
            for name, amount in held.resources.items():
                total[name] = total.get(name, 0) + amount
        assert judged_by(store, one.report.node_uuid) == nonzero(total)
    by_node = sorted(held.uuid for one in changes.nodes for held in one.claims)
    assert by_node == sorted(held.uuid for held in store.claims())
    # Each member in an exclusive domain carries its token; once swept, each domain has members.
    assert all(set(held.fences) <= one.fences for one in changes.nodes for held in one.claims)
    store.end_domains()
    behind = {token for held in store.claims() for token in held.fences}
    assert {token for one in store.changes({}).nodes for token in one.fences} == behind


class Commit:
    @pytest.mark.parametrize(
        'words, asked, won',
        [
            pytest.param({'vcpus': 4}, {VCPU: 4}, True, id='exact fit'),
            pytest.param({'vcpus': 4}, {VCPU: 5}, False, id='one too many'),
            pytest.param(
                {'vcpus': 4, 'vcpus_used': 1}, {VCPU: 4}, False, id='unclaimed usage counts'
            ),
            pytest.param(
                {'vcpus': 4, 'vcpus_ratio': 2.0, 'vcpus_used': 4},
                {VCPU: 4},
                True,
                id='ratio counts',
            ),
            pytest.param(
                {'vcpus': 4, 'vcpus_ratio': 2.0}, {VCPU: 5}, False, id='no more than there is'
            ),
            pytest.param(
                {'vcpus': 4, 'vcpus_ratio': 1.5, 'vcpus_used': 3},
                {VCPU: 4},
                False,
                id='part of a unit is none',
            ),
            pytest.param(
                {'memory_mb': 9, 'memory_mb_reserved': 2},
                {MEMORY_MB: 7},
                True,
                id='beside the reserve',
            ),
            pytest.param(
                {'memory_mb': 9, 'memory_mb_reserved': 2},
                {MEMORY_MB: 8},
                False,
                id='reserve is kept',
            ),
            pytest.param({}, {VCPU: 1, 'CUSTOM_GOLD': 1}, False, id='unknown resource class'),
            pytest.param(
                {'disk_gb': None}, {VCPU: 1}, True, id='what is not asked for may be missing'
            ),
            pytest.param(
                {'disk_gb': 0}, {VCPU: 1, DISK_GB: 1}, False, id='one class of several is short'
            ),
            pytest.param(
                {'vcpus': 4, 'vcpus_used': 9},
                {MEMORY_MB: 1},
                True,
                id='another class is oversubscribed',
            ),
            pytest.param(
                {'inventories': {VCPU: Inventory(8, max_unit=4)}, 'used': {}},
                {VCPU: 5},
                False,
                id='max_unit',
            ),
        ],
    )
    def test_a_claim_is_won_if_it_fits(self, store, words, asked, won):
        ready(store, **words)
        made = Claim(A, node(), asked)
        assert place(store, made).won == won
        assert store.claims() == ([made] if won else [])

    def test_a_claim_is_kept_as_it_is(self, store, another):
        ready(store, memory_mb=2**50)
        made = Claim(
            consumer_uuid=A,
            node_uuid=node(),
            resources={VCPU: 2, MEMORY_MB: 2**40, DISK_GB: 1},
            state=PLANNED,
            project_id='projet-é',
            user_id='user',
            group_uuid=uuid_of('group'),
            request_id='req-1',
            created_s=NOW + 0.123456,
            changed_s=NOW + 0.123456,
            expires_s=NOW + 3600.5,
        )
        store.clock = lambda: made.created_s
        assert place(store, made).won
        assert another().claims() == [made]
        assert facts(another()).claims == (made,)

    def test_the_winner_is_told_the_generation_that_it_made(self, store):
        before = ready(store)[0].generation
        outcome = place(store, claim(A, node()))
        assert outcome.generations == {node(): (before, before + 1)}
        assert generation(store) == before + 1

    def test_the_loser_is_told_the_true_use(self, store):
        ready(store, HOST, OTHER, vcpus=4, memory_mb_used=100)
        place(store, claim(B, node(), vcpus=3))
        outcome = place(store, claim(A, node(OTHER)), claim(C, node(), vcpus=2))
        assert not outcome.won
        assert outcome.generations == {}
        assert {uuid: nonzero(use) for uuid, use in outcome.used.items()} == {
            node(): {VCPU: 3, MEMORY_MB: 612},
            node(OTHER): {MEMORY_MB: 100},
        }

    def test_all_claims_of_a_placement_or_none(self, store):
        ready(store, HOST, OTHER, vcpus=4)
        before = generation(store)
        assert not place(store, claim(A, node()), claim(B, node(OTHER), vcpus=5)).won
        assert kept(store) == {}
        assert generation(store) == before
        assert place(store, claim(A, node()), claim(B, node(OTHER), vcpus=4)).won
        assert kept(store) == {(A, node()): PENDING, (B, node(OTHER)): PENDING}

    def test_claims_of_one_placement_count_together(self, store):
        ready(store, vcpus=4)
        assert not place(store, claim(A, node(), vcpus=3), claim(B, node(), vcpus=2)).won
        assert place(store, claim(A, node(), vcpus=2), claim(B, node(), vcpus=2)).won

    def test_placements_are_judged_in_order(self, store):
        before = ready(store, vcpus=10)[0].generation
        batch = [
            Placement((claim(uuid_of(name), node(), vcpus=size),))
            for name, size in (('first', 6), ('second', 5), ('third', 4), ('fourth', 1))
        ]
        outcomes = store.commit(batch)
        assert [outcome.won for outcome in outcomes] == [True, False, True, False]
        assert outcomes[1].used[node()][VCPU] == outcomes[3].used[node()][VCPU] == 10
        assert outcomes[0].generations == outcomes[2].generations == {node(): (before, before + 1)}
        assert generation(store) == before + 1

    @pytest.mark.parametrize(
        'beside, state, ends',
        [
            pytest.param(None, CONFIRMED, True, id='confirmed'),
            pytest.param(None, PENDING, False, id='on its way again'),
            pytest.param({'move': 'resize'}, CONFIRMED, False, id='the source of a resize'),
            pytest.param(
                {'move': 'live-migration'}, CONFIRMED, True, id='the source of a live migration'
            ),
            pytest.param({}, CONFIRMED, True, id='the source of a move that nobody named'),
        ],
    )
    def test_what_a_node_does_not_list_ends_by_what_the_store_knows(
        self, store, beside, state, ends
    ):
        """The sender may not have heard of a move, or of a new claim."""
        ready(store, HOST, OTHER)
        there = claim(A, node(), state=state)
        place(store, there)
        if beside is not None:
            place(store, claim(A, node(OTHER), **beside))
        assert store.release([there.key], absent=True) == ([there] if ends else [])
        assert (there in store.claims()) != ends

    @pytest.mark.parametrize(
        'old, new, known, won',
        [
            pytest.param(
                {'request_id': 'r'}, {'request_id': 'r'}, False, False, id='the same request'
            ),
            pytest.param(
                {'request_id': 'r'}, {'request_id': 'r'}, True, True, id='the same, knowingly'
            ),
            pytest.param(
                {'request_id': 'r'}, {'request_id': 's'}, False, False, id='another request'
            ),
            pytest.param(
                {'request_id': 'r'}, {'request_id': 's'}, True, True, id='another, knowingly'
            ),
            pytest.param({'created_s': NOW + 9}, {}, False, False, id='a later one'),
            pytest.param({'created_s': NOW + 9}, {}, True, True, id='a later one, knowingly'),
            pytest.param({'created_s': NOW - 9}, {}, False, False, id='an earlier one'),
            pytest.param({'state': PLANNED}, {}, False, True, id='a planned one'),
            pytest.param(
                {'request_id': 'r', 'state': CONFIRMED},
                {'request_id': 'r'},
                False,
                True,
                id='a move',
            ),
        ],
    )
    @pytest.mark.parametrize('host', [HOST, OTHER])
    def test_a_pending_claim_that_its_scheduler_does_not_know_of(
        self, store, host, old, new, known, won
    ):
        """The message came twice, or was held up until its caller had asked again."""
        ready(store, HOST, OTHER)
        before = claim(A, node(), **{'created_s': NOW, **old})
        store.clock = lambda: before.created_s
        place(store, before)
        before, store.clock = store.claims()[0], lambda: NOW
        later = claim(A, node(host), **{'created_s': NOW, **new})
        (outcome,) = store.commit(
            [Placement((later,), replaces=frozenset([before.uuid] if known else []))]
        )
        assert outcome.won == won
        assert won or store.claims() == [before]
        assert won or HOST in [one.report.host for one in outcome.fresh]

    def test_a_pending_claim_that_the_placement_releases_needs_no_other_name(self, store):
        ready(store, HOST, OTHER)
        place(store, claim(A, node()))
        assert store.commit([Placement((claim(A, node(OTHER)),), ((A, node()),))])[0].won
        assert kept(store) == {(A, node(OTHER)): PENDING}

    def test_another_pending_claim_than_those_that_are_named(self, store):
        ready(store, HOST, OTHER)
        place(store, claim(A, node()))
        before = store.claims()
        placement = Placement(
            (claim(A, node(OTHER)),), replaces=frozenset([uuid_of('one before')])
        )
        assert not store.commit([placement])[0].won
        assert store.claims() == before

    def test_what_a_placement_releases_is_there_for_the_next_one(self, store):
        ready(store, vcpus=4)
        place(store, claim(A, node(), vcpus=4))
        wants = Placement((claim(B, node(), vcpus=4),))
        outcomes = store.commit([wants, Placement((), ((A, node()),)), wants])
        assert [outcome.won for outcome in outcomes] == [False, True, True]
        assert kept(store) == {(B, node()): PENDING}

    def test_the_same_claim_twice_is_one_claim(self, store):
        ready(store, vcpus=4)
        made = claim(A, node(), vcpus=4)
        place(store, made)
        before = generation(store)
        again = place(store, made)
        assert again.won
        assert again.generations == {node(): (before, before)}
        assert store.claims() == [made]
        assert generation(store) == before

    def test_the_same_claim_twice_in_one_batch_is_one_claim(self, store):
        ready(store, vcpus=4)
        made = Placement((claim(A, node(), vcpus=4),))
        assert [outcome.won for outcome in store.commit([made, made])] == [True, True]
        assert store.claims() == list(made.claims)

    def test_a_claim_that_was_confirmed_meanwhile_is_won_again_and_stays_confirmed(self, store):
        ready(store)
        made = claim(A, node())
        place(store, made)
        store.confirm([A], [node()])
        assert place(store, made).won
        assert kept(store) == {(A, node()): CONFIRMED}

    def test_a_claim_elsewhere_ends_the_one_that_waits(self, store):
        ready(store, HOST, OTHER)
        place(store, claim(A, node()))
        before = generation(store)
        assert place(store, claim(A, node(OTHER))).won
        assert kept(store) == {(A, node(OTHER)): PENDING}
        assert judged_by(store) == {}
        assert generation(store) == before + 1

    @pytest.mark.parametrize(
        'state, stays', [(PENDING, False), (PLANNED, False), (CONFIRMED, True)]
    )
    def test_only_a_confirmed_claim_stays_next_to_a_new_one(self, store, state, stays):
        ready(store, HOST, OTHER)
        place(store, claim(A, node(), state=state))
        place(store, claim(A, node(OTHER)))
        assert ((A, node()) in kept(store)) == stays
        assert (A, node(OTHER)) in kept(store)

    def test_a_lost_claim_elsewhere_ends_nothing(self, store):
        ready(store, HOST, OTHER, vcpus=4)
        place(store, claim(A, node()))
        assert not place(store, claim(A, node(OTHER), vcpus=5)).won
        assert kept(store) == {(A, node()): PENDING}

    @pytest.mark.parametrize(
        'old, new, won',
        [
            pytest.param(3, 1, True, id='smaller'),
            pytest.param(1, 3, True, id='larger'),
            pytest.param(3, 4, True, id='its own amounts do not stand in its way'),
            pytest.param(3, 5, False, id='too large'),
        ],
    )
    def test_a_claim_that_waits_is_replaced_on_its_node(self, store, old, new, won):
        ready(store, vcpus=4)
        place(store, claim(A, node(), vcpus=old))
        later = claim(A, node(), vcpus=new)
        assert place(store, later).won == won
        assert vcpus(store) == {(A, node()): new if won else old}
        assert (store.claims()[0].uuid == later.uuid) == won

    @pytest.mark.parametrize(
        'old, new, amounts, won',
        [
            pytest.param((2, 512), (1, 1024), (2, 1024), True, id='the larger of each'),
            pytest.param((1, 512), (4, 512), (4, 512), True, id='grows'),
            pytest.param((2, 1024), (1, 512), (2, 1024), True, id='does not shrink'),
            pytest.param((1, 512), (5, 512), (1, 512), False, id='too large'),
        ],
    )
    def test_a_confirmed_claim_on_the_same_node_keeps_the_larger_amounts(
        self, store, old, new, amounts, won
    ):
        ready(store, vcpus=4)
        first = confirmed(A, vcpus=old[0], memory_mb=old[1])
        place(store, first)
        assert place(store, claim(A, node(), vcpus=new[0], memory_mb=new[1])).won == won
        (found,) = store.claims()
        assert (found.uuid, found.resources) == (
            first.uuid,
            {VCPU: amounts[0], MEMORY_MB: amounts[1]},
        )
        assert (found.resizing is not None) == won

    def test_a_placement_releases_what_it_names(self, store):
        ready(store, HOST, OTHER)
        place(store, confirmed(A))
        outcome = place(store, claim(A, node(OTHER)), releases=[(A, node())])
        assert outcome.won
        assert set(outcome.generations) == {node(), node(OTHER)}
        assert kept(store) == {(A, node(OTHER)): PENDING}
        assert judged_by(store) == {}

    def test_a_lost_placement_releases_nothing(self, store):
        ready(store, HOST, OTHER, vcpus=4)
        place(store, claim(A, node()))
        assert not place(store, claim(A, node(OTHER), vcpus=5), releases=[(A, node())]).won
        assert kept(store) == {(A, node()): PENDING}

    def test_what_is_not_there_is_released_without_effect(self, store):
        ready(store)
        before = generation(store)
        assert place(store, releases=[(A, node()), (B, node('nowhere'))]).won
        assert generation(store) == before

    def test_a_confirmed_claim_that_ends_on_its_own_node_leaves_room_for_the_new_one(self, store):
        ready(store, vcpus=4)
        place(store, confirmed(A, vcpus=4))
        later = claim(A, node(), vcpus=2)
        for _ in range(2):
            assert place(store, later, releases=[(A, node())]).won
            assert store.claims() == [later]

    def test_a_claim_on_an_unknown_node_is_lost(self, store):
        ready(store)
        outcome = place(store, claim(A, node()), claim(B, node('nowhere')))
        assert not outcome.won
        assert {uuid: nonzero(use) for uuid, use in outcome.used.items()} == {node(): {}}
        assert kept(store) == {}

    def test_an_empty_batch(self, store):
        assert store.commit([]) == []

    def test_a_batch_of_any_size(self, store):
        """More consumers and nodes than one statement can name."""
        hosts = [f'many-{number}' for number in range(700)]
        ready(store, *hosts, vcpus=2)
        batch = [
            Placement((claim(uuid_of(f'{host} {number}'), node(host)),))
            for number in range(3)
            for host in hosts
        ]
        outcomes = store.commit(batch)
        assert [outcome.won for outcome in outcomes] == [True] * 1400 + [False] * 700
        assert len(store.claims()) == 1400
        assert len(store.release([one.key for one in store.claims()])) == 1400
        assert store.claims() == []


class Reports:
    def test_the_first_report_makes_the_node_known(self, store, another):
        (found,) = ready(store, vcpus_used=3)
        assert (found.report, found.claims, found.foreign) == (report(vcpus_used=3), (), {VCPU: 3})
        assert found.seen_s == NOW
        assert another().changes({}).nodes == (found,)

    def test_every_fact_of_a_report_is_kept(self, store, another):
        whole = report(
            instances=frozenset([A, B]),
            traits=frozenset(['HW_CPU_X86_VMX', 'CUSTOM_É']),
            disk_slack_gb=-3,
            num_instances=2,
            io_workload=1,
            failed_builds=4,
            hypervisor_type='QEMU',
            hypervisor_version=8002001,
            host_ip='192.0.2.1',
            cpu_info='{"vendor": "Intel"}',
            supported_instances=(('x86_64', 'kvm', 'hvm'), ('i686', 'kvm', 'hvm')),
            stats={'boost': 'yes'},
            numa_topology='{}',
            metrics='[]',
            pci_pools='x' * 70_000,
            providers='{}',
            running_vms=2,
            current_workload=0,
        )
        custom = {VCPU: Inventory(8, 1, 1.5, 2, 4, 2), 'CUSTOM_GOLD': Inventory(3)}
        whole = dataclasses.replace(whole, inventories=custom, used={VCPU: 2})
        store.report([whole], NOW)
        assert facts(another()).report == whole

    def test_a_repeated_report_changes_nothing(self, store):
        ready(store, vcpus_used=3)
        place(store, claim(A, node()))
        store.release([(A, node())])
        before = facts(store)
        for seconds in (10, 20):
            (after,) = ready(store, now_s=NOW + seconds, vcpus_used=3)
            assert after == facts(store) == dataclasses.replace(before, seen_s=NOW + seconds)

    @pytest.mark.parametrize(
        'words',
        [
            pytest.param({'vcpus': 8}, id='inventory'),
            pytest.param({'vcpus_used': 1}, id='use'),
            pytest.param({'hypervisor_type': 'ironic'}, id='fact'),
            pytest.param({'instances': frozenset([A])}, id='stranger'),
        ],
    )
    def test_a_report_with_news_raises_the_generation(self, store, words):
        before = ready(store, instances=frozenset())[0].generation
        assert ready(store, **{'instances': frozenset(), **words})[0].generation == before + 1

    def test_a_list_confirms_and_releases(self, store):
        ready(store, HOST, OTHER)
        place(store, claim(A, node(), expires_s=NOW + 1))
        place(store, confirmed(B))
        place(store, claim(C, node()))
        before = generation(store)
        (found,) = ready(store, instances=frozenset([A]))
        assert {one.key: (one.state, one.expires_s) for one in found.claims} == {
            (A, node()): (CONFIRMED, None),
            (C, node()): (PENDING, None),
        }
        assert found.generation == before + 1
        assert sorted(found.claims, key=lambda one: one.uuid) == sorted(
            store.claims(), key=lambda one: one.uuid
        )

    def test_a_list_without_a_claim_does_not_take_it_away(self, store):
        ready(store)
        place(store, claim(A, node()))
        for _ in range(3):
            ready(store, instances=frozenset())
        assert kept(store) == {(A, node()): PENDING}

    def test_a_report_without_a_list_settles_nothing(self, store):
        ready(store)
        place(store, claim(A, node(), expires_s=NOW + 1))
        place(store, confirmed(B))
        ready(store, num_instances=0)
        assert kept(store) == {(A, node()): PENDING, (B, node()): CONFIRMED}
        assert store.claims(A)[0].expires_s == NOW + 1

    def test_a_list_speaks_for_its_own_node_only(self, store):
        ready(store, HOST, OTHER)
        place(store, confirmed(A))
        place(store, claim(A, node(OTHER)))
        ready(store, OTHER, instances=frozenset([A]))
        assert kept(store) == {(A, node()): CONFIRMED, (A, node(OTHER)): CONFIRMED}

    @pytest.mark.parametrize(
        'words, claims, foreign',
        [
            pytest.param({'vcpus_used': 3}, [], {VCPU: 3}, id='nobody claimed it'),
            pytest.param(
                {'vcpus_used': 3, 'vcpus_reserved': 2},
                [],
                {VCPU: 1},
                id='the reserve is not foreign',
            ),
            pytest.param(
                {'vcpus_used': 1, 'vcpus_reserved': 2}, [], {}, id='less than the reserve'
            ),
            pytest.param(
                {'vcpus_used': 5},
                [confirmed(A, vcpus=3, memory_mb=0)],
                {VCPU: 2},
                id='confirmed explains',
            ),
            pytest.param(
                {'vcpus_used': 5},
                [claim(A, node(), vcpus=3, memory_mb=0)],
                {VCPU: 5},
                id='waiting does not',
            ),
            pytest.param(
                {'vcpus_used': 5, 'instances': frozenset([A])},
                [claim(A, node(), vcpus=3, memory_mb=0)],
                {VCPU: 2},
                id='unless it is listed',
            ),
            pytest.param(
                {'vcpus_used': 5, 'instances': frozenset()},
                [confirmed(A, vcpus=3, memory_mb=0)],
                {VCPU: 5},
                id='released explains nothing',
            ),
            pytest.param(
                {'vcpus_used': 1}, [confirmed(A, vcpus=3, memory_mb=0)], {}, id='never negative'
            ),
            pytest.param(
                {'vcpus_used': 5},
                [Claim(A, node(), {PCPU: 3}, CONFIRMED)],
                {VCPU: 2},
                id='pinned among the vCPUs',
            ),
            pytest.param(
                {
                    'inventories': {VCPU: Inventory(8), PCPU: Inventory(8)},
                    'used': {VCPU: 5, PCPU: 4},
                },
                [Claim(A, node(), {PCPU: 3}, CONFIRMED)],
                {VCPU: 5, PCPU: 1},
                id='pinned apart',
            ),
        ],
    )
    def test_foreign_use(self, store, words, claims, foreign):
        wide = {PCPU: Inventory(16)}
        ready(store, inventories={**report().inventories, **wide})
        for one in claims:
            assert place(store, one).won
        assert ready(store, **{'vcpus': 16, **words})[0].foreign == foreign
        assert facts(store).foreign == foreign

    @pytest.mark.parametrize(
        'words, foreign',
        [
            pytest.param({'num_instances': 3}, 2, id='more than confirmed'),
            pytest.param({'num_instances': 0}, 0, id='fewer than confirmed'),
            pytest.param(
                {'instances': frozenset([A, B, C]), 'num_instances': 9},
                1,
                id='listed and not claimed',
            ),
        ],
    )
    def test_foreign_instances(self, store, words, foreign):
        ready(store)
        place(store, confirmed(A))
        place(store, claim(B, node()))
        assert ready(store, **words)[0].foreign_instances == foreign
        assert facts(store).foreign_instances == foreign

    def test_a_surprise_is_shown_and_nothing_more_fits_until_it_is_over(self, store):
        ready(store, vcpus=4)
        place(store, claim(A, node(), vcpus=3))
        ready(store, vcpus=4, vcpus_used=3)
        assert judged_by(store)[VCPU] == 6
        assert not place(store, claim(B, node())).won
        ready(store, vcpus=4)
        assert place(store, claim(B, node())).won

    def test_several_reports_at_once_and_the_last_of_a_node_counts(self, store):
        found = store.report([report(OTHER), report(vcpus=2), report(vcpus=3)], NOW)
        assert [one.report.host for one in found] == [OTHER, HOST, HOST]
        assert found[1] == found[2] == facts(store)
        assert facts(store).report == report(vcpus=3)
        assert store.report([], NOW) == []

    def test_a_node_that_was_rebuilt_under_its_old_name(self, store):
        ready(store, HOST, OTHER)
        place(store, claim(A, node()), claim(B, node(OTHER)))
        new = report(HOST, node_uuid=uuid_of('new node'))
        (found,) = store.report([new], NOW)
        assert found.claims == ()
        changes = store.changes({node(): 1})
        assert {one.report.node_uuid for one in changes.nodes} == {new.node_uuid, node(OTHER)}
        assert changes.gone == (node(),)
        assert kept(store) == {(B, node(OTHER)): PENDING}

    def test_a_known_node_that_takes_the_name_of_another(self, store):
        ready(store, HOST, OTHER)
        place(store, claim(A, node()), claim(B, node(OTHER)))
        (found,) = store.report([report(OTHER, node_uuid=node())], NOW)
        assert [one.consumer_uuid for one in found.claims] == [A]
        assert [one.report.node_uuid for one in store.changes({}).nodes] == [node()]
        assert kept(store) == {(A, node()): PENDING}
        ready(store, HOST, vcpus=1, node_uuid=uuid_of('its name is free again'))

    def test_two_nodes_of_one_name_at_once(self, store):
        """The later one is the one that is there now."""
        one, two = (report(HOST, node_uuid=uuid_of(name)) for name in ('one', 'two'))
        for first, second in ((one, two), (two, one)):
            found = store.report([report(OTHER), first, second], NOW)
            assert [facts.report for facts in found[1:]] == [first, second]
            assert set(store.heads()) == {node(OTHER), second.node_uuid}

    def test_a_node_that_comes_back_never_has_a_generation_that_it_had(self, store):
        seen = set()
        for _ in range(3):
            found = [ready(store)[0].generation]
            place(store, claim(A, node()))
            found.append(generation(store))
            assert seen.isdisjoint(found)
            seen.update(found)
            store.remove_node(node())
        store.report([report(node_uuid=uuid_of('new'))], NOW)
        assert ready(store)[0].generation not in seen

    def test_names_differ_in_case(self, store):
        ready(store, 'Host', 'host', 'hosT ')
        assert sorted(one.report.host for one in store.changes({}).nodes) == [
            'Host',
            'hosT ',
            'host',
        ]


class Ends:
    """Confirm, release, expire, remove."""

    def test_confirm(self, store):
        ready(store, HOST, OTHER)
        place(store, claim(A, node(), expires_s=NOW + 1), claim(B, node()), claim(C, node(OTHER)))
        before = generation(store)
        found = store.confirm([A, C], [node()])
        assert [one.key for one in found] == [(A, node())]
        assert kept(store) == {
            (A, node()): CONFIRMED,
            (B, node()): PENDING,
            (C, node(OTHER)): PENDING,
        }
        assert store.claims(A)[0].expires_s is None
        assert generation(store) == before + 1

    def test_confirm_again(self, store):
        ready(store)
        place(store, claim(A, node()))
        store.confirm([A], [node()])
        before = generation(store)
        assert store.confirm([A, A], [node(), node('nowhere')]) == []
        assert generation(store) == before

    def test_release(self, store):
        ready(store, vcpus=4)
        made = confirmed(A, vcpus=4)
        place(store, made)
        before = generation(store)
        assert store.release([(A, node()), (B, node()), (A, node(OTHER)), (A, node())]) == [made]
        assert generation(store) == before + 1
        assert store.release([(A, node())]) == []
        assert generation(store) == before + 1
        assert place(store, claim(B, node(), vcpus=4)).won

    @pytest.mark.parametrize(
        'state, expires_s, ends',
        [
            pytest.param(PENDING, NOW - 1, True, id='overdue'),
            pytest.param(PENDING, NOW, True, id='now'),
            pytest.param(PENDING, NOW + 1, False, id='later'),
            pytest.param(PENDING, None, False, id='never'),
            pytest.param(PENDING, 0.0, True, id='long ago'),
            pytest.param(PLANNED, NOW - 1, True, id='planned'),
            pytest.param(CONFIRMED, NOW - 1, False, id='confirmed'),
        ],
    )
    def test_expire(self, store, state, expires_s, ends):
        ready(store, vcpus=4)
        made = claim(A, node(), vcpus=4, state=state, expires_s=expires_s)
        place(store, made)
        before = generation(store)
        assert store.expire(NOW) == ([made] if ends else [])
        assert store.claims() == ([] if ends else [made])
        assert generation(store) == before + ends
        assert place(store, claim(B, node(), vcpus=4)).won == ends

    def test_claims_are_listed_oldest_first(self, store):
        ready(store, HOST, OTHER)
        times = [(A, HOST, 3.0), (B, OTHER, 1.0), (C, HOST, 2.0)]
        for consumer, host, created_s in times:
            store.clock = lambda at_s=created_s: at_s
            place(store, confirmed(consumer, host))
        store.clock = lambda: 4.0
        place(store, claim(A, node(OTHER)))
        assert [one.created_s for one in store.claims()] == [1.0, 2.0, 3.0, 4.0]
        assert [one.created_s for one in store.claims(A)] == [3.0, 4.0]
        assert store.claims(uuid_of('nobody')) == []

    def test_remove_node(self, store):
        ready(store, HOST, OTHER)
        place(store, claim(A, node()), claim(B, node(OTHER)))
        store.remove_node(node())
        store.remove_node(uuid_of('never seen'))
        assert kept(store) == {(B, node(OTHER)): PENDING}
        assert store.changes({node(): 2, node(OTHER): generation(store, OTHER)}).gone == (node(),)
        assert not place(store, claim(C, node())).won
        assert ready(store)[0].claims == ()

    def test_a_consumer_of_a_removed_node_claims_elsewhere(self, store):
        ready(store, HOST, OTHER)
        place(store, claim(A, node()))
        store.remove_node(node())
        assert place(store, claim(A, node(OTHER))).won


class SmallTables:
    """Services, aggregates and instance lists."""

    @pytest.mark.parametrize(
        'service',
        [
            pytest.param(ServiceFacts(HOST), id='plain'),
            pytest.param(ServiceFacts(HOST, True, 'kaputt é', True, NOW + 0.25), id='everything'),
        ],
    )
    def test_services(self, store, another, service):
        store.set_service(ServiceFacts(HOST, disabled=True, disabled_reason='before'))
        store.set_service(ServiceFacts(OTHER))
        store.set_service(service)
        found = another().changes({}).services
        assert sorted(found, key=lambda one: one.host) == [service, ServiceFacts(OTHER)]

    @pytest.mark.parametrize(
        'word, disabled, reason, forced_down',
        [
            pytest.param(
                {'disabled': None, 'forced_down': None}, True, 'repair', True, id='nothing said'
            ),
            pytest.param(
                {'disabled': False, 'forced_down': None}, False, None, True, id='enabled'
            ),
            pytest.param(
                {'disabled': None, 'forced_down': False},
                True,
                'repair',
                False,
                id='not forced down',
            ),
        ],
    )
    def test_what_is_not_reported_of_a_service_stays(
        self, store, another, word, disabled, reason, forced_down
    ):
        """As the store has it: the sender may not have heard of the last change."""
        another().set_service(ServiceFacts(HOST, True, 'repair', True, NOW))
        kept = store.set_service(ServiceFacts(HOST, seen_s=NOW + 1, **word))
        assert kept == ServiceFacts(HOST, disabled, reason, forced_down, NOW + 1)
        assert another().changes({}).services == (kept,)

    def test_aggregates(self, store, another):
        first = aggregate(1, [HOST, OTHER], availability_zone='zone é', **{'trait:X': 'required'})
        second = dataclasses.replace(aggregate(2, []), uuid=uuid_of('aggregate'))
        for one in (aggregate(1, [THIRD]), second, first, aggregate(3, [HOST])):
            store.set_aggregate(one.id, one)
        store.set_aggregate(3, None)
        store.set_aggregate(4, None)
        found = another().changes({}).aggregates
        assert sorted(found, key=lambda one: one.id) == [first, second]

    def test_instance_lists(self, store, another):
        many = frozenset(uuid_of(f'instance {number}') for number in range(3000))
        for host, instances in [
            (HOST, frozenset([A])),
            (OTHER, many),
            (HOST, frozenset([B, C])),
            (THIRD, frozenset()),
        ]:
            store.set_instances(host, instances)
        assert another().changes({}).instances == {
            HOST: frozenset([B, C]),
            OTHER: many,
            THIRD: frozenset(),
        }

    def test_names_differ_in_case(self, store, another):
        for host in ('Host', 'host'):
            store.set_service(ServiceFacts(host))
            store.set_instances(host, frozenset())
        found = another().changes({})
        assert {one.host for one in found.services} == set(found.instances) == {'Host', 'host'}


class News:
    """What a store tells of changes, its own and others'."""

    def test_an_empty_store(self, store):
        first = store.changes({})
        assert (first.nodes, first.gone, first.seen) == ((), (), {})
        assert (first.services, first.aggregates, first.instances) == ((), (), {})

    def test_at_first_everything(self, store, another):
        ready(store, HOST, OTHER)
        made = claim(A, node())
        place(store, made)
        store.set_service(ServiceFacts(HOST, disabled=True))
        store.set_aggregate(1, aggregate(1, [HOST]))
        store.set_instances(HOST, frozenset([A]))
        found = another().changes({})
        assert {one.report.host: one.claims for one in found.nodes} == {HOST: (made,), OTHER: ()}
        assert found.seen == {node(): NOW, node(OTHER): NOW}
        assert found.services == (ServiceFacts(HOST, disabled=True),)
        assert found.aggregates == (aggregate(1, [HOST]),)
        assert found.instances == {HOST: frozenset([A])}

    def test_then_only_what_is_new(self, store, another):
        ready(store, HOST, OTHER, THIRD)
        reader = another()
        known = {one.report.node_uuid: one.generation for one in reader.changes({}).nodes}
        place(store, claim(A, node()))
        store.remove_node(node(THIRD))
        found = reader.changes(known)
        assert [one.report.host for one in found.nodes] == [HOST]
        assert found.gone == (node(THIRD),)
        known = {node(): found.nodes[0].generation, node(OTHER): known[node(OTHER)]}
        last = reader.changes(known)
        assert (last.nodes, last.gone) == ((), ())

    def test_a_sign_of_life_is_no_change_but_is_told(self, store, another):
        ready(store)
        reader = another()
        known = {node(): reader.changes({}).nodes[0].generation}
        ready(store, now_s=NOW + 10)
        found = reader.changes(known)
        assert (found.nodes, found.seen) == ((), {node(): NOW + 10})

    @pytest.mark.parametrize(
        'change',
        [
            pytest.param(lambda store: place(store, claim(C, node())), id='commit'),
            pytest.param(
                lambda store: place(store, releases=[(A, node())]), id='released in a placement'
            ),
            pytest.param(lambda store: place(store, claim(A, node(OTHER))), id='moved'),
            pytest.param(lambda store: store.confirm([A], [node()]), id='confirm'),
            pytest.param(lambda store: store.release([(A, node())]), id='release'),
            pytest.param(lambda store: store.expire(NOW), id='expire'),
            pytest.param(lambda store: ready(store, vcpus=9), id='report'),
            pytest.param(
                lambda store: ready(store, instances=frozenset([A])), id='report that confirms'
            ),
        ],
    )
    def test_every_change_of_a_node_is_seen_by_others(self, store, another, change):
        ready(store, HOST, OTHER)
        place(store, claim(A, node(), expires_s=NOW))
        reader = another()
        known = {one.report.node_uuid: one for one in reader.changes({}).nodes}
        change(store)
        news = reader.changes({uuid: one.generation for uuid, one in known.items()}).nodes
        assert node() in [one.report.node_uuid for one in news]
        known |= {one.report.node_uuid: one for one in news}
        assert known == {one.report.node_uuid: one for one in another().changes({}).nodes}

    @pytest.mark.parametrize(
        'name, change',
        [
            pytest.param(
                'services', lambda store: store.set_service(ServiceFacts(HOST, True)), id='service'
            ),
            pytest.param(
                'aggregates',
                lambda store: store.set_aggregate(1, aggregate(1, [OTHER])),
                id='aggregate',
            ),
            pytest.param(
                'aggregates', lambda store: store.set_aggregate(1, None), id='aggregate gone'
            ),
            pytest.param(
                'instances',
                lambda store: store.set_instances(HOST, frozenset([B])),
                id='instances',
            ),
        ],
    )
    def test_every_change_of_a_small_table_is_seen_by_others(self, store, another, name, change):
        store.set_service(ServiceFacts(HOST))
        store.set_aggregate(1, aggregate(1, [HOST]))
        store.set_instances(HOST, frozenset([A]))
        reader = another()
        reader.changes({})
        change(store)
        assert getattr(reader.changes({}), name) == getattr(another().changes({}), name)

    def test_heads(self, store, another):
        assert store.heads() == {}
        ready(store, HOST, OTHER)
        place(store, claim(A, node()))
        ready(store, OTHER, now_s=NOW + 10)
        assert another().heads() == {
            node(): (generation(store), NOW),
            node(OTHER): (generation(store, OTHER), NOW + 10),
        }

    def test_a_look_at_some_nodes(self, store, another):
        ready(store, HOST, OTHER)
        made = claim(A, node())
        place(store, made)
        store.set_service(ServiceFacts(HOST))
        reader = another()
        found = reader.look([node(), node('nowhere')])
        assert [one.claims for one in found.nodes] == [(made,)]
        assert (found.gone, found.services) == ((node('nowhere'),), (ServiceFacts(HOST),))
        assert reader.look([]).nodes == reader.look([]).gone == ()
