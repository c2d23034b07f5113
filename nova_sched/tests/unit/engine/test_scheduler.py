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
"""The scheduler in threads: reports, calls, and its start and end."""

import logging
import threading

import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED, VCPU
from nova_sched.claims import Placement
from nova_sched.tests.builders import NOW, claim, report, uuid_of
from nova_sched.tests.functional.harness import PATIENCE_S, eventually
from nova_sched.tests.stores import MemoryClaimStore
from nova_sched.tests.unit.engine.stores import Unsteady
from nova_sched.tests.unit.engine.test_cycle import world
from nova_sched.tests.unit.engine.world import A, B, World, asks, fresh, node, picture


class TestReports:
    def test_a_report_is_accepted(self):
        made = World()
        (facts,) = made.report(report(vcpus_used=3))
        assert facts.foreign == {VCPU: 3}
        assert facts.seen_s == NOW
        assert picture(made.cluster) == picture(fresh(made.store))

    def test_one_that_is_refused_does_not_hold_up_others(self):
        made = World()
        made.report(report())
        futures = [
            made.send_report(report('thief', node_uuid=node('host-0'))),
            made.send_report(report('host-1')),
        ]
        made.loop.turn()
        assert isinstance(futures[0].exception(0), errors.NodeOwned)
        assert futures[1].result(0).report.host == 'host-1'
        assert set(picture(made.cluster)) == {node('host-0'), node('host-1')}

    def test_a_batch_of_reports_is_one_call(self):
        calls = []

        class Counting(MemoryClaimStore):
            def report(self, reports, now_s=None):
                calls.append(len(reports))
                return super().report(reports, now_s)

        made = World(Counting())
        made.report(*(report(f'host-{number}') for number in range(5)))
        assert calls == [5]


class TestCalls:
    @pytest.mark.parametrize('error', [errors.ClaimNotFound('x'), ZeroDivisionError()])
    def test_an_error(self, error, caplog):
        def fail():
            raise error

        made = World()
        futures = [made.send_call(fail), made.send_call(len, 'abc')]
        made.loop.turn()
        assert futures[0].exception(0) is error
        assert futures[1].result(0) == 3
        assert ('The engine failed' in caplog.text) == (type(error) is ZeroDivisionError)


@pytest.fixture
def running():
    """A function that starts a world's scheduler; what was started is stopped."""
    started = []

    def start(made):
        made.scheduler.start()
        started.append(made.scheduler)
        return made.scheduler

    yield start
    for scheduler in started:
        scheduler.stop()


def in_thread(work, *args):
    """Run in a thread of its own; a function that waits for what it returned or raised."""
    results = []

    def run():
        try:
            results.append(work(*args))
        except errors.SchedError as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def result():
        thread.join(PATIENCE_S)
        return results[0]

    return result


class TestRunning:
    def test_it_learns_what_the_store_knows_before_the_first_message(self, running):
        store = MemoryClaimStore()
        store.report([report(vcpus=2), report('host-1', vcpus=2)], NOW)
        store.commit([Placement((claim(B, node('host-0'), vcpus=2, state=CONFIRMED),))])
        made = World(store)
        made.cluster.remove(node('host-0'))
        scheduler = running(made)
        assert [one.host for one in scheduler.place([asks()])[0]] == ['host-1']

    def test_it_does_not_start_without_the_store(self):
        store = Unsteady()
        made = World(store)
        store.away.set()
        with pytest.raises(errors.StoreUnavailable):
            made.scheduler.start()
        made.scheduler.stop()

    def test_callers_of_many_threads(self, running):
        made = world({'vcpus': 10}, {'vcpus': 10})
        scheduler = running(made)
        answers = [
            in_thread(scheduler.place, [asks(uuid_of(str(number)))]) for number in range(25)
        ]
        found = [answer() for answer in answers]
        assert sum(isinstance(one, errors.NoValidHost) for one in found) == 5
        assert len(made.store.claims()) == 20

    def test_while_the_store_is_away_requests_wait_and_then_are_answered(self, running, caplog):
        caplog.set_level(logging.INFO)
        store = Unsteady()
        scheduler = running(world({}, {}, store=store))
        store.away.set()
        waiting = [
            in_thread(scheduler.place, [asks(A)]),
            in_thread(scheduler.report, report('host-2', memory_mb=1)),
            in_thread(scheduler.call, scheduler.state_sync.set_aggregates, []),
            in_thread(scheduler.place, [asks(B)]),
        ]
        eventually(lambda: store.asked_in_vain > 5)
        store.away.clear()
        assert {waiting[place]()[0][0].host for place in (0, 3)} == {'host-0', 'host-1'}
        assert waiting[1]().report.host == 'host-2'
        assert {one.consumer_uuid for one in store.claims()} == {A, B}
        assert caplog.text.count('it is away; requests wait until it does') == 1
        assert caplog.text.count('answers again') == 1

    def test_what_fails_once_is_done_again_at_once_without_an_error(self, running, caplog):
        store = Unsteady()
        scheduler = running(world({}, store=store, retry_interval_s=3600.0))
        store.forgets = 1
        assert scheduler.place([asks()])[0][0].host == 'host-0'
        assert 'requests wait' not in caplog.text

    @pytest.mark.parametrize('end', ['leave', 'stop'])
    def test_who_leaves_while_the_store_is_away_tells_those_who_wait(self, running, end):
        store = Unsteady()
        made = world({}, store=store, retry_interval_s=3600.0)
        before = picture(made.cluster)
        scheduler = running(made)
        store.away.set()
        waiting = [in_thread(scheduler.place, [asks(A)]), in_thread(scheduler.report, report())]
        eventually(lambda: store.asked_in_vain >= 2)
        getattr(scheduler, end)()
        assert [type(answer()) for answer in waiting] == [errors.StoreUnavailable] * 2
        scheduler.stop()
        assert picture(made.cluster) == before


class TestPollBeforeRefusal:
    """Before a request is refused, the scheduler polls for changes of hosts."""

    def test_a_host_that_came_meanwhile_is_found(self, running):
        def poll(requests, refusal):
            polls.append(refusal.reason)
            made.scheduler.report(report('host-1'))
            return requests

        polls = []
        made = World(before_refusal=poll, retry_interval_s=0.001)
        scheduler = running(made)
        ((chosen, *_),) = scheduler.place([asks(A)])
        assert (chosen.host, len(polls)) == ('host-1', 1)
        assert scheduler.figures.refused == 0

    def test_a_refusal_that_stands_is_recorded_once(self, running, caplog):
        def poll(requests, refusal):
            polls.append(refusal)
            return requests

        caplog.set_level('INFO')
        polls = []
        scheduler = running(World(before_refusal=poll))
        with pytest.raises(errors.NoValidHost):
            scheduler.place([asks(A)])
        scheduler.call(int)  # the log is written after the answer
        assert len(polls) == 1
        assert scheduler.figures.refused == 1
        assert len([one for one in caplog.messages if one.startswith('Decided')]) == 1

    def test_a_poll_that_fails_goes_to_the_caller(self, running):
        def poll(requests, refusal):
            raise errors.StoreUnavailable('gone')

        made = World(before_refusal=poll)
        scheduler = running(made)
        with pytest.raises(errors.StoreUnavailable):
            scheduler.place([asks(A)])

    def test_a_request_that_is_placed_needs_no_poll(self, running):
        made = World(before_refusal=lambda *_: pytest.fail('polled'))
        scheduler = running(made)
        scheduler.report(report('host-1'))
        scheduler.place([asks(A)])
