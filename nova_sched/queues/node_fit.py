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
"""A compute node as the queues see it: a cluster of one node, updated from each report."""

import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from nova_sched.claims.reconcile import settle
from nova_sched.engine.decide import survivors
from nova_sched.queues.fit import Fit
from nova_sched.state.cluster import Cluster
from nova_sched.state.host_aggregate import HostAggregate
from nova_sched.state.report import Report
from nova_sched.state.request import Request


class NodeFit:
    """The queues of a catalogue that one node can serve.

    A change of the catalogue, of an aggregate or of a service record requires a new one.
    ``fit`` may be shared by any number of nodes. ``aggregates`` may include those of other
    nodes: if one names a zone, hosts without an aggregate are not in that zone. ``clock`` gives
    seconds since the epoch.
    """

    def __init__(
        self,
        fit: Fit,
        aggregates: Iterable[HostAggregate] = (),
        disabled: bool = False,
        clock: Callable[[], float] = time.time,
    ):
        self._fit, self._disabled, self._clock = fit, disabled, clock
        self._cluster = Cluster(capacity=1)
        for one in aggregates:
            self._cluster.set_aggregate(one.id, one)

    @property
    def names(self) -> Sequence[str]:
        """Returns the queues at the broker: the same object for all views of one Fit."""
        return self._fit.names

    def judge(self, report: Report) -> np.ndarray:
        """Returns int16 for each name: the node's priority for that queue's jobs, NONE for no
        jobs.

        The report includes all instances of the node, hidden ones too.
        """
        self._see(report)
        return self._fit.priorities(self._cluster)

    def takes(self, report: Report, request: Request) -> bool:
        """Whether the filters keep the node for this request. Raises InvalidRequest."""
        self._see(report)
        return bool(survivors(self._fit.rules, self._cluster.hosts, request).left)

    def _see(self, report: Report) -> None:
        cluster, now_s = self._cluster, self._clock()
        for node in cluster.snapshot():
            if node.uuid != report.node_uuid:
                cluster.remove(node.uuid)
        if self._disabled:
            cluster.set_service(report.host, True, None, False)
        settled = settle(report, {})
        cluster.put(report, (), settled.foreign, settled.foreign_instances, seen_s=now_s)
        cluster.hosts.now_s = now_s
