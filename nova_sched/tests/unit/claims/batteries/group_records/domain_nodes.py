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
"""Nodes that enter and leave an exclusive domain."""

from nova_sched.claim import CONFIRMED
from nova_sched.claims import ClosedDomain, Domain
from nova_sched.tests.builders import NOW, aggregate, claim, report
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.claims.batteries.group_records.exclusive_domains import (
    BOTH,
    RACK,
    SECOND,
    TOKEN,
    WEB_INSIDE,
    behind,
    fenced,
    inside,
)
from nova_sched.tests.unit.claims.batteries.group_records.records import (
    DB,
    commit,
    plan,
    planned,
    record,
)
from nova_sched.tests.unit.claims.batteries.steps import (
    HOST,
    OTHER,
    THIRD,
    B,
    C,
    confirmed,
    facts,
    generation,
    node,
    place,
    seen,
)


class Racks:
    """A locator: the rack of a node is what an aggregate of its host says, or else its stats, or
    its host."""

    def told(self, report):
        return {'rack': report.stats['rack']} if 'rack' in report.stats else {}

    def domains(self, host, nodename, told, aggregates):
        named = [one.metadata['rack'] for one in aggregates if 'rack' in one.metadata]
        return {'host': host, 'rack': min(named, default=told.get('rack', host))}

    def host_of(self, level, name):
        return name if level == 'host' else None


class Noting(Racks):
    """Notes the hosts whose domains the store asks for."""

    def __init__(self):
        self.asked = set()

    def domains(self, host, nodename, told, aggregates):
        self.asked.add(host)
        return super().domains(host, nodename, told, aggregates)


R1 = Domain('rack', 'r1', record().uuid)
R2 = Domain('rack', 'r2', record().uuid)
IN_R1 = ClosedDomain(TOKEN, frozenset(), R1)


def located(store):
    store.locator = Racks()
    return store


def racks(store, **of):
    """Let hosts (their names without the dash) report the racks that they are in; the facts of
    each."""
    made = [
        report(host.replace('_', '-'), stats={'rack': rack} if rack else {})
        for host, rack in of.items()
    ]
    return store.report(made, NOW)


def closed(store, *claims, **words):
    """A store in which the group has rack r1, which HOST and OTHER are in, for itself; THIRD is in
    r2."""
    racks(located(store), host_0='r1', host_1='r1', host_2='r2')
    assert commit(store, plan(*(claims or (WEB_INSIDE,)), closed_domains=(IN_R1,), **words)).won
    return store


def refuses(store, host):
    return not place(store, claim(C, node(host))).won


