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
"""One decision: the rows that pass, their weights, and the best of them."""

import dataclasses
from typing import NamedTuple

import numpy as np

from nova_sched.weighers import bounded, scaled_by

MAX_REPEATS = 16  # up to this many are found faster by repeated argmax than by sorting


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

    def keep(self, name, verdict):
        """Remove the rows that the verdict does not keep (True keeps all), and record the step."""
        seen = self.left
        if verdict is not True:
            self.alive = verdict if self.alive is None else self.alive & verdict
            self.left = int(np.count_nonzero(self.alive))
        self.steps += (Step(name, seen, self.left),)

    def rows(self):
        return np.arange(self.size) if self.alive is None else np.flatnonzero(self.alive)

    def keep_rows(self, name, rows, verdict):
        """Remove the rows whose verdict is false, and all rows that are not in ``rows``."""
        if verdict is not True:
            mask = np.zeros(self.size, dtype=bool)
            mask[rows[verdict]] = True
            verdict = mask
        self.keep(name, verdict)


def narrow(candidates, hosts, request):
    """Keep what the caller allows: a destination, hosts not to ignore, hosts to force."""
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
        candidates.keep_rows(rule.name, rows, rule.judge(hosts, request, rows))


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
    left, found = weights.copy(), list[int]()
    while count <= MAX_REPEATS and len(found) < count:
        position = int(left.argmax())  # the first of equal ones
        if left[position] == -np.inf:
            break  # the remaining weights are -inf, as are those already taken
        found.append(position)
        left[position] = -np.inf
    return found if len(found) == count else np.argsort(-weights, kind='stable')[:count].tolist()
