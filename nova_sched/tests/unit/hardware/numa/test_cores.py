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
"""Which CPUs of which cores are pinned."""

import pytest

from nova_sched.hardware.numa import cores
from nova_sched.tests.unit.hardware.builders import cell, threaded

QUADS = cell(pcpuset=range(8), cpuset=range(8), cores=[range(4), range(4, 8)])
USED_QUADS = cell(pcpuset=range(8), cores=[range(4), range(4, 8)], pinned=[0, 1, 4])
UNEVEN = cell(pcpuset=range(4), cores=[(0, 1), (2,), (3,)])


@pytest.mark.parametrize('policy', ['prefer', 'require'])
@pytest.mark.parametrize(
    'host, wanted, pinned',
    [
        pytest.param(threaded(), 1, [0], id='a thread of the first core'),
        pytest.param(threaded(), 2, [0, 4], id='a whole core'),
        pytest.param(threaded(), 3, [0, 4, 1], id='a core and a half'),
        pytest.param(threaded(), 8, [0, 4, 1, 5, 2, 6, 3, 7], id='all'),
        pytest.param(threaded(pinned=[0, 1]), 2, [2, 6], id='cores in use are passed over'),
        pytest.param(QUADS, 5, [0, 1, 2, 3, 4], id='four threads'),
        pytest.param(USED_QUADS, 3, [5, 6, 7], id='three threads of the fuller core'),
        pytest.param(USED_QUADS, 4, [2, 3, 5, 6], id='two threads of each'),
        pytest.param(UNEVEN, 2, [0, 1], id='a core of each kind'),
    ],
)
def test_prefer_and_require_fill_cores(host, wanted, pinned, policy):
    assert cores.pin(host, wanted, 0, policy).guest == pinned


@pytest.mark.parametrize(
    'host, wanted, pinned',
    [
        pytest.param(threaded(pinned=[0, 1]), 5, [4, 5, 2, 6, 3], id='half cores too'),
        pytest.param(USED_QUADS, 5, [2, 3, 5, 6, 7], id='all that is free'),
        pytest.param(UNEVEN, 3, [0, 2, 3], id='one of each core'),
        pytest.param(UNEVEN, 4, [0, 1, 2, 3], id='uneven cores'),
        pytest.param(cell(pcpuset=range(4)), 3, [0, 1, 2], id='cores of one thread'),
    ],
)
def test_only_prefer_takes_lone_threads(host, wanted, pinned):
    assert cores.pin(host, wanted, 0, 'prefer').guest == pinned
    assert cores.pin(host, wanted, 0, 'require') is None


@pytest.mark.parametrize(
    'host, wanted, pinned',
    [
        pytest.param(threaded(), 4, [0, 1, 2, 3], id='a thread of each core'),
        pytest.param(threaded(), 5, None, id='more than cores'),
        pytest.param(threaded(pinned=[4]), 3, [1, 2, 3], id='the core in use is passed over'),
        pytest.param(threaded(pinned=[4]), 4, None, id='too few are wholly free'),
        pytest.param(QUADS, 2, [0, 4], id='four threads'),
        pytest.param(UNEVEN, 1, [0], id='cores of full size'),
        pytest.param(UNEVEN, 2, None, id='not the smaller ones'),
        pytest.param(cell(pcpuset=range(4)), 4, [0, 1, 2, 3], id='cores of one thread'),
        pytest.param(cell(pcpuset=range(2), cores=[]), 2, [0, 1], id='no cores told'),
    ],
)
def test_isolate(host, wanted, pinned):
    found = cores.pin(host, wanted, 0, 'isolate')
    assert (found and found.guest) == pinned


@pytest.mark.parametrize(
    'host, wanted, policy, emulator',
    [
        pytest.param(threaded(), 1, 'prefer', {4}, id='beside the guest'),
        pytest.param(threaded(), 2, 'prefer', {1}, id='next core'),
        pytest.param(threaded(pinned=[4]), 2, 'prefer', {0}, id='a lone thread'),
        pytest.param(
            threaded(pinned=[4, 5, 6]),
            2,
            'require',
            {0},
            id='a lone thread, whatever the guest requires',
        ),
        pytest.param(threaded(), 8, 'prefer', None, id='none left'),
        pytest.param(threaded(), 2, 'isolate', {2}, id='a core of its own'),
        pytest.param(threaded(pinned=[6]), 2, 'isolate', {3}, id='not one in use'),
        pytest.param(threaded(), 4, 'isolate', None, id='no core left'),
        pytest.param(threaded(pinned=[7]), 3, 'isolate', None, id='no whole core left'),
        pytest.param(UNEVEN, 1, 'isolate', {2}, id='a smaller core will do'),
    ],
)
def test_the_emulator(host, wanted, policy, emulator):
    found = cores.pin(host, wanted, 1, policy)
    assert (found and found.emulator) == emulator
    assert not found or emulator.isdisjoint(found.guest)


@pytest.mark.parametrize(
    'host, reserved, policy, found',
    [
        pytest.param(threaded(), 0, 'prefer', True, id='prefer'),
        pytest.param(threaded(), 0, 'require', True, id='require, with a pair free'),
        pytest.param(cell(pcpuset=range(4)), 0, 'require', False, id='require, without pairs'),
        pytest.param(threaded(), 0, 'isolate', False, id='isolate'),
        pytest.param(threaded(), 1, 'prefer', False, id='the emulator alone'),
    ],
)
def test_no_pinned_cpus(host, reserved, policy, found):
    """A cell of a mixed guest may have none; the answers are Nova's."""
    assert (cores.pin(host, 0, reserved, policy) is not None) is found


@pytest.mark.parametrize(
    'host, policy, most',
    [
        pytest.param(USED_QUADS, 'prefer', 5, id='prefer: all that is free'),
        pytest.param(USED_QUADS, 'require', 4, id='require: two of each'),
        pytest.param(threaded(), 'require', 8, id='require: all'),
        pytest.param(USED_QUADS, 'isolate', 0, id='isolate: no core is whole'),
        pytest.param(cell(pcpuset=[0]), 'require', 0, id='require: no pairs'),
        pytest.param(threaded(pinned=[0]), 'isolate', 3, id='isolate: three whole'),
    ],
)
def test_most(host, policy, most):
    assert cores.most(host, policy) == most
    assert cores.pin(host, most + 1, 0, policy) is None
    assert most == 0 or cores.pin(host, most, 0, policy)
