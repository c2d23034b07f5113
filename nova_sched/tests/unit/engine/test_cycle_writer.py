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
"""Decisions that are written elsewhere after the store has committed them, before their callers
are answered."""

import threading
from concurrent.futures import Future

import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED, PENDING
from nova_sched.engine.answer import Answers
from nova_sched.engine.clock import Received, handling
from nova_sched.engine.writer import WriteOutcome
from nova_sched.tests.builders import report, request
from nova_sched.tests.unit.engine.stores import Unsteady
from nova_sched.tests.unit.engine.world import A, B, World, asks


class Slow:
    """A writer that is done when the test says so; ``writing`` has what it was given."""

    def __init__(self):
        self.writing = []

    def write(self, decision, claims, answer, message):
        self.writing.append((decision, answer, claims, Future()))
        return self.writing[-1][-1]

    def end(self, result):
        """The oldest one ends with this outcome (or whether it won), or with this error."""
        *_, done = self.writing.pop(0)
        if isinstance(result, bool):
            result = WriteOutcome(result)
        (done.set_exception if isinstance(result, Exception) else done.set_result)(result)


@pytest.fixture
def world():
    writer = Slow()
    made = World(Unsteady(), writer=writer, max_claim_attempts=2)
    made.report(report('host-0', memory_mb=4096), report('host-1'))
    made.writer = writer
    return made


def begin(world, *requests, **words):
    """The future of a call whose decision the writer has got."""
    found = world.send_place(*requests, **words)
    world.loop.turn()
    return found


def end(world, result):
    """The writer is done with its oldest decision, and the loop has heard of it."""
    world.writer.end(result)
    world.loop.turn()


def held(world):
    return [(claim.consumer_uuid, claim.node_uuid) for claim in world.store.claims()]


def test_the_caller_waits_for_the_writer_and_the_loop_does_not(world):
    first = begin(world, asks(A))
    ((decision, answer, *_),) = world.writer.writing
    assert [claim.key for claim in decision.claims] == held(world)
    second = begin(world, asks(B), claim=False)
    assert (first.done(), second.done()) == (False, True)
    end(world, True)
    assert first.result() == answer
    assert world.scheduler.figures.placed == 2


@pytest.mark.parametrize('failure', [False, ZeroDivisionError()], ids=['not written', 'failed'])
def test_what_is_not_written_is_decided_again(world, failure):
    found = begin(world, asks(A))
    (before,) = world.store.claims()
    end(world, failure)
    assert (found.done(), held(world)) == (False, [])
    world.loop.turn()
    end(world, True)
    (after,) = world.store.claims()
    assert (found.result()[0][0].node_uuid, after.uuid != before.uuid) == (after.node_uuid, True)
    assert world.cluster.claims_of(A) == [after]


def test_what_is_taken_back_is_decided_again_though_it_was_confirmed(world):
    """A read of the node has found the allocations before they were gone."""
    found = begin(world, asks(A))
    (before,) = world.store.claims()
    world.store.allocated([before])
    world.state_sync.refresh()
    end(world, WriteOutcome(False, taken_back=True))
    assert held(world) == []
    world.loop.turn()
    end(world, True)
    (after,) = world.store.claims()
    assert found.result(timeout=0)[0][0].node_uuid == after.node_uuid
    assert world.cluster.claims_of(A) == [after]


@pytest.mark.parametrize('taken_back', [True, False])
def test_a_resize_that_is_not_written_is_left_to_the_node(world, taken_back):
    """A server that runs is resized on its host: its allocations are gone from there by then, or
    Placement has not taken them. Which size runs is for a read of the node to tell; the request is
    decided again, and its resize is the one that is open."""
    here = {'instance_uuid': A, 'force_hosts': ['host-0']}
    begin(world, request(vcpus=2, **here))
    end(world, True)
    (before,) = world.store.claims()
    found = begin(world, request(vcpus=1, **here))
    (resized,) = world.store.claims()
    assert resized.resizing is not None
    end(world, WriteOutcome(False, taken_back=taken_back))
    (after,) = world.store.claims()
    assert after.uuid == before.uuid
    assert after.expires_s < resized.expires_s
    world.loop.turn()
    end(world, True)
    assert found.result(timeout=0)[0][0].host == 'host-0'
    (again,) = world.store.claims()
    assert (again.name, again.expires_s >= resized.expires_s) == (resized.name, True)


def test_a_server_goes_back_to_a_host_that_was_not_read_since(world):
    """Its claim there is awaited until its allocations are written."""
    for host in ('host-0', 'host-1', 'host-0'):
        found = begin(world, request(instance_uuid=A, force_hosts=[host]))
        before = world.store.claims()
        end(world, True)
        world.state_sync.refresh()
    assert found.result(timeout=0)[0][0].host == 'host-0'
    assert sorted(one.awaited for one in before) == [False, True]
    assert not any(one.awaited for one in world.store.claims())


