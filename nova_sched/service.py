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
"""Builds every long-lived object of a scheduler process once, and passes them to each other."""

import gc
import logging
import os
import threading
import time

from oslo_service import service as oslo_service

from nova_sched import errors, extension, rpc
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.conf import claims as claims_conf
from nova_sched.conf.cluster import reads_nova
from nova_sched.conf.scheduler import DIRECT
from nova_sched.db import engine as db_engine
from nova_sched.db import limits as db_limits
from nova_sched.db import schema
from nova_sched.db.candidates import SqlCandidates
from nova_sched.db.decision_log import SqlDecisionLog
from nova_sched.db.schedulers import SqlSchedulers
from nova_sched.engine import Settings, catalog
from nova_sched.engine.clock import StoreClock
from nova_sched.engine.context import Context
from nova_sched.engine.explain.decision_log import DecisionLog
from nova_sched.engine.groups.template_readers import TemplateReaders
from nova_sched.engine.scheduler import Scheduler
from nova_sched.engine.sync.membership import SchedulerMembership
from nova_sched.groups.exact.worker import Solver
from nova_sched.groups.limits import PlanLimits
from nova_sched.groups.topology import DomainTopology
from nova_sched.limits import limits
from nova_sched.logs import MINUTE_S
from nova_sched.rpc import endpoints, event_notifications, notifications, servers
from nova_sched.rpc.direct import settings as direct_settings
from nova_sched.rpc.direct.server import DirectServer
from nova_sched.rpc.translate import SchedulerSerializer
from nova_sched.state.cluster import Cluster

LOG = logging.getLogger(__name__)
YOUNG_COLLECTIONS = 5000  # collections of young objects between two full ones

# Options of [database] that apply in addition to the connection. Each thread keeps one connection,
# so the pool has no size.
PASSED_ON = (
    'connection_debug connection_parameters connection_trace mysql_sql_mode mysql_wsrep_sync_wait'
).split()

# Seconds that a starting server may take until it listens. After that it is given up, because the
# bus does not answer.
START_TIMEOUT_S = 1.0


def settings(conf):
    """The engine's settings from the present configuration."""
    return Settings(
        alternates=conf.scheduler.max_attempts - 1,
        subset_size=conf.filter_scheduler.host_subset_size,
        shuffle=conf.filter_scheduler.shuffle_best_same_weighed_hosts,
        default_zone=conf.default_availability_zone,
        pending_ttl_s=conf.claims.pending_ttl,
        max_claim_attempts=conf.scheduler.max_claim_attempts,
        retry_interval_s=conf.claims.retry_interval,
        refresh_interval_s=conf.claims.refresh_interval,
        service_down_time_s=conf.service_down_time,
        track_instances=conf.filter_scheduler.track_instance_changes,
        explain_retention_s=conf.explain.retention,
        explain_sample=conf.explain.sample,
        explain_per_second=conf.explain.per_second,
        explain_most_placed=conf.explain.most_placed,
        tell_callers=conf.explain.tell_callers,
        candidates_ttl_s=conf.candidates.ttl,
        candidates_max=conf.candidates.max,
        plan_ttl_s=conf.groups.plan_ttl,
        plan_ttl_max_s=conf.groups.plan_ttl_max,
        plan_life_max_s=conf.groups.plan_life_max,
        plan_attempts=conf.groups.plan_attempts,
        plan_limits=PlanLimits(
            greedy_s=conf.groups.greedy_seconds,
            repair_s=conf.groups.repair_seconds,
            improve_s=conf.groups.improve_seconds,
            explain_s=conf.groups.explain_seconds,
            improve_scores=conf.groups.improve_weights,
        ),
    )


def rules(conf):
    """Build the enabled filters and weighers again. Raises UnknownRule."""
    wanted = conf.filter_scheduler
    return catalog.Rules(
        always=catalog.always(),
        filters=catalog.with_policies(
            catalog.filters(wanted.enabled_filters, wanted.available_filters)
        ),
        weighers=catalog.weighers(wanted.weight_classes),
    )


def announced(chosen):
    """Log the names of these rules, and return them."""
    LOG.info(
        'Deciding by %s; weighing by %s',
        ', '.join(rule.name for rule in chosen.filters),
        ', '.join(rule.name for rule in chosen.weighers) or 'nothing',
    )
    return chosen


