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
"""A scheduler inside this process, on any bus, and those who call it."""

import concurrent.futures
import contextlib
import sqlite3
import time

import oslo_messaging as messaging
import pytest

from nova_sched import errors, objects, rpc, service
from nova_sched.conf import CONF
from nova_sched.rpc import client, conductor
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.options import RELOADS, settings
from nova_sched.tests.reference import golden, recorded, scenario

PATIENCE_S = 120.0  # with a busy machine, until what must come is said not to come
TIMEOUT_S = 60.0  # of a call that is answered
LASTING_S = 20.0  # what expires sooner may go at any moment
HOST = 'scheduler-under-test'
DATA, VERSION = 'nova_object.data', 'nova_object.version'
SETTINGS = {
    # Quick enough that no test waits for it.
    'claims.refresh_interval': 0.2,
    'claims.retry_interval': 0.05,
    'default.host': HOST,
    # A process that takes longer to load than most modules take.
    'groups.solver': False,
}


def eventually(is_so, timeout_s=PATIENCE_S):
    """What ``is_so`` returns as soon as that is true; a cast, or what others do, takes its
    time."""
    until = time.monotonic() + timeout_s
    while not (found := is_so()):
        if time.monotonic() > until:
            pytest.fail(f'not so after {timeout_s} s: {getattr(is_so, "__name__", is_so)}')
        time.sleep(0.02)
    return found


class Caller(client.ClaimsClient):
    """A caller that names the claims as it sees them at the moment of a call, unless a test names
    them."""

    def _seen(self, uuid, host=None):
        """(name, info) of the instance's claims on a host, or on all of them."""
        found = self.show(uuid)
        return {one.name: one for one in found if host in (None, one.host)}

    def confirm_claim(self, instance_uuid, host, context=None, claim=None):
        claim = claim or next(iter(self._seen(instance_uuid, host)), None)
        return super().confirm_claim(instance_uuid, host, context, claim)

    def revert_claim(self, instance_uuid, context=None, claim=None):
        seen = self._seen(instance_uuid).items()
        claim = claim or next((name for name, one in seen if one.move or name != one.uuid), None)
        return super().revert_claim(instance_uuid, context, claim)

    def abort_claim(self, instance_uuid, host=None, context=None, claim=None, confirmed=True):
        names = [claim] if claim else [*self._seen(instance_uuid, host)] or [None]
        each = (
            super(Caller, self).abort_claim(instance_uuid, host, context, name, confirmed)
            for name in names
        )
        return [one for found in each for one in found]

    def claim_alternate(
        self, spec_obj, instance_uuid, failed_host, host, nodename, context=None, claim=None
    ):
        claim = claim or next(iter(self._seen(instance_uuid, failed_host)), None)
        return super().claim_alternate(
            spec_obj, instance_uuid, failed_host, host, nodename, context, claim
        )


