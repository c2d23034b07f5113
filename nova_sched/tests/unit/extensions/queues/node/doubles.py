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
"""What a worker meets, in memory and in simulated time: nodes, the shared claims, drivers, a
catalogue."""

import collections
import contextlib
import itertools
import random
from types import SimpleNamespace

import numpy as np
from greenlet import getcurrent, greenlet

from nova_sched import errors, objects
from nova_sched.claim import CONFIRMED, PENDING
from nova_sched.extensions.queues import messages
from nova_sched.extensions.queues.brokers import FALLBACK, RESULTS, of_flavor
from nova_sched.extensions.queues.node import worker
from nova_sched.extensions.queues.node.inflight import JobStopped, JobThreads
from nova_sched.extensions.queues.node.subscriptions import NONE
from nova_sched.extensions.simulator.replay import Clock
from nova_sched.tests.builders import report, request, uuid_of
from nova_sched.tests.unit.extensions.queues.brokers.simulated import SimulatedBroker

FLAVORS = {'tiny': 1, 'medium': 2, 'large': 8}  # vCPUs
NAMES = tuple(of_flavor(name) for name in FLAVORS)
BUILD_S, CLAIM_S = 10.0, 0.1
FALLBACK_AFTER_S = 300.0


def job(name='server', kind='create', flavor='tiny', **fields):
    """A job for the instance of that name; for a delete the spec is left out."""
    spec = objects.RequestSpec(flavor=objects.Flavor(name=flavor, vcpus=FLAVORS[flavor]))
    usual = {
        'uuid': uuid_of(f'{kind} {name}'),
        'spec': None if kind == 'delete' else spec,
        'queue': flavor if kind != 'delete' else None,
        'source': None,
        'claimed': False,
        'alternates': None,
        'tried': [],
        'project_id': 'project',
        'user_id': None,
        'request_id': None,
        'reply_to': None,
        'created_at': None,
        'failures': None,
    }
    return objects.QueueJob(kind=kind, instance_uuid=uuid_of(name), **usual | fields)


def read(spec, instance_uuid):
    """A request as far as a worker cares. A flavor without vCPUs cannot be read."""
    if not spec.flavor.vcpus:
        raise errors.InvalidRequest('flavor', 'it has no vcpus')
    return request(instance_uuid=instance_uuid, vcpus=spec.flavor.vcpus)


def _of(request):
    return request.resources['VCPU']


class Script:
    """Errors that a double raises, by its methods, before it does what it is for."""

    def __init__(self):
        self._coming = collections.defaultdict(collections.deque)

    def add(self, method, *coming):
        self._coming[method].extend(coming)

    def follow(self, method):
        if self._coming[method]:
            error = self._coming[method].popleft()
            if error is not None:
                raise error


