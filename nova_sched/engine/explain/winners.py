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
"""The weights of the few hosts that a request chose, weigher by weigher, for its record."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

# What one weigher gave all rows that passed: the weigher, raw weights, none below its ``minval``,
# the bounds of its scale, and a multiplier for all rows or for each. A plain tuple: seven are made
# for each recorded decision.
Note = tuple[Any, np.ndarray, float, float, float | np.ndarray]


@dataclasses.dataclass(slots=True)
class WinnerWeights:
    """Weights of ``count`` hosts, copied from those of all hosts; its texts are made later.

    The other fields have an item for each weigher: ``raw`` the weights of the hosts, ``low``
    and ``span`` its scale, ``multipliers`` one for all hosts or an array. A single host that is
    left is not weighed: there are no weighers then.
    """

    count: int
    weighers: Sequence[Any]
    raw: Sequence[Sequence[float] | np.ndarray]
    low: Sequence[float]
    span: Sequence[float]
    multipliers: Sequence[float | np.ndarray]

    @classmethod
    def of_notes(cls, notes, places):
        """Of the rows at these places of the ``notes`` (see ``decide.weigh``)."""
        if not notes:
            return cls(len(places), (), (), (), (), ())
        weighers, raw, low, high, multipliers = zip(*notes, strict=True)
        return cls(
            len(places),
            weighers,
            # One by one: for few places in a fifth of the time of ``take``.
            [[some.item(place) for place in places] for some in raw],
            low,
            [upper - lower for lower, upper in zip(low, high, strict=True)],
            [_at(multiplier, places) for multiplier in multipliers],
        )

    def told(self):
        """A mapping for each host: ``weight`` is the sum, ``weights`` has a mapping for each
        weigher."""
        shape = len(self.weighers), self.count
        raw, multipliers = np.empty(shape), np.empty(shape)
        for line, (some, multiplier) in enumerate(zip(self.raw, self.multipliers, strict=True)):
            raw[line], multipliers[line] = some, multiplier
        low, span = np.array([self.low, self.span], dtype=float)[:, :, None]
        names = [weigher.name for weigher in self.weighers]
        # By the steps of ``decide.weigh``, and in its order.
        sums = np.zeros(self.count)
        with np.errstate(divide='ignore', invalid='ignore'):
            normalised = np.where(span == 0, 0.0, (raw - low) / span)
            weights = normalised * multipliers
        for line in weights:
            sums += line
        facts = [_figures(one.T) for one in (raw, normalised, multipliers, weights)]
        return [
            {
                'weight': total,
                'weights': [
                    {
                        'weigher': name,
                        'raw': of_raw,
                        'normalised': scaled,
                        'multiplier': multiplier,
                        'weight': weight,
                    }
                    for name, of_raw, scaled, multiplier, weight in zip(
                        names, *of_host, strict=True
                    )
                ],
            }
            for total, *of_host in zip(_figures(sums), *facts, strict=True)
        ]


def _at(multiplier, places):
    return multiplier.take(places) if isinstance(multiplier, np.ndarray) else multiplier


def _figures(array):
    """The numbers as lists that are valid JSON: None for one that is not finite."""
    array = array + 0.0  # no minus before a zero
    is_finite = np.isfinite(array)
    if not is_finite.all():
        array = array.astype(object)
        array[~is_finite] = None
    return array.tolist()
