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
"""Tests of the claim service: claims made on one node, confirmed, taken back and ended."""

import dataclasses

import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED, PENDING, RESIZE, VCPU
from nova_sched.claims import ANY, ClaimSelector, Placement
from nova_sched.state.report import Inventory
from nova_sched.tests.builders import claim, report, uuid_of
from nova_sched.tests.unit.engine.stores import Unsteady
from nova_sched.tests.unit.engine.world import (
    A,
    B,
    World,
    asks,
    commit,
    end_claims,
    node,
    picture,
    settle_claim,
    states,
    used,
)


def ask(
    world,
    host='host-0',
    request_id='req-1',
    meant=ANY,
    *,
    leaving=None,
    move=None,
    new=False,
    **words,
):
    """Claim on the host for instance A, or for another one of ``words``."""
    place = host, host, request_id, leaving, move, new, meant
    return world.call(world.claim_service.claim, asks(**words), *place)


def leave(world, host='host-1', leaving='host-0', name=None, **words):
    """Claim an alternate; ``name`` is that of the claim that fails, by default the first."""
    known = [claim.name for claim in world.store.claims(A)]
    meant = ClaimSelector(name or (known[0] if known else None))
    return ask(world, host, meant=meant, leaving=leaving, **words)


def runs(world, **words):
    """The confirmed claim of A on host-0."""
    world.place(asks(A, force_hosts=['host-0'], **words))
    (claim,) = world.call(world.claim_service.confirm_claim, A, 'host-0')
    return claim


