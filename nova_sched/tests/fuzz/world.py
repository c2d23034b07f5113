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
"""All doors over one scheduler in this process, without a bus and without a network."""

import contextlib
import hashlib
import json
import random
import shutil
import sqlite3
import tempfile
import types
from pathlib import Path

import oslo_messaging as messaging
import sqlalchemy as sa
import werkzeug.test
from oslo_context.context import RequestContext

from nova_sched import objects, rpc, service
from nova_sched.conf import CONF
from nova_sched.db.flavors import SqlFlavors
from nova_sched.db.tables import METADATA
from nova_sched.extensions.agent.instances import LocalInstances
from nova_sched.extensions.agent.service import Agent
from nova_sched.extensions.optimize.endpoints import PlansEndpoint, RebalancesEndpoint
from nova_sched.extensions.queues.brokers.memory import MemoryBroker
from nova_sched.extensions.queues.bus import CatalogueEndpoint, QueuesEndpoint
from nova_sched.extensions.queues.manager.register import Register
from nova_sched.rpc import client, endpoints
from nova_sched.rpc.agent import AgentEndpoint
from nova_sched.rpc.messages import Dispatcher, Serializer, ServerSerializer
from nova_sched.rpc.translate import SchedulerSerializer
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.fuzz import seeds
from nova_sched.tests.options import settings
from nova_sched.tests.reference import recorded
from nova_sched.tests.unit.api.callers import configuration, rest
from nova_sched.tests.unit.extensions.agent.builders import settings as agent_settings
from nova_sched.tests.unit.extensions.agent.fake_machine import two_cells

OPTIONS = {
    'default.host': 'scheduler-under-test',
    'default.service_down_time': 86400,  # the hosts report once, and the machine may be busy
    'claims.refresh_interval': 3600.0,  # nothing happens except what is sent
    'groups.solver': False,
    'groups.greedy_seconds': 0.1,
    'groups.explain_seconds': 0.1,
    'topology.orders': ['host < power_feed'],
}
BESIDE = frozenset(['schedulers', 'trails'])  # heartbeats, and records of refusals
TABLES = sorted(set(METADATA.tables) - BESIDE)


def _limits(table):
    """Column -> SQL that counts the values that are too long, too large, or hold NUL."""
    for column in table.columns:
        if isinstance(column.type, sa.String):
            too_long = f'length({column.name}) > {column.type.length or 2**31}'
            yield column.name, f'sum({too_long} OR instr({column.name}, char(0)) > 0)'
        elif isinstance(column.type, sa.Integer):
            most = 2**63 - 1 if isinstance(column.type, sa.BigInteger) else 2**31 - 1
            yield column.name, f'sum(abs({column.name}) > {most})'


LIMITS = {name: dict(_limits(METADATA.tables[name])) for name in TABLES}


class Door:
    """A server of RPC, as a driver of the bus would call it."""

    def __init__(self, served, serializer=None):
        policy = messaging.ExplicitRPCAccessPolicy
        self._dispatcher = Dispatcher(served, serializer or ServerSerializer(), policy)

    def call(self, message, context=None, timeout=None):
        """The answer, plain. Raises what would be sent to the caller instead."""
        incoming = types.SimpleNamespace(
            message=message, ctxt=context or {}, client_timeout=timeout, heartbeat=lambda: None
        )
        try:
            return self._dispatcher.dispatch(incoming)
        except messaging.ExpectedException as expected:
            raise expected.exc_info[1] from None


class Caller:
    """What a client of ours calls, with JSON in both directions as over a bus."""

    def __init__(self, door, namespace, version='1.0'):
        self._door, self._namespace, self._version = door, namespace, version

    def call(self, context, method, **arguments):
        plain, context = Serializer(), context or RequestContext(overwrite=False)
        args = {name: plain.serialize_entity(context, value) for name, value in arguments.items()}
        message = {
            'method': method,
            'namespace': self._namespace,
            'version': self._version,
            'args': args,
        }
        message = json.loads(json.dumps(message))
        answer = self._door.call(message, json.loads(json.dumps(plain.serialize_context(context))))
        return plain.deserialize_entity(context, json.loads(json.dumps(answer)))


