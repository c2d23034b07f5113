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
"""Copies of calls that come after the next move of their server has begun, or before the hosts
have told what became of the last one."""

import dataclasses

import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED, LIVE_MIGRATION, MIGRATION, PENDING, RESIZE, VCPU
from nova_sched.claims import ANY, ClaimSelector, Placement
from nova_sched.state.report import ReportOrder
from nova_sched.state.request import RequestedDestination
from nova_sched.tests.builders import report, request
from nova_sched.tests.unit.engine.test_hardware import (
    cell,
    dedicated,
    machine,
    strict,
    told,
    wanted,
)
from nova_sched.tests.unit.engine.world import A, B, World, asks, node

HOSTS = 'host-0', 'host-1', 'host-2'


class Agent:
    """Reports what its host holds, with numbers and the generation that it was told."""

    def __init__(self, world, host):
        self._world, self._host = world, host
        self.held, self._seen, self._number = {}, 0, 0
        self.report()

    def look(self):
        self._number += 1
        used = sum(amounts[VCPU] for amounts in self.held.values())
        return dataclasses.replace(
            report(self._host, vcpus=4, vcpus_used=used),
            instances=frozenset(self.held),
            held=dict(self.held),
            order=ReportOrder(self._seen, 1, self._number),
        )

    def report(self, seen=None):
        """Twice: what the first report has changed, only the second one has seen."""
        for made in [seen] if seen else [self.look(), self.look]:
            (facts,) = self._world.report(made() if callable(made) else made)
            self._seen = facts.generation


class Cloud:
    """Three hosts of four vCPUs, and a server of three that runs on the first."""

    def __init__(self):
        self.world = World()
        self.agents = {host: Agent(self.world, host) for host in HOSTS}
        self.name = self.claim('host-0', 'boot').name
        self.confirm('host-0', self.name)
        self.size = dict(self.world.store.claims(A)[0].resources)
        self.arrive('host-0')

    def claim(self, host, request_id, move=None, leaving=None, name=None):
        asked = asks(A, vcpus=3), host, host, request_id, leaving, move, False, ClaimSelector(name)
        return self.world.call(self.world.claim_service.claim, *asked)

    def select(self, leaving, host, request_id):
        """As a conductor that moves the server to a host."""
        to = RequestedDestination(host=host)
        asked = asks(A, vcpus=3, ignore_hosts=frozenset([leaving]), destination=to)
        return self.world.place(asked, request_id=request_id)

    def confirm(self, host, name=None):
        return self.world.call(
            self.world.claim_service.confirm_claim, A, host, ClaimSelector(name)
        )

    def come_back(self):
        """It was migrated to host-1, and reverted there; host-0 does not have it yet."""
        self.claim('host-1', 'there', MIGRATION)
        self.arrive('host-1', 'host-0')
        self.agents['host-1'].held = {}
        for host in HOSTS[1], HOSTS[0]:
            self.agents[host].report()
        (claim,) = self.world.store.claims(A)
        assert (claim.name, claim.awaited) == (self.name, True)

    def arrive(self, host, leaving=None, silent=()):
        """The server is on the host; all agents report that but the ``silent`` ones."""
        if leaving:
            self.agents[leaving].held = {}
        self.agents[host].held = {A: self.size}
        for reporting in HOSTS:
            if reporting not in silent:
                self.agents[reporting].report()

    def states(self):
        hosts = {node(host): host for host in HOSTS}
        claims = self.world.store.claims(A)
        return {hosts[claim.node_uuid]: claim.state for claim in claims}

    def takes_another(self, host):
        """Whether a server of four vCPUs is placed on the host."""
        try:
            self.world.place(asks(B, vcpus=4, force_hosts=[host]), request_id='another')
        except errors.NoValidHost:
            return False
        return True


@pytest.fixture
def cloud():
    return Cloud()


def by_claim(cloud, leaving, host, request_id):
    return cloud.claim(host, request_id, LIVE_MIGRATION)


def by_selection(cloud, leaving, host, request_id):
    return cloud.select(leaving, host, request_id)


def in_place(cloud, leaving, host, request_id):
    """A call that names no kind of move, as for a resize in place."""
    return cloud.claim(host, request_id)


