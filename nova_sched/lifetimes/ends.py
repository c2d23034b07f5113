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
"""Counts of ends, and of servers at risk, by kind and step of age."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from nova_sched.lifetimes.ages import STARTS_S, STEPS, WIDTHS_S, step_of
from nova_sched.lifetimes.life import ANY, Kind

MOST_KINDS = 512  # of more, the rarest are counted with their flavor
HALF_LIFE_S = 14 * 86400.0  # a server that reached an age so long ago counts half there
DIGITS = 4  # that are kept in the text

Counts = np.ndarray  # float64, of shape (2, STEPS): servers that ended in a step, and at risk


class Ends:
    """Counts by Kind, as of a time (seconds since the epoch): older ones fade.

    A server is at risk in each step that it reached, and ended in the last of these. Both count
    what the server counted when it reached the step, so that no more end than are at risk.
    """

    def __init__(self, counts: Mapping[Kind, Counts] | None = None, as_of_s: float = 0.0):
        self.counts: dict[Kind, Counts] = dict(counts or {})
        self.as_of_s = as_of_s
        self._limit()

    def __bool__(self) -> bool:
        return bool(self.counts)

    @property
    def total(self) -> float:
        """What all servers count that have ended."""
        return float(sum(ended.sum() for ended, _ in self.counts.values()))

    def add(self, kind: Kind, age_s: float, now_s: float) -> None:
        """Count a server that ended now."""
        self._fade(now_s)
        step = int(step_of(age_s))
        reached = kind.weight * _faded(max(age_s, 0.0) - STARTS_S[: step + 1])
        ended, at_risk = self.counts.setdefault(kind, np.zeros((2, STEPS)))
        at_risk[: step + 1] += reached
        if step < STEPS:
            ended[step] += reached[-1]
        self._limit()

    def merge(self, other: 'Ends') -> None:
        """Add other counts."""
        self._fade(other.as_of_s)
        share = _faded(self.as_of_s - other.as_of_s)
        for kind, counts in other.counts.items():
            self.counts[kind] = self.counts.get(kind, 0.0) + share * counts
        self._limit()

    def with_running(self, kinds: Sequence[Kind], ages_s: Iterable[float], now_s: float) -> 'Ends':
        """Returns a copy with running servers, one for each of ``kinds`` and ages, at risk up to
        their age. Of the step in which it is, a server counts the part that has passed."""
        found = Ends({kind: counts.copy() for kind, counts in self.counts.items()}, self.as_of_s)
        found._fade(now_s)
        numbers = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
        line = np.array([numbers[kind] for kind in kinds], dtype=np.intp)
        ages = np.maximum(np.fromiter(ages_s, float, len(line)), 0.0)
        at_risk = _at_risk(line, ages, len(numbers))
        for kind, of_kind in zip(numbers, at_risk, strict=True):
            counts = np.stack([np.zeros(STEPS), kind.weight * of_kind])
            found.counts[kind] = found.counts.get(kind, 0.0) + counts
        found._limit()
        return found

    def _fade(self, now_s: float) -> None:
        """Let all counts fade until now. A clock that was set back changes nothing."""
        if now_s > self.as_of_s:
            share = _faded(now_s - self.as_of_s)
            self.counts = {kind: share * counts for kind, counts in self.counts.items()}
            self.as_of_s = now_s

    def _limit(self) -> None:
        for parent in (lambda kind: kind.of_flavor), (lambda kind: ANY):
            if len(self.counts) > MOST_KINDS:
                often = sorted(self.counts.items(), key=lambda item: -item[1][1, 0])
                self.counts = dict(often[: MOST_KINDS // 2])
                for kind, counts in often[MOST_KINDS // 2 :]:
                    self.counts[parent(kind)] = self.counts.get(parent(kind), 0.0) + counts

    def to_json(self) -> str:
        kinds = [
            [*kind, *([float(f'{one:.{DIGITS}g}') for one in line] for line in counts)]
            for kind, counts in self.counts.items()
        ]
        return json.dumps({'steps': STEPS, 'as_of_s': self.as_of_s, 'kinds': kinds})

    @classmethod
    def from_json(cls, text: str) -> 'Ends':
        """Reads the text that ``to_json`` wrote. Raises ValueError, TypeError, KeyError."""
        plain, counts = json.loads(text), {}
        if plain['steps'] != STEPS:
            raise ValueError(f'{plain["steps"]!r} steps of age are not {STEPS}')
        for project, flavor, together, *lines in plain['kinds']:
            found = np.array(lines, dtype=float)
            if found.shape != (2, STEPS) or not (np.isfinite(found) & (found >= 0)).all():
                raise ValueError(f'{lines!r} are not counts of servers')
            counts[Kind(project, flavor, together)] = found
        as_of_s = float(plain['as_of_s'])
        if not math.isfinite(as_of_s):
            raise ValueError(f'{as_of_s!r} is not a time')
        return cls(counts, as_of_s)


def _faded(elapsed_s):
    """What remains of a count after that time."""
    return np.exp2(-np.asarray(elapsed_s) / HALF_LIFE_S)


def _at_risk(line, ages_s, lines):
    """What running servers count at risk, of shape (lines, STEPS)."""
    step = step_of(ages_s)
    weight = _faded(ages_s)
    by_step = np.zeros((lines, STEPS + 1))
    np.add.at(by_step, (line, step), weight)
    # Those in a later step have passed all of this one.
    passed = by_step[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
    inside = step < STEPS
    line, step, ages_s, weight = (one[inside] for one in (line, step, ages_s, weight))
    part = (ages_s - STARTS_S[step]) / WIDTHS_S[step]
    np.add.at(passed, (line, step), weight * part)
    return passed / _faded(STARTS_S)
