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
"""The mix: how often each size was requested lately."""

import json
from collections.abc import Iterable, Mapping

from nova_sched.packing.size import Size

MOST_SIZES = 512  # sizes that are remembered; the rarest are dropped
MOST_COUNTED = 20_000.0  # at this sum all counts are halved, so that old requests fade


class Mix:
    """Counts of requests by Size, bounded."""

    def __init__(self, counts: Mapping[Size, float] | None = None):
        self.counts: dict[Size, float] = dict(counts or {})
        self._limit()

    def __bool__(self) -> bool:
        return bool(self.counts)

    @property
    def total(self) -> float:
        return sum(self.counts.values())

    def add(self, sizes: Iterable[Size]) -> None:
        """Count a request of each of these sizes."""
        for size in sizes:
            self.counts[size] = self.counts.get(size, 0.0) + 1.0
        self._limit()

    def merge(self, other: 'Mix', share: float = 1.0) -> None:
        """Add the counts of another mix, times ``share``."""
        for size, count in other.counts.items():
            self.counts[size] = self.counts.get(size, 0.0) + share * count
        self._limit()

    def _limit(self) -> None:
        if self.total > MOST_COUNTED:
            self.counts = {size: count / 2 for size, count in self.counts.items()}
        if len(self.counts) > MOST_SIZES:
            often = sorted(self.counts.items(), key=lambda item: -item[1])
            self.counts = dict(often[:MOST_SIZES])

    def to_json(self) -> str:
        return json.dumps([[size.to_plain(), count] for size, count in self.counts.items()])

    @classmethod
    def from_json(cls, text: str) -> 'Mix':
        """Reads the text that ``to_json`` wrote. Raises ValueError, TypeError."""
        counts: dict[Size, float] = {}
        for plain, count in json.loads(text):
            if not 0 < float(count) < float('inf'):
                raise ValueError(f'{count!r} is not a count of requests')
            counts[Size.from_plain(plain)] = float(count)
        return cls(counts)
