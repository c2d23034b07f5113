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
"""Batches of orders: lost races, requests that claim nothing, and a store that is away."""

import logging
import re
import types

import pytest

from nova_sched import errors
from nova_sched.claim import VCPU
from nova_sched.claims import Placement
from nova_sched.engine.cycle import MAX_LOSSES
from nova_sched.tests.builders import NOW, claim, report, uuid_of
from nova_sched.tests.rows import table
from nova_sched.tests.stores import MemoryClaimStore
from nova_sched.tests.unit.engine.stores import Contested, Miser, Squeamish
from nova_sched.tests.unit.engine.world import (
    A,
    B,
    C,
    D,
    Named,
    Score,
    World,
    asks,
    end_claims,
    fresh,
    node,
    picture,
    rules,
)


def world(*columns, store=None, chain=None, **settings):
    """A world of hosts, the first with the most memory; columns are words of each report."""
    made = World(store, chain, **settings)
    made.report(
        *(
            report(f'host-{row}', memory_mb=9000 - row, **words)
            for row, words in enumerate(columns)
        )
    )
    return made


def held(store):
    return sorted((one.consumer_uuid, one.node_uuid) for one in store.claims())


class TestPlace:
    def test_what_waits_is_decided_in_turn_and_committed_at_once(self):
        made = world({'vcpus': 1}, {'vcpus': 2}, store=Contested())
        futures = [made.send_place(asks(instance)) for instance in (A, B, C, D)]
        made.loop.turn()
        assert [future.result(0)[0][0].host for future in futures[:3]] == [
            'host-0',
            'host-1',
            'host-1',
        ]
        assert isinstance(futures[3].exception(0), errors.NoValidHost)
        assert made.store.commits == [[A, B, C]]
        assert made.scheduler.figures.batches == 1
        assert (made.scheduler.figures.placed, made.scheduler.figures.refused) == (3, 1)

    def test_other_rules_from_the_next_batch_on(self):
        """Messages keep their order: what was sent before is decided by the old rules."""
        made = world({}, {}, {}, chain=rules([Named('host-0')]))
        before = made.send_place(asks(A))
        changes = [made.scheduler.follow(rules([Named(host)])) for host in ('host-1', 'host-2')]
        after = made.send_place(asks(B))
        made.turn_until(before, *changes, after)
        assert [future.result()[0][0].host for future in (before, after)] == ['host-0', 'host-2']

    def test_no_more_than_a_batch_at_once(self):
        made = World(Contested(), max_batch=2)
        made.report(report())
        futures = [made.send_place(asks(instance)) for instance in (A, B, C)]
        made.turn_until(*futures)
        assert made.store.commits == [[A, B], [C]]

    def test_a_rule_that_breaks_fails_its_own_request_only(self, caplog):
        class Picky(Named):
            def mask(self, hosts, request):
                return {}[A] if request.instance_uuid == A else True

        made = world({}, chain=rules([Picky()]))
        before = picture(made.cluster)
        futures = [made.send_place(asks(instance)) for instance in (A, B)]
        made.loop.turn()
        assert isinstance(futures[0].exception(0), KeyError)
        assert futures[1].result(0)[0][0].host == 'host-0'
        assert held(made.store) == [(B, node('host-0'))]
        assert 'failed in a rule' in caplog.text
        made.call(end_claims, made.claim_service, B)
        assert picture(made.cluster) == before

    def test_a_rule_that_finds_a_request_wrong_is_no_surprise(self, caplog):
        class Strict(Named):
            def mask(self, hosts, request):
                raise errors.InvalidRequest('scheduler hint query', 'it is not a list')

        made = world({}, chain=rules([Strict()]))
        future = made.send_place(asks(A))
        made.loop.turn()
        assert isinstance(future.exception(0), errors.InvalidRequest)
        assert 'failed in a rule' not in caplog.text

    def test_the_time_of_the_decision_is_the_clock_s(self):
        made = world({})
        made.now_s = NOW + 77
        made.place(asks())
        assert made.cluster.hosts.now_s == NOW + 77


