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
"""The quota of plans: planned claims, members and exclusive domains of a project."""

import collections
import dataclasses
from concurrent import futures

from nova_sched import errors
from nova_sched.claims import ClosedDomain, Domain
from nova_sched.tests.builders import NOW, uuid_of
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.claims.batteries.group_records.records import (
    DB,
    ELSE,
    GROUP,
    LB,
    WEB,
    built,
    commit,
    create,
    plan,
    planned,
    record,
)
from nova_sched.tests.unit.claims.batteries.steps import HOST, OTHER, node, ready, remove

RACK = ClosedDomain(
    uuid_of('token'), frozenset([node(), node(OTHER)]), Domain('rack', 'r1', GROUP)
)
INSIDE = {'fences': (RACK.token,)}


def two(**words):
    return plan(planned(WEB, vcpus=2), planned(DB, OTHER), of=record(members=2), **words)


def used(store, project='project'):
    """The usage without the text of definitions."""
    return {k: n for k, n in store.plan_usage(project).items() if k != 'group_bytes'}


BOTH = {
    'planned_servers': 2,
    'planned_class:VCPU': 3,
    'planned_class:MEMORY_MB': 1024,
    'group_members': 2,
}


class PlanQuotas:
    def test_what_a_plan_uses(self, store, another):
        ready(store, HOST, OTHER)
        assert used(store) == {}
        assert commit(store, two()).won
        assert used(another()) == BOTH
        assert used(store, 'another project') == {}

    def test_a_server_takes_its_planned_claim_over(self, store):
        ready(store, HOST, OTHER)
        commit(store, two())
        assert commit(store, create(built(vcpus=2), planned(WEB))).won
        left = {'planned_servers': 1, 'planned_class:VCPU': 1, 'planned_class:MEMORY_MB': 512}
        assert used(store) == {**left, 'group_members': 2}

    def test_a_plan_that_has_ended(self, store):
        ready(store, HOST, OTHER)
        soon = [planned(WEB, expires_s=NOW + 5), planned(DB, OTHER, expires_s=NOW + 5)]
        commit(store, plan(*soon, of=record(members=2)))
        store.expire(NOW + 6)
        assert used(store) == {'group_members': 2}
        gone = plan(of=record(members=2, deleted=True), serial=1)
        assert commit(store, gone).won
        assert used(store) == {}

    def test_a_node_that_is_removed(self, store):
        ready(store, HOST, OTHER)
        commit(store, two())
        remove(store)
        assert used(store)['planned_servers'] == 1

    def test_an_exclusive_domain(self, store):
        ready(store, HOST, OTHER)
        mine = planned(WEB, **INSIDE)
        limits = {'exclusive_domains': 0}
        closing = plan(mine, of=record(members=1), closed_domains=(RACK,), limits=limits)
        outcome = commit(store, closing)
        assert not outcome.won
        assert outcome.exceeded.args == ('project', 'exclusive_domains', 1, 0, 0)
        allowed = dataclasses.replace(closing.guard, limits={'exclusive_domains': 1})
        assert commit(store, dataclasses.replace(closing, guard=allowed)).won
        assert used(store)['exclusive_domains'] == 1
        ended = plan(of=record(members=1, deleted=True), serial=1, releases=[mine.key])
        assert commit(store, ended).won
        assert used(store) == {}

    @each_afresh(
        'limits, exceeded',
        {
            'exactly': ({'planned_servers': 2, 'group_members': 2}, None),
            'none': ({'planned_servers': -1}, None),
            'planned servers': ({'planned_servers': 1}, ('planned_servers', 2, 0, 1)),
            'an amount': ({'planned_class:VCPU': 2}, ('planned_class:VCPU', 3, 0, 2)),
            'members': ({'group_members': 1}, ('group_members', 2, 0, 1)),
        },
    )
    def test_a_limit(self, store, limits, exceeded):
        ready(store, HOST, OTHER)
        outcome = commit(store, two(limits=limits))
        assert outcome.won is (exceeded is None)
        if exceeded is not None:
            assert isinstance(outcome.exceeded, errors.QuotaExceeded)
            assert outcome.exceeded.args == ('project', *exceeded)
            assert (store.claims(), store.top_group(GROUP), used(store)) == ([], None, {})

    def test_an_update_counts_what_it_adds(self, store):
        ready(store, HOST, OTHER)
        commit(store, two())
        limits = {'planned_servers': 2, 'group_members': 2}
        third, changed = planned(LB), record(members=3, generation=2)
        outcome = commit(store, plan(third, of=changed, serial=1, limits=limits))
        assert outcome.exceeded.args == ('project', 'group_members', 1, 2, 2)
        in_place = plan(
            planned(LB),
            of=record(members=2, generation=2),
            serial=1,
            releases=[planned(WEB).key],
            limits=limits,
        )
        assert commit(store, in_place).won

    def test_a_project_above_its_limit_keeps_what_it_has(self, store):
        ready(store, HOST, OTHER)
        commit(store, two())
        moved = plan(
            planned(WEB, OTHER),
            of=record(members=2),
            serial=1,
            releases=[planned(WEB).key],
            limits={'planned_servers': 1, 'group_members': 0},
        )
        assert commit(store, moved).won

    def test_a_repeated_plan_counts_once(self, store):
        ready(store, HOST, OTHER)
        once = two(limits={'planned_servers': 2})
        assert commit(store, once).won
        assert commit(store, once).won
        assert used(store) == BOTH

    def test_the_groups_of_a_project_count_together(self, store):
        ready(store, HOST, OTHER)
        commit(store, two())
        other = record(ELSE, members=1)
        outcome = commit(
            store, plan(planned(LB, group=ELSE), of=other, limits={'planned_servers': 2})
        )
        assert outcome.exceeded.args == ('project', 'planned_servers', 1, 2, 2)

    def test_the_stored_text_of_definitions(self, store, another):
        """It counts as long as it is stored: that of a deleted group with a server, too."""

        def put(of, serial, *claims, limit=100):
            asked = plan(*claims, of=of, serial=serial, limits={'group_bytes': limit})
            outcome = commit(store, asked)
            return outcome.won or outcome.exceeded.args[1:]

        def stored():
            return another().plan_usage('project').get('group_bytes', 0)

        ready(store, HOST, OTHER)
        assert put(record(definition='x' * 60, members=1), 0, built()) is True
        assert put(record(ELSE, definition='x' * 41), 0) == ('group_bytes', 41, 60, 100)
        assert put(record(ELSE, definition='x' * 40), 0) is True
        assert stored() == 100
        longer, same, shorter = (record(definition='y' * size) for size in (61, 60, 30))
        assert put(longer, 1) == ('group_bytes', 1, 100, 100)
        assert put(same, 1) is True
        assert put(same, 2, limit=10) is True  # a lower limit takes nothing away
        assert put(shorter, 3, limit=10) is True
        assert put(record(deleted=True, definition=None), 4, limit=10) is True
        assert stored() == 70

    def test_two_of_one_batch(self, store):
        ready(store, HOST, OTHER)
        limits = {'planned_servers': 2}
        other = plan(planned(LB, group=ELSE), of=record(ELSE, members=1), limits=limits)
        won = [one.won for one in store.commit([two(limits=limits), other])]
        assert won == [True, False]

    def test_plans_at_the_same_time(self, store, another):
        """Of eight that want one of three each, three get it."""
        ready(store, HOST, OTHER)
        stores = [another() for _ in range(8)]

        def ask(number):
            group = uuid_of(f'group {number}')
            mine = planned(uuid_of(f'member {number}'), group=group)
            of = record(group, members=1)
            while True:
                try:
                    return commit(stores[number], plan(mine, of=of, limits={'group_members': 3}))
                except errors.StoreBusy:
                    continue

        with futures.ThreadPoolExecutor(8) as pool:
            outcomes = list(pool.map(ask, range(8)))
        assert collections.Counter(one.won for one in outcomes) == {True: 3, False: 5}
        assert all(one.exceeded for one in outcomes if not one.won)
        assert used(store)['planned_servers'] == 3

    def test_limits_of_a_project(self, store):
        assert store.limits('project') == {}


BATTERY = (PlanQuotas,)
