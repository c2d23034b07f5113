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

"""One host aggregate, and what a host's aggregates say together: plain values."""

import dataclasses
from collections.abc import Mapping

ZONE_KEY = 'availability_zone'


@dataclasses.dataclass(frozen=True, slots=True)
class HostAggregate:
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
    """Return the parts of a comma-separated list, stripped."""
    return {part.strip() for part in text.split(',')}


def values(aggregates, key):
    """Return all values of a metadata key in a host's aggregates, comma-separated lists split;
    empty if none has the key."""
    return {part for aggregate in aggregates if key in aggregate.metadata
            for part in split(aggregate.metadata[key])}  # fmt: skip


def zones(aggregates):
    """Return the zones that a host's aggregates name; empty means the default zone."""
    return values(aggregates, ZONE_KEY)
