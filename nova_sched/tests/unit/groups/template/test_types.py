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
"""Types of resources that create no members."""

from nova_sched.tests.unit.groups.template import SERVER, read


def test_what_creates_servers_unseen_is_a_warning():
    assert read({'i': {'type': 'OS::Heat::InstanceGroup'}, 'a': SERVER}).warnings == (
        'resources.i: the servers of OS::Heat::InstanceGroup are not planned',
    )


def test_resources_of_heat_are_no_members():
    others = [
        'OS::Neutron::Port',
        'OS::Heat::WaitCondition',
        'OS::Nova::KeyPair',
        'OS::NovaSched::TopGroup',
        'My::Thing',
    ]
    resources = {
        f'r{i}': {'type': kind, 'properties': {'x': {'get_file': 'y'}}}
        for i, kind in enumerate(others)
    }
    assert list(read({**resources, 'a': SERVER}).members) == ['a']