@pytest.mark.parametrize('request_id', ['boot', 'resize', 'back'])
@pytest.mark.parametrize('move', [by_claim, by_selection, in_place])
@pytest.mark.parametrize('is_resized', [False, True], ids=['the same size', 'another size'])
def test_a_host_that_has_still_to_tell_takes_no_server_back(cloud, is_resized, move, request_id):
    """Whether the call is new, or a copy of an earlier one: what the host reports would be of the
    last stay, and what names the claim of that stay would settle the next one."""
    for vcpus in (4,) if is_resized else (4, 3):
        resize = asks(A, vcpus=vcpus), 'host-0', 'host-0', 'resize'
        resized = cloud.world.call(cloud.world.claim_service.claim, *resize)
        cloud.confirm('host-0', resized.name)
        cloud.size = dict(cloud.world.store.claims(A)[0].resources)
        cloud.arrive('host-0')
    cloud.claim('host-1', 'there', LIVE_MIGRATION)
    cloud.arrive('host-1', 'host-0', silent=['host-0'])
    before = cloud.world.store.claims(A)
    assert len(before) == 2
    with pytest.raises((errors.NoValidHost, errors.ComputeResourcesUnavailable), match='yet to'):
        move(cloud, 'host-1', 'host-0', request_id)
    assert cloud.world.store.claims(A) == before
    cloud.agents['host-0'].report()
    assert cloud.states() == {'host-1': CONFIRMED}
    if request_id == 'back' and move is not in_place:
        move(cloud, 'host-1', 'host-0', request_id)
        assert cloud.states() == {'host-0': PENDING, 'host-1': CONFIRMED}


@pytest.mark.parametrize('late', [by_claim, by_selection, in_place])
def test_a_copy_of_an_earlier_call_when_the_source_of_a_move_has_told_that_it_was_left(
    cloud, late
):
    """No confirmed claim says any more that the pending one is of a move."""
    cloud.select('host-0', 'host-1', 'there')
    cloud.agents['host-0'].held = {}
    cloud.agents['host-0'].report()
    before = cloud.world.store.claims(A)
    assert cloud.states() == {'host-1': PENDING}
    with pytest.raises((errors.Superseded, errors.Outdated)):
        late(cloud, 'host-0', 'host-2', 'earlier')
    assert cloud.world.store.claims(A) == before
    cloud.select('host-0', 'host-1', 'there')
    assert cloud.states() == {'host-1': PENDING}


def of_an_earlier_release(cloud):
    """Its claims have no numbers."""
    with cloud.world.store._sessions.transaction() as connection:
        connection.exec_driver_sql('UPDATE claims SET number = 0')
    cloud.world.state_sync.refresh()
    cloud.select('host-0', 'host-1', 'there')


def tried_elsewhere_first(cloud):
    """It could not be built on the first host, and the source has told that it is gone."""
    cloud.select('host-0', 'host-2', 'there')
    cloud.agents['host-0'].held = {}
    cloud.agents['host-0'].report()
    cloud.select('host-2', 'host-1', 'there')


@pytest.mark.parametrize('begins', [of_an_earlier_release, tried_elsewhere_first])
@pytest.mark.parametrize('late', [by_claim, by_selection, in_place])
def test_a_move_gives_way_to_no_earlier_call(cloud, begins, late):
    begins(cloud)
    before = cloud.world.store.claims(A)
    with pytest.raises((errors.Superseded, errors.Outdated)):
        late(cloud, 'host-0', 'host-2', 'earlier')
    assert cloud.world.store.claims(A) == before


@pytest.mark.parametrize('kind', [LIVE_MIGRATION, MIGRATION, None])
@pytest.mark.parametrize('move', [by_selection, by_claim])
def test_a_move_after_one_that_was_taken_back(cloud, kind, move):
    """Its target may still report, or revert_claim say, that it has the server no more."""
    if kind is None:
        cloud.select('host-0', 'host-1', 'first')
    else:
        first = cloud.claim('host-1', 'first', kind)
    cloud.agents['host-1'].held = {A: cloud.size}
    cloud.agents['host-1'].report()
    cloud.agents['host-1'].held = {}
    before = cloud.world.store.claims(A)
    assert cloud.states() == {'host-0': CONFIRMED, 'host-1': CONFIRMED}
    with pytest.raises((errors.NoValidHost, errors.Outdated, errors.ComputeResourcesUnavailable)):
        move(cloud, 'host-0', 'host-1', 'second')
    assert cloud.world.store.claims(A) == before
    if kind is None:
        cloud.agents['host-1'].report()
    else:
        named = ClaimSelector(first.name)
        cloud.world.call(cloud.world.claim_service.revert_claim, A, named)
    move(cloud, 'host-0', 'host-1', 'second')
    assert cloud.states() == {'host-0': CONFIRMED, 'host-1': PENDING}


