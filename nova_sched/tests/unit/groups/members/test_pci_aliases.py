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
"""Aliases of PCI devices: how they are read, and the requests that flavors make of them."""

import json

import pytest

from nova_sched import errors, objects
from nova_sched.conf import CONF
from nova_sched.groups.members import pci_aliases

GPU = {'name': 'gpu', 'vendor_id': '10de', 'product_id': '20b0', 'device_type': 'type-PCI'}
OTHER = {**GPU, 'product_id': '20b2'}


def read(*aliases):
    return pci_aliases.read(
        tuple(one if isinstance(one, str) else json.dumps(one) for one in aliases)
    )


def device(**words):
    return {'vendor_id': '10de', 'product_id': '20b0', 'dev_type': 'type-PCI', **words}


@pytest.mark.parametrize(
    'aliases, found',
    [
        pytest.param([], {}, id='none'),
        pytest.param([GPU], {'gpu': ('legacy', [device()])}, id='one'),
        pytest.param(
            [GPU, OTHER],
            {'gpu': ('legacy', [device(), device(product_id='20b2')])},
            id='two that will do',
        ),
        pytest.param(
            [{**GPU, 'name': ' gpu '}], {'gpu': ('legacy', [device()])}, id='blanks round the name'
        ),
        pytest.param(
            [{**GPU, 'numa_policy': 'socket'}],
            {'gpu': ('socket', [device()])},
            id='with a NUMA policy',
        ),
        pytest.param(
            [{'name': 'vf', 'resource_class': 'GPU_VF', 'traits': 'blue'}],
            {'vf': ('legacy', [{'resource_class': 'GPU_VF', 'traits': 'blue'}])},
            id='by resource class',
        ),
        pytest.param(
            [{**GPU, 'live_migratable': 'yes'}],
            {'gpu': ('legacy', [device(live_migratable='true')])},
            id='that can move',
        ),
    ],
)
def test_aliases(aliases, found):
    assert read(*aliases) == found


@pytest.mark.parametrize(
    'aliases, why',
    [
        pytest.param(['{'], 'is not JSON', id='no JSON'),
        pytest.param(['[]'], 'is not a JSON object', id='a list'),
        pytest.param([{**GPU, 'colour': 'red'}], "'colour' is not known", id='unknown word'),
        pytest.param([{**GPU, 'device_type': 'type-X'}], 'type-PCI or type-PF', id='device type'),
        pytest.param([{**GPU, 'numa_policy': 'odd'}], 'legacy or preferred', id='NUMA policy'),
        pytest.param(
            [{**GPU, 'vendor_id': 4318}], 'vendor_id is 4318, not a string', id='a number'
        ),
        pytest.param([{**GPU, 'vendor_id': '10dex'}], 'four hexadecimal digits', id='no id'),
        pytest.param([{**GPU, 'name': ' '}], 'has no name', id='no name'),
        pytest.param(
            [{'name': 'gpu', 'vendor_id': '10de'}], 'needs vendor_id and product_id', id='half'
        ),
        pytest.param([{**GPU, 'live_migratable': 'maybe'}], 'live_migratable of gpu', id='maybe'),
        pytest.param(
            [GPU, {**OTHER, 'numa_policy': 'required'}], 'differ in numa_policy', id='two policies'
        ),
        pytest.param([GPU, {**OTHER, 'device_type': 'type-PF'}], 'or device_type', id='two types'),
    ],
)
def test_aliases_that_make_no_sense(aliases, why):
    with pytest.raises(errors.BadConfig, match=why) as bad:
        read(*aliases)
    assert bad.value.where == '[pci] alias'


def test_those_of_the_configuration():
    CONF.set_override('alias', [json.dumps(GPU)], group='pci')
    try:
        assert pci_aliases.configured() == read(GPU)
    finally:
        CONF.clear_override('alias', group='pci')
    assert pci_aliases.configured() == {}


def requests(text, extra_specs=None, **properties):
    image = objects.ImageMetaProps.from_dict(properties)
    aliases = read(GPU, OTHER, {**GPU, 'name': 'nic', 'numa_policy': 'required'})
    specs = {} if text is None else {'pci_passthrough:alias': text}
    return pci_aliases.requests({**specs, **(extra_specs or {})}, image, aliases)


@pytest.mark.parametrize(
    'text, found',
    [
        pytest.param(None, [], id='none'),
        pytest.param('gpu:1', [('gpu', 1, 2, 'legacy')], id='one'),
        pytest.param(
            'gpu:2, nic:1', [('gpu', 2, 2, 'legacy'), ('nic', 1, 1, 'required')], id='two'
        ),
    ],
)
def test_requests(text, found):
    made = requests(text)
    assert [(one.alias_name, one.count, len(one.spec), one.numa_policy) for one in made] == found
    assert len({one.request_id for one in made}) == len(found)


@pytest.mark.parametrize(
    'extra_specs, properties',
    [
        pytest.param({'hw:pci_numa_affinity_policy': 'preferred'}, {}, id='flavor'),
        pytest.param({}, {'hw_pci_numa_affinity_policy': 'preferred'}, id='image'),
        pytest.param(
            {'hw:pci_numa_affinity_policy': 'preferred'},
            {'hw_pci_numa_affinity_policy': 'preferred'},
            id='both',
        ),
    ],
)
def test_a_policy_that_goes_before_that_of_the_alias(extra_specs, properties):
    assert [one.numa_policy for one in requests('gpu:1,nic:1', extra_specs, **properties)] == [
        'preferred'
    ] * 2


@pytest.mark.parametrize(
    'text, extra_specs, properties, why',
    [
        pytest.param('tape:1', {}, {}, "no alias 'tape'", id='unknown'),
        pytest.param('gpu', {}, {}, 'name:count', id='no count'),
        pytest.param('gpu:0', {}, {}, 'name:count', id='none of it'),
        pytest.param('gpu:1,', {}, {}, "no alias ''", id='a comma too many'),
        pytest.param(
            'gpu:1',
            {'hw:pci_numa_affinity_policy': 'odd'},
            {},
            'not one of legacy',
            id='no policy',
        ),
        pytest.param(
            'gpu:1',
            {'hw:pci_numa_affinity_policy': 'required'},
            {'hw_pci_numa_affinity_policy': 'socket'},
            'the image wants socket',
            id='flavor against image',
        ),
    ],
)
def test_requests_that_make_no_sense(text, extra_specs, properties, why):
    with pytest.raises(errors.InvalidRequest, match=why):
        requests(text, extra_specs, **properties)
