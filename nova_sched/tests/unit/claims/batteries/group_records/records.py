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
"""Placement groups, their planned claims and their records."""

import dataclasses

import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED, PENDING, PLANNED, RESIZE, VCPU
from nova_sched.claims import GroupRecord, Placement
from nova_sched.tests.builders import NOW, claim, guarded, uuid_of
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.claims.batteries.steps import (
    HOST,
    OTHER,
    A,
    B,
    C,
    confirmed,
    facts,
    generation,
    judged_by,
    kept,
    node,
    nonzero,
    place,
    ready,
    remove,
)
from nova_sched.tests.unit.claims.batteries.transactions.hardware import PAIR, REST

GROUP, ELSE = uuid_of('top group'), uuid_of('another top group')
WEB, DB, LB = (uuid_of(f'member {path}') for path in ('web', 'db', 'lb'))
PATHS = {WEB: 'web', DB: 'db', LB: 'lb'}


def record(uuid=GROUP, **words):
    fields = {
        'project_id': 'project',
        'user_id': 'user',
        'name': 'é',
        'created_s': NOW,
        'updated_s': NOW,
    }
    return GroupRecord(uuid, **{**fields, 'definition': '{"members": []}', **words})


def planned(consumer=WEB, host=HOST, group=GROUP, **words):
    """The claim of a member that is not created yet."""
    path = PATHS.get(consumer, 'other')
    return claim(consumer, node(host), state=PLANNED, top_group=group, member=path, **words)


def built(consumer=A, host=HOST, path='web', group=GROUP, **words):
    """The claim of an instance that is that member."""
    return claim(consumer, node(host), top_group=group, member=path, **words)


def plan(*claims, of=None, serial=0, releases=(), **words):
    """A placement of members, with the record."""
    of = record() if of is None else of
    return guarded(claims, tuple(releases), record=of, serial=serial, **words)


def create(made, old, **words):
    """A placement of an instance in place of its planned claim."""
    return guarded((made,), (old.key,), planned_releases=(old.key,), **words)


def commit(store, placement):
    (outcome,) = store.commit([placement])
    return outcome


