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

"""Kinds of guests."""

from nova_sched import objects
from nova_sched.tests.unit.objects import reference

NODE = reference.wire('object-ComputeNode-numa-pci-metrics.json')['primitive']['nova_object.data']


def test_a_kind_of_guest_is_a_triple():
    spec = objects.HVSpec.from_list(['amd64', 'KVM', 'hv'])
    assert spec.to_list() == ['x86_64', 'kvm', 'hvm']
    assert [known.to_list() for known in objects.from_primitive(NODE['supported_hv_specs'])] == [
        ['x86_64', 'qemu', 'hvm'],
        ['x86_64', 'kvm', 'hvm'],
    ]
