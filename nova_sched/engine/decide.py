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
"""One decision: the rows that pass, their weights, the best of them, and those among which one of
several schedulers chooses."""

import dataclasses
import math
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nova_sched.weighers import bounded, scaled_by

MAX_REPEATS = 16  # up to this many are found faster by repeated argmax than by sorting
# A host of the own slice is taken unless more than this share of the hosts are better: a scheduler
# with more requests must not fill its slice while other slices stay empty.
MAX_BETTER_SHARE = 0.75
# What one weigher gave all rows that passed: the weigher, raw weights, none below its ``minval``,
# the bounds of its scale, and a multiplier for all rows or for each. A plain tuple: seven are made
# for each recorded decision.
Note = tuple[Any, np.ndarray, float, float, float | np.ndarray]


class Step(NamedTuple):
    """The name of one filter, and how many hosts it saw and left."""

    name: str
    seen: int
    left: int


@dataclasses.dataclass(slots=True)
class CandidateSet:
    """The hosts that the filters have left so far, and the steps that removed the other hosts.

    ``alive`` is a bool for each row, or None while no host has been removed.
    """

    size: int
    alive: np.ndarray | None = None
    left: int = 0
    steps: tuple[Step, ...] = ()

    def __post_init__(self):
        self.left = self.size

    def keep(self, name, verdict, rows=None):
        """Remove the rows that the verdict does not keep (True keeps all), and record the step.

        ``rows`` are those that the verdict is about, if it is not about all of them: the other
        ones are removed.
        """
        if rows is not None and verdict is not True:
            mask = np.zeros(self.size, dtype=bool)
            mask[rows[verdict]] = True
            verdict = mask
        seen = self.left
        if verdict is not True:
            self.alive = verdict if self.alive is None else self.alive & verdict
            self.left = int(np.count_nonzero(self.alive))
        self.steps += (Step(name, seen, self.left),)

    def rows(self):
        return np.arange(self.size) if self.alive is None else np.flatnonzero(self.alive)


def narrow(candidates, hosts, request):
    """Keep what the caller allows: a destination, hosts not to ignore, hosts to force. Leave out
    hosts that have yet to report whether they still have the instance."""
    if request.member_placement is not None:
        candidates.keep('top_group', request.member_placement.allowed)
    wanted = request.destination
    if wanted is not None:
        if wanted.host or wanted.node:
            names = [wanted.host] if wanted.host else hosts.rows_of_host
            candidates.keep(
                'requested_destination', hosts.named(names, [wanted.node] if wanted.node else None)
            )
        if wanted.cell_uuid and not wanted.allow_cross_cell_move:
            candidates.keep('requested_cell', hosts.in_cell(wanted.cell_uuid))
    if request.ignore_hosts:
        candidates.keep('ignore_hosts', ~hosts.named_loosely(request.ignore_hosts))
    if request.unheard_hosts:
        candidates.keep('unheard_hosts', ~hosts.named(request.unheard_hosts))
    if request.force_hosts:
        candidates.keep('force_hosts', hosts.named_loosely(request.force_hosts))
    if request.force_nodes:
        candidates.keep('force_nodes', hosts.named(hosts.rows_of_host, request.force_nodes))
    if request.allocation_requests:
        known = (node.uuid in request.allocation_requests for node in hosts.nodes)
        candidates.keep('allocation_candidates', np.fromiter(known, bool, len(hosts)))


def survivors(rules, hosts, request, index=0, before=None):
    """The candidate set after all filters. ``index`` is the position of the instance in its call.

    Later instances of a call start from ``before``, the candidate set of the previous instance,
    and skip the filters that run once. A rebuild check runs only the filters for rebuilds. Forced
    hosts are checked only by the filters that forcing does not skip.
    """
    candidates = CandidateSet(len(hosts))
    if index and before is not None:
        candidates.alive, candidates.left = before.alive, before.left
    else:
        narrow(candidates, hosts, request)
    for rule in chain(rules, request):
        if not candidates.left:
            break
        if rule.run_filter_for_index(index):
            ask(rule, candidates, hosts, request)
    return candidates


