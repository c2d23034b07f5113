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
"""Queues in memory with a manager, a job table, claims and a scheduler: doubles for the tests of
the router and of the manager."""

import collections

from nova_sched import errors, objects
from nova_sched.claim import CONFIRMED, PENDING
from nova_sched.db import engine, schema
from nova_sched.db.jobs import QuotaHold, SqlJobTable
from nova_sched.extensions.queues import jobs, messages
from nova_sched.extensions.queues import service as queue_service
from nova_sched.extensions.queues.brokers import (
    FALLBACK,
    Broker,
    Consumer,
    Delivery,
    QueueFacts,
    of_host,
)
from nova_sched.extensions.queues.catalogue import Catalogue
from nova_sched.extensions.queues.manager import endings, fallback, upkeep
from nova_sched.extensions.queues.messages import Sender
from nova_sched.tests.builders import NOW, uuid_of

CELL = '00000000-0000-0000-0000-0000000000ce'
ROWS = [
    {'name': 'tiny', 'vcpus': 1, 'memory_mb': 1024, 'root_gb': 5},
    {'name': 'large', 'vcpus': 8, 'memory_mb': 16384, 'root_gb': 200},
]
CATALOGUE = Catalogue.of(1, ROWS)
TINY = {'servers': 1, 'class:VCPU': 1, 'class:MEMORY_MB': 1024, 'class:DISK_GB': 5}
LARGE = {'servers': 1, 'class:VCPU': 8, 'class:MEMORY_MB': 16384, 'class:DISK_GB': 200}


def spec(flavor='tiny', name='server', **fields):
    """What a conductor asks for that instance; ``fields`` are RequestSpec's."""
    made = CATALOGUE.spec(CATALOGUE.find(flavor), uuid_of(name), 'p', 'u')
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def job(kind='create', name='server', number=0, asked=None, **fields):
    """A job for the instance of that name, which wants to be tiny."""
    uuid = jobs.uuid_of(kind, uuid_of(name), number)
    caller = jobs.Caller(project_id='p', reply_to='reply.me')
    wanted = None if kind == 'delete' else asked or spec(name=name)
    return jobs.new(kind, uuid, uuid_of(name), caller, NOW, wanted, **fields)


def result(of, host='a', outcome='done', **fields):
    usual = {'nodename': host, 'tries': 0, 'why': None, 'claim': None}
    return objects.QueueResult(job=of, host=host, outcome=outcome, **usual | fields)


class Queues(Broker):
    """Messages by queue, in the order in which they were sent, unless a consumer takes them at
    once.

    ``away``: how often it does not answer. ``busy`` queues have a consumer that takes nothing now.
    """

    def __init__(self, *names):
        self.there = collections.defaultdict(list)
        self.consumers, self.busy = {}, set()
        self.away = 0
        self.declare([FALLBACK, 'results', 'reply.me', *names])

    def _answer(self):
        if self.away:
            self.away -= 1
            raise errors.BrokerUnavailable('it is away')

    def declare(self, queues):
        self._answer()
        for queue in queues:
            self.there[queue]

    def drop(self, queue):
        self._answer()
        waiting = self.there.pop(queue, [])
        self.there[FALLBACK] += waiting
        return len(waiting)

    def facts(self, queue):
        self._answer()
        if queue not in self.there:
            return None
        return QueueFacts(queue, len(self.there[queue]), int(queue in self.busy))

    def publish(self, queue, body, tries=0, expires=False):
        self._answer()
        if queue in self.consumers:
            self.consumers[queue](Delivery(queue, body, tries))
        elif queue in self.there:
            self.there[queue].append(body)
        return queue in self.there

    def consumer(self, deliver, name):
        return AtOnce(self.consumers, deliver)

    def close(self):
        self.there.clear()

    def jobs(self, queue):
        """The jobs that wait there."""
        return [messages.read_job(body) for body in self.there.get(queue, ())]

    def results(self, queue='reply.me'):
        return [messages.read_result(body) for body in self.there.get(queue, ())]

    def all_jobs(self):
        """queue -> kinds of the jobs that wait there; without answers."""
        return {
            queue: [one.kind for one in self.jobs(queue)]
            for queue, found in self.there.items()
            if found and not queue.startswith(('reply.', 'results'))
        }


