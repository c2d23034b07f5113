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
"""Several schedulers on one cloud: each prefers its own slice of the hosts, to avoid conflicts.

A scheduler sees claims of other schedulers a little late, and would choose hosts that they have
just claimed. Each host therefore belongs to one slice, by its UUID, and each scheduler takes the
best host of its own slice. This host is about as good as the best of all, and no other scheduler
prefers it. A single scheduler has all hosts.
"""

import dataclasses
import zlib

import numpy as np

# A host of the own slice is taken unless more than this share of the hosts are better: a scheduler
# with more requests must not fill its slice while other slices stay empty.
BETTER_MOST = 0.75


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


def mine(hosts, settings):
    """A bool for each row: whether it is in this scheduler's slice. None: all rows are."""
    if settings.schedulers < 2:
        return None
    return _slots(hosts, settings.schedulers) == settings.position


def own(weighers, hosts, rows, weights, request, settings, left):
    """Positions of the rows that this scheduler chooses among; None: all of them.

    ``rows`` are the best of ``left`` rows that pass: at least the best one of the own slice, if
    the slice has any, and all that are better. Only a better load is given up for the own slice.
    A host that is preferred for any other reason, such as members of the same soft-affinity
    group, is taken from any slice.
    """
    of_slice = mine(hosts, settings)
    if of_slice is None or left < 2:
        return None
    is_own = of_slice[rows]
    own, top = np.flatnonzero(is_own), int(weights.argmax())
    if not len(own) or is_own[top]:
        return own if len(own) else None
    best = int(own[weights[own].argmax()])
    if np.count_nonzero(weights > weights[best]) > BETTER_MOST * left:
        return None
    return own if _alike(weighers, hosts, rows[[best, top]], request) else None


def _slots(hosts, schedulers):
    """The slice of each row: the same for every scheduler, independent of the order of rows."""
    return hosts.cache.get(
        ('slices', schedulers),
        lambda: np.array(
            [zlib.crc32(node.uuid.encode()) * schedulers >> 32 for node in hosts.nodes], np.int32
        ),
    )


def _alike(weighers, hosts, pair, request):
    """Whether two rows differ in load only."""
    for weigher in weighers:
        raw = None if weigher.load else weigher.raw(hosts, pair, request)
        if raw is not None and raw[0] != raw[1] and np.any(weigher.multiplier(hosts, pair)):
            return False
    return True
