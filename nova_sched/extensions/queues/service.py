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
"""Assembles the queue model: the broker of a process, a queue manager, and a conductor's
router."""

import contextlib
import functools
import logging
import threading
import time
import uuid

from oslo_service import service as oslo_service

from nova_sched import errors, rpc, service
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.cmd import startup
from nova_sched.db.flavors import SqlFlavors
from nova_sched.db.jobs import SqlJobTable
from nova_sched.engine.clock import StoreClock
from nova_sched.extensions.queues import bus as queues_bus
from nova_sched.extensions.queues.brokers import FALLBACK, RESULTS
from nova_sched.extensions.queues.brokers.amqp import HEARTBEAT_S, AmqpBroker
from nova_sched.extensions.queues.brokers.memory import MemoryBroker
from nova_sched.extensions.queues.bus import CatalogueCopy, CatalogueEndpoint, QueuesEndpoint
from nova_sched.extensions.queues.catalogue import Catalogue
from nova_sched.extensions.queues.conductor import router
from nova_sched.extensions.queues.conductor.routing import Concerns
from nova_sched.extensions.queues.manager import QueueReader, endings, fallback, upkeep
from nova_sched.extensions.queues.manager.register import Register
from nova_sched.extensions.queues.messages import Sender
from nova_sched.limits import limits
from nova_sched.logs import Problems
from nova_sched.measures.catalogue import JOBS, QUEUES
from nova_sched.rpc import servers, translate
from nova_sched.rpc.client import ClaimsClient, QueuesClient, SchedulerClient

LOG = logging.getLogger(__name__)

CALL_S = 20  # seconds that a manager waits for a scheduler before it asks again
LOST_AFTER = 4  # times fallback_after: by then a message that still exists was taken or fell back
CHECKS = 4  # for lost messages within that time
UPKEEP = 'upkeep'  # the kind of problem that is logged once
TIMEOUT_S = 1.0  # seconds to wait for a starting server to listen, before it is abandoned


@functools.cache
def in_process(fallback_after_s):
    """Return the queues of this process. All of its components share them, and none
    closes them."""
    return MemoryBroker(fallback_after_s)


def broker(conf):
    """Return the broker of [queues] transport_url, or of the bus; it is not connected yet.

    Raises BadConfig.
    """
    url = conf.queues.transport_url or conf.transport_url  # registered with the bus
    if url.startswith('fake:'):
        return in_process(conf.queues.fallback_after)
    rabbit = dict(conf.oslo_messaging_rabbit) if 'oslo_messaging_rabbit' in conf else {}
    heartbeat_s = rabbit.get('heartbeat_timeout_threshold', HEARTBEAT_S)
    return AmqpBroker(url, conf.queues.queue_type, conf.queues.fallback_after, rabbit, heartbeat_s)


def close_broker(of):
    """Close the connections of such a broker."""
    if not isinstance(of, MemoryBroker):
        of.close()


def read(spec_obj, instance_uuid):
    """Return the Request of a RequestSpec for one instance. Raises InvalidRequest."""
    return translate.requests(translate.spec(spec_obj), [instance_uuid])[0]


def check(conf):
    """Check the configuration before a process starts on it. Raises BadConfig."""
    rpc.transport(conf).cleanup()
    broker(conf)
    Catalogue.of(0, (), conf.queues.specials)
    with contextlib.suppress(errors.StoreUnavailable):  # the process waits, and logs it
        service.database(conf).dispose()


def try_once(conf):
    """Connect once to the broker of [queues] transport_url, if it is not the bus. Raises
    BrokerUnavailable, BrokerRefused or BadConfig."""
    if conf.queues.transport_url:
        of = broker(conf)
        if not isinstance(of, MemoryBroker):
            of.try_once()


def try_brokers(conf):
    """Connect once to the bus and to the broker of queues, as cmd.startup.try_bus."""
    with startup.bus(conf) as bus:
        startup.try_bus(bus)
    startup.accepted('[queues] transport_url', lambda: try_once(conf))


