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
"""Long calls pause for other messages, and answer as without pauses."""

import dataclasses
import types

import numpy as np
import pytest

from nova_sched import errors
from nova_sched.claims import GroupRecord
from nova_sched.engine import time_slice
from nova_sched.engine.calls import Calls, pausable, settled
from nova_sched.engine.groups.member_state import LoadedGroup
from nova_sched.engine.loop import Loop
from nova_sched.engine.scheduler import CALL
from nova_sched.groups.definition import Definition, Member, MemberFlavor
from nova_sched.hardware.machine import HardwareRequest
from nova_sched.hardware.providers import ResourceGroup
from nova_sched.state.traits import OWNER
from nova_sched.state.vocab import Unfinished
from nova_sched.tests.builders import report, uuid_of
from nova_sched.tests.rows import each
from nova_sched.tests.unit.engine.test_time_slice import HOSTS, asks, turns_until, world
from nova_sched.tests.unit.engine.world import fresh, picture
from nova_sched.tests.unit.filters.test_child_providers import GPU, devices, gpu
from nova_sched.tests.unit.hardware.builders import request as pci_request
from nova_sched.tests.unit.hardware.builders import shared, wanted


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setattr(time_slice, 'SLICE_S', 0.0)


@pytest.fixture
def busy(monkeypatch):
    """Others come all the time."""
    monkeypatch.setattr(Loop, 'has_waiting', True)


class Pausing:
    """A loop with calls only; ``log`` has what ran, in order."""

    def __init__(self):
        self.log, self.failures = [], 0
        self.hosts = type('', (), {'pause': None})()
        handlers = {}
        self.loop = Loop(handlers, 64)
        handlers[CALL] = Calls(self.hosts, self.loop, self._until_done).run

    def _until_done(self, work, *args):
        try:
            return work(*args)
        except errors.StoreUnavailable:
            return work(*args)

    def send(self, method, *args):
        return self.loop.send(CALL, (method, args))

    def plain(self, name):
        self.log.append(name)
        return name

    @pausable
    def steps(self, name, count, fails_at=None):
        for step in range(count):
            self.log.append(f'{name}{step}')
            if step == fails_at and not self.failures:
                self.failures += 1
                raise errors.StoreUnavailable('away')
            yield
        return name

    def until_done(self, *futures):
        while not all(future.done() for future in futures):
            self.loop.turn()
        return [future.result(0) for future in futures]


def test_plain_calls_come_between_the_steps_of_long_ones_in_turn(busy):
    made = Pausing()
    sent = [made.send(made.steps, 'a', 3), made.send(made.steps, 'b', 2)]
    for _ in range(3):
        sent.append(made.send(made.plain, '-'))
        made.loop.turn()
    assert made.until_done(*sent) == ['a', 'b', '-', '-', '-']
    assert ''.join(made.log) == 'a0--b0-a1b1a2'


def test_a_long_call_alone_does_not_pause():
    made = Pausing()
    sent = made.send(made.steps, 'a', 9)
    made.loop.turn()
    assert sent.result(0) == 'a'


def test_a_call_that_the_store_interrupts_begins_anew():
    made = Pausing()
    sent = [made.send(made.steps, 'a', 3, 1), made.send(made.plain, '-')]
    assert made.until_done(*sent) == ['a', '-']
    assert made.log.count('a0') == 2


def test_a_failure_is_the_answer():
    made = Pausing()

    @pausable
    def fails():
        yield
        raise errors.NotFound('it')

    sent = [made.send(fails), made.send(made.plain, '-')]
    while not sent[0].done():
        made.loop.turn()
    assert isinstance(sent[0].exception(0), errors.NotFound)
    assert made.hosts.pause is None


ASKED = asks('new', cells=1)
QUESTIONS = {
    'dry_run': ([ASKED],),
    'room': (ASKED,),
    'ranking': (ASKED, {(f'host-{row:03}', None): 1.0 for row in range(0, HOSTS, 7)}),
    'standings': (ASKED,),
    'why_not': (ASKED, 'host-299'),
}


@pytest.fixture(scope='module')
def plain():
    """A world that is only asked, and without pauses."""
    return world()


@pytest.mark.parametrize('name', QUESTIONS)
def test_questions_let_a_known_kind_pass(plain, name, busy):
    made = world()
    long = made.loop.send(CALL, (getattr(made.scheduler.questions, name), QUESTIONS[name]))
    known = made.send_place(asks('known'), claim=False)
    made.loop.turn()
    assert (known.done(), long.done()) == (True, False)
    made.send_place(asks('another'), claim=False)
    assert turns_until(made, long) > 1
    alone = getattr(plain.scheduler.questions, name)(*QUESTIONS[name])
    assert plainly(long.result(0)) == plainly(alone)


def plainly(answer):
    if isinstance(answer, dict | list):
        return answer
    fields = getattr(answer, '__dataclass_fields__', None) or answer._fields
    return {
        name: np.asarray(value).tolist()
        for name in fields
        if isinstance(value := getattr(answer, name), np.ndarray | list | int)
    }


def beneath(made):
    """Add hosts of which no two have equal devices, and which have CPUs too."""
    names = [f'host-dev-{row:03}' for row in range(100)]
    made.report(
        *(report(name, providers=devices(name, gpu(0, total=1000 + row)))
          for row, name in enumerate(names))
    )  # fmt: skip
    return made


