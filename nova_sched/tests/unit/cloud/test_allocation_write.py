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
"""The requests for one decision: each answer of Placement, and what follows."""

import dataclasses
import random
import re
import types

import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED, Claim, Resizing
from nova_sched.cloud.allocation_write import (
    ATTEMPTS,
    WON,
    AllocationWrite,
    Server,
    servers,
)
from nova_sched.cloud.placement import ConsumerAllocations
from nova_sched.engine.answer import Selected, allocation_request
from nova_sched.engine.writer import WriteOutcome
from nova_sched.tests.builders import request, uuid_of
from nova_sched.tests.fake_placement import CONCURRENT, Fault, client_of, served
from nova_sched.tests.rows import each

A, B = uuid_of('a'), uuid_of('b')
ONE, TWO, THREE = (uuid_of(f'node {name}') for name in ('one', 'two', 'three'))
CHILD, DISKS = uuid_of('child of one'), uuid_of('disks')
HOSTS = {ONE: 'One', TWO: 'two', THREE: 'three'}
OWNER = {'project_id': 'p', 'user_id': 'u'}
OUT = Fault(503)
LOST = Fault(lost=True)
BUSY = Fault(409, 'changed while attempting to allocate', CONCURRENT)


class Limits:
    """Waits in no time; over after so many pauses. ``pauses`` are those it was asked for."""

    def __init__(self, most=20):
        self.pauses, self._most, self.reports = [], most, []

    def left_s(self):
        return 5.0

    def is_over(self):
        return len(self.pauses) >= self._most

    def wait(self, seconds):
        self.pauses.append(seconds)
        return not self.is_over()

    def report(self, error):
        self.reports.append(error)


@pytest.fixture
def fake():
    with served() as made:
        for node in HOSTS:
            made.add(node, VCPU=4)
        made.add(CHILD, root=ONE, CUSTOM_GPU=1)
        made.add(DISKS, DISK_GB=10)
        yield made


def wants(uuid=A, node=ONE, vcpus=1, avoided=(), **providers):
    amounts = {node: {'VCPU': vcpus}, **providers}
    wanted = ConsumerAllocations(amounts, None, 'p', 'u', {'': [node]})
    claim = Claim(uuid, node, {'VCPU': vcpus}, request_id='req-1')
    return Server(claim, claim, wanted, frozenset(avoided))


def moves(server):
    return True


def stays(server):
    return False


def unreadable(server):
    raise errors.StoreUnavailable('cell1: it is away')


def written(
    fake,
    *wanted,
    limits=None,
    timeouts_s=(1.0, 5.0),
    is_repeat=False,
    is_moving=stays,
    claims=(),
):
    """The write, after it has ended, and its outcome."""
    made = AllocationWrite(
        client_of(fake, timeouts_s),
        lambda uuid: claims,
        HOSTS.get,
        is_moving,
        random.Random(1),
        wanted,
        limits or Limits(),
        is_repeat,
    )
    return made, made.run()


def one_after_the_other(*faults):
    """These happen to the writing requests; None: nothing does."""
    waiting = list(faults)

    def fault(method, path):
        return waiting.pop(0) if method != 'GET' and waiting else None

    return fault


def holds(fake, uuid, generation=1, **providers):
    """The server has these allocations by an earlier call."""
    fake.consumers[uuid] = [generation, providers['held'], 'p', 'u']


def test_one_request_without_a_read_before(fake):
    write, outcome = written(fake, wants())
    assert (outcome, write.is_doubtful, write.full) == (WON, False, ())
    assert fake.requests == [('PUT', f'/allocations/{A}')]
    assert fake.bodies == [
        {
            A: {
                'allocations': {ONE: {'resources': {'VCPU': 1}}},
                'mappings': {'': [ONE]},
                'consumer_generation': None,
                **OWNER,
            }
        }
    ]


def test_several_servers_are_one_request(fake):
    _, outcome = written(fake, wants(A), wants(B, TWO))
    assert outcome == WON
    assert fake.requests == [('POST', '/allocations')]
    assert fake.allocated() == {A: {ONE: {'VCPU': 1}}, B: {TWO: {'VCPU': 1}}}


def test_no_capacity_for_one_of_several(fake):
    write, outcome = written(fake, wants(A), wants(B, TWO, vcpus=5))
    assert (outcome, fake.allocated()) == (WriteOutcome(False), {})
    assert sorted(write.full) == sorted([ONE, TWO])