CLOCK_S = 10.0  # seconds between two queries of the database's time


class QueueManager:
    """A queue manager: the list of queues, two readers, and periodic upkeep.

    Any number of managers may share a database and a broker. ``is_ready``: it has read the
    catalogue and takes messages; ``moved_s``: when its upkeep last moved, in monotonic seconds.
    """

    def __init__(self, conf, bus, engine):
        self._conf = conf
        self._broker = broker(conf)
        job_table, claims = SqlJobTable(engine), ClaimsClient(bus, CALL_S)
        self._counts = job_table.counts
        sender = Sender(self._broker, claims)
        clock = StoreClock(job_table.now_s, every_s=CLOCK_S)
        ends = endings.Endings(job_table, claims, sender, read, clock)
        falling = fallback.Fallback(
            job_table,
            claims,
            SchedulerClient(bus, CALL_S),
            sender,
            ends,
            lambda: fallback.FallbackSettings(
                conf.scheduler.max_attempts, conf.queues.fallback_after
            ),
        )
        store = SqlClaimStore(engine)
        self.register = Register(
            SqlFlavors(engine),
            conf.queues.specials,
            self._broker,
            functools.partial(queues_bus.announce, bus),
            lambda: store.read_nodes(()),
        )
        self.upkeep = upkeep.JobUpkeep(
            job_table, claims, self._broker, sender, ends, self._upkeep_settings, clock, self._move
        )
        self.readers = [
            QueueReader(self._broker, RESULTS, ends.take),
            QueueReader(self._broker, FALLBACK, falling.take),
        ]
        self._leaving = threading.Event()
        self._thread = threading.Thread(
            target=self._run_upkeep, name='nova-sched-queues', daemon=True
        )
        self._problems = Problems(LOG)
        self.is_ready = False
        self.moved_s = 0.0

    def _upkeep_settings(self):
        conf = self._conf
        return upkeep.UpkeepSettings(
            lost_after_s=LOST_AFTER * conf.queues.fallback_after,
            longest_s=conf.claims.pending_ttl,
            retention_s=conf.queues.job_retention,
        )

    def start(self):
        """Declare the queues, and start; waits in the background for unavailable services."""
        self._thread.start()

    def leave(self):
        """Start no more work; returns without waiting."""
        self._leaving.set()
        self.register.news.set()

    def _move(self):
        self.moved_s = time.monotonic()

    def stop(self):
        self.leave()
        self._thread.join()
        for reader in self.readers:
            reader.stop()
        close_broker(self._broker)

    def _run_upkeep(self):
        due_s = 0.0
        while not self._leaving.is_set():
            self._move()
            self.register.news.clear()
            try:
                self.register.refresh()
                QUEUES.set(len(self.register.catalogue.queues))
                if not self.is_ready:
                    for reader in self.readers:
                        reader.start()
                    self.is_ready = True
                if time.monotonic() >= due_s:
                    self.upkeep.check()
                    JOBS.replace({(state,): count for state, count in self._counts().items()})
                    due_s = time.monotonic() + self._upkeep_settings().lost_after_s / CHECKS
                self._problems.end(UPKEEP, 'The queues are maintained again')
            except errors.SchedError as error:
                self._problems.begin(
                    UPKEEP, '%s; trying until that changes', error, reason=str(error)
                )
            except Exception:
                LOG.exception(
                    'Upkeep of the queues failed with an unexpected error; it is tried again'
                )
            self.register.news.wait(self._conf.claims.refresh_interval)