class World:
    """A scheduler with the recorded hosts, an agent, a manager of queues, and the API before
    them."""

    def __init__(self, folder=None):
        self._open = contextlib.ExitStack()
        where = '/dev/shm' if Path('/dev/shm').is_dir() else None
        self._folder = Path(tempfile.mkdtemp(dir=folder or where))
        self._open.callback(shutil.rmtree, self._folder, ignore_errors=True)
        connection = f'sqlite:///{self._folder}/world.sqlite'
        self._open.enter_context(settings({**OPTIONS, 'database.connection': connection}))
        self._start()

    def _start(self):
        self.scheduler = service.scheduler(CONF, engine=service.shared(CONF))
        self.scheduler.placer._random = random.Random(0)
        self.scheduler.start()
        self._open.callback(self.scheduler.stop)
        engine = service.database(CONF)
        self._open.callback(engine.dispose)
        self._look = sqlite3.connect(self._folder / 'world.sqlite')
        self._open.callback(self._look.close)
        broker = MemoryBroker()
        self._open.callback(broker.close)
        self._register = Register(SqlFlavors(engine), (), broker, lambda version: None)
        self._register.refresh()
        home = two_cells(self._folder / 'agent')
        options = {
            'host': seeds.HOST,
            'uuid_file': self._folder / 'compute_id',
            'instances_path': self._folder,
            'host_ip': '192.0.2.7',
            'sys_root': home.sys,
            'proc_root': home.proc,
        }
        self._agent_file = self._folder / 'instances.json'
        agent = Agent(agent_settings(**options), LocalInstances(self._agent_file))
        self.doors = {
            seeds.RPC: Door(self._endpoints(), SchedulerSerializer()),
            seeds.AGENT: Door([AgentEndpoint(agent)]),
            seeds.QUEUES: Door(
                [QueuesEndpoint(self._register), CatalogueEndpoint(self._register.hear)]
            ),
        }
        self._api()
        self._people()

    def _endpoints(self):
        """Without the thread that moves servers."""
        optimizer = self.scheduler.parts['optimize']
        more = PlansEndpoint(optimizer), RebalancesEndpoint(optimizer)
        return [*endpoints.all_of(self.scheduler), *more]

    def _api(self):
        bus = rpc.transport(CONF, 'fake://')
        self._open.callback(bus.cleanup)
        groups, queues = client.GroupsClient(bus), client.QueuesClient(bus)
        groups._client = Caller(self.doors[seeds.RPC], 'groups')
        queues._client = Caller(self.doors[seeds.QUEUES], 'queues')
        self.api = rest(configuration(), groups, queues)

    def _people(self):
        """The recorded hosts, a claim, a group, a candidate and a flavor."""
        for node in recorded('ComputeNodeList'):
            self._ask('stats', 'update_resource_stats', name=node.host, stats=node)
        for one in recorded('ServiceList'):
            given = objects.Service(
                host=one.host, disabled=one.disabled, forced_down=one.forced_down
            )
            self._ask('stats', 'update_service', name=one.host, service=given)
        self._ask(None, 'update_aggregates', '4.1', aggregates=recorded('AggregateList'))
        self.known = {
            seeds.GROUP: uuid_of('no group'),
            seeds.CANDIDATE: uuid_of('no candidate'),
            seeds.INSTANCE: uuid_of('some server'),
            seeds.NODE: recorded('ComputeNodeList')[0].uuid,
        }
        self.learn(self._ask('groups', 'create', template=seeds.SERVER, **seeds.BESIDE))

    def _ask(self, namespace, method, version='1.0', **arguments):
        return Caller(self.doors[seeds.RPC], namespace, version).call(None, method, **arguments)

    def learn(self, answer):
        """Take the UUIDs of a new group or candidate from an answer, so that sound messages name
        them."""
        if isinstance(answer, objects.TopGroup) and answer.uuid and not answer.dry_run:
            self.known[seeds.GROUP] = answer.uuid
        while isinstance(answer, list) and answer:
            answer = answer[0]
        if isinstance(answer, objects.Candidate):
            self.known[seeds.CANDIDATE] = answer.uuid

    def close(self):
        self._open.close()

    def send(self, door, given):
        """What the door answers to a message. Raises what it raises; a response of HTTP is a
        mapping."""
        if door == seeds.REST:
            return self._request(given)
        answer = self.doors[door].call(
            given.get('message'), given.get('context'), given.get('timeout')
        )
        sent = json.loads(json.dumps(answer))  # what a bus cannot carry is no answer
        if door == seeds.RPC:
            self.learn(objects.from_primitive(sent))
        return sent

    def _request(self, given):
        data = given.get('raw', None)
        if data is None and 'body' in given:
            data = json.dumps(given['body'])
        if isinstance(data, str):
            data = data.encode('utf-8', 'surrogatepass')
        environ = werkzeug.test.EnvironBuilder(
            method=given['method'],
            path='/' + given['path'].lstrip('/'),  # what begins with two names a host
            query_string=given.get('query') or None,
            headers=given.get('headers'),
            data=data,
            content_type=given.get('media', 'application/json'),
        ).get_environ()
        body, status, headers = werkzeug.test.run_wsgi_app(self.api, environ, buffered=True)
        text = b''.join(body)
        return {
            'status': int(status.split()[0]),
            'headers': dict(headers),
            'text': text.decode('utf-8'),
        }

    # What is kept.

    def mark(self):
        """Differs whenever anything that is kept may have changed since the last one."""
        ((version,),) = self._look.execute('PRAGMA data_version')
        return version, self._agent_file.stat().st_mtime_ns if self._agent_file.exists() else None

    def kept(self):
        """A digest of the rows of each table, and of the agent's file."""
        found = {'agent': self._agent_file.read_text() if self._agent_file.exists() else ''}
        for name in TABLES:
            rows = sorted(map(repr, self._look.execute(f'SELECT * FROM {name}')))
            found[name] = hashlib.sha256(
                '\n'.join(rows).encode('utf-8', 'surrogatepass')
            ).hexdigest()
        return found

    def misfits(self):
        """Columns of tables that hold what the database of a cloud would not take, though SQLite
        does."""
        for name in TABLES:
            if LIMITS[name]:
                found = self._look.execute(
                    f'SELECT {", ".join(LIMITS[name].values())} FROM {name}'
                ).fetchone()
                yield from (
                    f'{name}.{column}'
                    for column, bad in zip(LIMITS[name], found, strict=True)
                    if bad
                )

    def rows(self):
        """How many rows are kept."""
        return sum(
            self._look.execute(f'SELECT COUNT(*) FROM {name}').fetchone()[0] for name in TABLES
        )