class AtOnce(Consumer):
    """Gets a message from within the call that publishes it."""

    def __init__(self, consumers, deliver):
        self._consumers, self._deliver = consumers, deliver

    def window(self, count):
        pass

    def follow(self, wanted):
        self._consumers |= dict.fromkeys(wanted, self._deliver)

    def ack(self, delivery):
        pass

    def put_back(self, delivery, queue=None):
        pass

    def stop(self):
        pass


class Claims:
    """The claims by instance and host; ``full`` hosts take none. Each time they are shown, the
    first of the calls in ``meanwhile`` is made before that."""

    def __init__(self):
        self.there = {}
        self.full = set()
        self.calls, self.shown, self.meanwhile = [], [], []

    def put(self, host, state=CONFIRMED, name='server', move=None, **resources):
        uuid = name if '-' in name else uuid_of(name)
        amounts = resources or {'VCPU': 1, 'MEMORY_MB': 1024, 'DISK_GB': 5}
        made = objects.ClaimInfo(
            uuid=uuid_of(f'{uuid} {host}'),
            instance_uuid=uuid,
            compute_node_uuid=uuid_of(f'node {host}'),
            host=host,
            nodename=host,
            state=state,
            move=move,
            resources=amounts,
            project_id='p',
            user_id='u',
            allocation_request='{}',
        )
        self.there[uuid, host] = made
        return made

    def hosts(self, name='server'):
        return {
            host: one.state for (uuid, host), one in self.there.items() if uuid == uuid_of(name)
        }

    def done(self, job, host):
        """A worker has done a job there."""
        uuid = job.instance_uuid
        here = self.there.get((uuid, host))
        if job.kind == 'delete':
            self.there.pop((uuid, host), None)
        elif here is None or here.state != CONFIRMED or here.move:
            self.there = {key: one for key, one in self.there.items() if key[0] != uuid}
            self.put(host, CONFIRMED, uuid)

    def show(self, instance_uuid, context=None):
        self.shown.append(instance_uuid)
        if self.meanwhile:
            self.meanwhile.pop(0)()
        return [one for (uuid, _), one in sorted(self.there.items()) if uuid == instance_uuid]

    def claim_alternate(
        self, spec_obj, instance_uuid, failed_host, host, nodename, context=None, claim=None
    ):
        self.calls.append(('claim_alternate', failed_host, host))
        assert claim == self.there[instance_uuid, failed_host].name
        if host in self.full:
            raise errors.ComputeResourcesUnavailable(host, 'VCPU')
        before = self.there.pop((instance_uuid, failed_host))
        self.put(host, before.state, instance_uuid, before.move)

    def resize_claim(self, spec_obj, instance_uuid, host, nodename, move='resize', context=None):
        self.calls.append(('resize_claim', host, move))
        if host in self.full:
            raise errors.ComputeResourcesUnavailable(host, 'VCPU')
        self.put(host, PENDING, instance_uuid, move)

    def abort_claim(self, instance_uuid, host=None, context=None, claim=None):
        mine = [
            key
            for key, one in self.there.items()
            if key[0] == instance_uuid and host in (None, key[1]) and claim == one.name
        ]
        if not mine:
            raise errors.ClaimNotFound(instance_uuid)
        for key in mine:
            if self.there[key].state == CONFIRMED:
                raise errors.Outdated(instance_uuid, 'it is confirmed')
            del self.there[key]

    def revert_claim(self, instance_uuid, context=None, claim=None):
        moves = [
            key
            for key, one in self.there.items()
            if key[0] == instance_uuid and one.move and claim == one.name
        ]
        if not moves:
            raise errors.ClaimNotFound(instance_uuid)
        for key in moves:
            del self.there[key]


