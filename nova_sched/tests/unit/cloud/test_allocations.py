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
"""The writer of allocations: threads, order, the end; and a whole scheduler under faults."""

import collections
import itertools
import random
import threading
import time
import types

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nova_sched import errors
from nova_sched.claim import CONFIRMED, Claim, Resizing
from nova_sched.cloud.allocation_write import AllocationWrite
from nova_sched.cloud.allocations import STOPPING, AllocationWriter
from nova_sched.cloud.uncertain_writes import UncertainWrites
from nova_sched.engine.answer import Selected, allocation_request
from nova_sched.engine.clock import Received
from nova_sched.engine.loop import Message
from nova_sched.engine.writer import GONE, WriteOutcome
from nova_sched.tests.builders import report, request, uuid_of
from nova_sched.tests.cases import cases
from nova_sched.tests.fake_placement import CONCURRENT, FakePlacement, Fault, client_of, served
from nova_sched.tests.functional.harness import PATIENCE_S, eventually
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.engine.world import World

A, B, C = uuid_of('a'), uuid_of('b'), uuid_of('c')
ONE, TWO = uuid_of('node one'), uuid_of('node two')
HOSTS = {ONE: 'one', TWO: 'two'}


class Cloud:
    """A writer and its Placement. ``reread`` has the nodes that it has asked to read again,
    ``moving`` the servers that Nova moves."""

    def __init__(self, fake, **words):
        self.fake, self.reread, self.claims, self.moving = fake, [], [], set()
        self.writer = AllocationWriter(
            client_of(fake),
            lambda uuid: self.claims,
            HOSTS.get,
            lambda server: server in self.moving,
            self.reread.append,
            random=random.Random(1),
            **{'timeout_s': 5.0, 'late_s': 0.05, **words},
        )

    def write(
        self,
        *uuids,
        node=ONE,
        vcpus=1,
        is_over=lambda: False,
        age_s=0.0,
        version='1.36',
        alternates=(),
        ignored=(),
    ):
        decision = types.SimpleNamespace(
            requests=[
                request(
                    instance_uuid=one, project_id='p', user_id='u', ignore_hosts=frozenset(ignored)
                )
                for one in uuids
            ],
            claims=[Claim(one, node, {'VCPU': vcpus}) for one in uuids],
        )
        text = allocation_request(node, f'{{"VCPU": {vcpus}}}')
        chosen = [
            Selected(one, 'h', 'h', None, None, text, version) for one in (node, *alternates)
        ]
        answer = [chosen for _ in uuids]
        order = types.SimpleNamespace(context=None)
        message = Message('place', order, Received(is_over=is_over))
        message.since_s -= age_s
        return self.writer.write(decision, decision.claims, answer, message)


@pytest.fixture
def fake():
    with served() as made:
        made.add(ONE, VCPU=4)
        made.add(TWO, VCPU=4)
        yield made


@pytest.fixture
def make(fake):
    """A function that makes a Cloud; its writer is stopped."""
    clouds = []

    def made(**words):
        clouds.append(Cloud(fake, **words))
        return clouds[-1]

    yield made
    for cloud in clouds:
        cloud.writer.stop(2.0)


@pytest.fixture
def cloud(make):
    return make(in_flight=2)


def test_it_writes_and_does_not_wait(cloud):
    is_answering = threading.Event()
    cloud.fake.faults = lambda method, path: is_answering.wait(PATIENCE_S) and None
    futures = [cloud.write(A), cloud.write(B)]
    assert not any(one.done() for one in futures)
    is_answering.set()
    assert [one.result(PATIENCE_S) for one in futures] == [WriteOutcome(True)] * 2
    assert cloud.fake.allocated() == {A: {ONE: {'VCPU': 1}}, B: {ONE: {'VCPU': 1}}}


def test_nothing_to_write(cloud):
    assert cloud.write(A, version=None) is None


def test_at_most_in_flight_at_a_time(cloud):
    now, most = collections.Counter(), []

    def fault(method, path):
        now['all'] += 1
        most.append(now['all'])
        time.sleep(0.05)
        now['all'] -= 1

    cloud.fake.faults = fault
    for one in [cloud.write(uuid_of(str(number))) for number in range(4)]:
        assert one.result(PATIENCE_S).won
    assert max(most) == 2


