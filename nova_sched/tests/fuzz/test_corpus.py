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
"""Spoiled messages, the same each time: answered or refused as documented, at once."""

import pytest

from nova_sched.tests.cases import cases
from nova_sched.tests.fuzz import run

MESSAGES, PARTS = cases(5000), 5


@pytest.mark.parametrize('seed', range(PARTS))
def test_spoiled_messages(seed):
    tally = run.run(MESSAGES // PARTS, seed)
    assert tally.faults == {}
    assert tally.messages == MESSAGES // PARTS
    assert tally.accepted > tally.messages // 10
    assert len(tally.refused) > 5