@pytest.mark.parametrize(
    'faults, requests, outcome',
    [
        pytest.param([BUSY], 'PUT PUT', WON, id='the provider changes'),
        pytest.param([BUSY] * 3, 'PUT PUT PUT PUT', WON, id='three times'),
        pytest.param([BUSY] * 4, 'PUT PUT PUT PUT', WriteOutcome(False), id='four times'),
        pytest.param([OUT], 'PUT GET PUT', WON, id='503'),
        pytest.param([OUT, OUT], 'PUT GET PUT GET PUT', WON, id='503 twice'),
        pytest.param([Fault(cut=True)], 'PUT GET PUT', WON, id='the request was lost'),
        pytest.param([LOST], 'PUT GET PUT', WON, id='the answer was lost'),
        pytest.param(
            [Fault(400, 'no such class')],
            'PUT GET',
            'Placement refuses a request: PUT /allocations/.*: 400: no such class',
            id='400',
        ),
        pytest.param([Fault(403)], 'PUT', '403: out of order', id='403'),
        # keystoneauth logs in once more.
        pytest.param([Fault(401)] * 2, 'PUT', '401: out of order', id='401'),
    ],
)
def test_what_placement_answers(fake, faults, requests, outcome):
    fake.faults = one_after_the_other(*faults)
    write, found = written(fake, wants())
    assert ' '.join(method for method, _ in fake.requests).startswith(requests)
    if isinstance(outcome, str):
        assert not found.won
        assert re.search(outcome, found.refusal)
    else:
        assert found == outcome
        assert [method for method, _ in fake.requests] == requests.split()
    assert bool(fake.allocated()) == found.won
    assert bool(write.full) == (found == WriteOutcome(False))


def test_pauses_while_the_providers_change(fake):
    fake.faults = one_after_the_other(*[BUSY] * ATTEMPTS)
    limits = Limits()
    written(fake, wants(), limits=limits)
    assert len(limits.pauses) == ATTEMPTS - 1
    for pause_s, most_s in zip(limits.pauses, (2, 4, 6), strict=True):
        assert 0 <= pause_s <= most_s


def test_pauses_while_placement_is_away(fake):
    fake.faults = lambda method, path: OUT
    limits = Limits(most=10)
    write, outcome = written(fake, wants(), limits=limits)
    assert outcome.refusal.endswith('in Placement: Placement does not answer.')
    assert write.is_doubtful
    assert limits.pauses[0] <= 0.1
    assert limits.pauses[-1] <= 2.0
    assert len(limits.reports) == 10


def test_an_answer_that_comes_late(fake):
    """The request is done while the writer reads: it is found, not repeated."""
    fake.faults = one_after_the_other(Fault(delay_s=0.4))
    _, outcome = written(fake, wants(), timeouts_s=(1.0, 0.2))
    assert outcome == WON
    assert fake.consumers[A][:2] == [1, {ONE: {'VCPU': 1}}] or fake.consumers[A][0] == 2


def test_the_caller_has_gone_before_the_first_request(fake):
    write, outcome = written(fake, wants(), limits=Limits(most=0))
    assert (fake.requests, write.is_doubtful) == ([], False)
    assert outcome.refusal.endswith('the call waited too long for its turn.')


def test_another_request_has_just_made_the_consumer(fake):
    """It has no allocations yet, so there is nothing to read: the request is repeated."""
    conflict = Fault(409, 'consumer generation conflict - expected 0 but got None', CONCURRENT)
    fake.faults = one_after_the_other(conflict, conflict)
    limits = Limits()
    _, outcome = written(fake, wants(), limits=limits)
    assert (outcome, limits.pauses) == (WON, [0.0, 0.1])


def test_a_failed_request_has_left_a_consumer(fake):
    """Placement makes it, and then refuses: it stays, without allocations, at generation 0."""
    fake.consumers[A] = [0, {}, 'p', 'u']
    limits = Limits(most=50)
    _, outcome = written(fake, wants(), limits=limits)
    assert (outcome, fake.consumers[A][:2]) == (WON, [1, {ONE: {'VCPU': 1}}])
    assert 10 <= sum(limits.pauses) < 12


@pytest.mark.parametrize(
    'gone, wanted, full',
    [
        pytest.param(ONE, [wants()], [ONE], id='the node'),
        pytest.param(CHILD, [wants(**{CHILD: {'CUSTOM_GPU': 1}})], [ONE], id='a child of it'),
        pytest.param(TWO, [wants(), wants(B, TWO)], [TWO], id='one of two nodes'),
    ],
)
def test_a_provider_has_just_gone(fake, gone, wanted, full):
    """The order is decided again, after its node was read: Placement has it no more."""
    del fake.providers[gone]
    write, outcome = written(fake, *wanted)
    assert (outcome, list(write.full), fake.allocated()) == (WriteOutcome(False), full, {})


