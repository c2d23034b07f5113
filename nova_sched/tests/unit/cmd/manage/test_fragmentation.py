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
"""``fragmentation``: the answer for people."""

import pytest

from nova_sched.cmd.manage import commands
from nova_sched.extensions.optimize import fragmentation_verbs as fragmentation

SIZE = {
    'resources': {'VCPU': 2, 'MEMORY_MB': 512},
    'devices': {
        'resource_class': 'CUSTOM_GPU',
        'units': 500,
        'count': 2,
        'traits': ['CUSTOM_T4'],
    },
    'numa_cells': 1,
    'pci_devices': 2,
    'share': 0.25,
    'fit': 7,
    'fit_in_one_piece': 9,
}
FOUND = {
    'hosts': 2,
    'empty_hosts': 1,
    'stranded': {'VCPU': 3, 'MEMORY_MB': 0},
    'sizes': [SIZE],
    'zones': [
        {'zone': name, 'hosts': 1, 'empty_hosts': 0, 'fit': [3], 'stranded': {'VCPU': 1}}
        for name in ('az1', 'az2')
    ],
    'worst_hosts': [{'host': 'cmp1', 'node': 'cmp1', 'potential': 12.5, 'stranded': {'VCPU': 2}}],
}


def test_the_page():
    page = fragmentation.page(FOUND)
    assert 'Stranded: 3 VCPU\n' in page
    assert (
        '2 VCPU, 512 MEMORY_MB, 2 x 500 CUSTOM_GPU CUSTOM_T4, 1 NUMA cell, 2 PCI devices' in page
    )
    assert '25.0%' in page
    assert 'az2' in page
    assert 'cmp1' in page
    page = fragmentation.page({**FOUND, 'sizes': [], 'stranded': {}})
    assert page.endswith('No request was counted, and there are no flavors.')


def test_the_limit(capsys):
    with pytest.raises(SystemExit):
        commands.parser().parse_args(['fragmentation', 'show', '--limit', '101'])
    assert 'it is more than 100' in capsys.readouterr().err
