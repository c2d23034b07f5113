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
"""What the gate leaves to `tools/test thorough`, which sets `NOVA_SCHED_THOROUGH=1`.

The gate tries a third of the random cases, and where a test has several parameters each value
once instead of each with each: what is marked with `ONLY_THOROUGH` does not run there.
"""

import os

import pytest

IS_THOROUGH = os.environ.get('NOVA_SCHED_THOROUGH', '') not in ('', '0')
ONLY_THOROUGH = pytest.mark.thorough
SHARE = 3  # of the cases, one is tried in the gate


def cases(count):
    """Returns how many of ``count`` cases to try, at least one."""
    return count if IS_THOROUGH else max(count // SHARE, 1)


def deselect(config, items):
    """Leave out what only thorough runs run."""
    if IS_THOROUGH:
        return
    left_out = [item for item in items if item.get_closest_marker(ONLY_THOROUGH.name)]
    config.hook.pytest_deselected(items=left_out)
    gone = set(left_out)
    items[:] = [item for item in items if item not in gone]