OF_BOTH = asks('both', group_policy='none', groups=(
    ResourceGroup('1', ((GPU, 100),)), ResourceGroup('2', (('VCPU', 1),)),
))  # fmt: skip
LOOSE = asks(
    'loose',
    resources={'VCPU': 1, 'MEMORY_MB': 512, GPU: 100},
    required_traits=frozenset(['CUSTOM_T']),
)


def turned(made, future, meanwhile=lambda: None):
    """The answer, while others come all the time."""
    while not future.done():
        made.send_place(asks('known'), claim=False)
        made.loop.turn()
        meanwhile()
    return future.result(0)


@pytest.mark.parametrize('name', ['why_not', 'dry_run'])
def test_an_explanation_does_not_take_a_pause_for_a_failure(name, caplog):
    made, plain = beneath(world()), beneath(world())
    given = ([LOOSE],) if name == 'dry_run' else (LOOSE, 'host-dev-003')
    answer = turned(made, made.loop.send(CALL, (getattr(made.scheduler.questions, name), given)))
    assert answer == getattr(plain.scheduler.questions, name)(*given)
    assert not [one for one in caplog.records if one.levelname == 'ERROR']


def test_hosts_go_while_each_is_judged(busy):
    made = beneath(world())
    room = made.loop.send(CALL, (made.scheduler.questions.room, (OF_BOTH,)))

    def remove():
        if made.cluster.hosts.row_verdicts._kept and len(made.cluster) > HOSTS + 50:
            made.cluster.remove(made.cluster.snapshot()[HOSTS].uuid)

    assert len(turned(made, room, remove).nodes) == 50


def test_a_call_goes_on_pausing_after_a_part_that_no_longer_may():
    hosts = types.SimpleNamespace(pause=len)

    def never_settled():
        if hosts.pause is not None:
            raise Unfinished(lambda: None)

    for _ in settled(hosts, never_settled):
        pass
    assert hosts.pause is len


def group(count=4):
    flavor = MemberFlavor(1, 512, 1, extra_specs={'hw:numa_nodes': '1'})
    found = {f'{number}': Member(f'{number}', flavor) for number in range(count)}
    for number, member in enumerate(found.values()):
        object.__setattr__(member, 'flavor', MemberFlavor(
            1, 4096 + number, 1, extra_specs={'hw:numa_nodes': '1'}
        ))  # fmt: skip
    record = GroupRecord(uuid=uuid_of('group'), members=count)
    return LoadedGroup.of(record, Definition(members=found, policies=()), {})


def drafted(made):
    known = group()
    given = known, known.requests()
    return made.loop.send(CALL, (made.scheduler.groups._plans.draft, given))


def test_a_draft_of_a_group_pauses_and_is_the_same(monkeypatch):
    made, plain = world(), world()
    alone = drafted(plain)
    plain.loop.turn()
    monkeypatch.setattr(Loop, 'has_waiting', True)
    draft = drafted(made)
    turns = 0
    while not draft.done():
        known = made.send_place(asks(f'known {turns}'), claim=False)
        made.loop.turn()
        assert known.done()
        if turns == 1:  # what the draft has lifted is back
            assert picture(made.cluster) == picture(fresh(made.store))
        turns += 1
    assert turns > 4
    problem, other = (one.result(0).group_problem for one in (draft, alone))
    assert np.array_equal(problem.problem.mask, other.problem.mask)
    assert np.array_equal(problem.problem.score, other.problem.score)
    assert other.exact
    assert not problem.exact  # others were decided in between


def test_what_a_large_group_has_lifted_does_not_hide_what_has_changed():
    made = world()
    asked = [asks(f'{number}', pieces=wanted(shared(1, memory_mb=16))) for number in range(500)]
    nodes = made.cluster.snapshot()
    claims = [
        made.cluster.consume(nodes[number % HOSTS], one).claim for number, one in enumerate(asked)
    ]
    changed = made.cluster.hosts.changed
    position = changed.end
    with made.scheduler.groups._plans._lifted(claims):
        pass
    rows, _ = changed.since(position)
    assert len(rows) == HOSTS


@each('is_owned', [False, True])
def test_a_group_is_planned_on_devices_of_nova(is_owned):
    made, known = world(), group(1)
    made.cluster.hosts.is_owned = is_owned
    device = ResourceGroup('id-0', (('CUSTOM_PCI_1', 1),))
    alias = HardwareRequest(requests=(pci_request(request_id='id'),))
    requests = known.requests()
    ((kind, request),) = requests.of_kind.items()
    changed = dataclasses.replace(request, groups=(device,), pieces=alias)
    requests = dataclasses.replace(requests, of_kind={kind: changed})
    draft = made.loop.send(CALL, (made.scheduler.groups._plans.draft, (known, requests)))
    made.loop.turn()
    (state,) = draft.result(0).member_states
    assert state.request.groups[0].required == ({OWNER} if is_owned else set())


def test_a_draft_begins_anew_when_a_host_has_come():
    made = world()
    draft = drafted(made)
    made.send_place(asks('known'), claim=False)
    made.loop.turn()
    made.send_report(report('host-new'))
    turns_until(made, draft)
    assert draft.result(0).group_problem.problem.mask.shape[1] == HOSTS + 1
