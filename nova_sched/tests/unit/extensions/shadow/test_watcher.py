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
"""The threads that decide copies of calls, and compare."""

import collections
import time

import pytest
from oslo_context.context import RequestContext

from nova_sched import errors
from nova_sched.extensions.shadow.comparison import PLACED, REFUSED, Choice
from nova_sched.extensions.shadow.watcher import Watcher, WatchSettings
from nova_sched.rpc.copies import CopiedCall
from nova_sched.tests.builders import report, request, uuid_of
from nova_sched.tests.functional.harness import eventually
from nova_sched.tests.unit.engine.world import World

A, B = uuid_of('a'), uuid_of('b')
REBUILD = {'_nova_check_type': ['rebuild']}
SOON_S = 20.0  # the machine may be busy


class FakeMirror:
    """Says what it is told; ``changed`` are the hosts that are to be read."""

    def __init__(self):
        self.unreadable, self.left_out, self.changed = [], {}, []
        self.out_of_service = lambda nodes: []

    def not_up(self, nodes):
        return self.out_of_service(nodes)

    def host_changed(self, host):
        self.changed.append(host)


class FakeChoices:
    """What the cloud did, by instance; ``problem`` is raised by a look."""

    def __init__(self):
        self.made, self.asked, self.problem = {}, [], None

    def find(self, uuid, ignored):
        self.asked.append((uuid, ignored))
        if self.problem:
            raise self.problem
        return self.made.get(uuid)

    def place(self, uuid, host):
        self.made[uuid] = Choice(PLACED, uuid_of(f'node {host}'), host)


class FakeJournal(list):
    """Lines that were written; ``problem`` is raised in place of a write."""

    problem = None

    def write(self, line):
        if self.problem:
            raise self.problem
        self.append(line)


class Shadow:
    """Two hosts, of which host-1 has less memory, and a Watcher of their scheduler."""

    def __init__(self, most=10, **settings):
        self.world = World()
        self.world.report(report('host-0'), report('host-1', memory_mb=1024))
        self.world.loop.start()
        self.mirror, self.choices, self.lines = FakeMirror(), FakeChoices(), FakeJournal()
        self.counts, self.settings = collections.Counter(), WatchSettings(**settings)
        self.watcher = Watcher(
            self.world.scheduler,
            self.mirror,
            self.choices,
            self.lines,
            self.counts,
            most,
            lambda: self.settings,
        )

    def copy(self, *uuids, is_named=True, **asked):
        context = RequestContext(request_id='req-1', overwrite=False)
        requests = [request(instance_uuid=uuid, **asked) for uuid in uuids or (A,)]
        return CopiedCall(context, requests, is_named, time.monotonic())

    def compared(self, count=1):
        eventually(lambda: len(self.calls()) >= count, SOON_S)
        return self.calls()

    def calls(self):
        return [line for line in self.lines if 'outcome' in line]

    def stop(self):
        self.watcher.stop()
        self.world.loop.stop()


@pytest.fixture
def make():
    made = []

    def start(**words):
        made.append(Shadow(**words))
        made[-1].watcher.start()
        return made[-1]

    yield start
    for one in made:
        one.stop()


@pytest.fixture
def shadow(make):
    return make()


@pytest.mark.parametrize(
    'asked, cloud, outcome',
    [
        ({}, 'host-0', 'same'),
        ({}, 'host-1', 'passed'),
        ({'memory_mb': 2048}, 'host-1', 'filtered'),
        ({}, None, 'cloud_refused'),
        ({'memory_mb': 10**6}, 'host-0', 'shadow_refused'),
    ],
)
def test_a_call_is_compared(shadow, asked, cloud, outcome):
    shadow.choices.made[A] = Choice(REFUSED)
    if cloud:
        shadow.choices.place(A, cloud)
    shadow.watcher.take(shadow.copy(**asked))
    (line,) = shadow.compared()
    assert (line['outcome'], line['request_id']) == (outcome, 'req-1')
    assert line['took_ms'] > 0
    assert shadow.mirror.changed == ([cloud] if cloud else [])
    assert shadow.world.store.claims() == []


def test_a_decision_does_not_see_earlier_ones(shadow):
    shadow.choices.place(A, 'host-0')
    shadow.choices.place(B, 'host-0')
    for uuid in (A, B):
        shadow.watcher.take(shadow.copy(uuid, memory_mb=60_000))
    assert [line['outcome'] for line in shadow.compared(2)] == ['same', 'same']


