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
"""Daemons that end under load, in good order or not: no claim is lost, none doubled, and decisions
go on."""

import itertools
import os
import signal

import pytest

from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import eventually, spec
from nova_sched.tests.integration import audit
from nova_sched.tests.integration.rpc_servers import cloud

__all__ = ['cloud']

BACKENDS = ('threading', 'eventlet')


def under_load(cloud, calls=300, hosts=20, **how):
    """Callers at work, some of whose calls are answered already."""
    cloud.add(hosts, vcpus=64)
    callers = cloud.callers(calls, **how)
    callers.go()
    eventually(lambda: len(callers.answers) >= 20)
    assert len(callers.answers) < calls
    return callers


def check(cloud, callers):
    """Every call was answered with a host; the database holds just these claims."""
    assert callers.outcomes().keys() == {None}
    assert audit.faults(cloud.database) == []
    assert audit.placed(cloud.database) == callers.chosen()


@pytest.mark.parametrize('backend', BACKENDS)
def test_sigterm_answers_what_is_in_flight_and_the_other_daemon_goes_on(cloud, backend):
    first = cloud.daemon('one', DEFAULT__service_backend=backend)
    second = cloud.daemon('two', DEFAULT__service_backend=backend)
    callers = under_load(cloud, silence_s=30)  # an answer that is lost is asked for again
    assert len(first.processes()) == (2 if backend == 'threading' else 1)
    assert first.stop() == 0
    check(cloud, callers)
    assert {answer['tries'] for answer in callers.answers} == {1}
    assert second.said().count('Decided') + first.said().count('Decided') >= len(callers.answers)


def test_sigterm_ends_all_workers_and_calls_wait_for_the_next_start(cloud):
    daemon = cloud.daemon(scheduler__workers=2, groups__solver=True)
    callers = under_load(cloud, silence_s=30)  # longer than a start takes
    workers = daemon.processes()
    assert len(workers) == 5  # the daemon, its workers, and the solver of each
    assert daemon.stop() == 0
    assert 'closing channel' not in daemon.said()
    assert [pid for pid in workers if os.path.exists(f'/proc/{pid}')] == []
    daemon.start()
    check(cloud, callers)
    assert {answer['tries'] for answer in callers.answers} == {1}


def test_sigkill_and_restart(cloud):
    """A caller without an answer asks again for the same server."""
    daemon = cloud.daemon()
    callers = under_load(cloud)
    daemon.kill()
    assert audit.faults(cloud.database) == []
    answered = {one['instance']: one['nodes'][:1] for one in list(callers.answers)}
    assert answered.items() <= audit.placed(cloud.database).items()
    daemon.start()
    check(cloud, callers)


def test_sigkill_of_one_worker_is_made_good_by_the_daemon(cloud):
    daemon = cloud.daemon(scheduler__workers=2)
    callers = under_load(cloud)
    daemon_pid, *_ = daemon.processes()
    daemon.send(signal.SIGKILL, worker=1)
    daemon.until_it_says('Scheduling on host', 3)
    assert daemon_pid in daemon.processes()
    check(cloud, callers)
    (listed,) = audit.rows(cloud.database, 'schedulers')
    assert {row['pid'] for row in listed} <= set(daemon.processes())


def test_a_restarted_daemon_decides_from_what_it_knew(cloud):
    """Without a single report, and it knows what is taken."""
    daemon = cloud.daemon()
    cloud.add(3, vcpus=2)
    cloud.scheduler.select_destinations(
        spec(vcpus=1), [uuid_of(name) for name in ('one', 'two', 'three')]
    )
    daemon.kill()
    daemon.start()
    cloud.scheduler.select_destinations(spec(vcpus=1), [uuid_of('four')])
    with pytest.raises(Exception, match='No valid host was found'):
        cloud.scheduler.select_destinations(
            spec(vcpus=1), [uuid_of(name) for name in ('five', 'six', 'seven')]
        )
    assert audit.faults(cloud.database) == []
    assert len(audit.placed(cloud.database)) == 4


@pytest.mark.parametrize('backend', BACKENDS)
def test_sighup_reloads_options_and_loses_no_call(cloud, backend):
    daemon = cloud.daemon(DEFAULT__service_backend=backend, scheduler__max_attempts=2)
    callers = under_load(cloud)
    daemon.configure({'scheduler.max_attempts': 5})
    daemon.send(signal.SIGHUP)
    check(cloud, callers)
    assert {answer['tries'] for answer in callers.answers} == {1}
    assert {len(answer['nodes']) for answer in callers.answers} <= {2, 5}
    names = (f'after {number}' for number in itertools.count())

    def has_five():
        ((*found,),) = cloud.scheduler.select_destinations(spec(), [uuid_of(next(names))])
        return len(found) == 5

    eventually(has_five)


@pytest.mark.parametrize('backend', BACKENDS)
def test_sighup_with_a_mistake_changes_nothing(cloud, backend):
    daemon = cloud.daemon(DEFAULT__service_backend=backend)
    cloud.add(6)
    daemon.configure({'scheduler.max_attempts': 'many'})
    daemon.send(signal.SIGHUP)
    daemon.until_it_says('The configuration is not reloaded: ')
    (found,) = cloud.scheduler.select_destinations(spec(), [uuid_of('one')])
    assert len(found) == 3