class TestClaim:
    @pytest.mark.parametrize('new', [False, True])
    def test_a_claim(self, world, new):
        made = ask(world, new=new, vcpus=3)
        assert (made.consumer_uuid, made.node_uuid, made.resources[VCPU], made.request_id) == (
            A,
            node(),
            3,
            'req-1',
        )
        assert states(world) == {(A, 'host-0'): PENDING}
        assert used(world) == [3, 0]
        assert made.expires_s == pytest.approx(made.created_s + 3600, abs=0.001)

    @pytest.mark.parametrize('new', [False, True])
    def test_made_twice_is_one(self, world, new):
        """It keeps its name, and lives on."""
        before = ask(world, new=new, vcpus=3)
        world.now_s += 5
        again = ask(world, new=new, vcpus=3)
        assert again.uuid == before.uuid
        assert again.expires_s == pytest.approx(before.expires_s + 5)
        assert (world.store.claims(), used(world)) == ([again], [3, 0])

    def test_on_an_unknown_node(self, world):
        with pytest.raises(errors.NodeNotFound):
            ask(world, 'host-9')
        assert states(world) == {}

    @pytest.mark.parametrize(
        'words, short',
        [
            pytest.param({'vcpus': 4}, 'VCPU: 4 asked, 3 available', id='in use'),
            pytest.param({'vcpus': 5}, 'VCPU: 5 asked, the node has 4 in all', id='too large'),
            pytest.param({'resources': {'CUSTOM_GOLD': 1}}, 'CUSTOM_GOLD', id='unknown'),
            pytest.param({'vcpus': 5, 'memory_mb': 10**6}, 'VCPU.*MEMORY_MB', id='both are told'),
        ],
    )
    def test_what_is_short_is_told(self, world, words, short):
        world.place(asks(B, force_hosts=['host-0']))
        before = picture(world.cluster)
        with pytest.raises(errors.ComputeResourcesUnavailable, match=short):
            ask(world, **words)
        assert picture(world.cluster) == before

    def test_no_more_than_one_consumer_may_have(self, world):
        world.report(report(inventories={VCPU: Inventory(8, max_unit=2)}, used={}))
        with pytest.raises(errors.ComputeResourcesUnavailable, match='VCPU: 3 asked'):
            ask(world, vcpus=3, resources={VCPU: 3})
        assert world.store.commits == []

    def test_a_lost_race(self, world):
        world.store.rivals = [[Placement((claim(B, node(), vcpus=3),))]]
        with pytest.raises(errors.ComputeResourcesUnavailable, match='2 asked, 1 available'):
            ask(world, vcpus=2)
        assert used(world) == [3, 0]
        world.state_sync.refresh()
        assert states(world) == {(B, 'host-0'): PENDING}

    def test_the_alternate_replaces_the_failed_host(self, world):
        world.place(asks(A, force_hosts=['host-0']))
        leave(world)
        assert states(world) == {(A, 'host-1'): PENDING}
        assert used(world) == [0, 1]

    @pytest.mark.parametrize('vcpus', [1, 2])
    def test_the_alternate_is_asked_for_again(self, world, vcpus):
        """The answer was lost; meanwhile the alternate may have been confirmed."""
        world.place(asks(A, force_hosts=['host-0']))
        (first,) = world.store.claims()
        made = leave(world)
        assert leave(world, name=first.name) == made
        world.call(settle_claim, world.claim_service, A, 'host-1')
        if vcpus == 1:
            assert leave(world, name=first.name).uuid == made.uuid
        else:
            with pytest.raises(errors.ClaimNotFound):
                leave(world, name=first.name, vcpus=vcpus)
        assert states(world) == {(A, 'host-1'): CONFIRMED}

    def test_a_confirmed_claim_there_stays(self, world):
        """A late call: the build has not failed."""
        world.place(asks(A, force_hosts=['host-0']))
        world.call(world.state_sync.instances_added, 'host-0', [A])
        with pytest.raises(errors.Outdated, match='is confirmed'):
            leave(world)
        assert states(world) == {(A, 'host-0'): CONFIRMED}

    def test_a_claim_there_that_is_confirmed_at_this_moment_stays(self, world):
        world.place(asks(A, force_hosts=['host-0']))
        claims, commit = world.store.claims(A), world.store.commit

        def committing(placements):
            world.store.commit = commit
            world.store.finish(A, [node()])
            return commit(placements)

        world.store.commit = committing
        with pytest.raises(errors.Outdated, match='is confirmed'):
            leave(world)
        assert [one.uuid for one in world.store.claims(A)] == [one.uuid for one in claims]

    def test_another_claim_there_than_the_named_one_stays(self, world):
        world.place(asks(A, force_hosts=['host-0']))
        with pytest.raises(errors.ClaimNotFound):
            leave(world, name=uuid_of('before'))
        with pytest.raises(errors.Outdated, match='name the claim'):
            ask(world, 'host-1', leaving='host-0')
        assert states(world) == {(A, 'host-0'): PENDING}

    def test_a_claim_that_waits_elsewhere_ends_at_once(self, world):
        world.place(asks(A, force_hosts=['host-0']))
        ask(world, 'host-1')
        assert states(world) == {(A, 'host-1'): PENDING}
        assert used(world) == [0, 1]

    def test_a_confirmed_claim_elsewhere_stays(self, world):
        runs(world)
        ask(world, 'host-1')
        assert states(world) == {(A, 'host-0'): CONFIRMED, (A, 'host-1'): PENDING}

    def test_when_the_alternate_has_no_room_the_failed_host_keeps_its_claim(self, world):
        world.place(asks(A, force_hosts=['host-0']))
        before = picture(world.cluster)
        with pytest.raises(errors.ComputeResourcesUnavailable):
            leave(world, vcpus=5)
        assert picture(world.cluster) == before
        assert states(world) == {(A, 'host-0'): PENDING}

    def test_when_the_store_is_away_nothing_stays_consumed(self):
        world = World(Unsteady())
        world.report(report(vcpus=4), report('host-1'))
        world.place(asks(A, force_hosts=['host-0']))
        before = picture(world.cluster)
        world.loop.hurry()
        world.store.away.set()
        with pytest.raises(errors.StoreUnavailable):
            leave(world)
        assert picture(world.cluster) == before