class Records:
    """Plans and what comes of them."""

    def test_all_of_a_plan_and_its_record(self, store, another):
        ready(store, HOST, OTHER)
        whole = [planned(WEB, expires_s=NOW + 60.25), planned(DB, OTHER)]
        outcome = commit(store, plan(*whole))
        assert outcome.won
        assert outcome.generations.keys() == {node(), node(OTHER)}
        assert another().top_group(GROUP) == record(serial=1)
        assert sorted(another().group_claims(GROUP), key=str) == sorted(whole, key=str)

    def test_or_none_of_it(self, store):
        ready(store, HOST, OTHER, vcpus=4)
        before = store.heads()
        outcome = commit(store, plan(planned(WEB), planned(DB, OTHER, vcpus=5)))
        assert not outcome.won
        assert (outcome.record, outcome.record_gone) == (None, False)
        assert {one.report.host for one in outcome.fresh} == {HOST, OTHER}
        assert store.top_group(GROUP) is None
        assert (store.claims(), store.heads()) == ([], before)

    def test_a_record_is_kept_as_it_is(self, store, another):
        every = record(
            project_id='projet-é',
            user_id=None,
            name=None,
            generation=7,
            definition='é' * 70_000,
            created_s=NOW + 0.123456,
            updated_s=NOW + 1.5,
            expires_s=NOW + 60.5,
            deleted=True,
        )
        assert commit(store, plan(of=every)).won
        assert another().top_group(GROUP) == dataclasses.replace(every, serial=1)
        assert another().top_group(GROUP, whole=False) == dataclasses.replace(
            every, serial=1, definition=None
        )
        assert another().top_group(ELSE) is None

    @each_afresh(
        'serial, won, found',
        {
            'as it is': (2, True, None),
            'older': (1, False, 2),
            'newer': (3, False, 2),
            'there is one already': (0, False, 2),
        },
    )
    def test_the_serial_guards_the_record(self, store, another, serial, won, found):
        ready(store)
        commit(store, plan(planned()))
        commit(store, plan(of=record(name='second'), serial=1))
        later = record(generation=2, name='third', definition='new')
        outcome = commit(another(), plan(planned(DB), of=later, serial=serial))
        assert outcome.won == won
        assert outcome.record == (None if won else record(name='second', serial=found))
        assert not outcome.record_gone
        kept_now = dataclasses.replace(later, serial=3) if won else record(name='second', serial=2)
        assert store.top_group(GROUP) == kept_now
        assert len(store.claims()) == 1 + won

    def test_a_serial_of_a_record_that_is_gone(self, store):
        ready(store)
        outcome = commit(store, plan(planned(), serial=4))
        assert (outcome.won, outcome.record, outcome.record_gone) == (False, None, True)
        assert store.claims() == []

    def test_a_record_can_change_without_its_definition(self, store):
        commit(store, plan())
        assert commit(store, plan(of=record(definition=None, expires_s=NOW), serial=1)).won
        assert store.top_group(GROUP) == record(serial=2, expires_s=NOW)

    def test_a_serial_without_a_record_is_only_compared(self, store):
        """And raised: where the members are has changed."""
        ready(store, HOST, OTHER)
        commit(store, plan(planned()))
        moved = planned(host=OTHER)
        assert commit(store, guarded((moved,), serial=1)).won
        assert store.top_group(GROUP) == record(serial=2)
        assert not commit(store, guarded((planned(),), serial=1)).won
        assert store.claims() == [moved]

    def test_a_serial_of_nothing(self, store):
        with pytest.raises(ValueError, match='serial'):
            store.commit([guarded((claim(A, node()),), serial=1)])

    def test_changes_of_one_group_in_a_batch(self, store):
        ready(store)
        first, second, third = plan(planned()), plan(planned(DB)), plan(planned(LB), serial=1)
        assert [one.won for one in store.commit([first, second, third])] == [True, False, True]
        assert {one.consumer_uuid for one in store.group_claims(GROUP)} == {WEB, LB}
        assert store.top_group(GROUP).serial == 2

    @each_afresh('placement', {'a plan': plan(planned(), planned(DB, OTHER)), 'a record': plan()})
    def test_what_was_done_already_is_won_again(self, store, placement):
        """A caller without an answer asks again, and another one may have been quicker."""
        ready(store, HOST, OTHER)
        assert commit(store, placement).won
        before = store.claims(), store.heads(), store.top_group(GROUP)
        assert commit(store, placement).won
        assert (store.claims(), store.heads(), store.top_group(GROUP)) == before
        if placement.claims:
            commit(store, plan(of=record(name='later'), serial=1))
            assert commit(store, placement).won
            assert store.top_group(GROUP).name == 'later'

    def test_two_plans_for_the_same_slots(self, store):
        ready(store, HOST, OTHER, vcpus=2)
        mine = plan(planned(WEB, vcpus=2), planned(DB, OTHER))
        others = [planned(A, HOST, ELSE), planned(B, OTHER, ELSE)]
        won, lost = store.commit([mine, plan(*others, of=record(ELSE))])
        assert (won.won, lost.won) == (True, False)
        fresh = {
            one.report.host: {held.consumer_uuid for held in one.claims} for one in lost.fresh
        }
        assert fresh == {HOST: {WEB}, OTHER: {DB}}
        assert store.top_group(ELSE) is None
        assert {one.top_group for one in store.claims()} == {GROUP}

    def test_planned_claims_count(self, store):
        ready(store, vcpus=4)
        commit(store, plan(planned(vcpus=3)))
        assert not place(store, claim(A, node(), vcpus=2)).won
        assert place(store, claim(A, node(), vcpus=1)).won

    # The second phase.

    def test_an_instance_takes_the_place_of_its_plan(self, store, another):
        """There is no free space next to it."""
        ready(store, vcpus=4)
        old = planned(vcpus=4)
        commit(store, plan(old))
        new = built(vcpus=4, expires_s=NOW + 60)
        before = generation(store)
        outcome = commit(store, create(new, old))
        assert (outcome.won, outcome.generations) == (True, {node(): (before, before + 1)})
        assert another().group_claims(GROUP) == [new]
        assert judged_by(store)[VCPU] == 4
        assert store.top_group(GROUP).serial == 1
        assert commit(store, create(new, old)).won  # once more, without an answer
        assert store.claims() == [new]

    @each_afresh(
        'before',
        {
            'expired': lambda store, old: store.expire(NOW),
            'released': lambda store, old: store.release([old.key]),
            'taken by another one': lambda store, old: commit(store, create(built(B), old)),
            'planned elsewhere': lambda store, old: place(store, planned(host=OTHER)),
            'not planned any more': lambda store, old: place(store, built(WEB)),
            'its node is gone': lambda store, old: remove(store),
        },
    )
    @pytest.mark.parametrize('host', [HOST, OTHER])
    def test_a_plan_that_is_not_there_cannot_be_taken(self, store, before, host):
        ready(store, HOST, OTHER)
        old = planned(expires_s=NOW)
        commit(store, plan(old))
        before(store, old)
        outcome = commit(store, create(built(A, host), old))
        assert not outcome.won
        assert {one.report.node_uuid for one in outcome.fresh} == {
            node(),
            node(host),
        } & store.heads().keys()
        assert store.claims(A) == []

    def test_two_instances_for_one_member(self, store):
        ready(store)
        old = planned()
        commit(store, plan(old))
        outcomes = store.commit([create(built(A), old), create(built(B), old)])
        assert [one.won for one in outcomes] == [True, False]
        assert [one.consumer_uuid for one in store.group_claims(GROUP)] == [A]

    def test_the_cpus_of_a_plan_are_the_instances(self, store):
        """Though other claims have taken CPUs there since: none could take these."""
        ready(store)
        old = planned(parts=PAIR)
        commit(store, plan(old))
        seen = generation(store)
        assert commit(store, Placement((claim(B, node(), parts=REST),), (), {node(): seen})).won
        assert not commit(store, create(built(parts=PAIR), old, generations={node(): seen})).won
        assert commit(store, create(built(parts=PAIR), old)).won
        assert {one.consumer_uuid: one.parts for one in store.claims()} == {A: PAIR, B: REST}

    def test_an_expired_plan_leaves_its_record(self, store):
        ready(store, HOST, OTHER)
        whole = [planned(WEB, expires_s=NOW), planned(DB, OTHER, expires_s=NOW + 1)]
        commit(store, plan(*whole, of=record(expires_s=NOW)))
        assert store.expire(NOW) == whole[:1]
        assert store.group_claims(GROUP) == whole[1:]
        assert store.forget_groups() == 0
        assert store.top_group(GROUP) == record(serial=1, expires_s=NOW)

    @pytest.mark.parametrize('expires_s', [NOW + 600.5, None])
    def test_renew(self, store, another, expires_s):
        ready(store, HOST, OTHER)
        beside = planned(C, group=ELSE, expires_s=NOW)
        mine = [planned(WEB, expires_s=NOW), planned(DB, OTHER, expires_s=NOW)]
        made = built(expires_s=NOW)
        commit(store, plan(beside, of=record(ELSE, expires_s=NOW)))
        commit(store, plan(*mine, made, of=record(expires_s=NOW)))
        before = generation(store, OTHER)
        found = store.renew(GROUP, expires_s)
        assert sorted(found, key=str) == sorted(
            [dataclasses.replace(one, expires_s=expires_s) for one in mine], key=str
        )
        assert sorted(another().group_claims(GROUP), key=str) == sorted([*found, made], key=str)
        assert another().top_group(GROUP) == record(serial=1, expires_s=expires_s)
        assert another().top_group(ELSE).expires_s == NOW
        assert generation(store, OTHER) == before + 1
        assert sorted(store.renew(GROUP, expires_s), key=str) == sorted(found, key=str)
        assert generation(store, OTHER) == before + 1
        assert store.expire(NOW) != []
        assert store.renew(uuid_of('nothing'), NOW) == []

    def test_a_definition_alone_expires_later_too(self, store):
        commit(store, plan())
        assert store.renew(GROUP, NOW) == []
        assert store.top_group(GROUP) == record(serial=1, expires_s=NOW)

    # Records.

    def test_records_are_listed_oldest_first_without_definitions(self, store, another):
        times = {'a': 3.0, 'b': 1.0, 'c': 2.0, 'd': 2.0}
        for name, created_s in times.items():
            of = record(
                uuid_of(name), name=name, created_s=created_s, project_id=f'project {name in "ab"}'
            )
            commit(store, plan(of=of))
        commit(store, plan(of=record(uuid_of('e'), name='a', created_s=0.5, deleted=True)))
        between = sorted('cd', key=uuid_of)
        listed = ['b', *between, 'a']

        def names(**words):
            found = another().top_groups(**words)
            assert {(one.definition, one.serial) for one in found} <= {(None, 1)}
            return [one.name for one in found]

        assert names() == listed
        assert names(deleted=True) == ['a', *listed]
        assert names(project_id='project True') == ['b', 'a']
        assert names(name='a') == ['a']
        assert names(name='a', project_id='project False') == []
        assert names(limit=2) == listed[:2]
        assert names(limit=0) == []
        for place_, name in enumerate(listed):
            assert names(marker=uuid_of(name)) == listed[place_ + 1 :]
        assert names(marker=uuid_of(between[0]), limit=1) == between[1:]
        assert names(marker=uuid_of('e')) == listed
        assert names(project_id='project True', marker=uuid_of('b')) == ['a']
        for unknown in ({'marker': uuid_of('nothing')},
                        {'marker': uuid_of('c'), 'project_id': 'project True'}):  # fmt: skip
            with pytest.raises(errors.GroupNotFound):
                names(**unknown)

    def test_a_deleted_record_stays_until_no_claim_is_left(self, store):
        ready(store, HOST, OTHER)
        old, made = planned(), built(A, OTHER, 'db', state=CONFIRMED)
        commit(store, plan(old, made))
        assert commit(store, plan(of=record(deleted=True), serial=1, releases=[old.key])).won
        assert store.group_claims(GROUP) == [made]
        assert store.forget_groups() == 0
        assert store.top_group(GROUP).deleted
        assert store.top_groups() == []
        store.release([made.key])
        assert store.forget_groups() == 1
        assert store.top_group(GROUP) is None
        assert store.forget_groups() == 0

    def test_a_group_without_claims_stays(self, store):
        commit(store, plan())
        assert store.forget_groups() == 0
        assert store.top_group(GROUP) == record(serial=1)

    # Members.

    @each_afresh(
        'event',
        {
            'confirmed': lambda store: store.confirm([A], [node()]),
            'finished': lambda store: store.finish(A, [node()]),
            'listed': lambda store: ready(store, instances=frozenset([A])),
            'claimed again': lambda store: place(store, claim(A, node(), vcpus=2)),
            'claimed in place of itself': lambda store: place(
                store, claim(A, node(), vcpus=2), releases=[(A, node())]
            ),
            'resized in place': lambda store: self_resized(store),
            'and done': lambda store: (self_resized(store), store.finish(A, [node()])),
            'or taken back': lambda store: (self_resized(store), store.revert(A)),
        },
    )
    def test_a_member_stays_one(self, store, another, event):
        ready(store)
        place(store, built(fences=()))
        event(store)
        (found,) = another().group_claims(GROUP)
        assert (found.consumer_uuid, found.top_group, found.member) == (A, GROUP, 'web')

    def test_the_source_of_a_move_stays_one(self, store):
        ready(store, HOST, OTHER)
        place(store, built(state=CONFIRMED))
        place(store, claim(A, node(OTHER), move=RESIZE))
        assert [one.node_uuid for one in store.group_claims(GROUP)] == [node()]
        store.revert(A)
        assert [one.member for one in store.claims()] == ['web']

    @pytest.mark.parametrize('state', [PLANNED, PENDING, CONFIRMED])
    def test_a_claim_once_more_changes_its_place_in_the_group(self, store, another, state):
        ready(store)
        made = built(state=state)
        place(store, made)
        before = generation(store)
        later = dataclasses.replace(made, member='app/web', top_group=ELSE)
        assert place(store, later).won
        assert another().group_claims(ELSE) == [later]
        assert another().group_claims(GROUP) == []
        assert generation(store) == before + 1
        assert place(
            store, dataclasses.replace(made, top_group=None, member=None)
        ).won  # an older release
        assert store.claims() == [later]

    def test_a_loser_is_told_the_use(self, store):
        ready(store, vcpus=4)
        commit(store, plan(planned(vcpus=3)))
        outcome = commit(store, plan(planned(DB, vcpus=2), of=record(ELSE)))
        assert nonzero(outcome.used[node()])[VCPU] == 3
        assert kept(store) == {(WEB, node()): PLANNED}
        assert facts(store).fences == frozenset()


def self_resized(store):
    place(store, confirmed(A)), place(store, claim(A, node(), vcpus=3))
