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
"""Kept verdicts and weights for each kind of request: a decision judges only the rows that
changed.

Requests are of one kind if they have equal facts, as far as the enabled rules read them. The
answers are those of ``engine.decide``, to the bit: the same rules judge the same rows, and weights
are computed by the same steps. ``engine.decide`` remains for requests that no kind can serve.
"""

import collections
import contextlib
import dataclasses
import math
import operator

import numpy as np

from nova_sched.engine.decide import Step
from nova_sched.state.facts import EVERYTHING, HARDWARE, OWN_HOSTS, HostFacts, fact_of
from nova_sched.state.request import Request

BLOCK = 64  # rows that share bounds of their weights
FEWEST = 4000  # hosts for which kinds are made; a full pass over fewer takes no longer
FIRST_BLOCKS = 4  # blocks that are weighed at first
MEMORY = 256 * 2**20  # bytes that all kinds may take
WAITING = 1024  # kinds that were asked for once
ALL = ~HostFacts(0)
MAPPINGS = frozenset(['extra_specs', 'hints', 'image_properties', 'resources'])
FIELDS = frozenset(one.name for one in dataclasses.fields(Request))
MOST_FILTERS = 63  # a bit of an integer for each


class RequestKinds:
    """The kinds of request in use, for one set of rules and its options.

    ``memory`` is the number of bytes that kinds may take. The kind that was used last is dropped
    last. A kind is made when it is asked for the second time, and there are ``fewest`` hosts.
    """

    def __init__(self, rules, hosts, memory=MEMORY, fewest=FEWEST):
        self._hosts, self._memory, self.fewest = hosts, memory, fewest
        self._filters = rules.always + rules.filters
        self._weighers = rules.weighers
        self._kinds = collections.OrderedDict()
        self._asked = collections.OrderedDict()
        chain = (*self._filters, *self._weighers)
        self._can_keep = len(self._filters) <= MOST_FILTERS and all(
            rule.request_facts is not None for rule in chain
        )
        names = {name for rule in chain for name in rule.request_facts or ()}
        names -= {OWN_HOSTS, 'group', 'destination'}  # none of these requests has any
        self._key = _key_of(names)

    def __len__(self):
        return len(self._kinds)

    def find(self, request):
        """Returns the kind of a request, up to date with the hosts; None if no kind can serve
        it."""
        if len(self._hosts) < self.fewest or not self._can_keep or not self._is_plain(request):
            return None
        key = self._key(request)
        kind = self._kinds.get(key)
        if kind is None:
            return self._make(key, request) if self._is_asked_again(key) else None
        self._kinds.move_to_end(key)
        with contextlib.suppress(Exception):  # the full pass fails too, and tells the caller
            if not kind.catch_up():
                kind.judge_all()
            return kind
        del self._kinds[key]
        return None

    def _is_plain(self, request):
        """Whether no rule has to know more of a request than a kind has."""
        return (
            request.group is None
            and request.destination is None
            and request.member_placement is None
            and not (request.ignore_hosts or request.force_hosts or request.force_nodes)
            and not request.is_rebuild
            and request.instance_uuid not in self._hosts.places
        )

    def _is_asked_again(self, key):
        if self._asked.pop(key, False):
            return True
        self._asked[key] = True
        if len(self._asked) > WAITING:
            self._asked.popitem(last=False)
        return False

    def _make(self, key, request):
        """Returns a new kind; None if a rule cannot say what it reads for this request, or
        fails."""
        if any(rule.host_facts_for(request) == EVERYTHING for rule in self._filters):
            return None
        # Of the first request only what all requests of the kind share.
        request = dataclasses.replace(request, instance_uuid='', spec=None)
        kind = RequestKind(self._filters, self._weighers, self._hosts, request)
        with contextlib.suppress(Exception):  # as above
            kind.judge_all()
            self._kinds[key] = kind
            self._limit_memory()
            return kind
        return None

    def _limit_memory(self):
        taken = sum(kind.bytes for kind in self._kinds.values())
        while taken > self._memory and len(self._kinds) > 1:
            _, dropped = self._kinds.popitem(last=False)
            taken -= dropped.bytes