def test_a_move_back_with_dedicated_cpus_waits_for_what_the_host_tells():
    """It may get other CPUs than it had."""
    world = World(chain=strict())
    for host in HOSTS[:2]:
        world.report(report(host, memory_mb=4096, **told(machine(cell(0, [0], range(1, 9))))))
    asked = request(instance_uuid=A, pieces=wanted(dedicated(2)))
    world.place(dataclasses.replace(asked, force_hosts=('host-0',)), request_id='boot')
    world.call(world.claim_service.confirm_claim, A, 'host-0')
    away = dataclasses.replace(asked, ignore_hosts=frozenset(['host-0']))
    world.place(away, request_id='there')
    there = next(claim for claim in world.store.claims(A) if claim.node_uuid == node('host-1'))
    world.call(world.claim_service.confirm_claim, A, 'host-1', ClaimSelector(there.name))
    before = world.store.claims(A)
    back = dataclasses.replace(asked, ignore_hosts=frozenset(['host-1']))
    with pytest.raises(errors.NoValidHost):
        world.place(back, request_id='back')
    assert world.store.claims(A) == before


def moved_without_a_word(cloud):
    """The server has gone to host-1 and back, and host-1 has not told that it has left."""
    cloud.select('host-0', 'host-1', 'there')
    cloud.arrive('host-1', 'host-0')
    cloud.select('host-1', 'host-0', 'back')
    cloud.arrive('host-0', 'host-1', silent=['host-1'])


def test_a_host_that_has_told_is_heard_whatever_another_one_leaves_open(cloud):
    moved_without_a_word(cloud)
    resized = asks(A, vcpus=2), 'host-0', 'host-0', 'resize', None, None
    assert cloud.world.call(cloud.world.claim_service.claim, *resized).resizing is not None


@pytest.mark.parametrize('move', [LIVE_MIGRATION, MIGRATION])
def test_a_copy_of_the_boot_during_a_move(cloud, move):
    made = cloud.claim('host-1', 'move', move)
    with pytest.raises(errors.Outdated, match='another claim is pending'):
        cloud.claim('host-0', 'boot')
    assert cloud.states() == {'host-0': CONFIRMED, 'host-1': PENDING}
    cloud.arrive('host-1', 'host-0')
    (claim,) = cloud.confirm('host-1', made.name)
    assert claim.node_uuid == node('host-1')


@pytest.mark.parametrize('silent', [[], ['host-0']], ids=['all report', 'the source is silent'])
def test_a_copy_of_an_earlier_move_that_was_selected(cloud, silent):
    cloud.select('host-0', 'host-1', 'first')
    cloud.arrive('host-1', 'host-0', silent)
    cloud.select('host-1', 'host-2', 'second')
    before = cloud.world.store.claims(A)
    with pytest.raises((errors.Superseded, errors.AlreadyRunning)):
        cloud.select('host-0', 'host-1', 'first')
    assert cloud.world.store.claims(A) == before
    assert not cloud.takes_another('host-2')


@pytest.mark.parametrize('is_moving', [False, True], ids=['it stays', 'it moves on'])
def test_a_revert_of_a_move_that_reports_have_settled(cloud, is_moving):
    """No older claim says where the server would go back to."""
    moved = cloud.claim('host-1', 'first', LIVE_MIGRATION)
    cloud.arrive('host-1', 'host-0')
    if is_moving:
        cloud.claim('host-2', 'second', LIVE_MIGRATION)
    before = cloud.world.store.claims(A)
    with pytest.raises(errors.Outdated):
        cloud.world.call(cloud.world.claim_service.revert_claim, A, ClaimSelector(moved.name))
    assert cloud.world.store.claims(A) == before


def test_a_message_of_the_last_stay_does_not_confirm_a_move_back(cloud):
    cloud.claim('host-1', 'there', LIVE_MIGRATION)
    cloud.arrive('host-1', 'host-0')
    cloud.claim('host-0', 'back', LIVE_MIGRATION)
    cloud.world.call(cloud.world.state_sync.instances_are, 'host-0', [A])
    cloud.agents['host-0'].report()
    assert cloud.states() == {'host-0': PENDING, 'host-1': CONFIRMED}


@pytest.mark.parametrize('kind', [LIVE_MIGRATION, MIGRATION, RESIZE])
def test_a_copy_of_the_call_whose_host_gave_way_to_an_alternate(cloud, kind):
    """Of the same request, which has been told the alternate since."""
    first = cloud.claim('host-1', 'move', kind)
    alternate = cloud.claim('host-2', 'move', None, 'host-1', first.name)
    with pytest.raises(errors.Outdated):
        cloud.claim('host-1', 'move', kind)
    cloud.arrive('host-2', 'host-0')
    (claim, *_) = cloud.confirm('host-2', alternate.name)
    assert (claim.node_uuid, cloud.takes_another('host-2')) == (node('host-2'), False)


def test_a_copy_of_an_alternate_that_named_nothing(cloud):
    """It ends nothing. The server was shelved, and is to be on another host."""
    cloud.agents['host-0'].held = {}
    cloud.agents['host-0'].report()
    later = cloud.claim('host-2', 'unshelve')
    with pytest.raises(errors.Outdated, match='name the claim'):
        cloud.claim('host-1', 'boot', leaving='host-0')
    assert cloud.states() == {'host-2': PENDING}
    again = cloud.claim('host-2', 'unshelve', leaving='host-0')  # it is the alternate itself
    assert (again.name, again.state) == (later.name, PENDING)