class TestOnlyAsked:
    @table(
        'words, claims, host',
        {
            'claim nothing': ({}, False, 'host-0'),
            'rebuild check': ({'hints': {'_nova_check_type': ['rebuild']}}, True, 'host-1'),
        },
    )
    def test_it_leaves_nothing(self, words, claims, host):
        made = world({}, {}, store=Contested())
        made.place(asks(A))
        made.store.commits.clear()
        before = picture(made.cluster)
        assert made.place(asks(A, **words), claim=claims) == [[host]]
        assert picture(made.cluster) == before
        assert made.store.commits == []

    def test_the_next_one_in_the_batch_does_not_see_it(self):
        made = world({'vcpus': 2})
        futures = [
            made.send_place(asks(A, vcpus=2), claim=False),
            made.send_place(asks(B, vcpus=2)),
        ]
        futures.append(made.send_place(asks(C, vcpus=2), claim=False))
        made.loop.turn()
        assert [future.exception(0) is None for future in futures] == [True, True, False]
        assert held(made.store) == [(B, node('host-0'))]
        assert picture(made.cluster) == picture(fresh(made.store))

    def test_when_its_answer_fails_it_leaves_nothing_either(self):
        made = world({}, {}, chain=rules([], [Score(1, 2)]), default_zone=None)
        made.settings = types.SimpleNamespace(
            **{name: getattr(made.settings, name) for name in made.settings.__slots__}
        )
        del made.settings.default_zone
        before = picture(made.cluster)
        with pytest.raises(AttributeError):
            made.place(asks(A), claim=False)
        assert picture(made.cluster) == before


class TestLostRaces:
    def test_the_loser_is_decided_again_and_the_winner_is_answered_first(self):
        store = Contested()
        made = world({'vcpus': 2}, {'vcpus': 4}, store=store, chain=rules([], [Score(2, 1)]))
        store.rivals = [[Placement((claim(D, node('host-0'), vcpus=1),))]]
        loser, winner = made.send_place(asks(A, vcpus=2)), made.send_place(asks(B, vcpus=2))
        made.loop.turn()
        assert (loser.done(), winner.result(0)[0][0].host) == (False, 'host-1')
        made.turn_until(loser)
        assert loser.result(0)[0][0].host == 'host-1'
        assert store.commits == [[A, B], [A]]
        assert made.scheduler.figures.conflicts == 1
        made.state_sync.refresh()
        assert picture(made.cluster) == picture(fresh(store))

    def test_what_comes_in_between_is_decided_after_the_loser(self):
        store = Contested()
        made = world({'vcpus': 2}, {'vcpus': 1}, store=store, chain=rules([], [Score(2, 1)]))
        store.rivals = [[Placement((claim(D, node('host-0'), vcpus=2),))]]
        loser = made.send_place(asks(A))
        made.loop.turn()
        late = made.send_place(asks(B))
        made.loop.turn()
        assert loser.result(0)[0][0].host == 'host-1'
        made.loop.turn()
        assert isinstance(late.exception(0), errors.NoValidHost)

    def test_all_or_nothing_for_several_instances(self):
        store = Contested()
        made = world({'vcpus': 1}, {'vcpus': 1}, {'vcpus': 1}, store=store)
        store.rivals = [[Placement((claim(D, node('host-1')),))]]
        assert made.place(asks(A), asks(B)) == [['host-0'], ['host-2']]
        assert held(store) == sorted(
            [(A, node('host-0')), (B, node('host-2')), (D, node('host-1'))]
        )

    @pytest.mark.parametrize('most', [1, 3])
    def test_too_many_conflicts(self, most, caplog):
        caplog.set_level(logging.INFO)
        made = world({}, {}, store=Miser(), max_claim_attempts=most)
        before = picture(made.cluster)
        future = made.send_place(asks())
        made.turn_until(future)
        assert isinstance(future.exception(0), errors.TooManyConflicts)
        assert future.exception(0).args == (most,)
        assert made.store.commits == [[A]] * most
        assert picture(made.cluster) == before
        assert (made.scheduler.figures.conflicts, made.scheduler.figures.refused) == (most, 1)
        (line,) = [
            one.getMessage() for one in caplog.records if one.getMessage().startswith('Decided')
        ]
        assert f'another request claimed each host first; attempt {most},' in line

    def test_who_loses_again_and_again_looks_at_the_store(self):
        """Others have filled the 39 best of 40 hosts: to try one after the other would not find
        the last."""
        made = world(*[{'vcpus': 1}] * 40)
        made.store.commit(
            [
                Placement((claim(uuid_of(f'other {row}'), node(f'host-{row}')),))
                for row in range(39)
            ]
        )
        assert made.place(asks()) == [['host-39']]
        assert made.scheduler.figures.conflicts == MAX_LOSSES

    def test_several_losers_on_one_node_learn_its_true_use(self):
        store = Contested()
        made = world({'vcpus': 10}, {'vcpus': 10}, store=store, chain=rules([], [Score(2, 1)]))
        store.rivals = [[Placement((claim(D, node('host-0'), vcpus=8),))]]
        futures = [made.send_place(asks(instance, vcpus=3)) for instance in (A, B, C)]
        futures.append(made.send_place(asks(uuid_of('only asked')), claim=False))
        made.loop.turn()
        assert made.cluster.hosts.resource(VCPU).used.tolist() == [8, 0]
        made.turn_until(*futures)
        made.state_sync.refresh()
        assert picture(made.cluster) == picture(fresh(store))

    def test_a_loser_that_had_a_claim_elsewhere_does_not_spoil_what_another_loser_learnt(self):
        """What was lifted from a node is back before the node's use is corrected, not after."""
        store = Contested()
        made = world({'vcpus': 10}, {'vcpus': 10}, store=store, chain=rules([], [Score(2, 1)]))
        made.place(asks(A, vcpus=4))
        store.rivals = [[Placement((claim(D, node('host-1'), vcpus=8),))]]
        futures = [
            made.send_place(asks(B, vcpus=2), asks(C, vcpus=5)),  # one on each host
            made.send_place(
                asks(A, vcpus=5, ignore_hosts=['host-0'])
            ),  # its claim on host-0 is lifted
        ]
        made.loop.turn()
        assert made.cluster.hosts.resource(VCPU).used.tolist() == [4, 8]
        made.turn_until(*futures)
        made.state_sync.refresh()
        assert picture(made.cluster) == picture(fresh(store))


