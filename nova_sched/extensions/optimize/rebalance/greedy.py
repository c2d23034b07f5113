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
"""Greedy plans: the goals `empty` (as many hosts as the moves allow), `drain` (these hosts), `fit`
(places for servers of one size) and `spread` (the use of hosts is evened out)."""

import heapq

import numpy as np

from nova_sched.extensions.optimize.rebalance import plan
from nova_sched.extensions.optimize.rebalance.plan import Room
from nova_sched.extensions.optimize.rebalance.problem import MOVABLE
from nova_sched.groups.arrays.problem import slots

OF_FREE = 4.0  # how much a share of the free amounts counts beside a share of the moves
TINY = 1e-9
PROTECTED = 1.2  # hosts that hold this many times the allowed moves receive only as a last resort
MAX_LEAVING = 12  # servers that leave a host for one more place there
MARGIN = 1e-9  # shares that differ by less are equal


def empty(problem, most, bound=None):
    """A Plan that empties hosts with at most this many moves.

    Either all servers of a host move or none. No empty host is used. The hosts with the fewest
    servers come first, which is best as long as the moves are scarce, or those that use the least,
    which is best where room is, or those in between, or those that the linear program of the
    Bound empties; the plan that empties more is taken.
    """
    counts, held = np.sort(problem.counts[candidates(problem)]), _held(problem)
    limit = int(np.searchsorted(np.cumsum(counts), most, side='right'))
    if bound is not None:
        limit = min(limit, bound.most)
    plans = []
    for order in _orders(problem, most, bound):
        plans.append(_in_order(problem, order, most, held))
        if len(plans[-1].emptied) >= limit:
            break
    return max(plans, key=lambda candidate: (len(candidate.emptied), -len(candidate.moves)))


def candidates(problem):
    """Hosts (rows) that may be emptied."""
    return np.flatnonzero((problem.counts > 0) & ~problem.held & problem.sources)


def _orders(problem, most, bound):
    """Orders in which to try the candidates for a plan of so many moves."""
    rows = candidates(problem)
    counts, used = problem.counts[rows], ((problem.total - problem.free) * problem.shares)[rows]
    volume = used.sum(axis=1)
    yield rows[np.lexsort((volume, counts))]
    yield rows[np.lexsort((counts, volume))]
    for column in np.flatnonzero(problem.shares.any(axis=0)).tolist():
        yield rows[np.lexsort((counts, used[:, column]))]
    rows = cheapest(problem, rows, most)
    yield rows
    if bound is not None and bound.shares:
        shares = np.array([bound.shares.get(host, 0.0) for host in rows.tolist()])
        yield rows[np.argsort(shares == 0, kind='stable')]
        yield rows[np.lexsort((problem.counts[rows], -shares))]


def cheapest(problem, rows, most):
    """These hosts by what they take of the moves, and of what is free on hosts in use: both may be
    scarce."""
    used = ((problem.total - problem.free) * problem.shares)[rows]
    free = np.maximum(problem.free * problem.shares, 0)[problem.in_use].sum(axis=0)
    of_free = (used / np.maximum(free, TINY)).max(axis=1, initial=0.0)
    return rows[np.argsort(problem.counts[rows] / most + OF_FREE * of_free, kind='stable')]


def _in_order(problem, order, most, held):
    room, counts, servers_of = Room(problem), problem.counts, problem.by_host()
    protected = np.zeros(len(problem), dtype=bool)
    protected[order[: np.searchsorted(np.cumsum(counts[order]), PROTECTED * most)]] = True
    tiers = (~protected,)
    closed = Closed(problem)
    gone, is_spent, used = [], False, problem.in_use
    for host in order.tolist():
        if room.gains[host]:
            continue
        if counts[host] > most - len(room.host_of):
            is_spent = True
            break
        servers = servers_of(host)
        if _all_leave(room, servers, host, used, tiers, closed):
            gone.append(host)
    if not is_spent:
        for rule, host, server in held:
            room.keep(rule, host, server)
    before = int(np.count_nonzero(~used))
    return room.plan(is_spent, gone, before, before + len(gone))


def _all_leave(room, servers, host, used, tiers, closed):
    """Whether all servers of a host find another one in use. Otherwise the room is as before."""
    problem = room.problem
    kinds = problem.servers.kind[servers]
    kept = problem.stays[servers] | closed.kinds[kinds]
    if kept.any():
        server = int(servers[kept.argmax()])
        room.keep(room.why_fixed(server) or closed.rules[room.kind(server)], host, server)
        return False
    room.leave(host)
    volume = problem.demand[kinds] @ problem.shares[host]

    def choose(server, fits):
        return room.tightest(server, fits & used, tiers)

    ordered = servers[np.argsort(-volume, kind='stable')].tolist()
    stuck = _place_all(room, ordered, host, choose, plan.ONLY_EMPTY)
    if stuck is None:
        return True
    server, rule = stuck
    room.stay(host)
    # Destinations only fill up: a kind without any now has none later.
    if not (room.by_amounts(room.kind(server)) & used).any():
        closed.add(room.kind(server), rule)
    return False