def test_two_writes_for_one_server(cloud):
    """The second waits until the first one is answered, and finds what that has written."""
    cloud.fake.faults = lambda method, path: Fault(delay_s=0.05)
    first, second = cloud.write(A), cloud.write(A, node=TWO)
    outcome = first.result(PATIENCE_S)
    assert outcome == WriteOutcome(True)
    with pytest.raises(TimeoutError):
        second.result(0.2)
    outcome.end(True)
    assert second.result(PATIENCE_S) == WriteOutcome(False, elsewhere={A: ONE})
    assert [method for method, _ in cloud.fake.requests] == ['PUT', 'PUT', 'GET']


def test_what_a_superseded_call_has_written_is_taken_back(cloud):
    cloud.write(A, B).result(PATIENCE_S).end(False)
    eventually(lambda: not cloud.fake.allocated())


@each_afresh(
    'is_second_answered, left', {'answered': (True, {A: {ONE: {'VCPU': 1}}}), 'no': (False, {})}
)
def test_a_call_after_a_superseded_one_has_the_same_node(cloud, is_second_answered, left):
    """It takes over the allocations; if it is refused as well, they do not come back."""
    first, second = cloud.write(A), cloud.write(A)
    first.result(PATIENCE_S).end(False)
    second.result(PATIENCE_S).end(is_second_answered)
    eventually(lambda: not cloud.writer._uncertain._waiting)
    assert cloud.fake.allocated() == left


def test_a_caller_is_refused_after_the_writer_has_stopped(cloud, caplog):
    outcome = cloud.write(A).result(PATIENCE_S)
    cloud.writer.stop(1.0)
    outcome.end(False)
    assert f'Instance {A} was refused, but may have allocations on node {ONE}' in caplog.text


def test_full_nodes_are_read_before_the_order_is_decided_again(cloud):
    assert cloud.write(A, vcpus=5).result(PATIENCE_S) == WriteOutcome(False)
    assert cloud.reread == [(ONE,)]


def test_nodes_that_cannot_be_read(make, caplog):
    def fail(nodes):
        raise errors.StoreUnavailable('gone')

    cloud = make()
    cloud.writer._reread = fail
    assert cloud.write(A, vcpus=5).result(PATIENCE_S) == WriteOutcome(False)
    assert 'cannot be read' in caplog.text


def test_placement_is_away(cloud, caplog):
    cloud.fake.faults = lambda method, path: Fault(503)
    outcome = cloud.write(A, age_s=4.7).result(PATIENCE_S)
    assert outcome.refusal.endswith('Placement does not answer.')
    assert caplog.text.count('requests are repeated while their callers wait') == 1
    cloud.fake.faults = lambda method, path: None
    assert cloud.write(B).result(PATIENCE_S).won


def test_a_lost_answer_of_a_refused_call_is_taken_back(cloud):
    """Placement does the request, and then answers nothing until the caller has gone."""
    cloud.fake.faults = lambda method, path: Fault(lost=True) if method == 'PUT' else Fault(503)
    assert not cloud.write(A, age_s=4.7).result(PATIENCE_S).won
    assert A in cloud.fake.allocated()
    cloud.fake.faults = lambda method, path: None
    eventually(lambda: not cloud.fake.allocated())


def test_a_caller_that_has_gone_meanwhile(cloud):
    over = []
    cloud.fake.faults = lambda method, path: over.append(1)
    outcome = cloud.write(A, is_over=lambda: bool(over)).result(PATIENCE_S)
    assert outcome == WriteOutcome(False, refusal=GONE)
    eventually(lambda: not cloud.fake.allocated())


def test_an_error_in_a_thread(fake, make, monkeypatch):
    cloud = make()
    monkeypatch.setattr(AllocationWrite, '_nodes', None)
    fake.consumers[A] = [1, {TWO: {'VCPU': 1}}, 'p', 'u']
    assert cloud.write(A).result(PATIENCE_S).refusal == 'Its allocations could not be written.'
    assert cloud.write(B).result(PATIENCE_S).won