class TestNewInstance:
    """It runs nowhere yet, says who claims for it."""

    def confirmed_by_another(self, world, host, vcpus=1):
        """Another scheduler has claimed for it there, and confirmed that; this one has not heard
        of it."""
        commit(world.store, claim(A, node(host), vcpus=vcpus, request_id='req-1'))
        world.store.finish(A, [node(host)])

    @pytest.mark.parametrize('known', [True, False], ids=['known here', 'not known here'])
    def test_what_waits_elsewhere_is_replaced(self, world, known):
        """Another worker had the job, and was lost."""
        commit(world.store, claim(A, node('host-1'), request_id='req-1'))
        if known:
            world.state_sync.refresh()
        ask(world, new=True)
        assert states(world) == {(A, 'host-0'): PENDING}
        with pytest.raises(errors.ClaimNotFound):
            world.call(world.claim_service.confirm_claim, A, 'host-1')
        assert states(world) == {(A, 'host-0'): PENDING}

    @pytest.mark.parametrize('known', [True, False], ids=['known here', 'not known here'])
    @pytest.mark.parametrize(
        'vcpus', [1, 3, 9], ids=['fits', 'does not fit beside it', 'never fits']
    )
    def test_one_that_runs_elsewhere(self, world, known, vcpus):
        world.place(asks(B, vcpus=2, force_hosts=['host-0']))
        self.confirmed_by_another(world, 'host-1')
        if known:
            world.state_sync.refresh()
        with pytest.raises(errors.AlreadyPlaced) as placed:
            ask(world, new=True, vcpus=vcpus)
        assert placed.value.args == (A, 'host-1')
        assert states(world) == {(A, 'host-1'): CONFIRMED, (B, 'host-0'): PENDING}

    @pytest.mark.parametrize('known', [True, False], ids=['known here', 'not known here'])
    @pytest.mark.parametrize('vcpus', [3, 9], ids=['its size', 'another size'])
    def test_one_that_runs_on_the_node_stays_as_it_is(self, world, known, vcpus):
        """There is no room for it once more."""
        self.confirmed_by_another(world, 'host-0', vcpus=3)
        if known:
            world.state_sync.refresh()
        (before,) = world.store.claims()
        assert ask(world, new=True, vcpus=vcpus) == before
        assert world.store.claims() == [before]
        world.state_sync.refresh()
        assert used(world) == [3, 0]

    def test_one_that_runs_on_the_node_with_room_for_another(self, world):
        self.confirmed_by_another(world, 'host-0')
        (before,) = world.store.claims()
        assert ask(world, new=True) == before
        assert world.store.claims() == [before]
        assert used(world) == [1, 0]

    def test_one_that_has_gone_meanwhile(self, world):
        self.confirmed_by_another(world, 'host-1')
        world.state_sync.refresh()
        world.store.release([(A, node('host-1'))])
        ask(world, new=True)
        assert states(world) == {(A, 'host-0'): PENDING}

    def test_one_that_is_claimed_for_while_it_moves(self, world):
        """A job that is delivered again, when its instance is on its way already."""
        self.confirmed_by_another(world, 'host-0')
        world.state_sync.refresh()
        ask(world, 'host-1', 'req-2', move=RESIZE)
        ask(world, new=True)
        assert states(world) == {(A, 'host-0'): CONFIRMED, (A, 'host-1'): PENDING}

    def test_an_alternate_for_a_resize_in_place(self, world):
        """One that names the claim may not know the resize."""
        self.confirmed_by_another(world, 'host-0')
        world.state_sync.refresh()
        (there,) = world.store.claims(A)
        assert ask(world, request_id='req-2', move=RESIZE, vcpus=2).resizing
        with pytest.raises(errors.Outdated, match='a resize of it is open'):
            leave(world, name=there.uuid, vcpus=2)
        (there,) = world.store.claims(A)
        assert leave(world, name=there.name, vcpus=2).move == RESIZE
        assert states(world) == {(A, 'host-0'): CONFIRMED, (A, 'host-1'): PENDING}
        assert used(world) == [1, 2]

    def test_one_that_is_confirmed_elsewhere_at_this_moment(self, world):
        world.store.rivals = [[Placement((claim(A, node('host-1'), state=CONFIRMED),))]]
        with pytest.raises(errors.AlreadyPlaced):
            ask(world, new=True)
        assert (states(world), used(world)) == ({(A, 'host-1'): CONFIRMED}, [0, 1])