class Daemon:
    """One scheduler process's insides, its database in a file, and clients that call it over its
    bus. ``options`` come after SETTINGS."""

    def __init__(self, url, folder, options=None):
        self._options = options or {}
        self.bus = rpc.transport(CONF, url)
        self.database = folder / 'claims.sqlite'
        self.service = service.SchedulerService(CONF, self.bus)
        self.scheduler = client.SchedulerClient(self.bus, timeout_s=TIMEOUT_S)
        self.stats = client.StatsClient(self.bus, timeout_s=TIMEOUT_S)
        self.claims = Caller(self.bus, timeout_s=TIMEOUT_S)
        self.candidates = client.CandidatesClient(self.bus, timeout_s=TIMEOUT_S)
        self.explain = client.ExplainClient(self.bus, timeout_s=TIMEOUT_S)
        self.groups = client.GroupsClient(self.bus, timeout_s=TIMEOUT_S)
        self.conductor = conductor.Conductor(self.bus)

    @property
    def figures(self):
        """The engine's counts."""
        return self.service.scheduler.figures

    def start(self):
        database = {'database.connection': f'sqlite:///{self.database}'}
        with settings({**SETTINGS, **database, **self._options}):
            self.service.start()
            RELOADS.add(self.service.scheduler.context.read_settings)

    def stop(self):
        RELOADS.discard(self.service.scheduler.context.read_settings)
        self.service.stop()
        self.bus.cleanup()

    def add(self, *hosts, instances=None, cell_uuid=None, inventories=None, **fields):
        """Hosts that have reported one compute node each, and knew all of it; ``fields`` are
        ComputeNode's."""
        report = self.stats.update_resource_stats
        seen = {row[1]: row[3] for row in self.table('nodes')}
        at_once(
            lambda host: report(
                host,
                compute_node(host, **fields),
                instances,
                inventories,
                cell_uuid,
                seen=seen.get(host, 0),
            ),
            hosts,
        )

    def add_nine(self):
        """The recorded hosts: their nodes with their instances, services and aggregates."""
        told = golden('filter-matrix')['instances_by_host']
        report, serve = self.stats.update_resource_stats, self.stats.update_service
        at_once(
            lambda node: report(node.host, node, told.get(node.host, [])),
            recorded('ComputeNodeList'),
        )
        at_once(lambda one: serve(one.host, _without_age(one)), recorded('ServiceList'))
        self.scheduler.update_aggregates(recorded('AggregateList'))
        eventually(lambda: len(self.table('aggregates')) == len(recorded('AggregateList')))

    def clear(self):
        """Take away what tests have brought: nodes with their claims, aggregates, instance
        lists."""
        eventually(self._without_nodes)
        usual = objects.Service(disabled=False, disabled_reason=None, forced_down=False)
        at_once(lambda row: self.stats.update_service(row[0], usual), self.table('services'))
        eventually(self._cleared)

    def _without_nodes(self):
        """Whether no node is left; those that are, are removed. With one of them ends a claim, and
        that may change another one of them."""

        def remove(row):
            with contextlib.suppress(errors.Outdated):
                self.stats.remove_node(row[1], row[2], generation=row[3])

        at_once(remove, nodes := self.table('nodes'))
        return not nodes

    def _cleared(self):
        """Whether no aggregate and no instance list is left; those that are, are told to go."""
        aggregates = self.table('aggregates')
        told = [host for host, listed, *_ in self.table('host_instances') if listed != '[]']
        for number, *_ in aggregates:
            self.scheduler.delete_aggregate(objects.Aggregate(id=number))
        for host in told:
            self.scheduler.sync_instance_info(host, [])
        return not aggregates and not told

    def boot(self, *names, **words):
        """Chosen host of each of these instances, by their names."""
        placed = self.scheduler.select_destinations(
            spec(**words), [uuid_of(name) for name in names]
        )
        return [found[0].service_host for found in placed]

    def hosts_of(self, name):
        """host -> state of each of the instance's claims, as `claims.show` tells."""
        return {claim.host: claim.state for claim in self.claims.show(uuid_of(name))}

    def raw(
        self,
        method,
        version='4.5',
        namespace=None,
        fanout=False,
        context=None,
        monitor_s=None,
        **args,
    ):
        """A call (or with ``fanout`` a cast) by oslo.messaging alone: plain values out, plain
        values in."""
        target = messaging.Target(
            exchange=rpc.EXCHANGE, topic=rpc.TOPIC, version=version, namespace=namespace
        )
        caller = messaging.get_rpc_client(
            self.bus, target, timeout=TIMEOUT_S, call_monitor_timeout=monitor_s
        )
        if fanout:
            return caller.prepare(fanout=True).cast(context or {}, method, **args)
        return caller.call(context or {}, method, **args)

    def replay(self, message, context=None, fanout=False):
        """Send a recorded message as it stands."""
        version, method = message['version'], message['method']
        return self.raw(
            method, version, message.get('namespace'), fanout, context, **message['args']
        )

    def decisions(self, request_id):
        """What is kept of the decisions about a request, as soon as anything is."""
        return eventually(lambda: self.explain.show(request_id))

    def table(self, name):
        """All rows of a table, sorted, past every layer of ours."""
        with contextlib.closing(sqlite3.connect(self.database)) as session:
            return sorted(session.execute(f'SELECT * FROM {name}').fetchall(), key=repr)

    def state(self):
        """All that the daemon knows, in memory and in the database, but for when it heard of it,
        and for candidates that expire meanwhile."""
        # The one look inside: what no caller can see must not change either.
        known = self.service.scheduler.call(_picture, self.service.scheduler._cluster)
        tables = 'claims reports services aggregates host_instances'.split()
        lasting = [
            row for row in self.table('candidate_requests') if row[1] > time.time() + LASTING_S
        ]
        requests = {uuid for uuid, *_ in lasting}
        candidates = [row for row in self.table('candidates') if row[1] in requests]
        nodes = [row[:4] + row[5:] for row in self.table('nodes')]  # without seen_s
        offered = {'candidate_requests': lasting, 'candidates': candidates}
        rest = {name: self.table(name) for name in tables}
        return {'known': known, 'nodes': nodes, **offered, **rest}


def _without_age(service):
    """The recorded service: its last heartbeat was long ago."""
    return objects.Service(
        host=service.host, disabled=service.disabled, forced_down=service.forced_down
    )


