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
from typing import NamedTuple

import numpy as np

from nova_sched.engine.block_weights import BLOCK, BlockWeights
from nova_sched.engine.decide import Step
from nova_sched.state.facts import EVERYTHING, HARDWARE, OWN_HOSTS, HostFacts, fact_of
from nova_sched.state.request import Request
from nova_sched.state.vocab import Unfinished

MIN_HOSTS = 4000  # hosts for which kinds are made; a full pass over fewer takes no longer
MAX_MEMORY = 256 * 2**20  # bytes that all kinds may take
MAX_WAITING = 1024  # kinds that were asked for once
ALL = ~HostFacts(0)
MAPPINGS = frozenset(['extra_specs', 'hints', 'image_properties', 'resources'])
FIELDS = frozenset(field.name for field in dataclasses.fields(Request))
MAX_FILTERS = 63  # a bit of an integer for each
ENDS = Exception, Unfinished  # of a judgement that a kind must not keep
MAX_SINGLE_ROWS = 8  # up to this many are faster one by one


class RequestKinds:
    """The kinds of request in use, for one set of rules and its options.

    ``memory`` is the number of bytes that kinds may take. The kind that was used last is dropped
    last. A kind is made when a second instance asks for it, and there are ``fewest`` hosts.
    """

    def __init__(self, rules, hosts, memory=MAX_MEMORY, fewest=MIN_HOSTS):
        self._hosts, self._memory, self.fewest = hosts, memory, fewest
        self._filters = rules.always + rules.filters
        self._weighers = rules.weighers
        self._kinds = collections.OrderedDict()
        self._asked = collections.OrderedDict()
        chain = (*self._filters, *self._weighers)
        self._can_keep = len(self._filters) <= MAX_FILTERS and all(
            rule.request_facts is not None for rule in chain
        )
        kept = (*self._filters, *(rule for rule in self._weighers if not rule.per_request))
        names = {name for rule in kept for name in rule.request_facts or ()}
        names -= {OWN_HOSTS, 'group', 'destination'}  # none of these requests has any
        self._key = _key_of(names)

    def __len__(self):
        return len(self._kinds)

    def find(self, request):
        """Return the kind of a request, up to date with the hosts; None if no kind can serve
        it."""
        if len(self._hosts) < self.fewest or not self._can_keep or not self._is_plain(request):
            return None
        key = self._key(request)
        kind = self._kinds.get(key)
        if kind is None:
            is_new = self._is_first(key, request.instance_uuid)
            return None if is_new else self._make(key, request)
        self._kinds.move_to_end(key)
        undecided = self._hosts.undecided
        with contextlib.suppress(*ENDS):  # the full pass ends so too, and tells the caller
            if not kind.catch_up():
                kind.judge_all()
            kind.weights.follow(request)
            if self._hosts.undecided == undecided:
                return kind
        del self._kinds[key]
        return None

    def _is_plain(self, request):
        """Whether no rule has to know more of a request than a kind has."""
        return (
            request.group is None
            and request.destination is None
            and request.member_placement is None
            and not request.allocation_requests
            and not (request.ignore_hosts or request.force_hosts or request.force_nodes)
            and not request.is_rebuild
            and request.instance_uuid not in self._hosts.places
        )

    def _is_first(self, key, instance):
        """Whether no other instance asked for the kind before. The request of one instance may be
        decided several times."""
        before = self._asked.pop(key, instance)
        if before != instance:
            return False
        self._asked[key] = instance
        if len(self._asked) > MAX_WAITING:
            self._asked.popitem(last=False)
        return True

    def _make(self, key, request):
        """Return a new kind; None if a rule cannot say what it reads for this request, or
        fails."""
        if any(rule.host_facts_for(request) == EVERYTHING for rule in self._filters):
            return None
        # Of the first request only what all requests of the kind share.
        request = dataclasses.replace(request, instance_uuid='', spec=None)
        kind = RequestKind(self._filters, self._weighers, self._hosts, request)
        undecided = self._hosts.undecided
        with contextlib.suppress(*ENDS):  # as above
            kind.judge_all()
            if self._hosts.undecided == undecided:
                self._kinds[key] = kind
                taken = sum(kind.bytes for kind in self._kinds.values())
                while taken > self._memory and len(self._kinds) > 1:
                    _, dropped = self._kinds.popitem(last=False)
                    taken -= dropped.bytes
                return kind
        return None