def test_stop_lets_writes_end(cloud):
    cloud.fake.faults = lambda method, path: Fault(delay_s=0.2)
    futures = [cloud.write(uuid_of(str(number))) for number in range(3)]
    cloud.writer.stop(PATIENCE_S)
    assert [one.result(0).won for one in futures] == [True] * 3
    assert cloud.write(A).result(0) == WriteOutcome(False, refusal=STOPPING)


def test_stop_does_not_wait_longer(fake, make):
    cloud = make(in_flight=1)
    held = threading.Event()
    fake.faults = lambda method, path: held.wait(PATIENCE_S) and None
    futures = [cloud.write(A), cloud.write(B), cloud.write(A)]
    eventually(lambda: fake.requests)
    cloud.writer.stop(0.1)
    assert [one.result(0).refusal for one in futures] == [STOPPING] * 3
    held.set()
    eventually(lambda: A in fake.allocated())
    time.sleep(0.2)
    assert B not in fake.allocated()


def test_calls_that_were_taken_are_written_before_the_end(cloud):
    """The server of a daemon that stops still handles what it has taken off its queue."""
    cloud.writer.leave(60.0)
    assert cloud.write(A).result(PATIENCE_S).won
    cloud.fake.faults = lambda method, path: Fault(503)
    assert cloud.write(B).result(PATIENCE_S).refusal.endswith('Placement does not answer.')


def test_the_end_comes_in_time(cloud):
    held = threading.Event()
    cloud.fake.faults = lambda method, path: held.wait(PATIENCE_S) and None
    future = cloud.write(A)
    cloud.writer.leave(0.1)
    assert future.result(PATIENCE_S).refusal == STOPPING
    assert cloud.write(B).result(PATIENCE_S).refusal == STOPPING
    held.set()


def test_stop_ends_repeats(cloud):
    cloud.fake.faults = lambda method, path: Fault(503)
    future = cloud.write(A)
    eventually(lambda: cloud.fake.requests)
    cloud.writer.stop(PATIENCE_S)
    assert future.result(0).refusal.endswith('Placement does not answer.')


# A whole scheduler.

FAULTS = st.sampled_from(
    [
        None,
        None,
        None,
        Fault(503),
        Fault(lost=True),
        Fault(cut=True),
        Fault(409, 'changed while attempting to allocate', CONCURRENT),
        Fault(409, 'Unable to allocate inventory'),
        Fault(400, 'bad'),
        Fault(delay_s=0.02),
    ]
)
ORDERS = st.lists(
    st.lists(st.sampled_from('abcdef'), min_size=1, max_size=3, unique=True),
    min_size=1,
    max_size=8,
)


@settings(max_examples=cases(40), deadline=None)
@given(orders=ORDERS, faults=st.lists(FAULTS, max_size=30))
def test_allocations_are_those_of_the_claims(orders, faults):
    """Whatever Placement does: at last, each claim has its allocations. No other server has any.

    But if a call for a server was answered and a later one is refused, the allocations of the
    first one stay: its server may be there.
    """
    fake, waiting, lock = FakePlacement(), list(faults), threading.Lock()
    until_s = time.monotonic() + 60  # what fails is repeated after a second, up to 30 times

    def fault(method, path):
        with lock:
            return waiting.pop() if waiting else None

    nodes = {}
    for name in ('x', 'y'):
        one = report(f'host-{name}', vcpus=4)
        nodes[one.node_uuid] = one.host
        fake.add(one.node_uuid, VCPU=4, MEMORY_MB=10**6, DISK_GB=10**6)
    fake.faults = fault
    with served(fake):
        world, writer = whole_scheduler(fake, nodes)
        calls = [
            world.send_place(*[request(instance_uuid=uuid_of(one), vcpus=1) for one in names])
            for names in orders
        ]
        while not all(one.done() for one in calls):
            assert time.monotonic() < until_s, 'a call is not answered'
            world.loop.turn(0.01)
        while writer._uncertain._waiting:
            assert time.monotonic() < until_s, 'what was written is not taken back'
            time.sleep(0.005)
        writer.stop(1.0)
    held = {
        claim.consumer_uuid: {claim.node_uuid: dict(claim.resources)}
        for claim in world.store.claims()
    }
    answered = {
        uuid_of(name)
        for names, call in zip(orders, calls, strict=True)
        if call.exception() is None
        for name in names
    }
    assert {
        uuid: providers
        for uuid, providers in fake.allocated().items()
        if uuid in held or uuid not in answered
    } == held


