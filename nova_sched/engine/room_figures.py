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
"""What the hosts have, use and cannot use: sums by resource class, zone and aggregate."""

import collections
import time

import numpy as np

from nova_sched.claim import DISK_GB, MEMORY_MB, VCPU
from nova_sched.measures import catalogue
from nova_sched.state.host_aggregate import zones

EVERY_S = 15.0  # between two sums: they keep the loop for a millisecond or two
PLAIN = VCPU, MEMORY_MB, DISK_GB  # classes of which hosts strand room
UP, DISABLED, DOWN, SILENT = 'up', 'disabled', 'forced down', 'silent'


def room(hosts, default_zone):
    """Return (by zone, by aggregate): for each (resource class, name) an array of the capacity,
    the usage, and the stranded units.

    Units of a host are stranded as far as its scarcest class cannot match them: of what it has
    free, more than the share of its capacity that the scarcest one of PLAIN has free. A host in
    several zones or aggregates counts in each. Child providers do not count.
    """
    by_zone: dict[tuple[str, str], np.ndarray] = collections.defaultdict(lambda: np.zeros(3))
    by_aggregate: dict[tuple[str, str], np.ndarray] = collections.defaultdict(lambda: np.zeros(3))
    slots, firsts, slot_of = np.unique(hosts.aggregate_set, return_index=True, return_inverse=True)
    places = [hosts.aggregates.of(hosts.nodes[row].host) for row in firsts.tolist()]
    shares = _free_shares(hosts)
    for name, column in hosts.resources.items():
        capacity = column.free + column.used
        stranded = (
            np.maximum(column.free - capacity * shares, 0.0) if name in PLAIN else np.zeros(0)
        )
        sums = np.array([
            np.bincount(slot_of, numbers, len(slots)) if len(numbers) else np.zeros(len(slots))
            for numbers in (capacity, column.used, stranded)
        ])  # fmt: skip
        if not sums[:2].any():
            continue
        for aggregates, amounts in zip(places, sums.T, strict=True):
            for zone in zones(aggregates) or {default_zone}:
                by_zone[name, zone] += amounts
            for aggregate in aggregates:
                by_aggregate[name, aggregate.name] += amounts
    return by_zone, by_aggregate


def _free_shares(hosts):
    """The share of the capacity of each host that its scarcest class has free, from 0 to 1."""
    shares = np.ones(len(hosts))
    for name in PLAIN:
        column = hosts.resources.get(name)
        if column is not None:
            capacity = column.free + column.used
            free = column.free / np.maximum(capacity, 1)
            shares = np.where(capacity > 0, np.minimum(shares, free), shares)
    return np.maximum(shares, 0.0)


def states(hosts, now_s, down_s):
    """Return the number of nodes by state."""
    is_silent = now_s - hosts.seen_s > down_s
    masks = {
        DISABLED: hosts.disabled,
        DOWN: ~hosts.disabled & hosts.forced_down,
        SILENT: ~hosts.disabled & ~hosts.forced_down & is_silent,
    }
    counts = {state: int(np.count_nonzero(rows)) for state, rows in masks.items()}
    return {**counts, UP: len(hosts) - sum(counts.values())}


class RoomFigures:
    """Sets the gauges of the host state. ``send`` has a function run in the loop, and returns its
    Future: a loop that waits for the store delays no other figure."""

    def __init__(self, context, send, clock=time.monotonic):
        self._cluster, self._settings = context.cluster, context.settings
        self._now, self._figures = context.clock, context.figures
        self._send, self._clock = send, clock
        self._due_s = float('-inf')

    def refresh(self):
        """Set the figures at hand; if it is due, have the loop set those of its state. Does not
        wait."""
        catalogue.POLL_AGE.set(self._figures.poll_lag_s)
        catalogue.STALE_NODES.set(self._figures.stale_nodes)
        if self._clock() >= self._due_s:
            self._due_s = self._clock() + EVERY_S
            # The nodes of a moment; each list of claims is copied at once.
            claims = collections.Counter(
                claim.state
                for node in self._cluster.snapshot()
                for claim in list(node.claims.values())
            )
            catalogue.CLAIMS.replace({(state,): count for state, count in claims.items()})
            self._send(self._sum).add_done_callback(self._show)

    def _sum(self):
        hosts, settings = self._cluster.hosts, self._settings()
        return (
            *room(hosts, settings.default_zone),
            states(hosts, self._now(), settings.service_down_time_s),
        )

    def _show(self, future):
        if future.cancelled() or future.exception() is not None:
            return
        by_zone, by_aggregate, counts = future.result()
        catalogue.HOSTS.replace({(state,): count for state, count in counts.items()})
        for number, (of_zones, of_aggregates) in enumerate(SHOWN):
            of_zones.replace({name: float(sums[number]) for name, sums in by_zone.items()})
            of_aggregates.replace(
                {name: float(sums[number]) for name, sums in by_aggregate.items()}
            )


SHOWN = (
    (catalogue.CAPACITY, catalogue.AGGREGATE_CAPACITY),
    (catalogue.USAGE, catalogue.AGGREGATE_USAGE),
    (catalogue.STRANDED, catalogue.AGGREGATE_STRANDED),
)
