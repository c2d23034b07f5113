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
"""What is taken back of writes whose outcome is not known, and the queue of a server's writes."""

import dataclasses
import threading

import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED, Claim, Resizing
from nova_sched.cloud import uncertain_writes
from nova_sched.cloud.allocation_write import Sent, Server
from nova_sched.cloud.placement import ConsumerAllocations
from nova_sched.cloud.uncertain_writes import UncertainWrites, WriteQueue
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.fake_placement import Fault, client_of, served
from nova_sched.tests.functional.harness import PATIENCE_S, eventually
from nova_sched.tests.rows import each

A, ONE, TWO = uuid_of('a'), uuid_of('one'), uuid_of('two')
NOTHING = ConsumerAllocations()
OURS = Claim(A, ONE, {'VCPU': 1})
BEFORE = Claim(A, ONE, {'VCPU': 1}, CONFIRMED, changed_at=7)


def some(generation=None, node=ONE, **more):
    return ConsumerAllocations({node: {'VCPU': 1}, **more}, generation, 'p', 'u')


def sent(before=NOTHING, after=None, server=A, stored=None):
    claim = dataclasses.replace(OURS, consumer_uuid=server)
    return Sent(Server(claim, stored or claim, some()), before, after or some())


def resized_by(uuid):
    return Claim(A, ONE, {'VCPU': 2}, CONFIRMED, resizing=Resizing({}, {'VCPU': 1}, uuid=uuid))


class World:
    def __init__(self, fake, late_s):
        self.fake, self.queue, self.claims = fake, WriteQueue(), []
        self.uncertain = UncertainWrites(client_of(fake), self.queue, self._read, late_s)

    def _read(self, uuid):
        if isinstance(self.claims, Exception):
            error, self.claims = self.claims, []
            raise error
        return self.claims

    def wait(self):
        """Until no doubt is left."""
        eventually(lambda: not self.uncertain._waiting)


@pytest.fixture
def world():
    with served() as fake:
        fake.add(ONE, VCPU=4)
        fake.add(TWO, VCPU=4)
        made = World(fake, late_s=0.05)
        yield made
        made.uncertain.stop()


@pytest.mark.parametrize(
    'held, request_sent, claims, after',
    [
        pytest.param((1, some()), sent(), [], None, id='it was done'),
        pytest.param((1, some()), sent(), [OURS], None, id='our claim has not ended yet'),
        pytest.param(None, sent(), [], None, id='it was not done'),
        pytest.param((2, some()), sent(), [], 2, id='a later call has written the same'),
        pytest.param((1, some(node=TWO)), sent(), [], 1, id='other allocations'),
        pytest.param(
            (1, some()), sent(), [Claim(A, TWO, {'VCPU': 1})], None, id='a claim on another node'
        ),
        pytest.param(
            (1, some()),
            sent(),
            [dataclasses.replace(OURS, state=CONFIRMED, changed_at=8)],
            None,
            id='a read has confirmed our claim by it',
        ),
        pytest.param(
            (1, some()),
            sent(),
            [dataclasses.replace(OURS, state=CONFIRMED, changed_at=8, number=2)],
            1,
            id='a later call has taken ours over',
        ),
        pytest.param(
            (1, some()), sent(), [resized_by(OURS.uuid)], None, id='our resize has not ended yet'
        ),
        pytest.param(
            (1, some()), sent(), [resized_by('another')], 1, id='another call for the resize'
        ),
        pytest.param(
            (1, some()), sent(), [Claim(A, ONE, {'VCPU': 1}, CONFIRMED)], 1, id='the server runs'
        ),
        pytest.param(
            (1, some()), sent(stored=BEFORE), [BEFORE], 1, id='the claim that it has taken over'
        ),
        pytest.param(
            (1, some()),
            sent(stored=dataclasses.replace(BEFORE, expires_s=60.0)),
            [dataclasses.replace(BEFORE, expires_s=60.0)],
            None,
            id='the claim that it has asked back',
        ),
        pytest.param(
            (1, some()),
            sent(stored=BEFORE),
            [dataclasses.replace(BEFORE, changed_at=8)],
            1,
            id='a later call has taken that over',
        ),
    ],
)
def test_what_is_taken_back(world, held, request_sent, claims, after):
    if held:
        world.fake.consumers[A] = [held[0], dict(held[1].providers), 'p', 'u']
    world.claims = claims
    world.uncertain.add(request_sent)
    world.wait()
    found = world.fake.consumers.get(A)
    assert (found and found[0]) == after


def test_a_later_call_has_a_claim_there(world):
    """It is about to write, or has failed to: the check is repeated until the claim has ended."""
    world.fake.consumers[A] = [1, dict(some().providers), 'p', 'u']
    world.claims = [Claim(A, ONE, {'VCPU': 1})]
    world.uncertain.add(sent())
    threading.Event().wait(0.2)
    assert (len(world.uncertain._waiting), len(world.fake.allocated())) == (1, 1)
    world.claims = []
    world.wait()
    assert world.fake.allocated() == {}


def test_what_an_earlier_refused_call_has_written_does_not_come_back(world):
    world.fake.consumers[A] = [2, dict(some().providers), 'p', 'u']
    world.uncertain.add(sent())
    world.uncertain.add(sent(some(1), some(1)))
    world.wait()
    assert world.fake.allocated() == {}


