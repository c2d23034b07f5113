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
"""Requests, from whatever has the attributes."""

import pytest

from nova_sched import objects
from nova_sched.hardware import pci
from nova_sched.tests import reference
from nova_sched.tests.unit.hardware.builders import request


def test_a_recorded_request():
    gpu, qat = pci.requests_of(reference.scenario('pci-alias-in-placement').pci_requests)
    spec = {'vendor_id': '10de', 'product_id': '20b0', 'dev_type': 'type-PCI'}
    uuid = 'c288d070-d84a-513d-817b-ca0e6585825f'
    assert gpu == pci.PciRequest(2, (spec,), 'legacy', uuid, None, 'gpu-a100')
    assert qat.dev_types == {'type-VF'}
    assert qat.alternatives == (
        {'vendor_id': '8086', 'product_id': '4941', 'dev_type': 'type-vf'},
    )


@pytest.mark.parametrize(
    'requests, found',
    [
        pytest.param(None, (), id='none'),
        pytest.param(objects.InstancePCIRequests(), (), id='unset'),
        pytest.param(
            objects.InstancePCIRequests(requests=[objects.InstancePCIRequest(count=1, spec=[{}])]),
            (pci.PciRequest(1, ({},)),),
            id='fields unset',
        ),
    ],
)
def test_what_is_not_told(requests, found):
    assert pci.requests_of(requests) == found


@pytest.mark.parametrize(
    'asked, name',
    [
        pytest.param(request(name='gpu', requester_id='port'), 'gpu', id='alias'),
        pytest.param(request(name=None, requester_id='port'), 'port', id='port'),
        pytest.param(request(name=None), 'r1', id='neither'),
        pytest.param(request(name=None, request_id=None), 'PCI request', id='nothing at all'),
    ],
)
def test_name(asked, name):
    assert asked.name == name


@pytest.mark.parametrize(
    'specs, remote, movable',
    [
        pytest.param([{}], False, False, id='neither'),
        pytest.param([{'remote_managed': 'True'}], True, False, id='remote'),
        pytest.param([{}, {'remote_managed': 'true'}], True, False, id='one of two remote'),
        pytest.param([{'live_migratable': 'yes'}], False, True, id='movable'),
        pytest.param([{}, {'live_migratable': 'yes'}], False, False, id='one of two movable'),
        pytest.param(
            [{'live_migratable': 'no', 'remote_managed': 'false'}], False, False, id='no'
        ),
    ],
)
def test_wishes(specs, remote, movable):
    asked = request(1, *specs)
    assert (asked.remote_managed, asked.live_migratable) == (remote, movable)


TOLD = {'rp_uuids': 'rp8,rp9'}


@pytest.mark.parametrize(
    'asked, mapping, providers',
    [
        pytest.param(request(1), {'r1-0': ['rp1']}, ['rp1'], id='one device'),
        pytest.param(
            request(2),
            {'r1-0': ['rp1'], 'r2-0': ['rp2'], 'r1-1': ['rp3']},
            ['rp1', 'rp3'],
            id='each',
        ),
        pytest.param(
            request(2),
            {'r1-0': ['rp1'], 'r1-1': ['rp1']},
            ['rp1', 'rp1'],
            id='two of one provider',
        ),
        pytest.param(request(1), {'r2-0': ['rp2']}, [], id='of another request'),
        pytest.param(request(1), {'r1-0': []}, [], id='to nobody'),
        pytest.param(request(1, TOLD), {'r2-0': ['rp2']}, [], id='the mapping comes first'),
        pytest.param(request(1, TOLD), None, ['rp8', 'rp9'], id='what the request was told'),
        pytest.param(request(1, TOLD), {}, ['rp8', 'rp9'], id='an empty mapping'),
        pytest.param(request(1, {}, TOLD), None, [], id='only its first alternative is told'),
        pytest.param(request(1), None, [], id='nothing told'),
        pytest.param(request(1, TOLD, name=None), {'r1-0': ['rp1']}, [], id='a port'),
        pytest.param(request(1, request_id=None), {'r1-0': ['rp1']}, [], id='no id'),
    ],
)
def test_providers(asked, mapping, providers):
    assert asked.providers(mapping) == providers