class TestConfirmAndAbort:
    def test_confirm(self, world):
        world.place(asks(A, force_hosts=['host-0']))
        for _ in range(2):
            (found,) = world.call(world.claim_service.confirm_claim, A, 'host-0')
            assert (found.state, found.expires_s) == (CONFIRMED, None)
        assert states(world) == {(A, 'host-0'): CONFIRMED}

    def test_confirm_what_another_scheduler_claimed(self, world):
        commit(world.store, claim(A, node(), vcpus=2))
        (found,) = world.call(world.claim_service.confirm_claim, A, 'host-0')
        assert found.state == CONFIRMED
        assert used(world) == [2, 0]

    @pytest.mark.parametrize('instance, host', [(A, 'host-1'), (B, 'host-0'), (A, 'host-9')])
    def test_confirm_what_is_not_there(self, world, instance, host):
        world.place(asks(A, force_hosts=['host-0']))
        with pytest.raises(errors.ClaimNotFound):
            world.call(world.claim_service.confirm_claim, instance, host)
        assert states(world) == {(A, 'host-0'): PENDING}

    def test_confirm_names_nothing(self, world):
        """Neither a move nor a resize is settled by a call that does not name it."""
        runs(world)
        for host in ('host-1', 'host-0'):
            made = ask(world, host, move=RESIZE, vcpus=2)
            before = world.store.claims()
            with pytest.raises(errors.Outdated, match='name the claim'):
                world.call(world.claim_service.confirm_claim, A, host)
            with pytest.raises(errors.Outdated, match='name the claim'):
                world.call(world.claim_service.revert_claim, A)
            assert world.store.claims() == before
            world.call(world.claim_service.revert_claim, A, ClaimSelector(made.name))
        with pytest.raises(errors.ClaimNotFound):
            world.call(world.claim_service.revert_claim, A)
        assert states(world) == {(A, 'host-0'): CONFIRMED}

    @pytest.mark.parametrize('method', ['confirm', 'revert'])
    @pytest.mark.parametrize('host', ['host-0', 'host-1'], ids=['resize', 'move'])
    def test_a_call_that_is_repeated_or_late(self, world, host, method):
        """The first answer was lost; then the other call comes late."""
        runs(world)
        meant = ClaimSelector(ask(world, host, move=RESIZE, vcpus=2).name)
        confirm = world.claim_service.confirm_claim, A, host, meant
        revert = world.claim_service.revert_claim, A, meant
        first, other = (confirm, revert) if method == 'confirm' else (revert, confirm)
        world.call(*first)
        before = world.store.claims()
        if method == 'confirm':
            assert world.call(*first) == before
            with pytest.raises(errors.Outdated, match='is confirmed'):
                world.call(*other)
        else:
            for late in (first, other):
                with pytest.raises(errors.ClaimNotFound):
                    world.call(*late)
        assert world.store.claims() == before

    @pytest.mark.parametrize('move', [None, 'live-migration'], ids=['resize', 'move'])
    def test_a_confirmation_that_is_repeated_below_a_late_resize(self, world, move):
        """The answer was lost, and then a late copy has opened a resize that nobody was told of.
        The copy says nothing of a resize that is settled, but a move may still be open."""
        runs(world)
        if move is None:
            meant = ClaimSelector(ask(world, move=RESIZE, vcpus=2).name)
            world.call(world.claim_service.confirm_claim, A, 'host-0', meant)
        else:
            commit(world.store, claim(A, node('host-1'), move=move))
            world.store.confirm([A], [node('host-1')])
            world.call(world.state_sync.refresh)
            (moved,) = (made for made in world.store.claims() if made.move)
            meant = ClaimSelector(moved.name)
        host = 'host-0' if move is None else 'host-1'
        ask(world, host, 'req-late', move=RESIZE, vcpus=3)
        before = world.store.claims()
        if move is None:
            assert world.call(world.claim_service.confirm_claim, A, host, meant) == before
        else:
            with pytest.raises(errors.Outdated, match='a resize of it is open'):
                world.call(world.claim_service.confirm_claim, A, host, meant)
        assert world.store.claims() == before

    def test_confirm_that_changes_nothing_is_not_told_as_done(self, world):
        """The named claim expires and gives way to another one after the first look."""
        world.place(asks(A, force_hosts=['host-0']))
        (first,) = world.store.claims()
        finish = world.store.finish

        def finishing(*args):
            world.store.release([first.key])
            commit(world.store, claim(A, node()))
            return finish(*args)

        world.store.finish = finishing
        for meant in (ClaimSelector(), ClaimSelector(first.uuid)):
            with pytest.raises(errors.ClaimNotFound):
                world.call(world.claim_service.confirm_claim, A, 'host-0', meant)
        assert [one.state for one in world.store.claims()] == [PENDING]

    @pytest.mark.parametrize('host', ['host-0', None], ids=['on one host', 'anywhere'])
    def test_abort(self, world, host):
        runs(world)
        world.place(asks(A, force_hosts=['host-1']))
        by_state = {one.state: ClaimSelector(one.uuid) for one in world.store.claims()}
        there, coming = by_state[CONFIRMED], by_state[PENDING]
        abort = world.claim_service.abort_claim
        with pytest.raises(errors.Outdated, match='name the claim'):
            world.call(abort, A, host)
        with pytest.raises(errors.Outdated, match='is confirmed'):
            world.call(abort, A, host, there._replace(unconfirmed=True))
        assert states(world) == {(A, 'host-0'): CONFIRMED, (A, 'host-1'): PENDING}
        if host is not None:
            with pytest.raises(errors.ClaimNotFound):
                world.call(abort, A, host, coming)
        world.call(abort, A, None, coming)
        assert states(world) == {(A, 'host-0'): CONFIRMED}
        assert len(world.call(abort, A, host, there)) == 1
        assert (states(world), used(world)) == ({}, [0, 0])

    def test_abort_that_meets_a_confirmation(self, world):
        """After its look at the claims, and before its transaction."""
        world.place(asks(A, force_hosts=['host-0']))
        (there,) = world.store.claims()
        release = world.store.release

        def releasing(*args, **words):
            world.store.finish(A, [node()])
            return release(*args, **words)

        world.store.release = releasing
        meant = ClaimSelector(there.uuid, unconfirmed=True)
        with pytest.raises(errors.Outdated, match='is confirmed'):
            world.call(world.claim_service.abort_claim, A, None, meant)
        assert [one.state for one in world.store.claims()] == [CONFIRMED]

    def test_a_claim_ends_no_confirmed_one_that_it_names(self, world):
        there = runs(world)
        place = 'host-1', 'host-1', 'req', None, None, False, ClaimSelector(there.name)
        made = world.claim_service.claim(asks(A), *place)  # before the loop reads nodes again
        assert made.move is None
        assert used(world) == [1, 1]
        assert states(world) == {(A, 'host-0'): CONFIRMED, (A, 'host-1'): PENDING}

    @pytest.mark.parametrize('named', [False, True])
    def test_a_resize_does_not_give_way_to_one_that_does_not_name_it(self, world, named):
        """The instance may have the new size already."""
        runs(world)

        first = ask(world, move=RESIZE, vcpus=4)
        assert ask(world, move=RESIZE, vcpus=4).name == first.name
        if named:
            meant = ClaimSelector(first.name)
            assert ask(world, meant=meant, move=RESIZE, vcpus=2).name != first.name
        else:
            with pytest.raises(errors.Outdated, match='another one is open'):
                ask(world, move=RESIZE, vcpus=2)
            assert [claim.name for claim in world.store.claims()] == [first.name]
            assert used(world) == [4, 0]
        world.now_s += 2 * world.settings.pending_ttl_s
        with pytest.raises(errors.Outdated, match='another one is open'):
            ask(world, move=RESIZE, vcpus=3)

    @pytest.mark.parametrize('move', ['live-migration', 'evacuation'])
    @pytest.mark.parametrize('by', ['live-migration', 'evacuation', None])
    def test_a_late_move_to_the_host_where_the_instance_runs(self, world, by, move):
        """It opens no resize in place, which nobody would settle."""
        commit(world.store, claim(A, node(), state=CONFIRMED, move=by, request_id='req-1'))
        world.call(world.state_sync.refresh)
        (there,) = world.store.claims()
        if by == move:
            assert ask(world, move=move, vcpus=2).has_uuid(there.uuid)
            with pytest.raises(errors.Outdated, match='it runs on host-0'):
                ask(world, 'host-0', 'another', move=move, vcpus=2)
        else:
            with pytest.raises(errors.Outdated, match='it runs on host-0'):
                ask(world, move=move, vcpus=2)
        assert world.store.claims() == [there]
        assert there.resizing is None

    @pytest.mark.parametrize(
        'vcpus, by, request_id',
        [
            pytest.param(2, RESIZE, 'req-1', id='a copy of its call'),
            pytest.param(3, RESIZE, 'req-0', id='of an earlier one'),
            pytest.param(2, 'migration', 'req-1', id='after another move'),
        ],
    )
    def test_a_late_resize_to_the_host_where_the_instance_is(self, world, vcpus, by, request_id):
        """While a move to it is open, the instance is not resized there."""
        made = claim(A, node(), state=CONFIRMED, move=by, request_id='req-1')
        commit(world.store, dataclasses.replace(made, resources=asks(A, vcpus=2).resources))
        world.call(world.state_sync.refresh)
        (there,) = world.store.claims()
        if (by, request_id) == (RESIZE, 'req-1'):
            assert ask(world, move=RESIZE, vcpus=vcpus).has_uuid(there.uuid)
        else:
            with pytest.raises(errors.Outdated, match='it runs on host-0'):
                ask(world, 'host-0', request_id, move=RESIZE, vcpus=vcpus)
        assert world.store.claims() == [there]

    @pytest.mark.parametrize(
        'by, won',
        [(RESIZE, False), ('migration', False), ('live-migration', True), (None, True)],
    )
    def test_a_scheduler_that_has_not_heard_of_the_arrival(self, world, by, won):
        """The store does not open a resize on a move that is not settled yet."""
        commit(world.store, claim(A, node(), state=CONFIRMED, move=by))
        (there,) = world.store.claims()
        (outcome,) = world.store.commit([Placement((claim(A, node(), vcpus=2),))])
        assert outcome.won == won
        (now,) = world.store.claims()
        assert (now.uuid, now.resizing is not None) == (there.uuid, won)

    @pytest.mark.parametrize('by', ['live-migration', 'evacuation'])
    def test_a_resize_after_a_move_that_reports_are_to_settle(self, world, by):
        """The agent of its source may be away for long."""
        commit(world.store, claim(A, node(), state=CONFIRMED, move=by))
        world.call(world.state_sync.refresh)
        assert ask(world, move=RESIZE, vcpus=3).resizing.new[VCPU] == 3

    def test_a_move_back_to_the_host_that_the_instance_has_left(self, world):
        """Its claim there is still to end."""
        for host in ('host-0', 'host-1'):
            commit(world.store, claim(A, node(host), state=CONFIRMED))
        world.call(world.state_sync.refresh)
        for move in 'live-migration', None:
            with pytest.raises(errors.ComputeResourcesUnavailable, match='yet to report'):
                ask(world, move=move)

    def test_a_move_back_to_a_host_whose_claim_has_ended(self, world):
        commit(world.store, claim(A, node(), state=CONFIRMED))
        world.call(world.state_sync.refresh)
        (there,) = world.store.claims()
        world.store.release([there.key], ClaimSelector(there.name))
        assert ask(world, move='live-migration').state == PENDING

    @pytest.mark.parametrize('knows', [True, False], ids=['known here', 'not known here'])
    def test_a_resize_before_the_instance_is_confirmed(self, world, knows):
        """It may run, with the size that its claim has."""
        if knows:
            world.place(asks(A, vcpus=4, force_hosts=['host-0']))
        else:
            commit(world.store, claim(A, node(), vcpus=4, request_id='req-1'))
        (there,) = world.store.claims()

        resize = {'request_id': 'req-2', 'move': RESIZE, 'vcpus': 2}
        with pytest.raises(errors.Outdated, match='another claim is pending'):
            ask(world, **resize)
        assert world.store.claims() == [there]
        assert ask(world, meant=ClaimSelector(there.name), **resize).resources[VCPU] == 2

    def test_an_open_resize_that_is_asked_for_again_ends_nothing_elsewhere(self, world):
        """A late request for another host has made the pending claim there meanwhile."""
        commit(world.store, claim(A, node(), state=CONFIRMED))
        resize = {'request_id': 'req-2', 'move': RESIZE, 'vcpus': 2}
        resized = ask(world, **resize)
        commit(world.store, claim(A, node('host-1'), vcpus=2, request_id='req-1'))
        world.state_sync.refresh()
        world.now_s += 5
        again = ask(world, **resize)
        assert again.name == resized.name
        assert again.expires_s == pytest.approx(resized.expires_s + 5)
        assert {one.node_uuid for one in world.store.claims(A)} == {node(), node('host-1')}

    def test_the_claim_of_a_move_is_its_own_requests_alone(self, world):
        """Another request may be an earlier one that comes late."""
        chosen = ask(world)
        assert ask(world, request_id='req-2').uuid != chosen.uuid
        moving = ask(world, move=RESIZE)
        assert (moving.move, moving.request_id) == (RESIZE, 'req-1')
        assert ask(world, move=RESIZE).uuid == moving.uuid
        for host in ('host-0', 'host-1'):
            with pytest.raises(errors.Outdated, match='another claim is pending'):
                ask(world, host, 'req-2', move=RESIZE)
        assert [claim.uuid for claim in world.store.claims()] == [moving.uuid]

    def test_abort_what_another_scheduler_claimed(self, world):
        commit(world.store, claim(A, node()))
        found = world.call(end_claims, world.claim_service, A)
        assert [one.consumer_uuid for one in found] == [A]
        assert states(world) == {}

    @pytest.mark.parametrize(
        'instance, host',
        [(B, None), (A, 'host-1'), (A, 'host-9')],
        ids=['instance', 'host', 'unknown host'],
    )
    def test_abort_what_is_not_there(self, world, instance, host):
        world.place(asks(A, force_hosts=['host-0']))
        with pytest.raises(errors.ClaimNotFound):
            world.call(end_claims, world.claim_service, instance, host)
        assert states(world) == {(A, 'host-0'): PENDING}

    def test_names(self, world):
        """Of a node that no poll has read, too."""
        world.store.report([report('new')], 0.0)
        assert world.call(world.state_sync.names, [node('new')]) == {node('new'): ('new', 'new')}
        assert world.call(world.state_sync.names, [node('host-1'), node('gone')]) == {
            node('host-1'): ('host-1', 'host-1'),
            node('gone'): ('', ''),
        }
