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
"""Tests of the steps of age."""

import pytest

from nova_sched.lifetimes.ages import DAY_S, EDGES_S, HOUR_S, STEPS, WIDTHS_S, step_of


def test_the_steps_follow_each_other():
    assert EDGES_S[0] == 0
    assert (WIDTHS_S > 0).all()
    assert len(EDGES_S) == STEPS + 1


@pytest.mark.parametrize(
    'age_s, step',
    [
        pytest.param(-5.0, 0, id='a clock was set back'),
        pytest.param(0.0, 0, id='new'),
        pytest.param(299.9, 0, id='in the first step'),
        pytest.param(300.0, 1, id='at an edge: the later one'),
        pytest.param(HOUR_S, 12, id='an hour'),
        pytest.param(DAY_S, 35, id='a day'),
        pytest.param(30 * DAY_S, STEPS, id='beyond the last step'),
    ],
)
def test_the_step_of_an_age(age_s, step):
    assert step_of(age_s) == step