def _picture(cluster):
    # As values, not as text: what was read from the database has its mappings in another order.
    nodes = {
        node.uuid: (
            node.report,
            dict(node.claims),
            dict(node.foreign),
            node.told,
            _word_on(node.service),
        )
        for node in cluster
    }
    used = {
        name: resource.used[: len(nodes)].tolist()
        for name, resource in cluster.hosts.resources.items()
    }
    places = {instance: frozenset(rows) for instance, rows in cluster.hosts.places.items()}
    return nodes, used, places


def _word_on(service):
    return service.disabled, service.disabled_reason, service.forced_down


@contextlib.contextmanager
def running(url, folder, options=None):
    """A daemon for as long as the block runs."""
    # Many tests let their hosts report once, and the machine may be busy. A default: tests that
    # need hosts to be down soon override it for a while.
    CONF.set_default('service_down_time', 600)
    daemon = Daemon(url, folder, options)
    daemon.start()
    try:
        yield daemon
    finally:
        daemon.stop()
        CONF.clear_default('service_down_time')


@pytest.fixture(scope='module')
def bus_url():
    """A bus inside this process."""
    return 'fake://'


@pytest.fixture(scope='module')
def started(bus_url, tmp_path_factory):
    """One daemon for all tests of a module: to stop one takes a second."""
    with running(bus_url, tmp_path_factory.mktemp('daemon')) as made:
        yield made


@pytest.fixture
def daemon(started):
    """The daemon, with nothing in it."""
    yield started
    started.clear()


@pytest.fixture(scope='module')
def two_hosts(started):
    """The daemon with two hosts and a server; at the end, after all that was sent to it, it still
    works."""
    started.add('a', 'b', instances=[])
    started.boot('running')
    yield started
    started.add('a', 'b')  # a slow machine may have taken longer than service_down_time
    assert started.boot('afterwards')[0] in ('a', 'b')


@pytest.fixture
def steady(two_hosts, caplog):
    """The same; whatever a test sends it, it stays as it was, and nothing has gone wrong
    inside."""
    before = two_hosts.state()
    caplog.clear()
    yield two_hosts
    assert two_hosts.state() == before
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


def error_name(error):
    """Class of the error that a server raised, whichever way the bus brought it."""
    return getattr(error, 'exc_type', None) or type(error).__name__.removesuffix('_Remote')


def primitive(thing, version=None, drop=(), **data):
    """An object as it travels, with some of its data changed or left out."""
    made = objects.to_primitive(thing)
    made[DATA].update(data)
    for name in drop:
        del made[DATA][name]
    return made if version is None else {**made, VERSION: version}


def refused_as(work, name, *words):
    """The error that it raises has this name, and says all of this, in few words."""
    error = outcome(work)
    assert isinstance(error, Exception), f'accepted: {error}'
    assert error_name(error) == name, error
    text = str(error).partition('Traceback')[0]
    assert all(word in text for word in words), text
    assert len(text) < 300, text


def at_once(work, items):
    """``work(item)`` of all items at the same time; raises what the first that failed did."""
    with concurrent.futures.ThreadPoolExecutor(max(len(items), 1)) as pool:
        return list(pool.map(work, items))


def outcome(work, *args):
    """What it returns, or the error that it raises."""
    try:
        return work(*args)
    except Exception as error:  # noqa: BLE001, it is handed to the test
        return error


def compute_node(host='host-0', nodename=None, **fields):
    """A ComputeNode as a plain host reports it: 8 CPUs, 16 GiB, 100 GB, nothing on it."""
    name = nodename or host
    facts = {
        'uuid': uuid_of(f'node {name}'),
        'host': host,
        'hypervisor_hostname': name,
        'vcpus': 8,
        'memory_mb': 16384,
        'local_gb': 100,
        'vcpus_used': 0,
        'memory_mb_used': 0,
        'local_gb_used': 0,
        'cpu_allocation_ratio': 1.0,
        'ram_allocation_ratio': 1.0,
        'disk_allocation_ratio': 1.0,
        'hypervisor_type': 'QEMU',
        'hypervisor_version': 8002001,
        'stats': {},
    }
    return objects.ComputeNode(**{**facts, **fields})


def spec(vcpus=1, memory_mb=512, root_gb=0, extra_specs=None, **fields):
    """A RequestSpec as a conductor sends it for one small server; ``fields`` are RequestSpec's."""
    made = scenario('boot-1')
    made.flavor.vcpus, made.flavor.memory_mb, made.flavor.root_gb = vcpus, memory_mb, root_gb
    made.flavor.extra_specs = extra_specs or {}
    for name, value in fields.items():
        setattr(made, name, value)
    return made
