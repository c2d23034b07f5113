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
"""Chooses the domains of a spread, and the maximum number of members in each, before placement.

If the skew is only kept step by step, the search runs into dead ends: one small used domain limits
all others.
"""

from collections.abc import Iterator

import numpy as np


def plans(
    room: np.ndarray,
    there: np.ndarray,
    score: np.ndarray,
    left: int,
    min_domains: int,
    max_skew: int,
    most_domains: int | None = None,
) -> Iterator[tuple[int, np.ndarray]]:
    """Yields all useful plans, the one with most spare capacity first: (ceiling, domains to use,
    bool [D]).

    ``room`` int64 [D]: members that each domain could take; ``there``: members that it has;
    ``score`` [D]: decides between equal domains; ``left``: members still to be placed;
    ``most_domains``: maximum number of domains to use.
    """
    holds, total = room + there, left + int(there.sum())
    used = there > 0
    by_score = np.argsort(-score, kind='stable')
    found = []
    for ceiling in range(max(1, int(there.max(initial=0))), total + 1):
        floor = max(1, ceiling - max_skew)
        fits = holds >= floor
        if (used & ~fits).any():
            break  # a higher ceiling needs even more
        count = min(
            int(fits.sum()), total // floor, len(room) if most_domains is None else most_domains
        )
        if count < max(min_domains, int(used.sum())):
            if total // floor < min_domains:
                break
            continue
        most = np.where(fits, np.minimum(holds, ceiling), 0)
        wanted = np.where(used, ceiling + 1, most)[by_score]
        chosen = by_score[np.argsort(-wanted, kind='stable')[:count]]
        spare = int(most[chosen].sum()) - total
        if spare >= 0:
            found.append((spare, ceiling, chosen))
    found.sort(key=lambda plan: -plan[0])
    for _, ceiling, chosen in found:
        domains = np.zeros(len(room), dtype=bool)
        domains[chosen] = True
        yield ceiling, domains