def test_a_confirmation_that_names_nothing_confirms_no_move(cloud):
    cloud.select('host-0', 'host-1', 'there')
    cloud.arrive('host-1', 'host-0')
    cloud.select('host-1', 'host-0', 'back')
    with pytest.raises(errors.Outdated, match='name the claim'):
        cloud.confirm('host-0')
    cloud.agents['host-0'].report()
    assert cloud.states() == {'host-0': PENDING, 'host-1': CONFIRMED}


def test_a_copy_of_a_confirmation_ends_no_wait_for_the_way_back(cloud):
    cloud.come_back()
    before = cloud.world.store.claims(A)
    cloud.confirm('host-0', cloud.name)
    cloud.agents['host-0'].report()
    assert cloud.world.store.claims(A) == before
    cloud.arrive('host-0')
    (claim,) = cloud.world.store.claims(A)
    assert (claim.name, claim.awaited) == (cloud.name, False)


def test_nor_does_a_resize_in_place_that_was_decided_before(cloud):
    """Its scheduler stands still before it commits."""
    store = cloud.world.store
    (claim,) = store.claims(A)
    asked = dataclasses.replace(
        claim, uuid=B, request_id='resize', state=PENDING, resources={**claim.resources, VCPU: 4}
    )
    decided = Placement((asked,), runs={(claim.uuid, claim.number): claim.node_uuid})
    cloud.come_back()
    (outcome,) = store.commit([decided])
    assert not outcome.won
    assert [claim.awaited for claim in store.claims(A)] == [True]


# Resizes that select_destinations leaves on their host.


def running():
    """A world with one host of eight vCPUs, on which the server has one."""
    world = World()
    world.report(report('host-0', vcpus=8))
    resize(world, 1, 'boot')
    world.call(world.claim_service.confirm_claim, A, 'host-0')
    return world


def resize(world, vcpus, request_id):
    world.place(asks(A, vcpus=vcpus, force_hosts=['host-0']), request_id=request_id)
    (claim,) = world.store.claims(A)
    return claim


def test_a_resize_in_place_gives_way_to_no_other_selection():
    world = running()
    first = resize(world, 2, 'first')
    with pytest.raises(errors.Superseded):
        resize(world, 4, 'second')
    world.now_s += 5
    again = resize(world, 2, 'first')
    assert (again.name, again.resizing) == (first.name, first.resizing)
    assert again.expires_s == pytest.approx(first.expires_s + 5)
    meant = ClaimSelector(first.name)
    world.call(world.claim_service.confirm_claim, A, 'host-0', meant)
    assert resize(world, 4, 'second').resizing.new[VCPU] == 4


def test_a_resize_in_place_that_was_given_up_gives_way():
    world = running()
    resize(world, 2, 'first')
    world.store.expire(world.now_s + 4000)
    world.state_sync.refresh()
    assert resize(world, 4, 'second').resizing.new[VCPU] == 4


def test_a_copy_of_a_resize_in_place_keeps_the_cpus_that_were_picked():
    """Other ones are free by then, which the copy would pick."""
    world = World(chain=strict())
    world.report(report('host-0', memory_mb=4096, **told(machine(cell(0, [0], range(1, 9))))))
    for server in B, A:
        asked = request(instance_uuid=server, pieces=wanted(dedicated(2)))
        world.call(world.claim_service.claim, asked, 'host-0', 'host-0', f'boot of {server}')
        world.call(world.claim_service.confirm_claim, server, 'host-0')
    asked = request(instance_uuid=A, pieces=wanted(dedicated(3)))
    asked = dataclasses.replace(asked, resources={**asked.resources, 'MEMORY_MB': 1024})
    parts = []
    for _ in range(2):
        world.place(asked, request_id='resize')
        (claim,) = world.store.claims(A)
        parts.append(claim.resizing.parts)
        for other in world.store.claims(B):
            world.store.release([other.key], ANY)
        world.state_sync.refresh()
    assert parts[0] == parts[1]


def test_a_late_commit_takes_no_time_from_a_later_caller():
    world = running()
    resize(world, 2, 'first')
    commits, commit_now = [], world.store.commit
    world.store.commit = lambda placements: commits.append(placements) or commit_now(placements)
    resize(world, 2, 'first')
    world.store.commit = commit_now
    world.now_s += 3500
    later = resize(world, 2, 'first')
    world.now_s += 50
    commit_now(commits[0])
    (now,) = world.store.claims(A)
    assert now.expires_s >= later.expires_s
