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
"""Placement groups and a store that is away, forgets its answers, or has other clients who are
quicker."""

import threading
from concurrent import futures

import pytest

from nova_sched import errors
from nova_sched.claims import Placement
from nova_sched.engine.groups import operations
from nova_sched.engine.groups.member_state import read
from nova_sched.groups.definition import ANTI_AFFINITY, GroupPolicy
from nova_sched.tests.builders import claim, uuid_of
from nova_sched.tests.functional.harness import eventually
from nova_sched.tests.unit.engine.groups.group_cloud import BIG, SOURCE, cloud, definition, members
from nova_sched.tests.unit.engine.stores import Contested, Miser, Unsteady

PAIR = definition(members('a', 'b'), GroupPolicy('apart', ANTI_AFFINITY, 'host', ('a', 'b')))


@pytest.fixture
def forgetful():
    with cloud(4, Unsteady()) as made:
        yield made


class TestAnswersThatAreLost:
    """The commit was done, and its answer was lost: it is not done twice, and not reported as
    failed."""

    def forget_commits(self, made, monkeypatch):
        commit, lost = made.store.commit, [1]

        def once(placements):
            found = commit(placements)
            if lost:
                lost.pop()
                raise errors.StoreUnavailable('the answer is lost')
            return found

        monkeypatch.setattr(made.store, 'commit', once)

    def test_create(self, forgetful, monkeypatch):
        self.forget_commits(forgetful, monkeypatch)
        group = forgetful.create(PAIR)
        assert (group.status, group.generation) == ('planned', 1)
        assert len(forgetful.store.claims()) == 2
        assert [one.uuid for one in forgetful.groups.list()] == [group.uuid]

    def test_update(self, forgetful, monkeypatch):
        group = forgetful.create(PAIR)
        self.forget_commits(forgetful, monkeypatch)
        more = forgetful.groups.update(
            group.uuid, definition(members('a', 'b', 'c')), SOURCE, generation=1
        )
        assert (more.generation, len(more.members)) == (2, 3)

    def test_update_renews_what_it_keeps(self, forgetful, monkeypatch):
        group = forgetful.create(PAIR, ttl_s=100)
        self.forget_commits(forgetful, monkeypatch)
        more = forgetful.groups.update(
            group.uuid, definition(members('a', 'b', 'c')), SOURCE, generation=1, ttl_s=1000
        )
        (stored,) = forgetful.store.top_groups()
        until = [one.expires_s for one in forgetful.store.claims()]
        assert len(until) == 3
        assert until == pytest.approx([more.expires_s] * 3, abs=1)
        assert stored.expires_s == more.expires_s

    def test_delete(self, forgetful, monkeypatch):
        group = forgetful.create(PAIR)
        self.forget_commits(forgetful, monkeypatch)
        assert forgetful.groups.delete(group.uuid, generation=1).status == 'deleting'
        assert forgetful.store.claims() == []

    def test_build(self, forgetful, monkeypatch):
        group = forgetful.create(PAIR)
        planned = forgetful.places(group)['a']
        self.forget_commits(forgetful, monkeypatch)
        assert forgetful.build(group, 'a', request_id='req-1')[0] == planned
        assert len(forgetful.store.claims()) == 2


def test_while_the_store_is_away_everybody_waits(forgetful):
    group = forgetful.create(PAIR)
    forgetful.store.away.set()
    found = []
    asked = [
        threading.Thread(target=lambda: found.append(forgetful.build(group, 'a'))),
        threading.Thread(target=lambda: found.append(forgetful.create(PAIR))),
    ]
    for thread in asked:
        thread.start()
    eventually(lambda: forgetful.store.asked_in_vain > 3)
    assert found == []
    forgetful.store.away.clear()
    for thread in asked:
        thread.join()
    assert len(found) == 2


def rival(host, name='rival', vcpus=8):
    """A claim of another instance that fills a host."""
    return [Placement((claim(uuid_of(name), uuid_of(f'node {host}'), vcpus),))]