class TestConfirmedBefore:
    """A server whose claim on the chosen host is confirmed: it may have left since, as one that is
    offloaded and unshelved at once, or its migration may be repeated."""

    @pytest.fixture
    def before(self, world):
        begin(world, asks(A))
        end(world, True)
        (claim,) = world.store.claims()
        return claim

    @pytest.fixture
    def found(self, world, before):
        host = world.cluster.node(before.node_uuid).host
        return begin(world, asks(A, force_hosts=[host]))

    def test_the_claim_is_the_answer(self, world, before, found):
        ((*_, claims, _),) = world.writer.writing
        end(world, True)
        (after,) = world.store.claims()
        assert found.result(timeout=0)[0][0].node_uuid == after.node_uuid
        assert ([after], after.uuid) == (claims, before.uuid)
        # Who has read the node before has not seen that the server is to be there.
        assert after.changed_at > before.changed_at

    @pytest.mark.parametrize('taken_back', [True, False])
    def test_it_is_not_written(self, world, before, found, taken_back):
        """The claim may still be that of the server: the next read of the node tells."""
        end(world, WriteOutcome(False, refusal='No.', taken_back=taken_back))
        with pytest.raises(errors.NoValidHost):
            found.result(timeout=0)
        assert [one.uuid for one in world.store.claims()] == [before.uuid]

    def test_a_read_from_before_the_write_ends_it_no_more(self, world, before, found):
        (taken,) = world.store.claims()
        end(world, True)
        (after,) = world.store.claims()
        assert (after.uuid, after.changed_at > taken.changed_at) == (before.uuid, True)

    def test_a_read_from_before_the_write_has_ended_the_claim(self, world, before, found):
        world.store.release([before.key])
        world.state_sync.refresh()
        ends = []
        end(world, WriteOutcome(True, end=ends.append))
        assert (found.done(), ends) == (False, [False])
        world.loop.turn()
        end(world, True)
        (after,) = world.store.claims()
        assert found.result(timeout=0)[0][0].node_uuid == after.node_uuid
        assert (after.is_confirmed, after.uuid != before.uuid) == (True, True)


@pytest.mark.parametrize(
    'request_id, words, host',
    [
        pytest.param('req-1', {}, 'host-0', id='a copy'),
        pytest.param('req-1', {'ignore_hosts': ['host-0']}, 'host-1', id='it leaves the host'),
        pytest.param('req-2', {}, 'host-1', id='another call'),
    ],
)
def test_a_late_copy_of_a_call_gets_the_same_host(world, request_id, words, host):
    begin(world, asks(A, force_hosts=['host-0']), request_id='req-1')
    end(world, True)
    found = begin(world, asks(A, **words), request_id=request_id)
    end(world, True)
    assert found.result(timeout=0)[0][0].host == host


def test_the_caller_leaves_while_the_store_is_away(world):
    """The database of claims does not answer until then."""
    over, ends = threading.Event(), []
    with handling(Received(is_over=over.is_set)):
        found = world.send_place(request(instance_uuid=A))
    world.loop.turn()
    over.set()
    world.writer.end(WriteOutcome(True, end=ends.append))
    world.loop.turn()
    with pytest.raises(errors.NoValidHost, match='has stopped waiting'):
        found.result(timeout=0)
    assert (ends, held(world)) == ([False], [])


def test_what_is_never_written_is_refused(world):
    found = world.send_place(asks(A))
    for _ in range(2):
        world.loop.turn()
        end(world, False)
    with pytest.raises(errors.TooManyConflicts):
        found.result(timeout=0)
    assert (held(world), world.cluster.claims_of(A)) == ([], [])


def test_a_refusal_of_the_writer_goes_to_the_caller(world):
    found = begin(world, asks(A))
    end(world, WriteOutcome(False, refusal='Placement does not answer.'))
    with pytest.raises(errors.NoValidHost) as refused:
        found.result(timeout=0)
    assert (refused.value.reason, held(world)) == ('Placement does not answer.', [])
    assert (world.scheduler.figures.refused, world.scheduler.figures.placed) == (1, 0)


def test_an_instance_that_is_elsewhere_already_is_placed_there(world):
    """The answer of an earlier call was lost: the same server gets the same host."""
    found = begin(world, asks(A))
    (before,) = world.store.claims()
    other = {one.uuid for one in world.cluster} - {before.node_uuid}
    end(world, WriteOutcome(False, elsewhere={A: other.pop()}))
    world.loop.turn()
    end(world, True)
    (after,) = world.store.claims()
    assert after.node_uuid != before.node_uuid
    assert found.result(timeout=0)[0][0].node_uuid == after.node_uuid


