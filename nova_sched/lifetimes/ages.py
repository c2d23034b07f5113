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
"""The steps of age in which ends are counted."""

import numpy as np

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86400.0

# Steps of five minutes for an hour, of an hour for a day, of a day for ten, and three longer ones.
EDGES_S = np.concatenate(
    [
        np.arange(0, 12) * 5 * MINUTE_S,
        np.arange(1, 24) * HOUR_S,
        np.array([*range(1, 10), 10, 14, 21, 30]) * DAY_S,
    ]
)
STARTS_S, WIDTHS_S = EDGES_S[:-1], np.diff(EDGES_S)
STEPS = len(STARTS_S)


def step_of(ages_s):
    """Returns the step of each age; STEPS for an age beyond the last one. A negative age counts
    as 0: a clock was set back."""
    return np.searchsorted(EDGES_S, np.maximum(ages_s, 0.0), side='right') - 1
