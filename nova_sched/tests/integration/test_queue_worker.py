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
"""Workers on a real broker that are ended and started again during their jobs: each job is
done once."""

import collections
import random
import threading
import time

import pytest

from nova_sched.claim import CONFIRMED
from nova_sched.extensions.queues import messages
from nova_sched.extensions.queues.brokers import RESULTS, of_host
from nova_sched.extensions.queues.brokers.amqp import AmqpBroker
from nova_sched.extensions.queues.node import worker
from nova_sched.extensions.queues.node.inflight import JobThreads
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.unit.extensions.queues.node.doubles import (
    NAMES,
    Claims,
    Driver,
    Node,
    View,
    job,
    read,
)

HOSTS = [f'host-{number}' for number in range(5)]
JOBS, VCPUS, SLOTS = 60, 16, 3
BUILD_S, TIMEOUT_S = 0.4, 60.0


class OneAtATime:
    """A double for several threads."""

    def __init__(self, inner):
        self._inner, self._lock = inner, threading.Lock()

    def __getattr__(self, name):
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*args, **words):
            with self._lock:
                return found(*args, **words)

        return call


class NodeOfWorker:
    """A host's node for one of its workers. Threads of a worker that has ended wait forever, like
    those of a process that was killed."""

    def __init__(self, site):
        self._site, self._lock = site, threading.Lock()

    def end(self):
        self._lock.acquire()

    def __getattr__(self, name):
        found = getattr(self._site, name)
        if not callable(found):
            return found

        def call(*args, **words):
            with self._lock:
                return found(*args, **words)

        return call


class SlowDriver(Driver):
    def _do(self, kind, instance_uuid):
        time.sleep(BUILD_S)
        super()._do(kind, instance_uuid)


class Fleet:
    """Workers of several hosts; a host's node outlives its worker."""

    def __init__(self, url):
        self.url = url
        self.claims, self.done = OneAtATime(Claims()), []
        self.sites = {host: OneAtATime(Node(host, VCPUS)) for host in HOSTS}
        self.claims.vcpus.update(dict.fromkeys(HOSTS, VCPUS))
        self.broker = AmqpBroker(url, fallback_after_s=TIMEOUT_S)
        self.broker.declare(NAMES)
        self.workers, self._brokers, self.over = {}, [], []
        self._nodes = {}  # host: the node of its present worker
        self.told = collections.defaultdict(list)  # job: hosts
        self._consumer = self.broker.consumer(self._hear, 'test')
        self._consumer.window(100)
        self._consumer.follow({RESULTS: 0})

    def _hear(self, delivery):
        result = messages.read_result(delivery.body)
        self.told[result.job.uuid].append((result.outcome, result.host))
        self._consumer.ack(delivery)
        self.over += [host for host, site in self.sites.items() if site.used > VCPUS]

    def start(self, host):
        broker, view = AmqpBroker(self.url, fallback_after_s=TIMEOUT_S), View()
        if host in self._nodes:
            self._nodes[host].end()
        self._nodes[host] = NodeOfWorker(self.sites[host])
        around = worker.WorkerDependencies(
            self._nodes[host], self.claims, broker, SlowDriver(host, self.done), lambda: view, read
        )
        chosen = worker.WorkerSettings(slots=SLOTS, max_redeliveries=20)
        made = worker.Worker(around, chosen, JobThreads(), time.monotonic, random.Random(0))
        made.start()
        self.workers[host] = made
        self._brokers.append(broker)

    def stop(self):
        for one in self.workers.values():
            one.stop()
        for broker in [*self._brokers, self.broker]:
            broker.close()

    def until(self, is_so):
        end = time.monotonic() + TIMEOUT_S
        while not is_so():
            assert time.monotonic() < end, (len(self.told), self.over)
            time.sleep(0.02)


@pytest.fixture
def fleet(rabbitmq):
    made = Fleet(rabbitmq.fresh())
    for host in HOSTS:
        made.start(host)
    made.until(lambda: made.broker.facts(NAMES[0]).consumers == len(HOSTS))
    yield made
    made.stop()


def send(fleet, jobs):
    for queue, one in jobs:
        assert fleet.broker.publish(queue, messages.to_bytes(one))


@pytest.mark.timeout(180)
def test_each_job_is_done_once_while_workers_end(fleet):
    creates = [job(f'server {number}') for number in range(JOBS)]
    send(fleet, [(NAMES[0], one) for one in creates])
    for host in HOSTS[:3]:
        fleet.until(lambda host=host: fleet.sites[host].hidden())
        fleet.workers[host].stop()
        fleet.start(host)
    ended = len(fleet.told)
    # A job that was done, but not acknowledged, comes again to a worker that finds that out.
    fleet.until(
        lambda: len(fleet.told) == JOBS and sum(site.used for site in fleet.sites.values()) == JOBS
    )
    assert ended < JOBS
    assert not any(site.hidden() for site in fleet.sites.values())
    ends = {uuid: set(told) for uuid, told in fleet.told.items()}
    assert [found for found in ends.values() if len(found) != 1] == []
    where = {one.instance_uuid: next(iter(ends[one.uuid])) for one in creates}
    assert {outcome for outcome, _ in where.values()} == {'done'}
    for one in creates:
        host = where[one.instance_uuid][1]
        assert [name for name, site in fleet.sites.items() if site.holds(one.instance_uuid)] == [
            host
        ]
        assert {claim.host: claim.state for claim in fleet.claims.show(one.instance_uuid)} == {
            host: CONFIRMED
        }
    assert fleet.over == []
    _delete(fleet, where)


def _delete(fleet, where):
    """Delete all that was built, each on its host."""
    fleet.told.clear()
    names = {uuid_of(f'server {number}'): f'server {number}' for number in range(JOBS)}
    send(fleet, [(of_host(host), job(names[uuid], 'delete')) for uuid, (_, host) in where.items()])
    fleet.until(lambda: len(fleet.told) == JOBS)
    assert {outcome for told in fleet.told.values() for outcome, _ in told} == {'done'}
    assert [site.used for site in fleet.sites.values()] == [0] * len(HOSTS)
    fleet.until(lambda: fleet.broker.facts(NAMES[2]).consumers == len(HOSTS))