def whole_scheduler(fake, nodes):
    """A World with nodes of four vCPUs, which writes allocations, and its writer."""
    world = World(writer=None, max_claim_attempts=3)
    writer = AllocationWriter(
        client_of(fake, (1.0, 1.0)),
        world.store.claims,
        nodes.get,
        lambda server: False,
        lambda nodes: None,
        timeout_s=0.5,
        late_s=0.02,
        random=Quick(),
    )
    world = World(world.store, writer=writer, max_claim_attempts=3)
    world.report(*[report(host, vcpus=4) for host in nodes.values()])
    return world, writer


@each_afresh(
    'becomes',
    {
        'Placement does not answer the copy': lambda fake: setattr(
            fake, 'faults', lambda *_: Fault(503)
        ),
        'a migration has what it had': lambda fake: fake.consumers.update(
            {B: [1, fake.consumers.pop(A)[1], 'project', 'user']}
        ),
        'it is deleted': lambda fake: fake.consumers.pop(A),
    },
)
def test_a_late_copy_of_a_call_changes_nothing_of_what_its_server_has(becomes):
    """Nor does the scheduler take that for what the copy may have written."""
    nodes, until_s = {report('one').node_uuid: 'one'}, time.monotonic() + PATIENCE_S
    (node,) = nodes
    fake = FakePlacement()
    fake.add(node, VCPU=4, MEMORY_MB=10**6, DISK_GB=10**6)
    with served(fake):
        world, writer = whole_scheduler(fake, nodes)
        for _ in range(2):
            asked = request(instance_uuid=A, vcpus=2)
            call = world.send_place(asked, request_id='boot')
            while not call.done():
                assert time.monotonic() < until_s, 'the call is not answered'
                world.loop.turn(0.01)
            if not call.exception():
                becomes(fake)
                left = fake.allocated()
        assert isinstance(call.exception(), errors.SchedError)
        fake.faults = lambda *_: None
        eventually(lambda: writer.pending == (0, 0))
        writer.stop(1.0)
    assert fake.allocated() == left
    assert [claim.consumer_uuid for claim in world.store.claims()] == [A]


class Quick(random.Random):
    """Pauses take next to no time."""

    def uniform(self, least, most):
        return super().uniform(least, most) / 100


@each_afresh('down', {'chosen': ONE, 'alternate': TWO})
def test_a_host_that_takes_no_servers_is_not_claimed(fake, make, down):
    """It was disabled, forced down or silent since it was chosen."""
    asked = []
    cloud = make(not_up=lambda nodes: asked.append(nodes) or [down])
    outcome = cloud.write(A, alternates=[TWO]).result(PATIENCE_S)
    assert (outcome.won, outcome.refusal) == (False, None)
    assert asked == [{ONE, TWO}]
    assert A not in fake.allocated()


def test_a_server_to_evacuate_keeps_what_it_had(fake, make):
    """Until another host is chosen, it has the allocations of the host that is gone only."""
    fake.consumers[A] = [1, {ONE: {'VCPU': 1}}, 'p', 'u']
    cloud = make(not_up=lambda nodes: [TWO])
    cloud.moving = {A}
    outcome = cloud.write(A, node=TWO, ignored=['one']).result(PATIENCE_S)
    assert (outcome.won, outcome.refusal) == (False, None)
    assert fake.allocated()[A] == {ONE: {'VCPU': 1}}


def test_allocations_that_cannot_be_taken_back_at_once(fake, make):
    """The order is refused: a second attempt would find the allocations of the first one."""
    cloud = make(not_up=lambda nodes: [ONE])
    puts = itertools.count()
    fake.faults = lambda method, path: Fault(503) if method == 'PUT' and next(puts) == 1 else None
    outcome = cloud.write(A).result(PATIENCE_S)
    assert not outcome.won
    assert outcome.refusal.startswith('A chosen host is not up, and its allocations cannot be')
    eventually(lambda: A not in fake.allocated())


