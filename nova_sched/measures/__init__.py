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
"""Figures of a process for its monitoring: counters, gauges and histograms as plain values.

Any code may count here. Nothing here knows how the figures are shown: ``cmd.metrics_export`` sums
those of the processes of a daemon, and translates them for Prometheus.
"""

import bisect
import functools
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

COUNTER, GAUGE, HISTOGRAM = 'counter', 'gauge', 'histogram'
SUM, MAX, NEWEST = 'sum', 'max', 'newest'  # how the gauges of several processes become one
MAX_SERIES = 2000  # sets of label values of one measure; further ones count together
OTHER = 'other'  # their label value
SECONDS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025),
    *(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)

Labels = tuple[str, ...]


class Measure:
    """One measure: ``values`` has a value for each set of label values. The methods may be called
    from any thread.

    ``text`` says what it counts. ``merge`` is SUM; for a gauge also MAX, or NEWEST if each process
    of the daemon knows it as a whole.
    """

    kind = ''

    def __init__(self, name: str, text: str, labels: Labels = (), merge: str = SUM):
        self.name, self.text, self.labels, self.merge = name, text, labels, merge
        self.values: dict[Labels, Any] = {}
        self._lock = threading.Lock()

    def plain(self) -> list[tuple[Labels, Any]]:
        """The values, for a message to another process."""
        with self._lock:
            return list(self.values.items())

    def clear(self) -> None:
        with self._lock:
            self.values = {}

    def _known(self, labels: Labels) -> Labels:
        """Return these labels; OTHER for each, if there is no room for more."""
        if labels in self.values or len(self.values) < MAX_SERIES:
            return labels
        return (OTHER,) * len(labels)


class Counter(Measure):
    """A sum that only grows."""

    kind = COUNTER

    def add(self, *labels: str, by: float = 1) -> None:
        with self._lock:
            labels = self._known(labels)
            self.values[labels] = self.values.get(labels, 0) + by


class Gauge(Measure):
    """Values that rise and fall."""

    kind = GAUGE

    def set(self, value: float, *labels: str) -> None:
        with self._lock:
            self.values[self._known(labels)] = value

    def replace(self, values: Mapping[Labels, float]) -> None:
        """Set all values; those of other labels end. Of more than MAX_SERIES, only the first are
        kept."""
        with self._lock:
            self.values = dict(list(values.items())[:MAX_SERIES])


class Histogram(Measure):
    """How many observations were at most each of the ``bounds`` (and above the last), and their
    sum: a list for each set of labels."""

    kind = HISTOGRAM

    def __init__(
        self, name: str, text: str, labels: Labels = (), bounds: tuple[float, ...] = SECONDS
    ):
        super().__init__(name, text, labels)
        self.bounds = bounds

    def observe(self, value: float, *labels: str) -> None:
        with self._lock:
            counts = self.values.get(labels)
            if counts is None:
                counts = self.values.setdefault(
                    self._known(labels), [0] * (len(self.bounds) + 1) + [0.0]
                )
            counts[bisect.bisect_left(self.bounds, value)] += 1
            counts[-1] += value

    def plain(self) -> list[tuple[Labels, Any]]:
        with self._lock:
            return [(labels, list(value)) for labels, value in self.values.items()]


class Measures:
    """All measures of a process, and what fills in the gauges before they are read.

    ``more`` returns further ones, when they are first read; one whose name is there already is
    left out. ``is_on``: whether they are shown. If not, code that would take time for them may
    leave it.
    """

    def __init__(self, measures: Iterable[Measure], more: Callable[[], Iterable[Measure]] = tuple):
        self._own, self._more = tuple(measures), more
        self._sources: dict[str, Callable[[], None]] = {}
        self.is_on = False

    @functools.cached_property
    def _measures(self) -> tuple[Measure, ...]:
        known = {measure.name: measure for measure in self._own}
        for measure in self._more():
            known.setdefault(measure.name, measure)
        return tuple(known.values())

    def __iter__(self):
        return iter(self._measures)

    def follow(self, name: str, source: Callable[[], None]) -> None:
        """Call ``source`` before the values are read. It replaces one of the same name. An error
        of it leaves its measures as they were."""
        self._sources[name] = source

    def forget(self, name: str) -> None:
        self._sources.pop(name, None)

    def clear(self) -> None:
        for measure in self._measures:
            measure.clear()
        self._sources.clear()

    def plain(self) -> dict[str, Any]:
        """Everything as JSON values: ``time``, and the ``values`` of each measure by name."""
        failed = 0
        for source in list(self._sources.values()):
            try:
                source()
            except Exception:  # noqa: BLE001, it works on what another thread changes
                failed += 1
        values = {
            measure.name: [[list(labels), value] for labels, value in rows]
            for measure in self._measures
            if (rows := measure.plain())
        }
        return {'time': time.time(), 'failed': failed, 'values': values}