def test_placement_is_away_while_providers_are_read(fake):
    del fake.providers[ONE]
    fake.faults = lambda method, path: OUT if method == 'GET' else None
    _, outcome = written(fake, wants(), limits=Limits(most=3))
    assert outcome.refusal.endswith('Placement does not answer.')


def test_a_second_attempt_uses_the_consumer_that_the_first_one_has_left(fake):
    del fake.providers[ONE]
    written(fake, wants())
    assert fake.consumers[A][:2] == [0, {}]
    limits = Limits()
    _, outcome = written(fake, wants(node=TWO), limits=limits, is_repeat=True)
    assert (outcome, limits.pauses) == (WON, [0.0])
    assert fake.allocated() == {A: {TWO: {'VCPU': 1}}}


@pytest.mark.parametrize(
    'held, wanted, outcome, after',
    [
        pytest.param(
            {ONE: {'VCPU': 1}}, wants(), WON, {ONE: {'VCPU': 1}}, id='done by a call before'
        ),
        pytest.param(
            {TWO: {'VCPU': 1}},
            wants(),
            WriteOutcome(False, elsewhere={A: TWO}),
            {TWO: {'VCPU': 1}},
            id='on another node',
        ),
        pytest.param(
            {CHILD: {'CUSTOM_GPU': 1}},
            wants(node=TWO),
            WriteOutcome(False, elsewhere={A: ONE}),
            {CHILD: {'CUSTOM_GPU': 1}},
            id='on a child of another node',
        ),
        pytest.param(
            {ONE: {'VCPU': 2}},
            wants(),
            'other allocations',
            {ONE: {'VCPU': 2}},
            id='other amounts',
        ),
        pytest.param(
            {DISKS: {'DISK_GB': 8}},
            wants(),
            'other allocations',
            {DISKS: {'DISK_GB': 8}},
            id='on no node',
        ),
    ],
)
def test_a_server_that_has_allocations(fake, held, wanted, outcome, after):
    holds(fake, A, generation=5, held=held)
    _, found = written(fake, wanted)
    if isinstance(outcome, str):
        assert outcome in found.refusal
    else:
        assert found == outcome
    # What is won has a generation of its own: a late request of another call loses.
    assert fake.consumers[A][:2] == [6 if found.won else 5, after]


@pytest.mark.parametrize(
    'held, wanted, after',
    [
        pytest.param(
            {ONE: {'VCPU': 1}},
            wants(node=TWO, avoided=['one']),
            {ONE: {'VCPU': 1}, TWO: {'VCPU': 1}},
            id='evacuation',
        ),
        pytest.param(
            {ONE: {'VCPU': 1}, DISKS: {'DISK_GB': 8}},
            wants(node=TWO, avoided=['one'], **{DISKS: {'DISK_GB': 8}}),
            {ONE: {'VCPU': 1}, TWO: {'VCPU': 1}, DISKS: {'DISK_GB': 8}},
            id='with a sharing provider',
        ),
        pytest.param(
            {ONE: {'VCPU': 1}, TWO: {'VCPU': 1}},
            wants(node=TWO, avoided=['one']),
            {ONE: {'VCPU': 1}, TWO: {'VCPU': 1}},
            id='done by a call before',
        ),
        pytest.param(
            {ONE: {'VCPU': 1}, TWO: {'VCPU': 1}},
            wants(node=THREE, avoided=['one']),
            {ONE: {'VCPU': 1}, TWO: {'VCPU': 1}, THREE: {'VCPU': 1}},
            id='the conductor of the first one died',
        ),
        pytest.param(
            {ONE: {'VCPU': 1}, TWO: {'VCPU': 1}},
            wants(node=THREE, avoided=['two']),
            {ONE: {'VCPU': 1}, TWO: {'VCPU': 1}, THREE: {'VCPU': 1}},
            id='from the second lost host',
        ),
        pytest.param(
            {TWO: {'VCPU': 1}},
            wants(node=THREE, avoided=['one']),
            {TWO: {'VCPU': 1}, THREE: {'VCPU': 1}},
            id='migration whose conductor died',
        ),
    ],
)
def test_a_server_that_nova_moves_has_both(fake, held, wanted, after):
    holds(fake, A, generation=5, held=held)
    _, found = written(fake, wanted, is_moving=moves)
    assert (found, fake.consumers[A][:2]) == (WON, [6, after])


@pytest.mark.parametrize(
    'request_id, avoided, outcome',
    [
        pytest.param('req-1', ['one'], WriteOutcome(False, elsewhere={A: TWO}), id='a copy'),
        pytest.param('req-2', ['one'], WON, id='another call'),
        pytest.param(None, ['one'], WON, id='a call without an id'),
        pytest.param('req-1', ['two'], WON, id='the same call, which leaves the host by now'),
    ],
)
def test_where_a_copy_of_the_call_has_a_claim(fake, request_id, avoided, outcome):
    holds(fake, A, held={ONE: {'VCPU': 1}, TWO: {'VCPU': 1}})
    claims = [Claim(A, TWO, {'VCPU': 1}, CONFIRMED, request_id=request_id)]
    wanted = wants(node=THREE, avoided=avoided)
    _, found = written(fake, wanted, is_moving=moves, claims=[wanted.claim, *claims])
    assert found == outcome


