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
"""Moves of servers at each full hour of a replay, by the planner of rebalances."""

import numpy as np

from nova_sched.claim import LIVE_MIGRATION
from nova_sched.claims import ClaimSelector
from nova_sched.rebalance import greedy
from nova_sched.rebalance.fleet import MOVABLE, Fleet, Servers
from nova_sched.state.request import Request

FIRST_HOUR = 12  # of the replay; before, the cloud fills


class HourlyMoves:
    """Empties hosts by moving a share (0..1) of the running servers each hour.

    Hosts of a replay have no rules but their capacity. A move is made at once: the claim on
    the destination is confirmed, which ends that on the source. ``made`` counts the moves.
    """

    def __init__(self, share):
        self._share, self._hours, self.made = share, 0, 0

    def __call__(self, scheduler, cluster):
        self._hours += 1
        if self._hours < FIRST_HOUR:
            return
        fleet = fleet_of(cluster)
        plan = greedy.empty(fleet, int(self._share * len(fleet.servers.uuids)))
        for move in plan.to_moves():
            source, node = cluster.node(move.source), cluster.node(move.destination)
            held = source.claims[move.server]
            request = Request(move.server, resources=held.resources, project_id=held.project_id)
            claims = scheduler.claim_service
            made = claims.claim(request, node.host, node.nodename, move=LIVE_MIGRATION)
            claims.confirm_claim(move.server, node.host, ClaimSelector(made.uuid))
            self.made += 1


def fleet_of(cluster):
    """Returns the cluster as the planner reads it; every server may go to every host."""
    hosts, nodes = cluster.hosts, cluster.hosts.nodes
    names = list(hosts.resources)
    claims = [claim for node in nodes for claim in node.claims.values()]
    sizes = {tuple(claim.resources.get(name, 0) for name in names) for claim in claims}
    kinds = {size: number for number, size in enumerate(sorted(sizes))}
    total = [hosts.resources[name].total for name in names]
    count = len(claims)
    servers = Servers(
        uuids=[claim.consumer_uuid for claim in claims],
        host=np.repeat(np.arange(len(nodes)), [len(node.claims) for node in nodes]).astype(
            np.int32
        ),
        kind=np.array(
            [kinds[tuple(claim.resources.get(name, 0) for name in names)] for claim in claims],
            dtype=np.int32,
        ),
        fixed=np.full(count, MOVABLE, dtype=np.int16),
        families=np.full((count, 1), -1, dtype=np.int32),
        confined=np.zeros(count, dtype=bool),
        created_s=np.array([claim.created_s for claim in claims]),
    )
    everywhere = np.ones(len(nodes), dtype=bool)
    return Fleet(
        nodes=[node.uuid for node in nodes],
        names=[node.host for node in nodes],
        columns=names,
        total=np.array(total).T,
        free=np.array([hosts.resources[name].free for name in names]).T,
        demand=np.array(list(kinds), dtype=np.int64).reshape(len(kinds), len(names)),
        allowed=np.ones((len(kinds), len(nodes)), dtype=bool),
        closed_by=[None] * len(kinds),
        servers=servers,
        strangers=np.zeros(len(nodes), dtype=np.int64),
        domain=np.zeros(len(nodes), dtype=np.int32),
        sources=everywhere,
        destinations=everywhere,
        reasons=[''],
    )
