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
"""Makes places for servers of one size: the goal `fit`."""

import heapq

import numpy as np

from nova_sched.rebalance import plan
from nova_sched.rebalance.emptying import empty
from nova_sched.rebalance.room import Room

MOST_TOGETHER = 12  # servers that leave a host for one more place there


def fit(fleet, wanted, allowed, most):
    """The Plan that makes more places of two: hosts that lose a few servers, and emptied hosts.

    ``wanted`` (int64 [column]) is what the size takes, ``allowed`` (bool [host]) where the rules
    let it go.
    """
    found = [_by_few(fleet, wanted, allowed, most), empty(fleet, most)]
    before = places(fleet.free, wanted, allowed)
    for one in found:
        one.before = int(before.sum())
        one.after = places_after(fleet, one.moves, wanted, allowed)
    return max(found, key=lambda one: (one.after, -len(one.moves), len(one.emptied)))


def places(free, wanted, allowed):
    """How many of the size fit on each host (int64), by free amounts."""
    asked = np.flatnonzero(wanted)
    if not len(asked):
        return np.zeros(len(free), dtype=np.int64)
    most = (np.maximum(free[:, asked], 0) // wanted[asked]).min(axis=1)
    return np.where(allowed, most, 0)


def places_after(fleet, moves, wanted, allowed):
    """How many of the size fit in all when the moves are made and confirmed."""
    free = fleet.free.copy()
    for server, host in moves:
        demand = fleet.demand[fleet.servers.kind[server]]
        free[host] -= demand
        free[fleet.servers.host[server]] += demand
    return int(places(free, wanted, allowed).sum())


def _by_few(fleet, wanted, allowed, most):
    """The hosts that lack the fewest servers less for one more place first, of equal ones those
    whose servers are smaller."""
    room, obstacles, servers_of = Room(fleet), plan.Obstacles(fleet), fleet.by_host()
    freed = np.zeros_like(fleet.free)
    queue: list = []

    def look(host):
        """Queue the servers whose leaving makes one more place on a host."""
        found = _leaving(room, wanted, fleet.free[host] + freed[host], servers_of(host).tolist())
        if found is not None:
            volume = sum(float(fleet.shares[host] @ _demand(room, one)) for one in found)
            heapq.heappush(queue, (len(found), volume, host, found))

    for host in np.flatnonzero(allowed & fleet.sources).tolist():
        look(host)
    is_spent = False
    while queue:
        count, _, host, servers = heapq.heappop(queue)
        if room.gains[host]:
            continue
        if count > most - len(room.host_of):
            is_spent = True
            break
        was_source = bool(room.leaving[host])
        room.leave(host)
        if _leave(room, servers, host, wanted, allowed, obstacles):
            freed[host] += sum(_demand(room, one) for one in servers)
            look(host)
        elif not was_source:
            room.stay(host)
    moves = plan.ordered(fleet, room.host_of)
    gone = plan.emptied(fleet, room.host_of)
    return plan.Plan(fleet, moves, gone, obstacles.sorted(), is_spent)


def _demand(room, server):
    return room.fleet.demand[room.kind(server)]


def _leaving(room, wanted, free, servers):
    """The fewest servers found whose leaving makes one more place; None: there are none."""
    asked = np.flatnonzero(wanted)
    if not len(asked):
        return None
    missing = ((np.maximum(free[asked], 0) // wanted[asked]).min() + 1) * wanted[asked] - free[
        asked
    ]
    missing = np.maximum(missing, 0)
    left = [one for one in servers if one not in room.host_of and room.why_fixed(one) is None]
    if not left:
        return None
    given = room.fleet.demand[room.fleet.servers.kind[left]][:, asked]
    chosen: list[int] = []
    while missing.any():
        if len(chosen) == min(MOST_TOGETHER, len(left)):
            return None
        helps = (np.minimum(given, missing) / np.maximum(wanted[asked], 1)).sum(axis=1)
        helps[chosen] = -1.0
        # Of those that help equally, the smallest one.
        best = np.lexsort((given.sum(axis=1), -helps))[0]
        if helps[best] <= 0:
            return None
        chosen.append(int(best))
        missing = np.maximum(missing - given[best], 0)
    return [left[place] for place in chosen]


def _leave(room, servers, host, wanted, allowed, obstacles):
    """Whether all these servers find a host that loses no place. Otherwise the room is as
    before."""
    done: list[int] = []
    for server in servers:
        fits = room.fits(server)
        rows = np.flatnonzero(fits)
        free, open_ = room.free[rows], allowed[rows]
        after = places(free - _demand(room, server), wanted, open_)
        keeps = np.zeros_like(fits)
        keeps[rows[after == places(free, wanted, open_)]] = True
        target = room.tightest(server, keeps)
        if target is not None:
            room.place(server, target)
            done.append(server)
            continue
        rule = plan.PLACE_LOST if fits.any() else room.why_not(server)
        obstacles.add(rule, host, server)
        for other in done:
            room.undo(other)
        return False
    return True
