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
"""All placements of a small problem, one by one: what the planner is held against."""

import itertools

import numpy as np

from nova_sched.groups.arrays import policies


def placements(problem, most=1, limit=3000):
    """The first ``most`` placements that break nothing; None if there were more than ``limit`` to
    look at."""
    loose = np.flatnonzero(problem.fixed < 0)
    options = [np.flatnonzero(problem.mask[problem.kind[member]]).tolist() for member in loose]
    if np.prod([len(hosts) for hosts in options], dtype=np.float64) > limit:
        return None
    found, hosts = [], problem.fixed.astype(np.int32)
    for choice in itertools.product(*options):
        hosts[loose] = choice
        if not policies.broken(problem, hosts):
            found.append(hosts.copy())
            if len(found) == most:
                break
    return found