def test_a_caller_that_leaves_while_the_services_are_read(fake, make):
    """Placement has answered long before."""
    has_left = threading.Event()

    def waits(nodes):
        eventually(lambda: A in fake.allocated())
        has_left.set()

    cloud = make(not_up=waits)
    outcome = cloud.write(A, is_over=has_left.is_set).result(PATIENCE_S)
    assert (outcome.won, outcome.refusal) == (False, GONE)
    eventually(lambda: A not in fake.allocated())


def test_a_caller_that_has_left_before_its_host_was_found_down(fake, make):
    """Nova may have made the consumer again since, with the generation of this write: what it has
    written stays."""
    has_left = threading.Event()

    def is_down(nodes):
        eventually(lambda: A in fake.allocated())
        fake.consumers[A] = [fake.consumers[A][0], {ONE: {'VCPU': 4}}, 'p', 'u']
        has_left.set()
        return [ONE]

    cloud = make(not_up=is_down)
    outcome = cloud.write(A, is_over=has_left.is_set).result(PATIENCE_S)
    assert (outcome.won, outcome.refusal) == (False, GONE)
    assert fake.allocated()[A] == {ONE: {'VCPU': 4}}


def test_allocations_that_others_have_written_are_not_taken_back(fake, make):
    """The caller waits yet, and the generation is the same."""

    def is_down(nodes):
        eventually(lambda: A in fake.allocated())
        fake.consumers[A] = [fake.consumers[A][0], {ONE: {'VCPU': 4}}, 'p', 'u']
        return [ONE]

    cloud = make(not_up=is_down)
    outcome = cloud.write(A).result(PATIENCE_S)
    assert outcome.refusal.startswith('A chosen host is not up, and its allocations cannot be')
    assert fake.allocated()[A] == {ONE: {'VCPU': 4}}


def test_what_another_scheduler_has_written_for_the_same_call_stays(fake, make):
    """The call came twice. The other scheduler has answered it; here, the answer of Placement is
    lost, and then the host is found down: what is there looks like what was written here."""
    resize = Resizing({'VCPU': 2}, {'VCPU': 1}, uuid='of the other call')
    cloud = make(not_up=lambda nodes: [ONE])
    cloud.claims = [Claim(A, ONE, {'VCPU': 2}, CONFIRMED, resizing=resize)]
    fake.consumers[A] = [1, {ONE: {'VCPU': 1}}, 'p', 'u']
    puts = itertools.count()
    fake.faults = lambda method, path: Fault(503) if method == 'PUT' and not next(puts) else None
    outcome = cloud.write(A).result(PATIENCE_S)
    assert (outcome.won, outcome.taken_back) == (False, False)
    eventually(lambda: cloud.writer.pending == (0, 0))
    assert fake.allocated()[A] == {ONE: {'VCPU': 1}}


def test_what_an_attempt_has_left_does_not_come_back(fake, make, monkeypatch):
    """The caller of the first one left. Before that is settled, the second one finds the host
    down."""
    monkeypatch.setattr(UncertainWrites, '_settle', lambda self, write: time.sleep(0.05))
    has_left, down = threading.Event(), []

    def not_up(nodes):
        eventually(lambda: A in fake.allocated())
        has_left.set()
        return down

    cloud = make(not_up=not_up)
    assert cloud.write(A, is_over=has_left.is_set).result(PATIENCE_S).refusal == GONE
    down.append(ONE)
    outcome = cloud.write(A).result(PATIENCE_S)
    assert (outcome.won, outcome.taken_back) == (False, True)
    assert A not in fake.allocated()


def test_services_that_cannot_be_read(fake, make, caplog):
    """The mirror counts a cell without an answer as up; this is an error of the scheduler."""

    def fail(nodes):
        raise RuntimeError('the loop has ended')

    cloud = make(not_up=fail)
    outcome = cloud.write(A).result(PATIENCE_S)
    assert (outcome.won, outcome.refusal) == (False, None)
    assert A not in fake.allocated()
    assert 'The services of the chosen hosts cannot be read' in caplog.text
