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
"""Host aggregates: who is in which, and what their metadata say of each row."""

import dataclasses
import logging
import math
from collections.abc import Mapping

import numpy as np

from nova_sched.state.vocab import Interned

LOG = logging.getLogger(__name__)
ZONE_KEY = 'availability_zone'


@dataclasses.dataclass(frozen=True, slots=True)
class Aggregate:
    """One host aggregate, with Nova's attribute names."""

    id: int
    name: str
    hosts: frozenset[str]
    metadata: Mapping[str, str]
    uuid: str | None = None

    @property
    def availability_zone(self):
        return self.metadata.get(ZONE_KEY)


def split(text):
    """The parts of a comma list, stripped."""
    return {part.strip() for part in text.split(',')}


def zones(aggregates):
    """Zones that a host's aggregates name; empty means the default zone."""
    return {zone for aggregate in aggregates if ZONE_KEY in aggregate.metadata
            for zone in split(aggregate.metadata[ZONE_KEY])}  # fmt: skip


def number(aggregates, key, default, convert):
    """The smallest value of a metadata key over a host's aggregates.

    No value: the default. A value that ``convert`` refuses, or that is not finite: a warning, and
    the default.
    """
    texts = {aggregate.metadata[key] for aggregate in aggregates if key in aggregate.metadata}
    if not texts:
        return default
    try:
        values = [convert(text) for text in texts]
    except ValueError:
        values = [math.nan]
    if not all(map(math.isfinite, values)):
        LOG.warning(
            'Aggregate metadata %s has a value that is no number, among %s; it is left out',
            key,
            sorted(texts),
        )
        return default
    return min(values)


class Aggregates:
    """All aggregates, and for each host the (interned) tuple of those it is in."""

    def __init__(self):
        self._by_id = {}
        self._of_host = {}
        self._keys: frozenset[str] = frozenset()
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
        """Put (or, with None, remove) an aggregate. Returns the hosts whose aggregates changed."""
        self._version += 1
        before = self._by_id.pop(aggregate_id, None)
        if aggregate is not None:
            self._by_id[aggregate_id] = aggregate
        touched = (before.hosts if before else frozenset()) | (aggregate.hosts if aggregate else frozenset())
        for host in touched:
            rest = [kept for kept in self._of_host.pop(host, ()) if kept.id != aggregate_id]
            if aggregate is not None and host in aggregate.hosts:
                rest.append(aggregate)
            if rest:
                self._of_host[host] = tuple(sorted(rest, key=lambda kept: kept.id))
        self._keys = frozenset(key for kept in self for key in kept.metadata)
        self._zones = frozenset(zones(self))
        return touched

    def has_zone(self, zone):
        return zone in self._zones

    def slot(self, host):
        """The slot of a host's aggregates, as (id) tuples that rows share."""
        return self.sets.take(tuple(aggregate.id for aggregate in self.of(host)))

    def map(self, slots, judge, dtype=bool):
        """``judge(aggregates of the row)`` for each row, called once for each distinct set."""
        return self.sets.map(slots, lambda ids: judge(self._named(ids)), dtype)

    def _named(self, ids):
        return [self._by_id[one] for one in ids if one in self._by_id]

    def numbers(self, slots, key, default, convert):
        """The numeric override of each row: a plain default if no aggregate has the key."""
        if key not in self._keys:
            return default
        versions = self._version, self.sets.version
        known, values = self._numbers.get((key, convert), (None, None))
        if known != versions:
            values = self.sets.judged(lambda ids: number(self._named(ids), key, np.nan, convert), float)
            self._numbers[key, convert] = versions, values
        found = values[slots]
        return np.where(np.isnan(found), default, found)