def chain(rules, request):
    """The filters to run, in order."""
    if request.is_rebuild:
        return [rule for rule in rules.filters if rule.RUN_ON_REBUILD]
    if request.forced:
        return rules.always + tuple(rule for rule in rules.filters if rule.KEPT_WHEN_FORCED)
    return rules.always + rules.filters


def ask(rule, candidates, hosts, request):
    """Apply one filter: by its mask, or on the remaining rows only if it has its own ``judge``."""
    if not rule.judges_rows:
        value = rule.depends_on(request)
        if value is None:
            candidates.keep(rule.name, rule.mask(hosts, request))
        else:
            candidates.keep(
                rule.name,
                hosts.cache.get((rule, value), lambda: _or_true(rule.mask(hosts, request))),
            )
    else:
        rows = candidates.rows()
        candidates.keep(rule.name, rule.judge(hosts, request, rows), rows)


def _or_true(verdict):
    """A mask, or True if it keeps all rows."""
    return verdict is True or bool(verdict.all()) or verdict


def weigh(weighers, hosts, rows, request, notes=None):
    """The sum of multiplier x normalised weight for each of the rows; zeros for a single row.

    ``notes``, if it is a list, gets a Note of each weigher.
    """
    total = np.zeros(len(rows))
    if len(rows) < 2:
        return total
    for weigher in weighers:
        multiplier = weigher.multiplier(hosts, rows)
        if isinstance(multiplier, float) and not multiplier:
            continue
        raw = weigher.raw(hosts, rows, request)
        if raw is not None:
            raw, low, high = bounded(raw, weigher.minval, weigher.maxval)
            if notes is not None:
                notes.append((weigher, raw, low, high, multiplier))
            scaled = scaled_by(raw, low, high)
            scaled *= multiplier
            total += scaled
    return total


def best(weights, count, shuffle=None):
    """Positions of the ``count`` highest weights, best first; equal ones keep their order.

    With ``shuffle`` (a random.Random), those that share the highest weight are shuffled.
    """
    count = min(count, len(weights))
    if shuffle is not None and count:
        is_top = weights == weights.max()
        top, others = np.flatnonzero(is_top).tolist(), np.flatnonzero(~is_top)
        shuffle.shuffle(top)
        return top[:count] + others[best(weights[others], max(0, count - len(top)))].tolist()
    left, positions = weights.copy(), list[int]()
    while count <= MAX_REPEATS and len(positions) < count:
        position = int(left.argmax())  # the first of equal ones
        if left[position] == -np.inf:
            break  # the remaining weights are -inf, as are those already taken
        positions.append(position)
        left[position] = -np.inf
    return (
        positions
        if len(positions) == count
        else np.argsort(-weights, kind='stable')[:count].tolist()
    )


# Several schedulers on one cloud: each prefers its own slice of the hosts, to avoid conflicts. A
# scheduler sees claims of other schedulers a little late, and would choose hosts that they have
# just claimed. Each host therefore belongs to one slice, by its UUID, and each scheduler takes the
# best host of its own slice. This host is about as good as the best of all, and no other scheduler
# prefers it. A single scheduler has all hosts.


def settings_for(settings, position_and_count, losses):
    """Settings for a request that has lost ``losses`` times already.

    ``position_and_count`` is the position of the scheduler, from 0, and the number of schedulers.
    After a loss, a request takes one of the best hosts at random, among more each time: the very
    best host would be lost again.
    """
    position, schedulers = position_and_count
    subset_size = max(settings.subset_size, 4**losses) if losses else settings.subset_size
    if (position, schedulers, subset_size) == (
        settings.position,
        settings.schedulers,
        settings.subset_size,
    ):
        return settings
    return dataclasses.replace(
        settings, position=position, schedulers=schedulers, subset_size=subset_size
    )


def own_slice(hosts, settings):
    """A bool for each row: whether it is in this scheduler's slice. None: all rows are."""
    if settings.schedulers < 2:
        return None
    schedulers = settings.schedulers
    # The slice of each row: the same for every scheduler, independent of the order of rows.
    slices = hosts.cache.get(
        ('slices', schedulers),
        lambda: np.array(
            [zlib.crc32(node.uuid.encode()) * schedulers >> 32 for node in hosts.nodes], np.int32
        ),
    )
    return slices == settings.position