def test_a_plan_that_fails_brings_back_no_claim_that_has_ended():
    with cloud(4) as made:
        group = made.create(PAIR)
        plans, record = made.groups._plans, made.store.top_group(group.uuid)
        known = read(record)
        draft = made.scheduler.call(plans.draft, known, known.requests())
        made.groups.delete(group.uuid)
        for number in range(4):
            made.place(f'{number}', BIG)
        others = [
            (draft.group_problem.nodes.index(state.planned.node_uuid) + 1) % 4
            for state in draft.member_states
        ]
        taken = made.scheduler.call(plans.take, draft, others, record, 60.0)
        assert not taken.won
        held = [claim.uuid for node in made.cluster for claim in node.claims.values()]
        assert sorted(held) == sorted(claim.uuid for claim in made.store.claims())


class TestOthers:
    def test_a_lost_race_is_planned_again_on_what_is_left(self):
        with cloud(3, Contested()) as made:
            foreseen = {one.host for one in made.create(PAIR, dry_run=True).members}
            lost = min(foreseen)
            made.store.rivals = [rival(lost)]
            group = made.create(PAIR)
            assert set(made.places(group).values()) == {'h0', 'h1', 'h2'} - {lost}

    def test_when_nothing_is_left_nothing_is_planned(self):
        with cloud(2, Contested()) as made:
            made.store.rivals = [rival('h0')]
            with pytest.raises(errors.GroupRefused):
                made.create(PAIR)
            assert [one.consumer_uuid for one in made.store.claims()] == [uuid_of('rival')]
            assert made.groups.list() == []

    def test_a_rival_that_is_always_quicker(self):
        with cloud(2, Miser(), plan_attempts=3) as made:
            with pytest.raises(errors.GroupRefused, match='3 times in a row'):
                made.create(PAIR)
            assert len(made.store.commits) == 3
            assert made.cluster.hosts.num_instances.sum() == 0

    def test_groups_that_were_planned_on_the_same_hosts_lose_once(self, monkeypatch):
        """All are planned at the same moment; those that lose then are planned one after the
        other."""
        at_once, place, planned = threading.Barrier(4), operations.joint.place, []

        def together(*given):
            found = place(*given)
            if len(planned) < 4:
                planned.append(found)
                at_once.wait(60)
            return found

        monkeypatch.setattr(operations.joint, 'place', together)
        big = definition(members('a', 'b', flavor=BIG))
        with cloud(8, plan_attempts=2) as made, futures.ThreadPoolExecutor(4) as pool:
            made_groups = list(pool.map(lambda _: made.create(big), range(4)))
            used = [host for one in made_groups for host in made.places(one).values()]
        assert sorted(used) == [f'h{number}' for number in range(8)]

    def test_a_build_of_what_another_scheduler_has_planned_again(self):
        """The planned claim is gone when this one would take it."""
        with cloud(4, Contested()) as made, cloud(0, made.store) as other:
            group = made.create(PAIR)
            planned = made.places(group)['a']
            other.disable(planned)
            other.build(group, 'b')
            other.groups.plan(group.uuid, replan=True)
            made.scheduler.call(made.scheduler.state_sync.refresh)
            assert made.build(group, 'a')[0] != planned
            assert len(set(made.places(group).values())) == 2

    def test_two_build_one_member(self):
        """Twice the same instance, by two schedulers: one claim."""
        with cloud(4, Contested()) as made, cloud(0, made.store) as other:
            group = made.create(PAIR)
            hosts = {
                made.build(group, 'a', request_id='r')[0],
                other.build(group, 'a', request_id='r')[0],
            }
            assert len(hosts) == 1
            assert len(made.store.claims()) == 2

    def test_a_full_cloud_with_plans_is_full_for_all(self):
        with cloud(2, Contested()) as made, cloud(0, made.store) as other:
            made.create(definition(members('a', 'b', flavor=BIG)))
            with pytest.raises(errors.NoValidHost):
                other.place('outsider')
            with pytest.raises(errors.GroupRefused):
                other.create(definition(members('c')))
