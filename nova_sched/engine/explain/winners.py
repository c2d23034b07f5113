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
import math
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
        told = [{'weight': 0.0, 'weights': []} for _ in range(self.count)]
        # By the steps of ``decide.weigh``, and in its order. For so few hosts, plain Python takes
        # less time than NumPy.
        for weigher, raw, low, span, multiplier in zip(
            self.weighers,
            map(_plain, self.raw),
            self.low,
            self.span,
            self.multipliers,
            strict=True,
        ):
            each = _plain(multiplier)
            each = each if isinstance(each, list) else [each]
            each = each * self.count if len(each) == 1 else each
            for host, of_host, by in zip(told, raw, each, strict=True):
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
        for host in told:
            host['weight'] = _figure(host['weight'])
        return told


def _at(multiplier, places):
    return multiplier.take(places) if isinstance(multiplier, np.ndarray) else multiplier


def _plain(some):
    """An array as Python's numbers: a list, or one number."""
    return some.tolist() if isinstance(some, np.ndarray | np.generic) else some


def _figure(number):
    """The number as valid JSON: None for one that is not finite."""
    return number + 0.0 if math.isfinite(number) else None  # no minus before a zero
