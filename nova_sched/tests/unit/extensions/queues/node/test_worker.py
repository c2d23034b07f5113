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
"""A worker from its start to its end, and what it does by itself between jobs."""

import logging
import random
import threading
import time
from types import SimpleNamespace

import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED
from nova_sched.extensions.queues import messages
from nova_sched.extensions.queues.brokers import RESULTS, of_flavor, of_host
from nova_sched.extensions.queues.brokers.memory import MemoryBroker
from nova_sched.extensions.queues.node import worker
from nova_sched.extensions.queues.node.inflight import JobThreads
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import PATIENCE_S, eventually
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.extensions.queues.node.doubles import (
    BUILD_S,
    NAMES,
    Claims,
    Driver,
    Node,
    View,
    job,
    read,
)

HERE = of_host('a')


# What the last process has left.


@each_afresh(
    'claims, kept, kinds',
    {
        'confirmed here': ({'a': CONFIRMED}, True, []),
        'claimed here': ({'a': 'pending'}, False, [('destroy', 'a')]),
        'confirmed elsewhere': ({'b': CONFIRMED}, False, [('destroy', 'a')]),
        'nobody claims it': ({}, False, [('destroy', 'a')]),
    },
)
def test_what_was_being_built_is_settled_first(cloud, claims, kept, kinds):
    node_api = Node('a')
    node_api.put('server', hidden=True)
    for host, state in claims.items():
        cloud.claims.put('server', host, state)
    cloud.start('a', node_api=node_api, run=False)
    cloud.run(BUILD_S + 5.0)
    assert (node_api.holds(uuid_of('server')), node_api.hidden()) == (kept, set())
    assert cloud.kinds() == kinds
    assert cloud.subscribers() == (1, 1, 0 if kept else 1)
    assert cloud.settled == [('a', set())]


@pytest.mark.parametrize('is_first', [True, False], ids=['first', 'later'])
def test_what_is_removed_is_never_confirmed(cloud, is_first):
    """The last process has sent the call, which is still on its way."""
    node_api = Node('a')
    node_api.put('server', hidden=True)
    claim = cloud.claims.put('server', 'a')
    confirm = lambda: cloud.claims.confirm_claim(uuid_of('server'), 'a', claim.name)  # noqa: E731
    cloud.start('a', node_api=node_api, run=False)
    if is_first:
        cloud.claims.meanwhile['abort_claim'] = confirm
        cloud.run()
        assert (cloud.kinds(), node_api.hidden()) == ([], set())
        assert (node_api.size('server'), cloud.claims.states('server')) == (1, {'a': CONFIRMED})
    else:
        cloud.run()
        with pytest.raises(errors.ClaimNotFound):
            confirm()
        assert (cloud.kinds(), cloud.claims.states('server')) == ([('destroy', 'a')], {})


def test_nothing_is_taken_before_the_past_is_settled(cloud):
    node_api = Node('a')
    node_api.put('server', hidden=True)
    cloud.claims.script.add('show', *[errors.NoAnswer('show', 'away')] * 10)
    a = cloud.start('a', node_api=node_api)
    cloud.send(job('other'))
    cloud.run(10.0)
    assert (cloud.subscribers(), a.figures.taken, cloud.settled) == ((0, 0, 0), 0, [])
    cloud.run(60.0)
    assert (a.figures.taken, cloud.settled) == (1, [('a', set())])


def test_an_instance_that_cannot_be_removed_keeps_its_room(cloud):
    node_api = Node('a', vcpus=2)
    node_api.put('server', hidden=True)
    a = cloud.start('a', node_api=node_api, run=False)
    a.driver.script.add('destroy', errors.BuildFailed('a', 'stuck'))
    cloud.run()
    assert node_api.used == 1
    assert cloud.subscribers() == (1, 0, 0)


def test_the_job_of_a_build_that_was_cut_off_is_done_after_all(cloud):
    first = cloud.start('a')
    cloud.send(job())
    cloud.run(BUILD_S / 2)
    first.worker.stop()
    cloud.start('a', node_api=first.node_api)
    cloud.run()
    assert cloud.results() == [('create', 'done', 'a')]
    assert cloud.kinds() == [('destroy', 'a'), ('create', 'a')]
    assert (first.node_api.used, first.node_api.hidden()) == (1, set())


# Catalogue and node.


def test_another_catalogue_is_followed_when_it_is_told(cloud):
    a = cloud.start('a')
    cloud.broker.declare([of_flavor('huge')])
    cloud.view = View({'tiny': 1, 'huge': 4})
    a.worker.hear()
    cloud.run(worker.SPREAD_S + 1.0)
    assert cloud.subscribers() == (1, 0, 0)
    assert cloud.broker.facts(of_flavor('huge')).consumers == 1


def test_another_catalogue_is_found_within_a_minute(cloud):
    cloud.start('a')
    cloud.view = View({'tiny': 1})
    cloud.run(50.0)
    assert cloud.subscribers() == (1, 1, 1)
    cloud.run(15.0)
    assert cloud.subscribers() == (1, 0, 0)