class DomainNodes:
    """Nodes come to exclusive domains and leave them at once."""

    def test_a_plan_finds_the_nodes_of_its_domain(self, store, another):
        """The planner may not know of them yet."""
        closed(store)
        assert behind(another()) == BOTH
        assert another().domains() == {TOKEN: R1}
        assert refuses(store, OTHER)

    def test_a_host_is_closed_without_a_look_at_the_others(self, store):
        """A cloud has thousands of them, and a member of any project may close some."""
        racks(located(store), host_0='r1', host_1='r1', host_2='r2')
        store.locator = Noting()
        alone = ClosedDomain(TOKEN, frozenset(), Domain('host', HOST, record().uuid))
        assert commit(store, plan(WEB_INSIDE, closed_domains=(alone,))).won
        assert behind(store) == {HOST: {TOKEN}}
        assert store.locator.asked == {HOST}

    def test_and_an_outsider_on_one_that_the_planner_does_not_know(self, store):
        racks(located(store), host_0='r1', host_1='r1')
        place(store, claim(B, node(OTHER)))
        outcome = commit(
            store, plan(WEB_INSIDE, closed_domains=(ClosedDomain(TOKEN, frozenset([node()]), R1),))
        )
        assert not outcome.won
        assert {one.report.host for one in outcome.fresh} == {HOST, OTHER}
        assert (behind(store), store.domains()) == ({}, {})

    def test_a_member_whose_node_has_left_the_domain(self, store):
        """Its planner saw it there."""
        racks(located(store), host_0='r2', host_1='r1')
        assert not commit(
            store, plan(WEB_INSIDE, closed_domains=(ClosedDomain(TOKEN, RACK.nodes, R1),))
        ).won
        assert behind(store) == {}

    @each_afresh(
        'before', {'a new node': {}, 'of another rack': {'rack': 'r2'}, 'of none': {'rack': None}}
    )
    def test_a_report_brings_a_node_in(self, store, another, before):
        closed(store)
        if before:
            racks(store, host_3=before['rack'])
        (found,) = racks(store, host_3='r1')
        assert found.fences == {TOKEN}
        assert found == facts(another(), 'host-3')
        assert refuses(store, 'host-3')
        assert place(store, inside(B, 'host-3')).won
        racks(store, host_3='r1')
        assert behind(another()) == {**BOTH, 'host-3': {TOKEN}}

    def test_a_report_under_another_host(self, store):
        """Which is in an aggregate that is of the domain."""
        closed(store)
        store.set_aggregate(1, aggregate(1, ['new-name'], rack='r1'))
        moved = report('new-name', node_uuid=node(THIRD), stats={'rack': 'r2'})
        (found,) = store.report([moved], NOW)
        assert found.fences == {TOKEN}
        assert not place(store, claim(C, node(THIRD))).won

    def test_earlier_claims_stay_and_no_others_come(self, store):
        closed(store)
        place(store, confirmed(B, THIRD))
        (found,) = racks(store, host_2='r1')
        assert [one.consumer_uuid for one in found.claims] == [B]
        assert place(store, claim(B, node(THIRD), vcpus=2)).won
        assert refuses(store, THIRD)

    def test_a_report_takes_a_node_out(self, store, another):
        closed(store)
        before = generation(store, OTHER)
        (found,) = racks(store, host_1='r2')
        assert (found.fences, found.generation) == (frozenset(), before + 1)
        assert behind(another()) == {HOST: {TOKEN}}
        assert not refuses(store, OTHER)

    def test_a_node_leaves_with_a_member(self, store, another):
        """What has the token stays behind it; the next look for it finds the node when that has
        ended."""
        closed(store, WEB_INSIDE, planned(DB, OTHER, fences=(TOKEN,)))
        racks(store, host_0='r2', host_1='r1')
        assert behind(another()) == BOTH
        store.release([WEB_INSIDE.key])
        assert behind(another()) == BOTH
        assert store.spread_domain(TOKEN, [], R1) == [node()]
        assert behind(another()) == {OTHER: {TOKEN}}

    def test_from_one_exclusive_domain_to_another(self, store):
        web, db = WEB_INSIDE, planned(DB, THIRD, fences=(SECOND,))
        racks(located(store), host_0='r1', host_1='r1', host_2='r2')
        assert commit(
            store, plan(web, db, closed_domains=(IN_R1, ClosedDomain(SECOND, frozenset(), R2)))
        ).won
        assert store.domains() == {TOKEN: R1, SECOND: R2}
        racks(store, host_1='r2')
        assert behind(store) == {HOST: {TOKEN}, OTHER: {SECOND}, THIRD: {SECOND}}

    @each_afresh(
        'before, after, moved',
        {
            'a host comes': (None, aggregate(1, [THIRD], rack='r1'), {THIRD: {TOKEN}}),
            'to an aggregate that is there': (
                aggregate(1, ['host-3'], rack='r1'),
                aggregate(1, ['host-3', THIRD], rack='r1'),
                {THIRD: {TOKEN}},
            ),
            'metadata come': (
                aggregate(1, [THIRD]),
                aggregate(1, [THIRD], rack='r1'),
                {THIRD: {TOKEN}},
            ),
            'a host leaves': (None, aggregate(1, [OTHER], rack='r2'), {OTHER: set()}),
            'the aggregate goes': (aggregate(1, [THIRD], rack='r1'), None, {THIRD: set()}),
            'with a member': (None, aggregate(1, [HOST], rack='r2'), {}),
            'of something else': (None, aggregate(1, [THIRD, 'nowhere'], ssd='true'), {}),
        },
    )
    def test_an_aggregate_moves_hosts(self, store, another, before, after, moved):
        closed(store)
        if before is not None:
            store.set_aggregate(1, before)
        there, seen = behind(another()), {uuid: pair[0] for uuid, pair in store.heads().items()}
        assert store.set_aggregate(1, after) == sorted(map(node, moved))
        assert behind(another()) == {
            host: tokens for host, tokens in (there | moved).items() if tokens
        }
        raised = {uuid for uuid, pair in another().heads().items() if pair[0] != seen[uuid]}
        assert raised == set(map(node, moved))
        assert refuses(store, THIRD) == (THIRD in behind(store))
        assert store.set_aggregate(1, after) == []

    def test_no_domain_without_a_claim(self, store, another):
        closed(store)
        store.release([WEB_INSIDE.key])
        assert another().domains() == {TOKEN: R1}
        store.end_domains()
        assert another().domains() == {}
        racks(store, host_3='r1')
        store.set_aggregate(1, aggregate(1, [THIRD], rack='r1'))
        assert behind(another()) == {}

    def test_the_report_that_ends_its_last_claim_brings_a_node(self, store):
        """Nothing keeps that node after the sweep."""
        closed(store, inside(state=CONFIRMED))
        store.report(
            [
                report(HOST, instances=frozenset(), stats={'rack': 'r1'}, order=seen(store)),
                report('host-3', stats={'rack': 'r1'}),
            ],
            NOW,
        )
        assert behind(store) == {**BOTH, 'host-3': {TOKEN}}
        assert len(store.end_domains()) == 3
        assert (behind(store), store.domains()) == ({}, {})

    def test_a_fence_of_before(self, store, another):
        """Its row does not name its domain; the next search for it writes the domain down, and
        finds its nodes."""
        fenced(store)
        racks(located(store), host_0='r1', host_1='r1', host_2='r2', host_3='r1')
        assert behind(another()) == BOTH
        assert store.spread_domain(TOKEN, [node()], R1) == [node('host-3')]
        assert another().domains() == {TOKEN: R1}
        racks(store, host_2='r1')
        assert behind(another()) == {**BOTH, 'host-3': {TOKEN}, THIRD: {TOKEN}}