class Node:
    """A node_api with some vCPUs."""

    def __init__(self, host, vcpus=8):
        self.host = self.nodename = host
        self.vcpus = vcpus
        self.unknown = 0  # vCPUs that its own check finds taken, and that it does not tell
        self.script = Script()
        self.failed_builds = 0
        self.listed = []  # whatever was said to be built
        self._kept, self._hidden, self._resizing = {}, {}, {}
        self._claim_names = {}
        self._watchers = []

    @property
    def used(self):
        both = [max(size, self._resizing.get(uuid, 0)) for uuid, size in self._kept.items()]
        return sum(both) + sum(self._hidden.values())

    def facts(self):
        return report(self.host, vcpus=self.vcpus, vcpus_used=self.used)

    def hidden(self):
        return set(self._hidden)

    def holds(self, instance_uuid):
        return instance_uuid in self._kept

    def size(self, name):
        return self._kept.get(uuid_of(name))

    def has_two_sizes(self, instance_uuid):
        return instance_uuid in self._resizing

    def is_resizing(self, name):
        return self.has_two_sizes(uuid_of(name))

    def claim_name(self, instance_uuid):
        return self._claim_names.get(instance_uuid)

    def put(self, name, vcpus=1, hidden=False, claim=None):
        (self._hidden if hidden else self._kept)[uuid_of(name)] = vcpus
        self._claim_names[uuid_of(name)] = claim
        self._tell()

    def watch(self, callback):
        self._watchers.append(callback)

    def _tell(self):
        for callback in self._watchers:
            callback()

    def _check(self, more):
        free = self.vcpus - self.unknown - self.used
        if more > free:
            raise errors.ComputeResourcesUnavailable(
                self.host, f'VCPU: {more} asked, {free} available'
            )

    def begin(self, request, move=None):
        self.script.follow('begin')
        self._check(_of(request) - self._hidden.get(request.instance_uuid, 0))
        self._hidden[request.instance_uuid] = _of(request)
        self._tell()

    def built(self, instance_uuid, claim):
        self.listed.append(instance_uuid)
        self._claim_names[instance_uuid] = claim

    def keep(self, instance_uuid):
        self.script.follow('keep')
        self._kept[instance_uuid] = self._hidden.pop(instance_uuid)
        self._tell()

    def undo(self, instance_uuid, failed=False):
        self._hidden.pop(instance_uuid, None)
        self.failed_builds += failed
        self._tell()

    def destroy(self, instance_uuid):
        self.script.follow('destroy')
        is_here = self._kept.pop(instance_uuid, None) is not None
        self._tell()
        return is_here

    def resize(self, request):
        self._check(_of(request) - self._kept[request.instance_uuid])
        self._resizing[request.instance_uuid] = _of(request)
        self._tell()

    def confirm_resize(self, instance_uuid):
        self._kept[instance_uuid] = self._resizing.pop(instance_uuid)
        self._tell()

    def revert_resize(self, instance_uuid):
        del self._resizing[instance_uuid]
        self._tell()


def at_once(seconds):
    """No time passes."""


class Claims:
    """The shared store: hosts with some vCPUs; who confirms a claim first has the instance.

    ``rest(seconds)`` lets the time of a call pass."""

    def __init__(self, rest=at_once):
        self._rest = rest
        self.vcpus = {}  # by host
        self.script = Script()
        self.calls = []
        self.meanwhile = {}  # by method: what is done before the next call of it
        self._claims = {}  # (instance, host): ClaimInfo

    def put(self, name, host, state=PENDING, vcpus=1, move=None):
        return self._put(uuid_of(name), host, state, vcpus, move)

    def _put(self, uuid, host, state, vcpus, move=None):
        self._claims[uuid, host] = objects.ClaimInfo(
            uuid=uuid_of(f'{uuid} {host}'),
            instance_uuid=uuid,
            host=host,
            nodename=host,
            state=state,
            move=move,
            resources={'VCPU': vcpus},
        )
        return self._claims[uuid, host]

    def end(self, name, host):
        del self._claims[uuid_of(name), host]

    def rename(self, name, host):
        """Another call has claimed there meanwhile."""
        found = self._claims[uuid_of(name), host]
        found.uuid = uuid_of(f'another {found.uuid}')

    def states(self, name):
        return {
            host: one.state for (uuid, host), one in self._claims.items() if uuid == uuid_of(name)
        }

    def used(self, host):
        return sum(one.resources['VCPU'] for (_, at), one in self._claims.items() if at == host)

    def _begin(self, method, *args):
        self._rest(CLAIM_S)
        self.calls.append((method, *args))
        if (call := self.meanwhile.pop(method, None)) is not None:
            call()
        self.script.follow(method)

    def _claim(self, spec, uuid, host, move=None):
        if host not in self.vcpus:
            raise errors.NodeNotFound(host)
        mine = self._claims.get((uuid, host))
        old = mine.resources['VCPU'] if mine else 0
        if self.used(host) - old + spec.flavor.vcpus > self.vcpus[host]:
            raise errors.ComputeResourcesUnavailable(host, 'VCPU')
        for key in [
            key for key, one in self._claims.items() if key[0] == uuid and one.state == PENDING
        ]:
            del self._claims[key]
        if mine is not None and mine.state == CONFIRMED:
            mine.resources = {'VCPU': max(old, spec.flavor.vcpus)}
            return mine
        return self._put(uuid, host, PENDING, spec.flavor.vcpus, move)

    def instance_claim(self, spec_obj, instance_uuid, host, nodename, new=False):
        self._begin('instance_claim', host)
        assert new
        for (uuid, other), one in self._claims.items():
            if uuid == instance_uuid and one.state == CONFIRMED:
                if other != host:
                    raise errors.AlreadyPlaced(uuid, other)
                return one
        return self._claim(spec_obj, instance_uuid, host)

    def resize_claim(self, spec_obj, instance_uuid, host, nodename, move='resize'):
        self._begin('resize_claim', host)
        return self._claim(spec_obj, instance_uuid, host, move)

    def _check(self, uuid, host, claim):
        """What a call means is named, and is there."""
        found = self._claims.get((uuid, host))
        if found is None or found.name != claim:
            raise errors.ClaimNotFound(uuid)

    def claim_alternate(
        self, spec_obj, instance_uuid, failed_host, host, nodename, context=None, claim=None
    ):
        self._begin('claim_alternate', failed_host, host)
        if claim is not None or (instance_uuid, failed_host) in self._claims:
            self._check(instance_uuid, failed_host, claim)
        found = self._claim(spec_obj, instance_uuid, host)
        self._claims.pop((instance_uuid, failed_host), None)
        return found

    def confirm_claim(self, instance_uuid, host, claim=None):
        self._begin('confirm_claim', host)
        self._check(instance_uuid, host, claim)
        found = self._claims[instance_uuid, host]
        if found.move:
            for key in [key for key in self._claims if key[0] == instance_uuid and key[1] != host]:
                del self._claims[key]
        found.state, found.move = CONFIRMED, None
        return [found]

    def revert_claim(self, instance_uuid, claim=None):
        self._begin('revert_claim')
        assert claim is not None
        return []

    def abort_claim(self, instance_uuid, host=None, claim=None, confirmed=False):
        self._begin('abort_claim', host)
        self._check(instance_uuid, host, claim)
        if self._claims[instance_uuid, host].state == CONFIRMED and not confirmed:
            raise errors.Outdated(instance_uuid, 'it is confirmed')
        del self._claims[instance_uuid, host]
        return []

    def show(self, instance_uuid):
        self._begin('show')
        return [one for (uuid, _), one in self._claims.items() if uuid == instance_uuid]