class QueueService(oslo_service.ServiceBase):
    """The process of a queue manager. ``start`` makes its threads and connections, after
    the fork."""

    def __init__(self, conf, bus=None):
        self._conf, self._bus, self._own_bus = conf, bus, bus is None
        self._server = self.manager = self._engine = None
        self._leaving = threading.Event()
        self._listening = threading.Event()
        self._ended = threading.Event()

    def alive_s(self):
        """When its upkeep last moved, in monotonic seconds; 0 until it takes messages."""
        is_ready = self._listening.is_set() and self.manager.is_ready
        return self.manager.moved_s if is_ready else 0.0

    def start(self):
        self._engine = service.once_available(
            lambda: service.database(self._conf), self._conf, self._leaving
        )
        if self._engine is None:
            return
        if self._bus is None:
            self._bus = rpc.transport(self._conf)
        self.manager = QueueManager(self._conf, self._bus, self._engine)
        self.manager.start()
        register = self.manager.register
        self._server = servers.server(
            self._bus,
            self._conf.host,
            [QueuesEndpoint(register), CatalogueEndpoint(register.hear)],
            queues_bus.TOPIC,
        )
        self._server.start()
        self._listening.set()
        LOG.info('Managing queues on host %s', self._conf.host)

    def stop(self, graceful=True):
        """Take no more messages, finish those in progress, then end."""
        self._leaving.set()
        if self.manager is not None:
            self.manager.leave()
        # A server that still connects to its bus cannot be stopped, and has taken no message.
        if self._server is not None and self._listening.wait(TIMEOUT_S):
            self._server.stop()
            self._server.finish()
        if self.manager is not None:
            self.manager.stop()
        if self._own_bus and self._bus is not None:
            self._bus.cleanup()
        if self._engine is not None:
            self._engine.dispose()
        LOG.info('Stopped')
        self._ended.set()

    def wait(self):
        self._ended.wait()

    def reset(self):
        """Log that the configuration was read again; options that may change are read at
        each use."""
        LOG.info('Options were reloaded')


class Routing:
    """A conductor's router with its dependencies::

        with Routing(CONF) as router:
            placed = router.place(spec_obj, instance_uuids, context=context)

    Raises StoreUnavailable, BadConfig and BrokerUnavailable at its start.
    """

    def __init__(self, conf, bus=None):
        self._conf, self._bus, self._own_bus = conf, bus, bus is None
        self._engine = self._broker = self._server = self.router = None
        self._listening = threading.Event()

    def start(self):
        conf = self._conf
        self._engine = service.database(conf)
        if self._bus is None:
            self._bus = rpc.transport(conf)
        self._broker = broker(conf)
        job_table, copy = SqlJobTable(self._engine), CatalogueCopy(QueuesClient(self._bus, CALL_S))
        self.router = router.Router(
            job_table,
            limits(conf, job_table),
            self._broker,
            SchedulerClient(self._bus),
            ClaimsClient(self._bus),
            copy,
            self._settings,
            read,
            name=f'{conf.host}.{uuid.uuid4()}',
            clock=StoreClock(job_table.now_s, every_s=CLOCK_S),
        )
        self.router.start()
        self._server = servers.server(
            self._bus, conf.host, [CatalogueEndpoint(copy.hear)], queues_bus.NEWS
        )
        # The thread waits for an unavailable bus; until then the catalogue is polled.
        threading.Thread(target=self._listen, name='nova-sched-catalogue', daemon=True).start()
        return self.router

    def _listen(self):
        self._server.start()
        self._listening.set()

    def _settings(self):
        conf = self._conf
        return router.RouterSettings(
            cell_uuid=conf.stats.cell_uuid or translate.UNKNOWN_CELL,
            enabled=conf.queues.enabled,
            timeout_s=conf.queues.reply_timeout,
            concerns=Concerns.of(conf),
            tell_callers=conf.explain.tell_callers,
        )

    def stop(self):
        if self._listening.wait(TIMEOUT_S):
            self._server.stop()
            self._server.finish()
        self.router.stop()
        close_broker(self._broker)
        if self._own_bus:
            self._bus.cleanup()
        self._engine.dispose()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()
