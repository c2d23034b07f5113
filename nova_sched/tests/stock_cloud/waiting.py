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
"""Ask until an answer is the expected one: services work on after they have answered."""

import time
from collections.abc import Callable
from typing import Any

WAIT_S = 120.0  # the machine may be busy
PAUSE_S = 0.1


def eventually(expected: Any, ask: Callable[[], Any], pause_s: float = PAUSE_S) -> None:
    """Ask until the answer is ``expected``; AssertionError with both after WAIT_S."""
    until = time.monotonic() + WAIT_S
    while (found := ask()) != expected and time.monotonic() < until:
        time.sleep(pause_s)
    assert found == expected