class Scheduler:
    """Answers by the ``script``: hosts, the first of which it claims, or an error; asked is
    ``asked``."""

    def __init__(self, claims, *script):
        self._claims = claims
        self.script = list(script)
        self.asked = []

    def select_destinations(self, spec_obj, instance_uuids, return_alternates=True, context=None):
        self.asked.append(spec_obj)
        placed = []
        for uuid in instance_uuids:
            answer = self.script.pop(0)
            if isinstance(answer, Exception):
                raise answer
            self._lift(uuid)
            if (uuid, answer[0]) not in self._claims.there:
                self._claims.put(answer[0], PENDING, uuid)
            placed.append([selection(host) for host in answer])
        return placed

    def _lift(self, uuid):
        for key in [
            key
            for key, one in self._claims.there.items()
            if key[0] == uuid and one.state == PENDING
        ]:
            del self._claims.there[key]


def selection(host):
    return objects.Selection(
        compute_node_uuid=uuid_of(f'node {host}'), service_host=host, nodename=host, cell_uuid=CELL
    )


class ManagedQueues:
    """The parts of a manager, on doubles of all that it uses. ``hosts`` have workers."""

    def __init__(self, folder, *hosts, script=()):
        self.engine = engine.create(f'sqlite:///{folder}/db.sqlite')
        schema.upgrade(self.engine)
        self.now_s = NOW
        self.job_table, self.claims = SqlJobTable(self.engine), Claims()
        self.queues = Queues('flavor.tiny', 'flavor.large', *map(of_host, hosts))
        self.scheduler = Scheduler(self.claims, *script)
        sender = Sender(self.queues, self.claims)
        read = queue_service.read
        self.endings = endings.Endings(
            self.job_table, self.claims, sender, read, lambda: self.now_s
        )
        self.fallback = fallback.Fallback(
            self.job_table,
            self.claims,
            self.scheduler,
            sender,
            self.endings,
            fallback.FallbackSettings,
        )
        self.upkeep = upkeep.JobUpkeep(
            self.job_table,
            self.claims,
            self.queues,
            sender,
            self.endings,
            upkeep.UpkeepSettings,
            lambda: self.now_s,
        )

    def add_job(self, one, amounts=TINY, host=None):
        """Add a job to the job table, with the quota that its instance holds."""
        holds = [] if amounts is None else [QuotaHold(one.instance_uuid, 'p', amounts)]
        self.job_table.open([jobs.entry(one, self.now_s, host)], holds)
        return one

    def fall_back(self, one, **fields):
        """Hand a job of the fallback queue to the manager."""
        self.fallback.take(Delivery(FALLBACK, messages.to_bytes(one), **fields))

    def report_result(self, told, is_true=True):
        """Hand the result of a worker to the manager. Unless that is not true, the worker has done
        what it tells: it has confirmed a claim, or ended the one that was there."""
        if is_true and told.outcome == 'done' and told.host is not None:
            self.claims.done(told.job, told.host)
        self.endings.take(Delivery('results', messages.to_bytes(told)))

    def add_worker(self, host, *queues, outcome='done', why=None):
        """Add a worker on that host, which does the jobs of these queues and of its own at
        once."""

        def do(delivery):
            one = messages.read_job(delivery.body)
            self.report_result(
                result(one, host, 'done' if one.kind == 'delete' else outcome, why=why)
            )

        self.queues.declare([of_host(host)])
        self.queues.consumer(do, host).follow(dict.fromkeys([of_host(host), *queues], 0))

    def read_fallback(self):
        """Let the manager read the fallback queue."""
        self.queues.consumer(self.fallback.take, 'manager').follow({FALLBACK: 0})

    def state(self, of):
        return self.job_table.find(of.uuid).state

    @property
    def used(self):
        return self.job_table.usage('p')

    def answer(self):
        """Outcome, host and reason of the last answer to the waiting caller."""
        last = self.queues.results()[-1]
        return last.outcome, last.host, last.why