def test_a_host_that_is_out_of_service_since_the_last_poll(shadow):
    def look(nodes):
        disabled = 'host-0', True, 'maintenance', False
        shadow.world.scheduler.call(shadow.world.cluster.set_service, *disabled)
        return [node for node in nodes if node == uuid_of('node host-0')]

    shadow.mirror.out_of_service = look
    shadow.choices.place(A, 'host-1')
    shadow.watcher.take(shadow.copy())
    assert shadow.compared()[0]['outcome'] == 'same'


def test_it_waits_for_what_the_cloud_does(shadow):
    shadow.choices.place(A, 'host-0')
    shadow.watcher.take(shadow.copy(A, B, ignore_hosts=frozenset(['host-9'])))
    eventually(lambda: shadow.choices.asked.count((B, {'host-9'})) == 2, SOON_S)
    assert shadow.choices.asked.count((A, {'host-9'})) == 1
    assert shadow.lines == []
    shadow.choices.place(B, 'host-0')
    (line,) = shadow.compared()
    assert [one['outcome'] for one in line['servers']] == ['same', 'same']


@pytest.mark.parametrize('words', [{'hints': REBUILD}, {'is_named': False}])
def test_a_check_leaves_no_trace_in_the_cloud(shadow, words):
    shadow.watcher.take(shadow.copy(**words))
    (line,) = shadow.compared()
    assert (line['outcome'], shadow.choices.asked) == ('not_known', [])


def test_it_gives_up_in_the_end(make):
    shadow = make(wait_s=0.1)
    shadow.watcher.take(shadow.copy())
    assert shadow.compared()[0]['outcome'] == 'not_known'


def test_placement_is_away(shadow):
    shadow.choices.problem = errors.PlacementUnavailable('connection refused')
    shadow.watcher.take(shadow.copy())
    eventually(lambda: len(shadow.choices.asked) == 2, SOON_S)
    shadow.choices.place(A, 'host-0')
    shadow.choices.problem = None
    assert shadow.compared()[0]['outcome'] == 'same'


def test_too_many_copies_are_counted():
    shadow = Shadow(most=2)
    for _ in range(5):
        shadow.watcher.take(shadow.copy())
    assert shadow.counts == {'lost': 3}
    shadow.stop()


def test_too_many_decisions_wait(make):
    shadow = make(most=1)
    shadow.watcher.take(shadow.copy(A))
    eventually(lambda: shadow.choices.asked, SOON_S)
    shadow.watcher.take(shadow.copy(B))
    (line,) = shadow.compared()
    assert (line['servers'][0]['instance_uuid'], line['outcome']) == (A, 'not_known')


def test_what_waits_at_the_end_is_written(shadow):
    shadow.watcher.take(shadow.copy())
    eventually(lambda: shadow.choices.asked, SOON_S)
    shadow.watcher.stop()
    assert [line['outcome'] for line in shadow.calls()] == ['not_known']


def test_a_part_of_the_cloud_that_cannot_be_read(shadow):
    shadow.mirror.unreadable = ['Cell x']
    shadow.choices.place(A, 'host-0')
    shadow.watcher.take(shadow.copy())
    assert shadow.compared()[0]['unreadable'] == ['Cell x']


def test_a_full_disk_ends_nothing(shadow, caplog):
    shadow.choices.place(A, 'host-0')
    shadow.lines.problem = OSError(28, 'No space left on device')
    for _ in range(2):
        shadow.watcher.take(shadow.copy())
    eventually(lambda: len(shadow.choices.asked) == 2, SOON_S)
    eventually(lambda: 'The comparisons cannot be written' in caplog.text, SOON_S)
    shadow.lines.problem = None
    shadow.watcher.take(shadow.copy())
    assert shadow.compared()[0]['outcome'] == 'same'


def test_an_error_of_the_engine_is_counted(shadow):
    shadow.watcher.take(CopiedCall(RequestContext(overwrite=False), [], True, 0.0))
    eventually(lambda: shadow.counts['lost'] == 1, SOON_S)
    shadow.choices.place(A, 'host-0')
    shadow.watcher.take(shadow.copy())
    assert shadow.compared()[0]['outcome'] == 'same'


def test_in_intervals_it_writes_what_was_missed():
    shadow = Shadow(tell_s=0.05)
    shadow.counts['overflows'] = 1
    shadow.mirror.left_out = {'host-9': 'no inventory'}
    shadow.watcher.start()
    eventually(lambda: shadow.lines, SOON_S)
    time.sleep(0.3)  # several intervals without news
    shadow.counts['lost'] = 2
    eventually(lambda: len(shadow.lines) == 2, SOON_S)
    shadow.stop()
    assert [line['missed'] for line in shadow.lines] == [{'overflows': 1}, {'lost': 2}]
    assert [line['hosts_left_out'] for line in shadow.lines] == [{'host-9': 'no inventory'}] * 2