def _place_all(room, servers, host, choose, rule):
    """Place these servers of a host, each where ``choose(server, fits)`` says. Returns None.

    If a server has no target, returns that server and why, with the room as before. ``rule`` is
    the reason for one that fits on some host.
    """
    done: list[int] = []
    for server in servers:
        fits = room.fits(server)
        target = choose(server, fits)
        if target is None:
            why = rule if fits.any() else room.why_not(server)
            room.keep(why, host, server)
            for other in done:
                room.undo(other)
            return server, why
        room.place(server, target)
        done.append(server)
    return None


class Closed:
    """Kinds that fit nowhere any more (``kinds``, bool), and by which rule."""

    def __init__(self, problem):
        self.kinds = np.zeros(len(problem.demand), dtype=bool)
        self.rules: dict[int, str] = {}

    def add(self, kind, rule):
        self.kinds[kind] = True
        self.rules[kind] = rule


def _held(problem):
    """Why hosts with a server that stays are not tried: (rule, host, server) of each."""
    held, fixed = [], np.flatnonzero(problem.servers.fixed != MOVABLE)
    hosts, first = np.unique(problem.servers.host[fixed], return_index=True)
    server_of = dict(zip(hosts.tolist(), fixed[first].tolist(), strict=True))
    for host in np.flatnonzero(problem.held & problem.sources).tolist():
        if problem.strangers[host]:
            held.append((plan.STRANGER, host, None))
        else:
            server = server_of[host]
            held.append((problem.reasons[problem.servers.fixed[server]], host, server))
    return held


def drain(problem, rows, most):
    """A Plan that moves the servers of these hosts (rows) away, with at most so many moves.

    Servers that have to stay do not keep the others. Hosts in use receive first, then empty ones.
    """
    room, servers_of, is_spent = Room(problem), problem.by_host(), False
    for host in rows:
        room.leave(host)
        if problem.strangers[host]:
            room.keep(plan.STRANGER, host)
    wanted = [server for host in rows for server in servers_of(host).tolist()]
    shares = problem.shares[problem.servers.host[wanted]]
    volume = (problem.demand_of(wanted) * shares).sum(axis=1)
    for place in np.argsort(-volume, kind='stable').tolist():
        server = wanted[place]
        host = int(problem.servers.host[server])
        rule = room.why_fixed(server)
        if rule is None and len(room.host_of) >= most:
            is_spent = True
            break
        target = None if rule else room.tightest(server, room.fits(server), (problem.in_use,))
        if target is None:
            room.keep(rule or room.why_not(server), host, server)
        else:
            room.place(server, target)
    return room.plan(is_spent, before=len(wanted), after=len(wanted) - len(room.host_of))


def fit(problem, wanted, allowed, most):
    """The Plan that makes more places of two: hosts that lose a few servers, and emptied hosts.

    ``wanted`` (int64 [column]) is what the size takes, ``allowed`` (bool [host]) where the rules
    let it go.
    """
    plans = [_by_few(problem, wanted, allowed, most), empty(problem, most)]
    before = places(problem.free, wanted, allowed)
    for candidate in plans:
        candidate.before = int(before.sum())
        candidate.after = places_after(problem, candidate.moves, wanted, allowed)
    return max(
        plans,
        key=lambda candidate: (candidate.after, -len(candidate.moves), len(candidate.emptied)),
    )


def places(free, wanted, allowed):
    """How many of the size fit on each host (int64), by free amounts."""
    if not wanted.any():
        return np.zeros(len(free), dtype=np.int64)
    return np.where(allowed, slots(wanted[None], free.T), 0)


def places_after(problem, moves, wanted, allowed):
    """How many of the size fit in all when the moves are made and confirmed."""
    free = problem.free.copy()
    for server, host in moves:
        demand = problem.demand_of(server)
        free[host] -= demand
        free[problem.servers.host[server]] += demand
    return int(places(free, wanted, allowed).sum())


