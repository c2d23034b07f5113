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
"""Builds what a scheduler needs to read its hosts from Nova and to claim in Placement."""

import logging

from nova_sched import errors
from nova_sched.cloud import compute_api, neutron, placement
from nova_sched.cloud.allocations import AllocationWriter
from nova_sched.cloud.candidates import CandidateReader
from nova_sched.cloud.cells import Cells
from nova_sched.cloud.discovery import HostDiscovery
from nova_sched.cloud.mirror import Intervals, Mirror, MirrorHooks
from nova_sched.cloud.reconciler import Reconciler
from nova_sched.cloud.service_record import ServiceRecord
from nova_sched.cloud.status import CloudStatus
from nova_sched.conf import claims as claims_conf
from nova_sched.conf.services import has_nova_account
from nova_sched.db import engine as db_engine
from nova_sched.db.limits import DatabaseLimits
from nova_sched.db.nova_api import NovaApi
from nova_sched.db.nova_cell import NovaCell
from nova_sched.db.nova_services import SqlServiceRecords
from nova_sched.rpc import notifications
from nova_sched.rpc.servers import TIMEOUT_S

LOG = logging.getLogger(__name__)

DRAIN_S = 10.0  # that writes of allocations may take when the scheduler stops
MISSED_HEARTBEATS = 2  # that a nova-scheduler service may miss
MARGIN_S = 10.0  # between the last moment of a write and the check of its claim


def check(conf):
    """Check the options of a scheduler that reads from Nova. Raises BadConfig."""
    if not conf.api_database.connection:
        why = "it is not set, but [cluster] source is nova: copy it from Nova's nova.conf"
        raise errors.BadConfig('[api_database] connection', why)
    if conf.claims.connection in (conf.database.connection, conf.api_database.connection):
        why = 'it is a database of Nova; the claims need a database of their own'
        raise errors.BadConfig('[claims] connection', why)
    placement.client(conf)
    if conf.scheduler.query_placement_for_routed_network_aggregates:
        neutron.client(conf)
    if has_nova_account(conf):
        compute_api.client(conf)
    notifications.of_options(conf)


UNSHARED = (
    'Services nova-scheduler that do not share [claims] connection are up on %s: policies of '
    'server groups do not hold between schedulers'
)


def has_services(conf):
    """Whether [database] connection is a database of Nova. By default it is that of claims."""
    return conf.database.connection != claims_conf.connection(conf)


def unshared(conf, sharing):
    """The hosts of nova-scheduler services that are up in Nova, and are not among the hosts
    ``sharing`` the database of claims. Raises StoreUnavailable or BadConfig."""
    if not has_services(conf):
        return []
    limits = DatabaseLimits.of(conf.database_limits)
    cell = NovaCell(db_engine.reader(conf.database.connection, limits))
    # A service that was stopped before a switch is up in Nova for service_down_time.
    down_s = MISSED_HEARTBEATS * conf.report_interval
    try:
        return sorted(set(cell.schedulers_up(down_s)) - {conf.host, *sharing})
    finally:
        cell.close()