class RequestKind:
    """Verdicts and weights of all rows for one kind of request.

    ``left`` is the number of rows that pass. ``refused`` has a bit for each filter that refuses a
    row; a filter that judges single rows has none where an earlier filter refuses. Weights are
    kept raw, as numbers of shape (weighers, rows), and their lowest and highest by block, of the
    rows that pass.
    """

    def __init__(self, filters, weighers, hosts, request):
        self._filters, self._all_weighers = filters, weighers
        self._hosts, self._request = hosts, request
        self._facts = [rule.host_facts_for(request).value for rule in filters]
        self._readers = {}  # value of changed facts -> filters
        self._timed = [rule for rule in filters if rule.follows_time]
        self.left = 0

    @property
    def bytes(self):
        arrays = self._refused, self._stage, self._alive, self._raw, self._until_s, self._low
        return sum(array.nbytes for array in arrays) + self._high.nbytes

    # Verdicts.

    def judge_all(self):
        """Judge and weigh all rows. If a rule raises an error, the kind must not be used again."""
        hosts = self._hosts
        self._position, self._now_s = hosts.changed.end, hosts.now_s
        blocks = -(-len(hosts) // BLOCK)
        self._refused = np.zeros(len(hosts), dtype=np.uint64)
        self._alive = np.zeros(blocks * BLOCK, dtype=bool)
        self._judge(hosts, slice(None), ALL.value)
        self._stage = _first_bit(self._refused, len(self._filters))
        self._alive[: len(hosts)] = self._refused == 0
        self._counts = np.bincount(self._stage, minlength=len(self._filters) + 1).tolist()
        self._until_s = np.full(len(hosts) if self._timed else 0, math.inf)
        for rule in self._timed:
            np.minimum(self._until_s, rule.until_s(hosts), out=self._until_s)
        self._due_s = float(self._until_s.min(initial=math.inf))
        self._show_counts()
        self._weigh_all(blocks)

    def _judge(self, hosts, rows, changed):
        """Set what the filters say of the rows; ``hosts`` is a view of these rows only, and
        ``changed`` the value of the facts that may have changed."""
        refused = self._refused[rows].copy()
        for rule, bit, earlier in self._reading(changed):
            if rule.judges_rows:
                places = np.flatnonzero((refused & earlier) == 0)
                verdict = rule.judge(hosts, self._request, places) if len(places) else True
                refused &= ~bit
                if verdict is not True:
                    refused[places[~verdict]] |= bit
            else:
                verdict = self._mask(rule, hosts)
                refused &= ~bit
                if verdict is not True:
                    refused[~verdict] |= bit
        self._refused[rows] = refused

    def _reading(self, changed):
        """The filters that read changed facts, with their bits and those of the filters before.

        Filters that judge single rows are always among them: a row may pass the earlier filters
        for the first time.
        """
        if changed not in self._readers:
            self._readers[changed] = [
                (rule, np.uint64(1 << number), np.uint64((1 << number) - 1))
                for number, rule in enumerate(self._filters)
                if rule.judges_rows or self._facts[number] & changed
            ]
        return self._readers[changed]

    def _mask(self, rule, hosts):
        value = rule.depends_on(self._request) if hosts is self._hosts else None
        if value is None:
            return rule.mask(hosts, self._request)
        return hosts.cache.get((rule, value), lambda: rule.mask(hosts, self._request))

    def catch_up(self):
        """Judge and weigh again what has changed. Returns False if that is not possible.

        If a rule raises an error, the kind must not be used again.
        """
        hosts = self._hosts
        found = hosts.changed.since(self._position)
        if found is None or hosts.now_s < self._now_s:
            return False
        rows, changed = found
        self._position, self._now_s = hosts.changed.end, hosts.now_s
        if self._now_s >= self._due_s:
            rows.update(np.flatnonzero(self._until_s <= self._now_s).tolist())
            changed |= HostFacts.REPORTED.value
        if not rows:
            return True
        if len(rows) > BLOCK + len(hosts) // 4:
            return False
        return self._judge_again(np.array(sorted(rows)), changed)

    def _judge_again(self, rows, changed):
        view = self._hosts.what_if(rows)
        self._judge(view, rows, changed)
        refused = self._refused[rows]
        alive = refused == 0
        stages = _first_bit(refused, len(self._filters))
        if (moved := stages != (before := self._stage[rows])).any():
            for old, new in zip(before[moved].tolist(), stages[moved].tolist(), strict=True):
                self._counts[old] -= 1
                self._counts[new] += 1
            self._stage[rows] = stages
            self._alive[rows] = alive
            self._show_counts()
        if self._timed and changed & HostFacts.REPORTED.value:
            until_s = np.full(len(rows), math.inf)
            for rule in self._timed:
                np.minimum(until_s, rule.until_s(view), out=until_s)
            self._until_s[rows] = until_s
            self._due_s = float(self._until_s.min())
        self._weigh_again(rows, rows[alive])
        return True

    def _show_counts(self):
        """The steps of a decision, from the number of rows that each filter is the first to
        refuse."""
        self.left, steps, seen = self._counts[-1], [], len(self._hosts)
        for rule, gone in zip(self._filters, self._counts[:-1], strict=True):
            if not seen:
                break
            steps.append(Step(rule.name, seen, seen - gone))
            seen -= gone
        self.steps = tuple(steps)
        self.state = KindState(self, tuple(self._counts))

    def steps_after(self, before):
        """The steps of a further instance of a request, after the ``before`` KindState of the
        previous one: only the filters that run for each instance."""
        steps, seen = [], before.counts[-1]
        for number, rule in enumerate(self._filters):
            if not seen:
                break
            if not rule.run_filter_once_per_request:
                gone = self._counts[number] - before.counts[number]
                steps.append(Step(rule.name, seen, seen - gone))
                seen -= gone
        return tuple(steps)

    # Weights.

    def _weigh_all(self, blocks):
        hosts, rows = self._hosts, np.flatnonzero(self._alive)
        self._weighers, columns, multipliers = [], [], []
        for weigher in self._all_weighers:
            multiplier = weigher.multiplier(hosts, slice(None))
            if isinstance(multiplier, float) and not multiplier:
                continue
            raw = weigher.raw(hosts, rows, self._request)
            if raw is not None:
                self._weighers.append(weigher)
                columns.append(raw)
                multipliers.append(multiplier)
        self._least = _column(one.minval for one in self._weighers)
        self._most = _column(one.maxval for one in self._weighers)
        self._raw = np.zeros((len(columns), blocks * BLOCK))
        if columns:
            self._raw[:, rows] = np.fmax(np.array(columns, dtype=float), self._least)
        self._low, self._high = np.zeros((2, len(columns), blocks))
        # The highest weight of each block, if it is exact, for this scale; else a bound of it.
        self._limit, self._is_exact = np.zeros(blocks), np.zeros(blocks, dtype=bool)
        self._scaled_by = None
        self._varied = None
        if all(isinstance(one, float) for one in multipliers):
            self._multipliers = np.array(multipliers).reshape(-1, 1)
        else:
            self._multipliers = np.ones((len(columns), blocks * BLOCK))
            for line, multiplier in enumerate(multipliers):
                self._multipliers[line, : len(hosts)] = multiplier
            by_block = self._multipliers.reshape(len(columns), blocks, BLOCK)
            self._varied = by_block.min(axis=2), by_block.max(axis=2)
        self._show_blocks(slice(None))

    def _weigh_again(self, rows, alive):
        if len(alive) and self._weighers:
            raw = [one.raw(self._hosts, alive, self._request) for one in self._weighers]
            self._raw[:, alive] = np.fmax(np.array(raw, dtype=float), self._least)
        self._show_blocks(np.unique(rows // BLOCK))

    def _show_blocks(self, blocks):
        """Set the lowest and highest raw weights of the blocks, of the rows that pass."""
        alive = self._alive.reshape(-1, BLOCK)[blocks]
        raw = self._raw.reshape(len(self._raw), len(self._alive) // BLOCK, BLOCK)[:, blocks]
        self._low[:, blocks] = np.where(alive, raw, np.inf).min(axis=2)
        self._high[:, blocks] = np.where(alive, raw, -np.inf).max(axis=2)
        self._is_exact[blocks] = False

    @np.errstate(divide='ignore', invalid='ignore')
    def top(self, count, eligible=None, all_equal=False):
        """Returns (rows, weights) that contain the ``count`` best eligible rows, and every row
        that is better than the last of these.

        Rows are ascending, and more than these may be there. ``eligible`` is a bool for each row;
        None: all. ``all_equal``: every row as good as the last of them is there too; else, of
        equal rows, those of the lowest numbers. Fewer eligible rows: all rows that pass.
        """
        scale = self._scale()
        rest = self._limits(scale).copy()
        rows, weights = np.zeros(0, dtype=np.intp), np.zeros(0)
        more = FIRST_BLOCKS
        while (blocks := _highest(rest, more)).size:
            some = self._rows_of(blocks)
            of_some = self._sum(self._scaled(self._raw, scale, some), scale)
            self._limit[blocks] = _of_blocks(some, of_some, blocks)
            self._is_exact[blocks] = True
            rest[blocks] = -np.inf
            rows, weights = np.concatenate([rows, some]), np.concatenate([weights, of_some])
            if self._suffices(rows, weights, rest, count, eligible, all_equal):
                break
            more = len(rest) if 8 * more > len(rest) else 4 * more
        order = np.argsort(rows)
        return rows[order], weights[order]

    def _limits(self, scale):
        """What no weight of a block exceeds: its best weight, if that is known for this scale."""
        if self._scaled_by is None or not np.array_equal(scale, self._scaled_by):
            self._scaled_by = scale
            self._is_exact[:] = False
        unknown = np.flatnonzero(~self._is_exact)
        if len(unknown):
            reach = self._reach(scale, unknown)
            reach[~self._alive.reshape(-1, BLOCK)[unknown].any(axis=1)] = -np.inf
            self._limit[unknown] = reach
        return self._limit

    def _rows_of(self, blocks):
        rows = (blocks[:, None] * BLOCK + np.arange(BLOCK)).ravel()
        return rows[self._alive[rows]]

    @staticmethod
    def _suffices(rows, weights, rest, count, eligible, all_equal):
        """Whether no row of the other blocks belongs to the ``count`` best eligible ones."""
        following = int(rest.argmax())
        if eligible is not None:
            some = eligible[rows]
            rows, weights = rows[some], weights[some]
        if len(rows) < count:
            return False
        last = np.partition(weights, -count)[-count]
        if last != rest[following] or all_equal:
            return bool(last > rest[following])
        equal = np.sort(rows[weights == last])
        taken = count - np.count_nonzero(weights > last)
        return bool(equal[taken - 1] < following * BLOCK)

    def _scale(self):
        """The lowest weight, and the span to the highest, of each weigher, as columns."""
        low = self._low.min(axis=1, keepdims=True)
        high = self._high.max(axis=1, keepdims=True)
        low = np.where(np.isnan(self._least), low, self._least)
        high = np.where(np.isnan(self._most), high, self._most)
        return low, high - low

    def _reach(self, scale, blocks):
        """The sum of the highest weights that the blocks have by each weigher."""
        low, span = scale
        lowest, highest = self._low[:, blocks], self._high[:, blocks]
        if self._varied is None:
            best = np.where(self._multipliers > 0, highest, lowest)
            return self._sum((best - low) / span * self._multipliers, scale)
        corners = [
            (raw - low) / span * multiplier[:, blocks]
            for raw in (lowest, highest)
            for multiplier in self._varied
        ]
        return self._sum(np.maximum.reduce(corners), scale)

    def _scaled(self, raw, scale, rows):
        """Raw weights of rows between 0 and 1, times the multipliers."""
        low, span = scale
        multipliers = self._multipliers if self._varied is None else self._multipliers[:, rows]
        return (raw[:, rows] - low) / span * multipliers

    def _sum(self, scaled, scale):
        """The sums over the weighers, added in the order of ``decide.weigh``."""
        total = np.zeros(scaled.shape[1])
        if self.left > 1:
            for line in np.flatnonzero(scale[1]).tolist():
                total += scaled[line]
        return total


class KindState:
    """How many rows each filter had refused when an instance was placed: for the next instance of
    the same request."""

    __slots__ = ('counts', 'kind')

    def __init__(self, kind, counts):
        self.kind, self.counts = kind, counts


def _key_of(names):
    """Returns a function of a request: these facts of it, as a hashable value."""
    mappings = sorted(names & MAPPINGS)
    fields = sorted(name for name in names - MAPPINGS if name in FIELDS and name != HARDWARE)
    others = sorted(names.difference(mappings, fields))
    plain = operator.attrgetter('instance_uuid', *fields)

    def key(request):
        return (
            *plain(request)[1:],
            *[_items(getattr(request, name)) for name in mappings],
            *[fact_of(request, name) for name in others if name != HARDWARE or request.pieces],
        )

    return key


def _items(mapping):
    """A mapping as a hashable value. Equal ones in another order are of another kind."""
    if not mapping:
        return ()
    items = tuple(mapping.items())
    try:
        hash(items)
    except TypeError:
        return repr(items)  # values of a message may be lists
    return items


def _column(numbers):
    """A column of numbers, of which None is NaN."""
    found = [math.nan if number is None else number for number in numbers]
    return np.array(found, dtype=float)[:, None]


def _highest(limits, count):
    """The blocks of the ``count`` highest limits, those of -inf excepted, ascending; of equal
    ones the first."""
    if count > FIRST_BLOCKS:
        found = np.argsort(-limits, kind='stable')[:count]
        return np.sort(found[limits[found] > -np.inf])
    first, left = [], limits.copy()
    for _ in range(min(count, len(limits))):
        block = int(left.argmax())
        if left[block] == -np.inf:
            break
        first.append(block)
        left[block] = -np.inf
    return np.array(sorted(first), dtype=np.intp)


def _of_blocks(rows, weights, blocks):
    """The highest weight of each of these blocks; ``rows`` are all of theirs that pass."""
    starts = np.searchsorted(rows, blocks * BLOCK)
    return np.maximum.reduceat(weights, starts)


def _first_bit(bits, none):
    """The number of each integer's lowest bit; ``none`` where no bit is set."""
    lowest = bits & (~bits + np.uint64(1))
    with np.errstate(divide='ignore'):
        found = np.log2(lowest)
    return np.where(bits == 0, none, found).astype(np.int64)
