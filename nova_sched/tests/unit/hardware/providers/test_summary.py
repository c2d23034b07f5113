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
"""Figures that rule a request out at a glance."""

import pytest

from nova_sched.tests.unit.hardware.providers.builders import asked, device, group, tree

NODE = tree(device('a', used=600), device('b', used=700, traits=['NEW']), VCPU=2)


@pytest.mark.parametrize(
    'wanted, may_take',
    [
        pytest.param(asked(group('1', 400)), True, id='as much as the best has'),
        pytest.param(asked(group('1', 401)), False, id='more'),
        pytest.param(asked(group('1', 300), group('2', 400)), True, id='as much as all have'),
        pytest.param(asked(group('1', 400), group('2', 301)), False, id='more than all have'),
        pytest.param(asked(group('1', 1, required=['NEW'])), True, id='a trait'),
        pytest.param(asked(group('1', 1, required=['RED'])), False, id='a trait that none has'),
        pytest.param(asked(group('1', VF=1)), False, id='a class that none has'),
        pytest.param(asked(group('1', VCPU=2)), True, id='of the node itself'),
        pytest.param(asked(CUSTOM_GPU_MILLI=401), False, id='more, in no group'),
        pytest.param(asked(CUSTOM_GPU_MILLI=1, required=['RED']), False, id='a trait besides'),
    ],
)
def test_may_take(wanted, may_take):
    assert NODE.summary.may_take(wanted) is may_take
