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
"""Several schedulers over one cloud: each looks to a slice of the hosts first, out of the others'
way.

Whoever sees the others' claims a little late would go for the host that they have just taken. So
each host belongs to one slice, by its UUID, and each scheduler takes the best host of its own
slice: which is about as good as the best of all, and nobody else is there. Alone, a scheduler has
all hosts.
"""

import dataclasses
import zlib

import numpy as np

# An own host is taken unless more than this share of the hosts are better: a scheduler that gets
# more requests than the others may not fill its slice while theirs stay empty.
BETTER_MOST = 0.75


def settings_for(settings, standing, losses):
    """Settings by which a scheduler decides a request that has lost so often already.

    ``standing`` is its place among the schedulers, from 0, and their number. Who loses takes one
    of the best hosts at random, among more each time: to run after the very best again would be to
    lose again.
    """
    place, schedulers = standing
    subset_size = max(settings.subset_size, 4**losses) if losses else settings.subset_size
    if (place, schedulers, subset_size) == (
        settings.place,
        settings.schedulers,
        settings.subset_size,
    ):
        return settings
    return dataclasses.replace(
        settings, place=place, schedulers=schedulers, subset_size=subset_size
    )


def own(weighers, hosts, rows, weights, request, settings):
    """Positions of the rows that this scheduler chooses among; None: all of them.

    Only load is given up for it: where another host is preferred for anything else, such as
    members of the same soft-affinity group, it is taken, whoever's it is.
    """
    if settings.schedulers < 2 or len(rows) < 2:
        return None
    slots = _slots(hosts, settings.schedulers)[rows]
    mine, top = np.flatnonzero(slots == settings.place), int(weights.argmax())
    if not len(mine) or slots[top] == settings.place:
        return mine if len(mine) else None
    best = int(mine[weights[mine].argmax()])
    if np.count_nonzero(weights > weights[best]) > BETTER_MOST * len(rows):
        return None
    return mine if _alike(weighers, hosts, rows[[best, top]], request) else None


def _slots(hosts, schedulers):
    """The slice of each row: the same for every scheduler, whatever order it has the rows in."""
    return hosts.kept.get(
        ('slices', schedulers),
        lambda: np.array(
            [zlib.crc32(node.uuid.encode()) * schedulers >> 32 for node in hosts.nodes], np.int32
        ),
    )


def _alike(weighers, hosts, pair, request):
    """Whether two rows differ in load alone."""
    for weigher in weighers:
        raw = None if weigher.load else weigher.raw(hosts, pair, request)
        if raw is not None and raw[0] != raw[1] and np.any(weigher.multiplier(hosts, pair)):
            return False
    return True
