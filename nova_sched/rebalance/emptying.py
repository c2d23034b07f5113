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
"""Empties hosts: the goals `empty` (as many as the moves allow) and `drain` (these hosts)."""

import numpy as np

from nova_sched.rebalance import plan
from nova_sched.rebalance.fleet import MOVABLE
from nova_sched.rebalance.room import Room

OF_FREE = 4.0  # how much a share of the free amounts counts beside a share of the moves
TINY = 1e-9
PROTECTED = 1.2  # hosts that hold this many times the allowed moves receive only as a last resort


def empty(fleet, most):
    """A Plan that empties hosts with at most this many moves.

    Either all servers of a host move or none. No empty host is used. The hosts with the fewest
    servers come first, which is best as long as the moves are scarce, or those that use the least,
    which is best where room is, or those in between; the plan that empties more is taken.
    """
    counts, held = np.sort(fleet.counts[candidates(fleet)]), _held(fleet)
    limit = int(np.searchsorted(np.cumsum(counts), most, side='right'))
    plans = []
    for order in _orders(fleet, most):
        plans.append(_in_order(fleet, order, most, held))
        if len(plans[-1].emptied) >= limit:
            break
    return max(plans, key=lambda one: (len(one.emptied), -len(one.moves)))


def candidates(fleet):
    """Hosts (rows) that may be emptied."""
    return np.flatnonzero((fleet.counts > 0) & ~fleet.held & fleet.sources)


def _orders(fleet, most):
    """Orders in which to try the candidates for a plan of so many moves."""
    rows = candidates(fleet)
    counts, used = fleet.counts[rows], ((fleet.total - fleet.free) * fleet.shares)[rows]
    volume = used.sum(axis=1)
    yield rows[np.lexsort((volume, counts))]
    yield rows[np.lexsort((counts, volume))]
    for column in np.flatnonzero(fleet.shares.any(axis=0)).tolist():
        yield rows[np.lexsort((counts, used[:, column]))]
    # By what they take of the moves, and of what is free on hosts in use: both may be scarce.
    free = np.maximum(fleet.free * fleet.shares, 0)[fleet.in_use].sum(axis=0)
    of_free = (used / np.maximum(free, TINY)).max(axis=1, initial=0.0)
    yield rows[np.argsort(counts / most + OF_FREE * of_free, kind='stable')]


def _in_order(fleet, order, most, held):
    room, obstacles = Room(fleet), plan.Obstacles(fleet)
    counts, servers_of = fleet.counts, fleet.by_host()
    protected = np.zeros(len(fleet), dtype=bool)
    protected[order[: np.searchsorted(np.cumsum(counts[order]), PROTECTED * most)]] = True
    tiers = (~protected,)
    closed = Closed(fleet)
    gone, is_spent, used = [], False, fleet.in_use
    for host in order.tolist():
        if room.gains[host]:
            continue
        if counts[host] > most - len(room.host_of):
            is_spent = True
            break
        servers = servers_of(host)
        if _all_leave(room, servers, host, used, tiers, closed, obstacles):
            gone.append(host)
    if not is_spent:
        for rule, host, server in held:
            obstacles.add(rule, host, server)
    moves = plan.ordered(fleet, room.host_of)
    before = int(np.count_nonzero(~used))
    return plan.Plan(
        fleet, moves, gone, obstacles.sorted(), is_spent, before=before, after=before + len(gone)
    )


def _all_leave(room, servers, host, used, tiers, closed, obstacles):
    """Whether all servers of a host find another one in use. Otherwise the room is as before."""
    fleet = room.fleet
    kinds = fleet.servers.kind[servers]
    kept = fleet.stays[servers] | closed.kinds[kinds]
    if kept.any():
        server = int(servers[kept.argmax()])
        obstacles.add(room.why_fixed(server) or closed.rules[room.kind(server)], host, server)
        return False
    room.leave(host)
    volume = fleet.demand[kinds] @ fleet.shares[host]
    done: list[int] = []
    for server in servers[np.argsort(-volume, kind='stable')].tolist():
        fits = room.fits(server)
        target = room.tightest(server, fits & used, tiers)
        if target is not None:
            room.place(server, target)
            done.append(server)
            continue
        rule = plan.ONLY_EMPTY if fits.any() else room.why_not(server)
        obstacles.add(rule, host, server)
        for other in done:
            room.undo(other)
        room.stay(host)
        # Destinations only fill up: a kind without any now has none later.
        if not (room.by_amounts(room.kind(server)) & used).any():
            closed.add(room.kind(server), rule)
        return False
    return True


class Closed:
    """Kinds that fit nowhere any more (``kinds``, bool), and by which rule."""

    def __init__(self, fleet):
        self.kinds = np.zeros(len(fleet.demand), dtype=bool)
        self.rules: dict[int, str] = {}

    def add(self, kind, rule):
        self.kinds[kind] = True
        self.rules[kind] = rule


def _held(fleet):
    """Why hosts with a server that stays are not tried: (rule, host, server) of each."""
    found, fixed = [], np.flatnonzero(fleet.servers.fixed != MOVABLE)
    hosts, first = np.unique(fleet.servers.host[fixed], return_index=True)
    server_of = dict(zip(hosts.tolist(), fixed[first].tolist(), strict=True))
    for host in np.flatnonzero(fleet.held & fleet.sources).tolist():
        if fleet.strangers[host]:
            found.append((plan.STRANGER, host, None))
        else:
            server = server_of[host]
            found.append((fleet.reasons[fleet.servers.fixed[server]], host, server))
    return found


def drain(fleet, rows, most):
    """A Plan that moves the servers of these hosts (rows) away, with at most so many moves.

    Servers that have to stay do not keep the others. Hosts in use receive first, then empty ones.
    """
    room, obstacles = Room(fleet), plan.Obstacles(fleet)
    servers_of, is_spent = fleet.by_host(), False
    for host in rows:
        room.leave(host)
        if fleet.strangers[host]:
            obstacles.add(plan.STRANGER, host)
    wanted = [server for host in rows for server in servers_of(host).tolist()]
    volume = (
        fleet.demand[fleet.servers.kind[wanted]] * fleet.shares[fleet.servers.host[wanted]]
    ).sum(axis=1)
    for place in np.argsort(-volume, kind='stable').tolist():
        server = wanted[place]
        host = int(fleet.servers.host[server])
        rule = room.why_fixed(server)
        if rule is None and len(room.host_of) >= most:
            is_spent = True
            break
        target = None if rule else room.tightest(server, room.fits(server), (fleet.in_use,))
        if target is None:
            obstacles.add(rule or room.why_not(server), host, server)
        else:
            room.place(server, target)
    gone = plan.emptied(fleet, room.host_of)
    return plan.Plan(
        fleet,
        plan.ordered(fleet, room.host_of),
        gone,
        obstacles.sorted(),
        is_spent,
        before=len(wanted),
        after=len(wanted) - len(room.host_of),
    )