class TestOneInstanceTwice:
    def test_each_is_decided_on_what_the_one_before_it_left(self):
        store = Contested()
        made = world({'vcpus': 2}, {'vcpus': 2}, store=store)
        futures = [
            made.send_place(asks(A, vcpus=2)),
            made.send_place(asks(B)),
            made.send_place(asks(A, vcpus=1)),
        ]
        futures.append(made.send_place(asks(C), asks(B)))
        made.turn_until(*futures)
        assert store.commits == [[A, B], [A, C, B]]
        assert sorted(consumer for consumer, _ in held(store)) == sorted([A, B, C])
        made.state_sync.refresh()
        assert picture(made.cluster) == picture(fresh(store))


class TestBrokenStore:
    def test_only_the_request_at_fault_fails(self):
        made = world({}, {}, store=Squeamish(B))
        before = picture(made.cluster)
        futures = [made.send_place(asks(instance)) for instance in (A, B, C)]
        made.turn_until(*futures)
        assert [type(future.exception(0)) for future in futures] == [
            type(None),
            OverflowError,
            type(None),
        ]
        assert made.store.commits == [[A], [C]]
        for instance in (A, C):
            made.call(end_claims, made.claim_service, instance)
        assert picture(made.cluster) == before

    def test_who_was_refused_in_a_batch_that_failed_is_told_so_and_forgotten(self):
        class Full(MemoryClaimStore):
            full = True

            def commit(self, placements):
                if self.full:
                    raise errors.StoreFull('no room')
                return super().commit(placements)

        made = world({'vcpus': 2}, store=Full(), chain=rules())
        fits, does_not = made.send_place(asks(A)), made.send_place(asks(B, vcpus=3))
        made.turn_until(fits, does_not)
        assert isinstance(fits.exception(), errors.StoreFull)
        assert isinstance(does_not.exception(), errors.StoreFull)
        made.store.full = False
        with pytest.raises(errors.NoValidHost):
            made.place(asks(C, vcpus=3))
        assert made.place(asks(A)) == [['host-0']]
        assert held(made.store) == [(A, node('host-0'))]

    def test_a_refusal_after_a_lost_race_is_looked_at_again(self):
        """What became free meanwhile is elsewhere than where the race was lost."""
        store = Contested()
        made = world({'vcpus': 1}, {'vcpus': 1}, store=store, chain=rules())
        made.place(asks(D, force_hosts=['host-1']))
        store.rivals = [[Placement((claim(B, node('host-0')),))]]
        loser = made.send_place(asks(A))
        made.loop.turn()
        store.release([(D, node('host-1'))])
        made.turn_until(loser)
        assert loser.result()[0][0].host == 'host-1'


