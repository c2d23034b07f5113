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
"""ImagePropertiesFilter: triples, versions, address bits."""

import types

import pytest

from nova_sched import errors
from nova_sched.conf import CONF
from nova_sched.filters.image_properties import ImagePropertiesFilter
from nova_sched.tests.builders import host, hosts, mask_of, request, spec
from nova_sched.tests.rows import each

KVM = (('x86_64', 'kvm', 'hvm'), ('i686', 'kvm', 'hvm'))
ARM = (('aarch64', 'kvm', 'hvm'),)
XEN = (('x86_64', 'xen', 'hvm'), ('x86_64', 'xen', 'xen'))
ROWS = {
    'supported_instances': [KVM, ARM, XEN, ()],
    'hypervisor_version': [2001000, 3000000, None, 2001000],
    'cpu_info': ['{"maxphysaddr": {"bits": 46}}', '{"maxphysaddr": {}}', 'no json', None],
}


@each(
    'properties, kept',
    [
        pytest.param({'hw_architecture': 'x86_64'}, '1010', id='architecture'),
        pytest.param({'hw_architecture': 'AMD64'}, '1010', id='another name of it'),
        pytest.param({'hw_architecture': 'i586'}, '1000', id='an older name of it'),
        pytest.param({'hw_vm_mode': 'pv'}, '0010', id='VM mode by its old name'),
        pytest.param({'hw_vm_mode': 'hv'}, '1110', id='the other VM mode by its old name'),
        pytest.param({'img_hv_type': 'xapi'}, '0010', id='hypervisor type by its old name'),
        pytest.param({'hw_vm_mode': 'xen', 'img_hv_type': 'kvm'}, '0000', id='not in one triple'),
        pytest.param(
            {'img_hv_type': 'xen', 'hw_vm_mode': 'hvm'}, '0010', id='a word anywhere in the triple'
        ),
        pytest.param(
            {'hw_vm_mode': 'hvm', 'img_hv_requested_version': '>=2.0, <3.0'},
            '1010',
            id='version; an unknown one is well',
        ),
        pytest.param(
            {'hw_vm_mode': 'hvm', 'img_hv_requested_version': '==3.0.0'},
            '0110',
            id='exact version',
        ),
        pytest.param(
            {'hw_vm_mode': 'hvm', 'hw_maxphysaddr_bits': 46}, '1110', id='address bits are enough'
        ),
        pytest.param(
            {'hw_vm_mode': 'hvm', 'hw_maxphysaddr_bits': 47}, '0110', id='address bits too few'
        ),
    ],
)
def test_hosts_that_can_run_the_image(properties, kept):
    assert (
        mask_of(ImagePropertiesFilter, hosts(**ROWS), request(image_properties=properties)) == kept
    )


@each(
    'words',
    [
        pytest.param({'image_properties': {}}, id='no properties'),
        pytest.param({'image': None}, id='no image'),
        pytest.param({'image_properties': {'os_distro': 'ubuntu'}}, id='other properties'),
        pytest.param(
            {'image_properties': {'hw_architecture': None}}, id='a property that is null'
        ),
        pytest.param(
            {'image_properties': {'img_hv_requested_version': '>=99', 'hw_maxphysaddr_bits': 99}},
            id='version and bits alone',
        ),
    ],
)
def test_no_opinion(words):
    assert ImagePropertiesFilter().mask(hosts(**ROWS), request(**words)) is True
    assert ImagePropertiesFilter().host_passes(host(), spec(**words))


@pytest.fixture
def arm_by_default():
    CONF.set_override('image_properties_default_architecture', 'aarch64', 'filter_scheduler')
    yield
    CONF.clear_override('image_properties_default_architecture', 'filter_scheduler')


@pytest.mark.usefixtures('arm_by_default')
@each(
    'words, kept',
    [
        pytest.param({'image_properties': {}}, '0100', id='assumed'),
        pytest.param({'image': None}, '0100', id='assumed without an image'),
        pytest.param(
            {'image_properties': {'hw_architecture': 'i686'}},
            '1000',
            id='the image says otherwise',
        ),
    ],
)
def test_default_architecture(words, kept):
    assert mask_of(ImagePropertiesFilter, hosts(**ROWS), request(**words)) == kept


@each(
    'properties, where',
    [
        pytest.param({'hw_architecture': 'vax'}, 'hw_architecture', id='architecture'),
        pytest.param({'hw_vm_mode': 'bogus'}, 'hw_vm_mode', id='VM mode'),
        pytest.param({'img_hv_type': 'vax'}, 'img_hv_type', id='hypervisor type'),
        pytest.param(
            {'img_hv_type': 'kvm', 'img_hv_requested_version': 'new'},
            'img_hv_requested_version',
            id='version',
        ),
        pytest.param(
            {'img_hv_type': 'kvm', 'img_hv_requested_version': '>= x'},
            'img_hv_requested_version',
            id='version of no number',
        ),
    ],
)
def test_a_property_that_makes_no_sense_is_refused_by_its_name(properties, where):
    with pytest.raises(errors.InvalidRequest, match=where):
        ImagePropertiesFilter().mask(hosts(**ROWS), request(image_properties=properties))


def test_only_what_the_rule_needs_is_read():
    small = types.SimpleNamespace(supported_instances=[['x86_64', 'kvm', 'hvm']])
    assert ImagePropertiesFilter().host_passes(
        small, spec(image_properties={'img_hv_type': 'kvm'})
    )
    assert not ImagePropertiesFilter().host_passes(
        small, spec(image_properties={'img_hv_type': 'xen'})
    )