def database(conf):
    """Return an engine on a database of the right schema. Raises StoreUnavailable or BadConfig.

    The embedded SQLite file is upgraded to the right schema here. For other databases the operator
    does that.
    """
    options = {name: conf.database[name] for name in PASSED_ON}
    times = db_limits.DatabaseLimits.of(conf.database_limits)
    engine = db_engine.create(claims_conf.connection(conf), times, **options)
    if engine.dialect.name == 'sqlite':
        schema.upgrade(engine)
    else:
        schema.check(engine)
    return engine


def shared(conf):
    """Return the database that the schedulers share, or None for a store in memory. Raises
    StoreUnavailable or BadConfig."""
    return None if conf.claims.store == 'memory' else database(conf)


def scheduler(conf, store=None, engine=None, nova=None, events=None, extensions=None):
    """A scheduler that shares a database with others. It is not started.

    Without an ``engine``, all that it keeps is in memory, or in the claim ``store``. ``nova`` is
    the NovaReader of its hosts; None: hosts report themselves. ``events`` is told of refusals;
    None: nothing is. Without ``extensions``, it has all that are installed.
    """
    membership = decisions = offers = None
    store = store or SqlClaimStore(schema.in_memory() if engine is None else engine)
    if engine is not None:
        decisions, offers = SqlDecisionLog(engine), SqlCandidates(engine)
        membership = SqlSchedulers(engine)
    clock = StoreClock(store.now_s)
    current = [settings(conf)]

    def read_settings():
        current[0] = settings(conf)

    context = Context(
        cluster=Cluster(),
        store=store,
        settings=lambda: current[0],
        read_settings=read_settings,
        clock=clock,
        rules=announced(rules(conf)),
        max_batch=conf.scheduler.max_batch,
        topology=topology(conf),
        membership=SchedulerMembership(membership, conf.host, os.getpid(), clock),
        decision_log=DecisionLog(decisions),
        candidates=offers,
        solver=Solver(nice=conf.groups.solver_nice) if conf.groups.solver else None,
        readers=TemplateReaders(),
        limits=limits(conf, store),
        database=engine,
        nova=nova,
        reads_nova=nova is not None,
        writer=nova and nova.writer,
        before_refusal=nova and nova.before_refusal,
        events=events,
    )
    return Scheduler(context, extension.installed() if extensions is None else extensions)


def nova_source(conf, store):
    """The NovaSource of a scheduler that reads its hosts from Nova, or None."""
    if not reads_nova(conf):
        return None
    # Imported late: only such a scheduler needs it.
    from nova_sched import nova_service

    return nova_service.NovaSource(conf, store)


def topology(conf):
    """The levels of failure domains. Raises BadConfig."""
    return DomainTopology(conf.topology.levels, conf.topology.orders)


def is_direct(conf, bus):
    """Whether the direct RPC server takes the calls: on RabbitMQ, unless the configuration selects
    the other one. Raises BadConfig if it does not work with this bus."""
    if conf.scheduler.rpc_server is None:
        is_chosen = direct_settings.cluster(bus) is not None
    else:
        is_chosen = conf.scheduler.rpc_server == DIRECT
    if is_chosen:
        direct_settings.of(bus)
    return is_chosen


def workers(conf):
    """The number of processes of one daemon."""
    return conf.scheduler.workers or os.cpu_count() or 1


def once_available(work, conf, leaving):
    """Run a step that needs the database. While the database does not answer, log that each
    minute and retry until the process stops.

    Return None if the process stopped before.
    """
    logged, due_s = None, 0.0
    while not leaving.is_set():
        try:
            return work()
        except (errors.StoreUnavailable, errors.BadConfig) as error:
            if logged is not type(error) or time.monotonic() >= due_s:
                LOG.error('%s; trying until that changes', error)
                logged, due_s = type(error), time.monotonic() + MINUTE_S
        leaving.wait(conf.claims.retry_interval)
    return None


def collect_seldom():
    """Let Python's garbage collector look at the host state only about once an hour.

    A full collection stops all threads, for half a second with 10,000 hosts. By default there is
    one whenever a quarter of the nodes has reported, and it finds no garbage. The collections of
    young objects stay as they are: they find the garbage of failed calls. For a process that does
    nothing else.
    """
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], YOUNG_COLLECTIONS)