def places_in_slice(weighers, hosts, rows, weights, request, settings, left):
    """Positions of the rows that this scheduler chooses among; None: all of them.

    ``rows`` are the best of ``left`` rows that pass: at least the best one of the own slice, if
    the slice has any, and all that are better. Only a better load is given up for the own slice.
    A host that is preferred for any other reason, such as members of the same soft-affinity
    group, is taken from any slice.
    """
    of_slice = own_slice(hosts, settings)
    if of_slice is None or left < 2:
        return None
    is_own = of_slice[rows]
    own, top = np.flatnonzero(is_own), int(weights.argmax())
    if not len(own) or is_own[top]:
        return own if len(own) else None
    best_own = int(own[weights[own].argmax()])
    if np.count_nonzero(weights > weights[best_own]) > MAX_BETTER_SHARE * left:
        return None
    pair = rows[[best_own, top]]
    for weigher in weighers:
        raw = None if weigher.load else weigher.raw(hosts, pair, request)
        if raw is not None and raw[0] != raw[1] and np.any(weigher.multiplier(hosts, pair)):
            return None  # they differ in more than load
    return own


@dataclasses.dataclass(slots=True)
class WinnerWeights:
    """The weights of the ``count`` hosts that a request chose, for its record; copied from those
    of all hosts. Its texts are made later.

    The other fields have an item for each weigher: ``raw`` the weights of the hosts, ``low``
    and ``span`` its scale, ``multipliers`` one for all hosts or an array. A single host that is
    left is not weighed: there are no weighers then.
    """

    count: int
    weighers: Sequence[Any]
    raw: Sequence[Sequence[float]] | np.ndarray
    low: Sequence[float] | np.ndarray
    span: Sequence[float] | np.ndarray
    multipliers: Sequence[float | np.ndarray] | np.ndarray

    @classmethod
    def of_notes(cls, notes, places):
        """Of the rows at these places of the ``notes`` (see ``weigh``)."""
        if not notes:
            return cls(len(places), (), (), (), (), ())
        weighers, raw, low, high, multipliers = zip(*notes, strict=True)
        return cls(
            len(places),
            weighers,
            # One by one: for few places in a fifth of the time of ``take``.
            [[weights.item(place) for place in places] for weights in raw],
            low,
            [upper - lower for lower, upper in zip(low, high, strict=True)],
            [
                multiplier.take(places) if isinstance(multiplier, np.ndarray) else multiplier
                for multiplier in multipliers
            ],
        )

    def told(self):
        """A mapping for each host: ``weight`` is the sum, ``weights`` has a mapping for each
        weigher."""
        by_host: list[dict[str, Any]] = [{'weight': 0.0, 'weights': []} for _ in range(self.count)]
        # By the steps of ``weigh``, and in its order. For so few hosts, plain Python takes
        # less time than NumPy.
        for weigher, raw, low, span, multiplier in zip(
            self.weighers,
            map(_plain, self.raw),
            _plain(self.low),
            _plain(self.span),
            self.multipliers,
            strict=True,
        ):
            each = _plain(multiplier)
            each = each if isinstance(each, list) else [each]
            each = each * self.count if len(each) == 1 else each
            for host, of_host, by in zip(by_host, raw, each, strict=True):
                normalised = (of_host - low) / span if span else 0.0
                weight = normalised * by
                host['weight'] += weight
                host['weights'].append(
                    {
                        'weigher': weigher.name,
                        'raw': _figure(of_host),
                        'normalised': _figure(normalised),
                        'multiplier': _figure(by),
                        'weight': _figure(weight),
                    }
                )
        for host in by_host:
            host['weight'] = _figure(host['weight'])
        return by_host


def _plain(numbers):
    """An array as Python's numbers: a list, or one number."""
    return numbers.tolist() if isinstance(numbers, np.ndarray | np.generic) else numbers


def _figure(number):
    """The number as valid JSON: None for one that is not finite."""
    return number + 0.0 if math.isfinite(number) else None  # no minus before a zero