def test_a_call_whose_claim_another_one_has_taken_over(fake):
    """What it has read may be of the server's last stay, with the generations of this one."""
    holds(fake, A, held={ONE: {'VCPU': 1}})
    wanted = wants()
    taken = dataclasses.replace(wanted.claim, number=7, changed_at=7)
    _, outcome = written(fake, wanted, claims=[taken])
    assert outcome == WriteOutcome(won=False)
    assert fake.consumers[A][0] == 1


@each(
    'held, stored, outcome',
    [
        ({ONE: {'VCPU': 1}}, {}, WON),
        (None, {}, WriteOutcome(won=False)),
        # Another call: the server comes back to the host. Or this one has asked it back.
        (None, {'request_id': 'req-2'}, WON),
        (None, {'expires_s': 60.0}, WON),
        # An earlier copy has opened a resize, and was killed before it wrote.
        (None, {'resizing': Resizing({}, {}, request_id='req-1'), 'expires_s': 60.0}, WON),
    ],
)
def test_a_call_whose_claim_an_earlier_copy_has_got_confirmed(fake, held, stored, outcome):
    """A late copy must not give a server more than it has: it is deleted by now, or a migration
    has its allocations."""
    fake.consumers.clear()
    if held:
        holds(fake, A, held=held)
    wanted = wants()
    there = Claim(A, ONE, {'VCPU': 1}, CONFIRMED, **{'request_id': 'req-1', **stored})
    _, found = written(fake, dataclasses.replace(wanted, stored=there), claims=[there])
    assert found == outcome
    assert bool(fake.allocated()) == outcome.won


def test_one_of_several_was_done_before(fake):
    holds(fake, A, held={ONE: {'VCPU': 1}})
    _, outcome = written(fake, wants(A), wants(B))
    assert outcome == WON
    assert {uuid: one[0] for uuid, one in fake.consumers.items()} == {A: 2, B: 1}


@each('spec_user, user', [('u', 'u'), (None, 'caller')], ids=['of the request', 'of the context'])
def test_the_servers_of_a_decision(spec_user, user):
    asked = [
        request(instance_uuid=A, project_id='p', user_id=spec_user, ignore_hosts=['One']),
        request(instance_uuid=B, project_id='p', user_id=spec_user),
    ]
    claims = [Claim(A, ONE, {'VCPU': 1}), Claim(B, TWO, {'VCPU': 1})]
    decision = types.SimpleNamespace(requests=asked, claims=claims)
    answer = [[selected(ONE)], [selected(TWO), selected(THREE)]]
    context = types.SimpleNamespace(user_id='caller', project_id='other')
    stored = [claims[0], dataclasses.replace(claims[1], state=CONFIRMED, uuid='earlier')]
    found = servers(decision, stored, answer, context)
    assert [(one.uuid, one.node_uuid, one.claim, one.stored) for one in found] == [
        (A, ONE, claims[0], stored[0]),
        (B, TWO, claims[1], stored[1]),
    ]
    assert found[0].allocations == ConsumerAllocations(
        {ONE: {'VCPU': 1}}, None, 'p', user, {'': [ONE]}
    )
    assert found[0].avoided == {'one'}


@pytest.mark.parametrize(
    'is_moving, why',
    [
        pytest.param(stays, 'other allocations', id='a late copy of a move'),
        pytest.param(unreadable, 'it is away', id='the cell does not answer'),
    ],
)
def test_a_server_that_may_have_come_back(fake, is_moving, why):
    """A move that was taken back has given the server its allocations on the source again."""
    holds(fake, A, generation=5, held={ONE: {'VCPU': 2}})
    _, found = written(fake, wants(node=TWO, avoided=['one']), is_moving=is_moving)
    assert (found.won, why in found.refusal) == (False, True)
    assert fake.allocated() == {A: {ONE: {'VCPU': 2}}}


def selected(node, version='1.36'):
    text = allocation_request(node, '{"VCPU": 1}')
    return Selected(node, 'host', 'host', None, None, text, version)


def test_a_check_has_nothing_to_write():
    decision = types.SimpleNamespace(
        requests=[request(instance_uuid=A)], claims=[Claim(A, ONE, {'VCPU': 1})]
    )
    assert servers(decision, decision.claims, [[selected(ONE, version=None)]], None) == []