def _by_few(problem, wanted, allowed, most):
    """The hosts that lack the fewest servers less for one more place first, of equal ones those
    whose servers are smaller."""
    room, servers_of = Room(problem), problem.by_host()
    freed = np.zeros_like(problem.free)
    queue: list = []

    def queue_leavers(host):
        """Queue the servers whose leaving makes one more place on a host."""
        leavers = _leaving(
            room, wanted, problem.free[host] + freed[host], servers_of(host).tolist()
        )
        if leavers is not None:
            volume = sum(
                float(problem.shares[host] @ demand) for demand in problem.demand_of(leavers)
            )
            heapq.heappush(queue, (len(leavers), volume, host, leavers))

    for host in np.flatnonzero(allowed & problem.sources).tolist():
        queue_leavers(host)
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
        if _leave(room, servers, host, wanted, allowed):
            freed[host] += problem.demand_of(servers).sum(axis=0)
            queue_leavers(host)
        elif not was_source:
            room.stay(host)
    return room.plan(is_spent)


def _leaving(room, wanted, free, servers):
    """The fewest servers found whose leaving makes one more place; None: there are none."""
    columns = np.flatnonzero(wanted)
    if not len(columns):
        return None
    missing = ((np.maximum(free[columns], 0) // wanted[columns]).min() + 1) * wanted[
        columns
    ] - free[columns]
    missing = np.maximum(missing, 0)
    left = [
        server
        for server in servers
        if server not in room.host_of and room.why_fixed(server) is None
    ]
    if not left:
        return None
    given = room.problem.demand_of(left)[:, columns]
    chosen: list[int] = []
    while missing.any():
        if len(chosen) == min(MAX_LEAVING, len(left)):
            return None
        helps = (np.minimum(given, missing) / np.maximum(wanted[columns], 1)).sum(axis=1)
        helps[chosen] = -1.0
        # Of those that help equally, the smallest one.
        best = np.lexsort((given.sum(axis=1), -helps))[0]
        if helps[best] <= 0:
            return None
        chosen.append(int(best))
        missing = np.maximum(missing - given[best], 0)
    return [left[place] for place in chosen]


def _leave(room, servers, host, wanted, allowed):
    """Whether all these servers find a host that loses no place. Otherwise the room is as
    before."""

    def choose(server, fits):
        rows = np.flatnonzero(fits)
        free, open_ = room.free[rows], allowed[rows]
        after = places(free - room.problem.demand_of(server), wanted, open_)
        keeps = np.zeros_like(fits)
        keeps[rows[after == places(free, wanted, open_)]] = True
        return room.tightest(server, keeps)

    return _place_all(room, servers, host, choose, plan.PLACE_LOST) is None


def spread(problem, most):
    """A Plan that lowers the highest share of use: of each host the larger of its weighed
    columns'.

    Servers leave the fullest host for the host that is least full with them, as long as that is
    less full than the source was. A host that cannot be helped is left, and the next one follows.
    """
    room, servers_of = Room(problem), problem.by_host()
    shares = problem.shares
    now = ((problem.total - problem.free) * shares).max(axis=1, initial=0.0)
    highest = float(now.max(initial=0.0))
    open_ = problem.sources & (problem.counts > 0)
    is_spent = False
    while open_.any():
        host = int(np.where(open_, now, -1.0).argmax())
        if room.gains[host] or now[host] <= now[problem.destinations].mean() + MARGIN:
            open_[host] = False
            continue
        if len(room.host_of) >= most:
            is_spent = True
            break
        was_source = bool(room.leaving[host])
        room.leave(host)
        move = _best(room, servers_of(host).tolist(), host, now, shares)
        if move is None:
            open_[host] = False
            if not was_source:
                room.stay(host)
            continue
        server, target = move
        room.place(server, target)
        now[target] = _level(problem, room.free[target], shares[target], target)
        gone = [moved for moved in servers_of(host).tolist() if moved in room.host_of]
        free = problem.free[host] + problem.demand_of(gone).sum(axis=0)
        now[host] = _level(problem, free, shares[host], host)
    return room.plan(is_spent, before=highest, after=float(now.max(initial=0.0)))


def _level(problem, free, shares, host):
    return float(((problem.total[host] - free) * shares).max(initial=0.0))


def _best(room, servers, host, now, shares):
    """The largest server whose leaving lowers the fullest host, and its destination; None without
    any."""
    problem, tried, kept = room.problem, set(), []
    sizes = (problem.demand_of(servers) * shares[host]).max(axis=1, initial=0.0)
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
        demand = problem.demand[room.kind(server)]
        used = problem.total[rows] - room.free[rows] + demand
        levels = (used * shares[rows]).max(axis=1, initial=0.0)
        place = int(levels.argmin())
        if levels[place] < now[host] - MARGIN and sizes[at] > 0:
            return server, int(rows[place])
        kept.append((plan.NOT_LOWER, server))
    for rule, server in kept:
        room.keep(rule, host, server)
    return None