class Driver:
    """Remembers what it has done, as (kind, host, instance). ``rest(seconds)`` lets the time of a
    build pass; one that is cut off by ``close`` is not done."""

    def __init__(self, host, done, rest=at_once):
        self.script = Script()
        self.is_closed = False
        self._host, self._done, self._rest = host, done, rest

    def _do(self, kind, instance_uuid):
        self._rest(BUILD_S)
        if self.is_closed:
            raise errors.BuildFailed(self._host, 'the agent ends')
        self.script.follow(kind)
        self._done.append((kind, self._host, instance_uuid))

    def create(self, job, spec):
        self._do('create', job.instance_uuid)

    def destroy(self, job, instance_uuid):
        self._do('destroy', instance_uuid)

    def resize(self, job, spec):
        self._do('resize', job.instance_uuid)

    def migrate(self, job, spec, source):
        self._do('migrate', job.instance_uuid)

    def close(self):
        self.is_closed = True


class View:
    """By free vCPUs: the fuller a node is, the higher its priority."""

    def __init__(self, flavors=FLAVORS):
        self.names = tuple(of_flavor(name) for name in flavors)
        self.refused = set()  # instances that rules refuse
        self._sizes = np.array(list(flavors.values()))

    def judge(self, report):
        free = report.inventories['VCPU'].total - report.used['VCPU']
        return np.where(self._sizes <= free, 9 - min(free, 9), NONE).astype(np.int16)

    def takes(self, report, request):
        return (report.host, request.instance_uuid) not in self.refused