def test_an_evacuation_gets_back_what_it_had(world):
    before, both = some(4, TWO), some(4, TWO, **{ONE: {'VCPU': 1}})
    world.fake.consumers[A] = [5, dict(both.providers), 'p', 'u']
    world.uncertain.add(sent(before, both))
    world.wait()
    assert world.fake.consumers[A] == [6, {TWO: {'VCPU': 1}}, 'p', 'u']


def test_what_was_added_is_removed_though_its_claim_was_there(world):
    """A server that comes back to the host that it has just left."""
    before, both = some(4, TWO), some(4, TWO, **{ONE: {'VCPU': 1}})
    world.fake.consumers[A] = [5, dict(both.providers), 'p', 'u']
    world.claims = [BEFORE, Claim(A, TWO, {'VCPU': 1}, CONFIRMED)]
    world.uncertain.add(sent(before, both, stored=BEFORE))
    world.wait()
    assert world.fake.consumers[A] == [6, {TWO: {'VCPU': 1}}, 'p', 'u']


def test_it_is_done_after_the_first_check(world):
    def late(method, path):
        if len(world.fake.requests) == 2:
            world.fake.consumers[A] = [1, {ONE: {'VCPU': 1}}, 'p', 'u']

    world.fake.faults = late
    world.uncertain.add(sent())
    world.wait()
    assert len(world.fake.requests) > 2
    assert world.fake.allocated() == {}


@pytest.mark.parametrize('what', ['placement', 'store'])
def test_what_does_not_answer_is_asked_again(world, what):
    world.fake.consumers[A] = [1, {ONE: {'VCPU': 1}}, 'p', 'u']
    faults = [Fault(503)] if what == 'placement' else []
    world.fake.faults = lambda method, path: faults.pop() if faults else None
    world.claims = errors.StoreUnavailable('gone') if what == 'store' else []
    world.uncertain.add(sent())
    world.wait()
    assert world.fake.allocated() == {}


def test_a_later_request_goes_first(world):
    """While another request for the server is under way it is not checked; it makes them void."""
    entered = []
    world.queue.enter([A], entered.append)
    world.uncertain.add(sent())
    threading.Event().wait(0.05)
    assert world.fake.requests == []
    world.fake.consumers[A] = [1, {ONE: {'VCPU': 1}}, 'p', 'u']
    world.uncertain.forget(A)
    world.queue.leave(entered[0])
    world.wait()
    threading.Event().wait(0.1)
    assert (world.fake.requests, len(world.fake.allocated())) == ([], 1)


def test_what_is_not_certain_at_the_end_is_logged(world, caplog):
    world.fake.faults = lambda method, path: Fault(503)
    world.uncertain.add(sent())
    threading.Event().wait(0.05)
    world.uncertain.stop()
    assert f'Instance {A} was refused, but may have allocations on node {ONE}' in caplog.text


def test_writes_that_end_while_the_doubts_are_logged(world, caplog, monkeypatch):
    """Each of them is another doubt, and is logged as well."""
    servers = [uuid_of(name) for name in 'abcd']
    world.fake.faults = lambda method, path: Fault(503)
    for server in servers[:3]:
        world.uncertain.add(sent(server=server))
    warn = uncertain_writes._warn

    def meanwhile(one):
        monkeypatch.setattr(uncertain_writes, '_warn', warn)
        writer = threading.Thread(target=world.uncertain.add, args=(sent(server=servers[3]),))
        writer.start()
        writer.join(PATIENCE_S)
        warn(one)

    monkeypatch.setattr(uncertain_writes, '_warn', meanwhile)
    world.uncertain.stop()
    assert [caplog.text.count(f'Instance {server} was refused') for server in servers] == [1] * 4


class Steps:
    """``started`` has the names of what has started, in order."""

    def __init__(self):
        self.queue, self.started, self._taken = WriteQueue(), [], {}

    def enter(self, name, servers):
        def start(turn):
            self.started.append(name)
            self._taken[name] = turn

        self.queue.enter(servers, start)

    def leave(self, name):
        self.queue.leave(self._taken.pop(name))


@each(
    'entered, left, started',
    [
        pytest.param(['a', 'b'], '', '01', id='different servers'),
        pytest.param(['a', 'a', 'a'], '', '0', id='one server'),
        pytest.param(['a', 'a', 'a'], '0', '01', id='the second after the first'),
        pytest.param(['a', 'b', 'ab'], '0', '01', id='several wait for each'),
        pytest.param(['a', 'b', 'ab'], '01', '012', id='all have left'),
        pytest.param(['ab', 'b', 'a'], '0', '012', id='several go before each'),
        pytest.param(['a', 'ab', 'b'], '', '0', id='none overtakes'),
        pytest.param(['a', 'ab', 'b'], '01', '012', id='in the order of arrival'),
        pytest.param(['aa', 'a'], '', '0', id='named twice'),
    ],
)
def test_the_order(entered, left, started):
    steps = Steps()
    for name, servers in enumerate(entered):
        steps.enter(str(name), servers)
    for name in left:
        steps.leave(name)
    assert ''.join(steps.started) == started


def test_nothing_is_kept_of_work_that_has_left():
    steps = Steps()
    for name in range(10):
        steps.enter(name, 'ab')
    for name in range(10):
        steps.leave(name)
    assert (steps.started, steps.queue._last) == (list(range(10)), {})
