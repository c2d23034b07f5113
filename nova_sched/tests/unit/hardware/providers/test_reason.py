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
"""Why a request does not fit, in words."""

import pytest

from nova_sched.hardware import providers
from nova_sched.tests.unit.hardware.providers.builders import (
    MILLI,
    ROOT,
    asked,
    device,
    group,
    tree,
)
from nova_sched.tests.unit.hardware.providers.test_fit import NUMA

TWO = tree(device('a', used=600), device('b', used=700, traits=['NEW']))


@pytest.mark.parametrize(
    'node, wanted, why',
    [
        pytest.param(TWO, asked(group('1', 400)), '', id='it fits'),
        pytest.param(
            TWO,
            asked(group('1', 500)),
            f'{MILLI}: 500 asked of one provider, the best has 400 free for group 1',
            id='too little',
        ),
        pytest.param(
            TWO,
            asked(group('1', 400, required=['NEW'])),
            f'{MILLI}: 400 asked of one provider, the best has 300 free for group 1',
            id='too little of the right one',
        ),
        pytest.param(
            TWO,
            asked(group('1', 400, required=['RED'], forbidden=['NEW'])),
            f'no provider of {MILLI} has trait RED and no trait NEW for group 1',
            id='no such trait',
        ),
        pytest.param(TWO, asked(group('1', VF=1)), 'no provider has VF', id='no such class'),
        pytest.param(
            TWO,
            asked(group('1', 100), group('2', 500), VF=1),
            'no provider has VF',
            id='the worst of several',
        ),
        pytest.param(
            TWO,
            asked(group('1', 400), group('2', 400)),
            'each group can be met, but not all 2 at once',
            id='not both',
        ),
        pytest.param(
            tree(device('a')),
            asked(group('1', 1), group('2', 1), isolate=True),
            'each group can be met, but not all 2 at once from a provider each',
            id='not apart',
        ),
        pytest.param(
            NUMA,
            asked(group('g', 1), group('v', VF=1), subtrees=[['g', 'v']]),
            'each group can be met, but not all 2 at once near to each other',
            id='not near',
        ),
        pytest.param(
            tree(device('a', step_size=250)),
            asked(CUSTOM_GPU_MILLI=300),
            f'{MILLI} does not come in parts of 300',
            id='not in such parts',
        ),
        pytest.param(
            TWO,
            asked(CUSTOM_GPU_MILLI=1, required=['RED']),
            'no provider has RED as well',
            id='a trait besides',
        ),
        pytest.param(
            TWO,
            asked(group('1', 1, in_tree='z')),
            'the provider that group 1 names is elsewhere',
            id='elsewhere',
        ),
        pytest.param(
            providers.ProviderTree(ROOT),
            asked(CUSTOM_GPU_MILLI=1),
            f'no provider has {MILLI}',
            id='no devices',
        ),
    ],
)
def test_why_not(node, wanted, why):
    assert providers.why_not(node, wanted) == why


def test_the_nearest_of_several_nodes():
    wanted = asked(group('1', 1000))
    nodes = [
        tree(),
        tree(device('a', used=900)),
        tree(device('a', used=300)),
        tree(device('a', used=500)),
    ]
    assert providers.nearest_miss((node, wanted) for node in nodes).endswith(
        'the best has 700 free for group 1'
    )
    assert providers.nearest_miss((node, wanted) for node in [*nodes, tree(device('a'))]) == ''
    assert providers.nearest_miss([]) == ''