class SchedulerService(oslo_service.ServiceBase):
    """One scheduler process: its engine, its store and its RPC server.

    ``start`` makes all objects, that is after the fork. The engine reads the store before it takes
    the first message. While the store does not answer, it waits.
    """

    def __init__(self, conf, bus=None):
        self._conf = conf
        self._bus = bus
        self._own_bus = bus is None
        self._server = self.scheduler = self.store = self._nova = self._notifications = None
        self._events = None
        self._leaving = threading.Event()
        # Held while the server is made, and while a stop begins: the stop sees all that was made.
        self._lock = threading.Lock()
        self._listening = threading.Event()
        self._ended = threading.Event()
        self._is_reloaded = False

    def alive_s(self):
        """When its loop last moved, in monotonic seconds; 0 until it takes messages."""
        return self.scheduler.loop.moved_s if self._listening.is_set() else 0.0

    def start(self):
        opened = once_available(lambda: (shared(self._conf),), self._conf, self._leaving)
        if opened is None:
            return
        (engine,) = opened
        self.store = SqlClaimStore(schema.in_memory() if engine is None else engine)
        if self._bus is None:
            self._bus = rpc.transport(self._conf)
        self._nova = nova_source(self._conf, self.store)
        self._events = event_notifications.of_options(self._conf)
        self.scheduler = scheduler(self._conf, self.store, engine, self._nova, self._events)
        if self._events is not None:
            self._events.start()
            if self._events.claims is not None:
                self.store.on_changes = self._events.claims.changed
        # Its process loads meanwhile, so that the first group does not wait for it.
        self.scheduler.groups.start()
        once_available(self._start_engine, self._conf, self._leaving)
        if self._leaving.is_set():
            return
        if self._nova is not None:
            self._nova.start(self.scheduler)
        if self._own_bus:
            collect_seldom()
        with self._lock:
            if self._leaving.is_set():  # while it read Nova
                return
            self._server = servers.server(
                self._bus,
                self._conf.host,
                self._endpoints(),
                serializer=SchedulerSerializer(),
                pauses=self.scheduler.pauses,
                is_direct=is_direct(self._conf, self._bus),
                loop=self.scheduler.loop,
            )
        self._server.start()
        if self._leaving.is_set():  # while it connected
            return
        self._listening.set()
        LOG.info('Scheduling on host %s', self._conf.host)
        if self._is_reloaded:  # since the rules were built
            self.reset()

    def _endpoints(self):
        """What the server calls. Starts the thread that sends notifications, and those of
        extensions."""
        more, nova = self.scheduler.endpoints(self._bus), self._nova
        if nova is None:
            return [*endpoints.all_of(self.scheduler), *more]
        self._notifications = notifications.of_options(self._conf)
        if self._notifications is not None:
            self._notifications.start()
        return [
            *endpoints.all_of(
                self.scheduler, nova.mirror, nova.status, nova.networks, self._notifications
            ),
            *more,
        ]

    def _start_engine(self):
        was_enabled = gc.isenabled()
        gc.disable()  # it would take a third of the time to read all nodes
        try:
            self.scheduler.start()
        finally:
            if was_enabled:
                gc.enable()

    def stop(self, graceful=True):
        """Take no more messages, answer those in flight, then end."""
        with self._lock:
            self._leaving.set()
        if self.scheduler is not None:
            self.scheduler.leave()
        # oslo.messaging's server that still connects cannot be stopped, and has taken no message.
        if self._server is not None and (
            isinstance(self._server, DirectServer) or self._listening.wait(START_TIMEOUT_S)
        ):
            self._server.stop()
            if self._nova is not None:
                self._nova.leave()
            self._server.finish()
        if self._notifications is not None:
            self._notifications.stop()
        if self._nova is not None:
            self._nova.stop()
        if self.scheduler is not None:
            self.scheduler.stop()
        if self._events is not None:
            self._events.stop()
        if self._own_bus and self._bus is not None:
            self._bus.cleanup()
        LOG.info('Stopped')
        self._ended.set()

    def wait(self):
        self._ended.wait()

    def reset(self):
        """The configuration was read again: so are the settings, and rules are built again."""
        self._is_reloaded = True
        if not self._listening.is_set():
            return
        self.scheduler.context.read_settings()
        groups, wants_solver = self.scheduler.groups, self._conf.groups.solver
        if wants_solver != groups.has_solver:
            groups.use(Solver() if wants_solver else None)
        try:
            self.scheduler.follow(announced(rules(self._conf)))
        except errors.UnknownRule as error:
            LOG.error('%s; the rules stay as they were', error)
        if self._nova is not None and self._nova.mirror is not None:
            self._nova.mirror.compare_soon()