class TestLog:
    @pytest.mark.parametrize(
        'asked, words',
        [
            pytest.param(
                [asks(A), asks(B)],
                f'Decided req-1: 2 instances, first {A}; hosts 3 -> 2, chose host-0;',
                id='placed',
            ),
            pytest.param(
                [asks(A, vcpus=99)],
                f'Decided req-1: 1 instances, first {A}; hosts 3 -> 0, none after '
                'ResourceCapacity: 99 vCPUs asked, the largest host has 16 in all;',
                id='refused',
            ),
        ],
    )
    def test_one_line_for_each_decision(self, caplog, asked, words):
        caplog.set_level(logging.INFO)
        made = world({}, {}, {}, chain=rules([Named('host-0', 'host-1')], [Score(3, 2, 1)]))
        made.turn_until(made.send_place(*asked, request_id='req-1'))
        (line,) = [one for one in caplog.records if one.getMessage().startswith('Decided')]
        assert line.levelno == logging.INFO
        assert line.getMessage().startswith(words)
        assert 'attempt 1,' in line.getMessage()
        assert line.context.request_id == 'req-1'

    @pytest.mark.parametrize(
        'then, is_told',
        [
            pytest.param(('req-2', {}), False, id='the claim satisfies it'),
            pytest.param(('req-2', {'vcpus': 2}), True, id='another size'),
            pytest.param(('req-2', {'force_hosts': ['host-1']}), True, id='another host'),
            pytest.param(('req-1', {'force_hosts': ['host-1']}), False, id='the same request'),
        ],
    )
    def test_the_claim_of_another_request_does_not_end_silently(self, caplog, then, is_told):
        caplog.set_level(logging.INFO)
        made = world({}, {})
        for request_id, words in (('req-1', {}), then):
            made.place(asks(A, **words), request_id=request_id)
        words = f'Request req-2 has replaced claim .* of request req-1 for instance {A}'
        assert bool(re.search(words, caplog.text)) == is_told

    @table(
        'words, claimed',
        {
            'a late copy of the request': ({}, 'host-0'),
            'the host is ignored by now': ({'ignore_hosts': ['HOST-0']}, 'host-1'),
            'another one is named': ({'force_hosts': ['host-1']}, 'host-1'),
            'that one is named': ({'force_hosts': ['host-0']}, 'host-0'),
            'another node is named': ({'force_nodes': ['host-1']}, 'host-1'),
            'it has failed there': ({'retry_hosts': [('host-0', 'host-0')]}, 'host-1'),
            'on another node of the host': ({'retry_hosts': [('host-0', 'other')]}, 'host-0'),
        },
    )
    def test_a_repeated_request_keeps_its_host_whatever_became_of_it(self, words, claimed):
        """The first answer may have arrived, and the server be built there."""
        passing = Named('host-0', 'host-1')
        made = world({}, {}, chain=rules([passing], [Score(2, 1)]))
        made.place(asks(), request_id='req-1')
        passing._hosts = ('host-1',)
        made.place(asks(**words), request_id='req-1')
        (claim,) = made.store.claims()
        assert made.cluster.node(claim.node_uuid).host == claimed

    def test_the_request_id_is_kept_with_the_claim(self):
        made = world({})
        made.place(asks(), request_id='req-1')
        assert [one.request_id for one in made.store.claims()] == ['req-1']