def test_without_a_catalogue_a_worker_hears_its_own_queue(cloud):
    cloud.read_catalogue = _no_manager
    a = cloud.start('a')
    a.node_api.put('server')
    cloud.send(job(kind='delete'), HERE)
    cloud.run(1.0)
    assert (cloud.subscribers(), cloud.broker.facts(HERE).consumers) == ((0, 0, 0), 1)
    cloud.read_catalogue = lambda: cloud.view
    cloud.run(BUILD_S + 5.0)
    assert cloud.results() == [('delete', 'done', 'a')]
    assert cloud.subscribers() == (1, 1, 1)


def _no_manager():
    raise errors.NoAnswer('catalogue', 'no manager')


def test_a_node_that_changes_by_itself_is_followed(cloud):
    a = cloud.start('a')
    a.node_api.put('stranger', 7)
    cloud.run(0.1)
    assert cloud.subscribers() == (1, 0, 0)


def test_an_unannounced_change_of_a_node_is_seen_at_the_next_interval(cloud):
    a = cloud.start('a', evaluate_s=lambda: 20.0)
    a.node_api.vcpus = 1
    cloud.run(15.0)
    assert cloud.subscribers() == (1, 1, 1)
    cloud.run(10.0)
    assert cloud.subscribers() == (1, 0, 0)


def test_only_differences_go_to_the_broker(cloud):
    a = cloud.start('a', evaluate_s=lambda: 5.0)
    before = a.figures.changes
    assert before == 4  # its own queue, and three of flavors
    cloud.run(50.0)
    assert a.figures.changes == before
    assert a.figures.evaluations >= 10


def test_a_rule_that_breaks_leaves_the_queues_as_they_are(cloud):
    a = cloud.start('a')
    judge, cloud.view.judge = cloud.view.judge, lambda report: 1 / 0
    a.node_api.put('stranger', 8)
    cloud.run(5.0)
    assert cloud.subscribers() == (1, 1, 1)
    cloud.view.judge = judge
    cloud.run(5.0)
    assert cloud.subscribers() == (0, 0, 0)


def test_a_minute_is_told_in_one_line(cloud, caplog):
    caplog.set_level(logging.INFO)
    cloud.start('a')
    cloud.send(job())
    cloud.run(130.0)
    (line,) = [
        one.getMessage() for one in caplog.records if 'in the last minute' in one.getMessage()
    ]
    assert line.startswith('Subscribed to 2 queues; in the last minute: 1 taken, 1 done, 0 failed')


# The end.


def test_a_worker_that_withdraws_finishes_what_it_has(cloud):
    a = cloud.start('a')
    cloud.send(job())
    cloud.run(1.0)
    a.worker.withdraw()
    cloud.send(job('other'))
    cloud.run()
    assert cloud.results() == [('create', 'done', 'a')]
    assert cloud.ready(of_flavor('tiny')) == 1
    assert cloud.broker.facts(HERE).consumers == 0


def test_a_worker_that_stops_gives_all_back_and_ends_its_driver(cloud):
    a = cloud.start('a')
    cloud.send(job())
    cloud.run(1.0)
    a.worker.stop()
    cloud.run()
    assert (cloud.ready(of_flavor('tiny')), cloud.results(), a.driver.is_closed) == (1, [], True)


@pytest.fixture
def real():
    """A worker on threads, whose driver waits for ``go``."""
    go, done, claims, node_api = threading.Event(), [], Claims(), Node('a')
    claims.vcpus['a'] = node_api.vcpus
    broker = MemoryBroker()
    broker.declare(NAMES)
    driver = Driver('a', done)
    driver.create = lambda job, spec: go.wait(PATIENCE_S) and done.append(job.instance_uuid)
    around = worker.WorkerDependencies(node_api, claims, broker, driver, lambda: view, read)
    view = View()
    made = worker.Worker(
        around, worker.WorkerSettings(), JobThreads(), time.monotonic, random.Random(0)
    )
    made.start()
    eventually(lambda: broker.facts(NAMES[0]).consumers)
    yield SimpleNamespace(worker=made, broker=broker, node_api=node_api, go=go, done=done)
    go.set()
    made.stop()
    broker.close()


def test_on_threads_jobs_are_done_at_the_same_time(real):
    for number in range(2):
        real.broker.publish(NAMES[0], messages.to_bytes(job(f'server {number}')))
    eventually(lambda: len(real.node_api.hidden()) == 2)
    real.go.set()
    eventually(lambda: real.broker.facts(RESULTS).ready == 2)
    assert real.node_api.hidden() == set()


def test_a_drain_waits_for_the_end_of_jobs(real):
    real.broker.publish(NAMES[0], messages.to_bytes(job()))
    eventually(lambda: real.node_api.hidden())
    threading.Timer(0.2, real.go.set).start()
    assert real.worker.drain(PATIENCE_S)
    assert real.broker.facts(RESULTS).ready == 1
    assert real.broker.facts(NAMES[0]).ready == 0


def test_a_drain_that_takes_too_long_gives_the_job_back(real):
    real.broker.publish(NAMES[0], messages.to_bytes(job()))
    eventually(lambda: real.node_api.hidden())
    assert not real.worker.drain(0.1)
    real.go.set()
    eventually(lambda: real.done)
    assert real.broker.facts(NAMES[0]).ready == 1
    assert (real.broker.facts(RESULTS).ready, len(real.node_api.hidden())) == (0, 1)