def test_an_instance_that_is_on_an_unknown_node_is_refused(world):
    found = begin(world, asks(A))
    end(world, WriteOutcome(False, elsewhere={A: B}))
    with pytest.raises(errors.NoValidHost, match=f'{A} has allocations on node {B}'):
        found.result(timeout=0)
    assert held(world) == []
    assert world.scheduler.figures.refused == 1


def test_a_later_claim_of_the_instance_stays(world):
    """Only the claims of this decision end, and a later claim of the instance has another UUID."""
    found = begin(world, asks(A))
    (claim,) = world.store.claims()
    world.store.release([claim.key])
    world.state_sync.refresh()
    again = begin(world, asks(A))
    (later,) = world.store.claims()
    end(world, False)
    assert [one.uuid for one in world.store.claims()] == [later.uuid]
    end(world, True)
    assert again.done()
    assert not found.done()


def test_a_server_that_runs_by_now_keeps_its_claim(world):
    """The writer fails late: a read has confirmed the claim before. The order is decided again,
    and the claim is its answer."""
    found = begin(world, asks(A))
    (claim,) = world.store.claims()
    world.store.confirm([A], [claim.node_uuid])
    end(world, False)
    world.state_sync.refresh()
    world.loop.turn()
    end(world, True)
    assert [one.uuid for one in world.store.claims()] == [claim.uuid]
    assert found.result(timeout=0)[0][0].node_uuid == claim.node_uuid


def test_a_claim_that_was_replaced_meanwhile_is_told_to_no_caller(world):
    """The writer comes back late: the claim has ended, and a later call has another one."""
    found = begin(world, asks(A))
    (claim,) = world.store.claims()
    world.store.release([claim.key])
    world.state_sync.refresh()
    again = begin(world, asks(A))
    ends = []
    end(world, WriteOutcome(True, end=ends.append))
    with pytest.raises(errors.Superseded):
        found.result(timeout=0)
    end(world, WriteOutcome(True, end=ends.append))
    assert ends == [False, True]
    (later,) = world.store.claims()
    assert again.result()[0][0].node_uuid == later.node_uuid


@pytest.mark.parametrize(
    'step, is_answered', [('placed', False), ('_record', True)], ids=['the answer', 'its log']
)
def test_a_failure_with_one_of_two_answers(world, monkeypatch, caplog, step, is_answered):
    """The writer is told once of each whether its caller was answered."""
    found = [world.send_place(asks(one)) for one in (A, B)]
    world.loop.turn()
    real = getattr(Answers, step)

    def broken(answers, message, *words):
        if message.future is found[0]:
            raise ZeroDivisionError
        return real(answers, message, *words)

    monkeypatch.setattr(Answers, step, broken)
    ends = []
    for _ in found:
        end(world, WriteOutcome(True, end=ends.append))
    assert ends == [is_answered, True]
    assert [one.exception(timeout=0) is None for one in found] == ends
    assert caplog.text.count('was placed, but its answer cannot be built') == 1


def test_a_claim_whose_allocation_is_written_is_confirmed(world):
    begin(world, asks(A))
    (claim,) = world.store.claims()
    end(world, True)
    (after,) = world.store.claims()
    assert (after.uuid, after.state) == (claim.uuid, CONFIRMED)
    assert [one.is_confirmed for one in world.cluster.claims_of(A)] == [True]


def test_the_store_is_away_after_the_answer(world):
    """The claim stays pending: the next read that finds its allocation confirms it."""
    found = begin(world, asks(A))
    world.loop.hurry()
    end(world, WriteOutcome(True, end=lambda _: world.store.away.set()))
    assert found.result(timeout=0)
    world.store.away.clear()
    assert [one.state for one in world.store.claims()] == [PENDING]


def test_one_of_two_claims_was_replaced_meanwhile(world):
    """The call is refused as a whole, so that the other claim ends as well."""
    found = begin(world, asks(A), asks(B))
    (claim,) = world.store.claims(A)
    world.store.release([claim.key])
    end(world, True)
    with pytest.raises(errors.Superseded):
        found.result(timeout=0)
    assert held(world) == []


def test_the_store_is_away_when_the_writer_fails(world):
    found = begin(world, asks(A))
    world.loop.hurry()
    world.store.away.set()
    end(world, False)
    with pytest.raises(errors.StoreUnavailable):
        found.result(timeout=0)


def test_the_scheduler_stops_before_the_writer_is_done(world):
    found = begin(world, asks(A))
    world.loop.stop()
    world.writer.end(True)
    with pytest.raises(RuntimeError, match='has stopped'):
        found.result(timeout=0)