class RequestKind:
    """Verdicts and weights of all rows for one kind of request.

    ``left`` is the number of rows that pass, ``steps`` what each filter leaves, ``weights`` the
    BlockWeights of the rows that pass. ``_refused`` has a bit for each filter that refuses a row;
    a filter that judges single rows has none where an earlier filter refuses.
    """

    def __init__(self, filters, weighers, hosts, request):
        self._filters, self._weighers = filters, weighers
        self._hosts, self._request = hosts, request
        self._facts = [rule.host_facts_for(request).value for rule in filters]
        self._readers = {}  # value of changed facts -> filters
        self._timed = [rule for rule in filters if rule.follows_time]
        self.left = 0

    @property
    def bytes(self):
        arrays = self._refused, self._stage, self._until_s
        return self.weights.bytes + sum(array.nbytes for array in arrays)

    def judge_all(self):
        """Judge and weigh all rows. If a rule raises an error, the kind must not be used again."""
        hosts = self._hosts
        self._position, self._now_s = hosts.changed.end, hosts.now_s
        self._versions = self._weigher_versions()
        self._refused = np.zeros(len(hosts), dtype=np.uint64)
        self._judge(hosts, slice(None), ALL.value)
        self._stage = _first_bit(self._refused, len(self._filters))
        self._counts = np.bincount(self._stage, minlength=len(self._filters) + 1).tolist()
        self._until_s = np.full(len(hosts) if self._timed else 0, math.inf)
        for rule in self._timed:
            np.minimum(self._until_s, rule.until_s(hosts), out=self._until_s)
        self._due_s = float(self._until_s.min(initial=math.inf))
        self._show_counts()
        self.weights = BlockWeights(self._weighers, hosts, self._request, self._refused == 0)

    def _judge(self, hosts, rows, changed):
        """Set the verdicts of the filters on the rows. ``hosts`` is a view of these rows only, and
        ``changed`` the value of the facts that may have changed."""
        reading, others = self._reading(changed)
        refused = self._refused[rows] & others
        for rule, bit, earlier in reading:
            if rule.judges_rows:
                places = np.flatnonzero((refused & earlier) == 0)
                verdict = rule.judge(hosts, self._request, places) if len(places) else True
                if verdict is not True:
                    refused[places[~verdict]] |= bit
            else:
                verdict = self._mask(rule, hosts)
                if verdict is not True:
                    np.bitwise_or(refused, bit, out=refused, where=~verdict)
        self._refused[rows] = refused

    def _reading(self, changed):
        """The filters that read changed facts, with their bits and those of the filters before;
        and the bits of the other filters.

        Filters that judge single rows are always among them: a row may pass the earlier filters
        for the first time.
        """
        if changed not in self._readers:
            numbers = [
                number
                for number, rule in enumerate(self._filters)
                if rule.judges_rows or self._facts[number] & changed
            ]
            self._readers[changed] = (
                [
                    (self._filters[number], np.uint64(1 << number), np.uint64((1 << number) - 1))
                    for number in numbers
                ],
                ~np.uint64(sum(1 << number for number in numbers)),
            )
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
        changes = hosts.changed.since(self._position)
        if changes is None or hosts.now_s < self._now_s:
            return False
        if self._versions != self._weigher_versions():
            return False
        rows, changed = changes
        self._position, self._now_s = hosts.changed.end, hosts.now_s
        if self._now_s >= self._due_s:
            rows.update(np.flatnonzero(self._until_s <= self._now_s).tolist())
            changed |= HostFacts.REPORTED.value
        if not rows:
            return True
        if len(rows) > BLOCK + len(hosts) // 4:
            return False
        rows = np.array(sorted(rows))
        view = hosts.view(rows)
        self._judge(view, rows, changed)
        refused = self._refused[rows]
        stages = _first_bit(refused, len(self._filters))
        if (moved := stages != (before := self._stage[rows])).any():
            for old, new in zip(before[moved].tolist(), stages[moved].tolist(), strict=True):
                self._counts[old] -= 1
                self._counts[new] += 1
            self._stage[rows] = stages
            self._show_counts()
        if self._timed and changed & HostFacts.REPORTED.value:
            until_s = np.full(len(rows), math.inf)
            for rule in self._timed:
                np.minimum(until_s, rule.until_s(view), out=until_s)
            self._until_s[rows] = until_s
            self._due_s = float(self._until_s.min())
        self.weights.weigh_again(rows, view, refused == 0)
        return True

    def _weigher_versions(self):
        return [weigher.version for weigher in self._weighers]

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
        self._counts_shown = tuple(self._counts)

    @property
    def state(self):
        # Not an attribute: in a cycle with its state, a dropped kind would wait for the garbage
        # collector.
        return KindState(self, self._counts_shown)

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


class KindState(NamedTuple):
    """How many rows each filter had refused when an instance was placed: for the next instance of
    the same request."""

    kind: RequestKind
    counts: tuple[int, ...]


def _key_of(names):
    """Return a function of a request: these facts of it, as a hashable value."""
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


def _first_bit(bits, none):
    """The number of each integer's lowest bit; ``none`` where no bit is set."""
    if len(bits) <= MAX_SINGLE_ROWS:
        return np.array(
            [(value & -value).bit_length() - 1 if value else none for value in bits.tolist()]
        )
    _, lengths = np.frexp(bits & (~bits + np.uint64(1)))  # 2 ** n is 0.5 * 2 ** (n + 1)
    return np.where(lengths == 0, none, lengths - 1)
