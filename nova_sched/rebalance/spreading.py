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
"""Evens out the use of hosts: the goal `spread`."""

import numpy as np

from nova_sched.rebalance import plan
from nova_sched.rebalance.room import Room

MARGIN = 1e-9  # shares that differ by less are equal


def spread(fleet, most):
    """A Plan that lowers the highest share of use: of each host the larger of its weighed
    columns'.

    Servers leave the fullest host for the host that is least full with them, as long as that is
    less full than the source was. A host that cannot be helped is left, and the next one follows.
    """
    room, obstacles, servers_of = Room(fleet), plan.Obstacles(fleet), fleet.by_host()
    shares = fleet.shares
    level = _levels(fleet, fleet.free)
    now, highest = level.copy(), float(level.max(initial=0.0))
    open_ = fleet.sources & (fleet.counts > 0)
    is_spent = False
    while open_.any():
        host = int(np.where(open_, now, -1.0).argmax())
        if room.gains[host] or now[host] <= now[fleet.destinations].mean() + MARGIN:
            open_[host] = False
            continue
        if len(room.host_of) >= most:
            is_spent = True
            break
        was_source = bool(room.leaving[host])
        room.leave(host)
        found = _best(room, servers_of(host).tolist(), host, now, shares, obstacles)
        if found is None:
            open_[host] = False
            if not was_source:
                room.stay(host)
            continue
        server, target = found
        room.place(server, target)
        now[target] = _level(fleet, room.free[target], shares[target], target)
        freed = sum(
            fleet.demand[fleet.servers.kind[one]]
            for one in servers_of(host).tolist()
            if one in room.host_of
        )
        now[host] = _level(fleet, fleet.free[host] + freed, shares[host], host)
    moves = plan.ordered(fleet, room.host_of)
    after = float(now.max(initial=0.0))
    gone = plan.emptied(fleet, room.host_of)
    return plan.Plan(fleet, moves, gone, obstacles.sorted(), is_spent, before=highest, after=after)


def _levels(fleet, free):
    return ((fleet.total - free) * fleet.shares).max(axis=1, initial=0.0)


def _level(fleet, free, shares, host):
    return float(((fleet.total[host] - free) * shares).max(initial=0.0))


def _best(room, servers, host, now, shares, obstacles):
    """The largest server whose leaving lowers the fullest host, and its destination; None without
    any."""
    fleet, tried, kept = room.fleet, set(), []
    sizes = (fleet.demand[fleet.servers.kind[servers]] * shares[host]).max(axis=1, initial=0.0)
    for at in np.argsort(-sizes, kind='stable').tolist():
        server = servers[at]
        if server in room.host_of:
            continue
        rule = room.why_fixed(server)
        if rule is not None:
            kept.append((rule, server))
            continue
        key = room.kind(server), *room.families_of(server)
        if key in tried:
            continue
        tried.add(key)
        rows = np.flatnonzero(room.fits(server))
        if not len(rows):
            kept.append((room.why_not(server), server))
            continue
        demand = fleet.demand[room.kind(server)]
        used = fleet.total[rows] - room.free[rows] + demand
        levels = (used * shares[rows]).max(axis=1, initial=0.0)
        place = int(levels.argmin())
        if levels[place] < now[host] - MARGIN and sizes[at] > 0:
            return server, int(rows[place])
        kept.append((plan.NOT_LOWER, server))
    for rule, server in kept:
        obstacles.add(rule, host, server)
    return None
