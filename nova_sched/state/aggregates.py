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
"""All host aggregates: which hosts are in which, and their metadata for each row."""

import logging

import numpy as np

from nova_sched import words
from nova_sched.state.host_aggregate import zones
from nova_sched.state.vocab import Interned

LOG = logging.getLogger(__name__)


def number(aggregates, key, default, convert):
    """Return the smallest value of a metadata key over a host's aggregates.

    Without a value, returns the default. If ``convert`` refuses a value, logs a warning and
    returns the default.
    """
    texts = {aggregate.metadata[key] for aggregate in aggregates if key in aggregate.metadata}
    if not texts:
        return default
    try:
        return min(words.finite(convert(text)) for text in texts)
    except ValueError:
        LOG.warning(
            'Aggregate metadata %s has a value that is not a number, among %s; it is left out',
            key,
            [words.short(text) for text in sorted(texts)],
        )
        return default


class OwnAggregates:
    """The aggregates of one host, with the same methods as those of all rows."""

    def __init__(self, aggregates):
        self._aggregates = aggregates

    def __iter__(self):
        return iter(self._aggregates)

    @property
    def keys(self):
        return frozenset(key for aggregate in self._aggregates for key in aggregate.metadata)

    def map(self, slots, judge, dtype=bool):
        return np.full(len(slots), judge(self._aggregates), dtype=dtype)


class Aggregates:
    """All aggregates, and for each host the (interned) tuple of its aggregates."""

    def __init__(self):
        self._by_id = {}
        self._of_host = {}
        self.keys: frozenset[str] = frozenset()  # of the metadata of all aggregates
        self._zones: frozenset[str] = frozenset()
        self.sets = Interned()
        self._version = 0
        self._numbers = {}  # (key, convert) -> versions, value of each set

    def __iter__(self):
        return iter(self._by_id.values())

    def get(self, aggregate_id):
        return self._by_id.get(aggregate_id)

    def of(self, host):
        """The aggregates of a host, by id."""
        return self._of_host.get(host, ())

    def replace(self, aggregate_id, aggregate):
        """Add, replace or (with None) remove an aggregate.

        Returns the hosts whose aggregates changed.
        """
        self._version += 1
        before = self._by_id.pop(aggregate_id, None)
        if aggregate is not None:
            self._by_id[aggregate_id] = aggregate
        touched = (before.hosts if before else frozenset()) | (
            aggregate.hosts if aggregate else frozenset()
        )
        for host in touched:
            rest = [kept for kept in self._of_host.pop(host, ()) if kept.id != aggregate_id]
            if aggregate is not None and host in aggregate.hosts:
                rest.append(aggregate)
            if rest:
                self._of_host[host] = tuple(sorted(rest, key=lambda kept: kept.id))
        self.keys = frozenset(key for kept in self for key in kept.metadata)
        self._zones = frozenset(zones(self))
        return touched

    def has_zone(self, zone):
        return zone in self._zones

    def slot(self, host):
        """The slot of a host's aggregates, as (id) tuples that rows share."""
        return self.sets.take(tuple(aggregate.id for aggregate in self.of(host)))

    def map(self, slots, judge, dtype=bool):
        """Return ``judge(aggregates of the row)`` for each row, called once for each distinct
        set."""
        return self.sets.map(slots, lambda ids: judge(self._named(ids)), dtype)

    def distinct(self, slots):
        """Return the aggregates of each distinct set that these rows have."""
        return [self._named(self.sets.values[slot]) for slot in np.unique(slots)]

    def _named(self, ids):
        return [self._by_id[aggregate_id] for aggregate_id in ids if aggregate_id in self._by_id]

    def numbers(self, slots, key, default, convert):
        """Return the numeric override of each row: a plain default if no aggregate has the
        key."""
        if key not in self.keys:
            return default
        versions = self._version, self.sets.version
        known, values = self._numbers.get((key, convert), (None, None))
        if known != versions:
            values = self.sets.judged(
                lambda ids: number(self._named(ids), key, np.nan, convert), float
            )
            self._numbers[key, convert] = versions, values
        overrides = values[slots]
        return np.where(np.isnan(overrides), default, overrides)