class JobStrands(JobThreads):
    """Jobs in simulated time: each is a greenlet, and one of them runs at a time.

    ``after(seconds, call)`` makes a call later, ``rest(seconds)`` lets time pass in a job."""

    def __init__(self, after, rest):
        super().__init__()
        self._after, self._rest, self._hub = after, rest, getcurrent()

    def start(self, work, *args):
        self.later(0.0, lambda: work(*args))

    def later(self, seconds, call):
        self._after(seconds, greenlet(lambda: self._go(call), self._hub).switch)

    def pause(self, seconds):
        self._rest(seconds)
        self._check()

    def _go(self, call):
        """What a job raises ends the test."""
        with contextlib.suppress(JobStopped):
            self._check()
            call()


class Cloud:
    """Workers on one broker in simulated time."""

    def __init__(self):
        self._hub = getcurrent()
        self.clock = Clock()
        self.broker = SimulatedBroker(self.clock, self.after, FALLBACK_AFTER_S)
        self.broker.declare(NAMES)
        self.claims = Claims(self.rest)
        self.done = []  # by all drivers
        self.settled = []  # host, and what was hidden there by then
        self.view = View()
        self.read_catalogue = lambda: self.view
        self._numbers = itertools.count()

    def after(self, seconds, call):
        self.clock.at(self.clock() + seconds, call)

    def run(self, seconds=100.0):
        for call in self.clock.move(self.clock() + seconds):
            call()

    def rest(self, seconds):
        """Let time pass in a job, while others go on."""
        self.after(seconds, getcurrent().switch)
        self._hub.switch()

    def start(
        self,
        host='a',
        vcpus=8,
        slots=2,
        node_api=None,
        shared=None,
        broker=None,
        run=True,
        **settings,
    ):
        """A worker that is subscribed already; ``shared`` are the vCPUs that the store knows
        of."""
        node_api = node_api or Node(host, vcpus)
        self.claims.vcpus[host] = node_api.vcpus if shared is None else shared
        driver = Driver(host, self.done, self.rest)
        settled = lambda: self.settled.append((host, set(node_api.hidden())))  # noqa: E731
        around = worker.WorkerDependencies(
            node_api,
            self.claims,
            broker or self.broker,
            driver,
            lambda: self.read_catalogue(),
            read,
            settled,
        )
        chosen = worker.WorkerSettings(slots=slots, **settings)
        strands = JobStrands(self.after, self.rest)
        made = worker.Worker(around, chosen, strands, self.clock, random.Random(0))
        made.start()
        if run:
            self.run(1.0)
        return SimpleNamespace(worker=made, node_api=node_api, driver=driver, figures=made.figures)

    def send(self, job, queue=None, tries=0):
        """To the queue of its flavor, or another one."""
        assert self.broker.publish(queue or of_flavor(job.queue), messages.to_bytes(job), tries)

    def lose(self, queue):
        """Have a consumer take a message and disconnect."""
        taken = []
        consumer = self.broker.consumer(taken.append, 'lost')
        consumer.follow({queue: 200})
        self.run(0.0)
        consumer.stop()
        assert len(taken) == 1

    def ready(self, queue):
        return self.broker.facts(queue).ready

    def subscribers(self):
        """How many consumers each flavor's queue has."""
        return tuple(self.broker.facts(name).consumers for name in NAMES)

    def drain(self, queue):
        """All deliveries that wait in a queue."""
        taken = []
        consumer = self.broker.consumer(taken.append, 'test')
        consumer.window(1000)
        consumer.follow({queue: 0})
        self.run(0.0)
        for delivery in taken:
            consumer.ack(delivery)
        consumer.stop()
        return taken

    def results(self):
        """(kind, outcome, host) of each result, in order."""
        told = [messages.read_result(one.body) for one in self.drain(RESULTS)]
        return [(one.job.kind, one.outcome, one.host) for one in told]

    def result(self):
        """The only one."""
        (delivery,) = self.drain(RESULTS)
        return messages.read_result(delivery.body)

    def fallen(self):
        """The jobs that went to the fallback queue."""
        return [messages.read_job(one.body) for one in self.drain(FALLBACK)]

    def kinds(self, name='server'):
        """What drivers did with an instance: (kind, host)."""
        return [(kind, host) for kind, host, uuid in self.done if uuid == uuid_of(name)]
