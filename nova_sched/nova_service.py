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

from nova_sched import errors
from nova_sched.cloud import neutron, placement
from nova_sched.cloud.allocations import AllocationWriter
from nova_sched.cloud.candidates import CandidateLook
from nova_sched.cloud.cells import Cells
from nova_sched.cloud.mirror import Intervals, Mirror
from nova_sched.cloud.routed_networks import RoutedNetworks
from nova_sched.cloud.service_record import ServiceRecord
from nova_sched.cloud.settler import Settler
from nova_sched.conf import claims as claims_conf
from nova_sched.db import engine as db_engine
from nova_sched.db.limits import DatabaseLimits
from nova_sched.db.nova_api import NovaApi
from nova_sched.db.nova_services import SqlServiceRecords
from nova_sched.rpc import notifications
from nova_sched.rpc.servers import TIMEOUT_S

DRAIN_S = 10.0  # that writes of allocations may take when the scheduler stops
MARGIN_S = 30.0  # between the last moment of a write and the check of its claim


def check(conf):
    """Checks the options of a scheduler that reads from Nova. Raises BadConfig."""
    if not conf.api_database.connection:
        why = "it is not set, but [cluster] source is nova: copy it from Nova's nova.conf"
        raise errors.BadConfig('[api_database] connection', why)
    if conf.claims.connection in (conf.database.connection, conf.api_database.connection):
        why = 'it is a database of Nova; the claims need a database of their own'
        raise errors.BadConfig('[claims] connection', why)
    placement.client(conf)
    if conf.scheduler.query_placement_for_routed_network_aggregates:
        neutron.client(conf)
    notifications.of_options(conf)


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
            self.networks = RoutedNetworks(neutron.client(conf), self.placement)
        self.mirror = self._candidates = self._scheduler = None

    def before_refusal(self, requests, refusal):
        """Look for changes in Nova and Placement before requests are refused. Returns the requests
        as they are to be decided again; None: there was no look."""
        if self.mirror is None or not self.mirror.look_now():
            return None
        return self._candidates.requests_after(requests, refusal)

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
            self._after_look,
        )
        self._candidates = CandidateLook(scheduler, self.placement, self.mirror)
        self.mirror.start()

    def _after_look(self, has_compared):
        pass

    def stop(self):
        """Stop to read."""
        if self.networks is not None:
            self.networks.stop()
        if self.mirror is not None:
            self.mirror.stop()


class NovaSource(NovaReader):
    """The same for a scheduler that claims: with the writer of its allocations, the settler of
    old claims, and its service record.

    ``store`` is the claim store.
    """

    def __init__(self, conf, store):
        super().__init__(conf)
        self._timeout_s = getattr(conf, 'rpc_response_timeout', TIMEOUT_S)
        self.writer = AllocationWriter(
            self.placement,
            store.claims,
            lambda uuid: self._scheduler.nova_hosts.host_of(uuid),
            lambda nodes: self.mirror.read_nodes(nodes),
            in_flight=conf.placement.in_flight,
            timeout_s=self._timeout_s,
            late_s=conf.placement.read_timeout,
            not_up=lambda nodes: self.mirror.not_up(nodes),
        )
        self._settler = self._record = None

    def _after_look(self, has_compared):
        if self._conf.database.connection != claims_conf.connection(self._conf):
            self._write_record()
        if has_compared and self._scheduler.position_and_count[0] == 0:
            if self._settler is None:
                age_s = self._timeout_s + self._conf.placement.read_timeout + MARGIN_S
                self._settler = Settler(
                    self._scheduler, self.cells, self.api, self.placement, self.mirror, age_s
                )
            self._settler.settle()

    def _write_record(self):
        if self._record is None:
            url = self._conf.database.connection
            engine = db_engine.create(url, DatabaseLimits.of(self._conf.database_limits))
            self._record = ServiceRecord(
                SqlServiceRecords(engine), self._conf.host, lambda: self._conf.report_interval
            )
        self._record.write()

    def drain(self):
        """Let writes end, before the loop stops."""
        self.writer.stop(DRAIN_S)