class NovaReader:
    """Nova and Placement for one scheduler that only reads them: the mirror of its hosts.

    Nothing is connected before ``start``.
    """

    writer: AllocationWriter | None = None

    def __init__(self, conf):
        self._conf = conf
        limits = DatabaseLimits.of(conf.database_limits)
        self.api = NovaApi(db_engine.reader(conf.api_database.connection, limits))
        self.cells = Cells(self.api, conf.database.connection, limits)
        self.placement = placement.client(conf)
        # The RoutedNetworks of requests; None: they do not matter.
        self.networks = None
        if conf.scheduler.query_placement_for_routed_network_aggregates:
            self.networks = neutron.RoutedNetworks(neutron.client(conf), self.placement)
        self.mirror = self._candidates = self._scheduler = None

    def before_refusal(self, requests, refusal):
        """Read what has changed in Nova and Placement before requests are refused. Return the
        requests as they are to be decided again."""
        if self.mirror is None:
            return requests
        suspects = self._scheduler.nova_hosts.nodes_of_claims
        self.mirror.poll_now(self._scheduler.call(suspects, requests))
        return self._candidates.requests_after(requests, refusal)

    def flavors(self):
        """The rows of Nova's flavors. Raises StoreUnavailable."""
        return self.api.flavors()

    def start(self, scheduler):
        """Read Nova and Placement for a scheduler that is started."""
        conf = self._conf
        self._scheduler = scheduler
        self.mirror = Mirror(
            scheduler,
            self.cells,
            self.api,
            self.placement,
            lambda: Intervals(
                conf.cluster.look_interval, conf.cluster.compare_interval, conf.service_down_time
            ),
            conf.cluster.readers,
            MirrorHooks(self._steps()).run,
            checks=max(1, conf.placement.in_flight // 2),  # of the threads that write
        )
        self._candidates = CandidateReader(scheduler, self.placement, self.mirror)
        self.mirror.start()

    def status(self):
        """The state of the cloud, for operators: see CloudStatus."""
        return CloudStatus(
            self._scheduler,
            self.mirror,
            self.cells,
            self.placement,
            self.writer,
            lambda: self._conf.service_down_time,
        ).read()

    def _steps(self):
        """Return what is done after each poll: see MirrorHooks."""
        return {}

    def stop(self):
        """Stop reading."""
        if self.networks is not None:
            self.networks.stop()
        if self.mirror is not None:
            self.mirror.stop()


class NovaSource(NovaReader):
    """The same for a scheduler that claims: with the writer of its allocations, the reconciler of
    old claims, and its service record.

    ``store`` is the claim store.
    """

    def __init__(self, conf, store):
        super().__init__(conf)
        self._timeout_s = getattr(conf, 'rpc_response_timeout', TIMEOUT_S)
        self.writer = AllocationWriter(
            self.placement,
            store.claims,
            lambda uuid: self.mirror.host_of(uuid),
            self.cells.is_moving,
            lambda nodes: self.mirror.read_nodes(nodes),
            in_flight=conf.placement.in_flight,
            timeout_s=self._timeout_s,
            late_s=conf.placement.read_timeout,
            not_up=lambda nodes: self.mirror.not_up(nodes),
        )
        self._reconciler = self._record = None
        limits = DatabaseLimits.of(conf.database_limits)
        self._discovery = HostDiscovery(
            self.cells,
            conf.api_database.connection,
            lambda url: db_engine.create(url, limits),
            lambda: conf.scheduler.discover_hosts_in_cells_interval,
        )
        self._unshared: list[str] = []

    def start(self, scheduler):
        """The same, and report the schedulers that do not share the claim store."""
        super().start(scheduler)
        self._find_unshared()

    def _steps(self):
        return {
            'Looking for schedulers of other claims': self._compare_services,
            'Writing the record of service nova-scheduler': self._write_record,
            'Ending claims without a server': self._settle,
            'Mapping new hosts': self._discover,
        }

    def _compare_services(self, has_compared):
        if has_compared:
            self._find_unshared()

    def _find_unshared(self):
        try:
            services = unshared(self._conf, self._scheduler.sharing)
        except errors.SchedError as error:
            LOG.debug('%s', error)
            return
        if services and services != self._unshared:
            LOG.warning(UNSHARED, ', '.join(services))
        elif self._unshared and not services:
            LOG.info('All services nova-scheduler that are up share [claims] connection')
        self._unshared = services

    def _write_record(self, _):
        if not has_services(self._conf):
            return
        if self._record is None:
            url = self._conf.database.connection
            engine = db_engine.create(url, DatabaseLimits.of(self._conf.database_limits))
            self._record = ServiceRecord(
                SqlServiceRecords(engine), self._conf.host, lambda: self._conf.report_interval
            )
        self._record.write()

    def _settle(self, _):
        if self._reconciler is None:
            age_s = self._timeout_s + self._conf.placement.read_timeout + MARGIN_S
            self._reconciler = Reconciler(
                self._scheduler, self.cells, self.api, self.placement, self.mirror, age_s
            )
        self._reconciler.settle()

    def _discover(self, _):
        if self._scheduler.position_and_count[0] == 0 and self._discovery.run():
            self.mirror.compare_soon()

    def leave(self):
        """Let the writes of calls that were taken end within DRAIN_S. Does not wait."""
        self.writer.leave(DRAIN_S)

    def stop(self):
        self.writer.stop(0.0)
        super().stop()
