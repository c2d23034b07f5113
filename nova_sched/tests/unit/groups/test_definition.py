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
"""What a definition comes to, for its author."""

from nova_sched.groups.definition import Definition, GroupPolicy, Member, MemberFlavor


def test_members_policies_and_warnings():
    flavor = MemberFlavor(vcpus=2, memory_mb=512, root_gb=10, ephemeral_gb=5, name='small')
    found = Definition(
        members={
            'a/0': Member(path='a/0', flavor=flavor, availability_zone='west'),
            'b': Member(
                path='b',
                flavor=MemberFlavor(vcpus=1, memory_mb=1, root_gb=9),
                boots_from_volume=True,
            ),
        },
        policies=(
            GroupPolicy(
                name='a', kind='spread', level='rack', a=('a/0',), min_domains=2, weight=3.0
            ),
            GroupPolicy(name='link', kind='near', level='zone', a=('a/0',), b=('b',)),
        ),
        warnings=('key_name is not read',),
    ).summary()
    first, second = found['members']
    assert first == {
        'path': 'a/0',
        'flavor': 'small',
        'vcpus': 2,
        'memory_mb': 512,
        'disk_gb': 15,
        'availability_zone': 'west',
    }
    assert (second['path'], second['flavor'], second['disk_gb']) == ('b', None, 0)
    spread, near = found['policies']
    assert spread == {
        'name': 'a',
        'kind': 'spread',
        'level': 'rack',
        'members': ['a/0'],
        'others': [],
        'weight': 3.0,
        'most': 1,
        'min_domains': 2,
        'max_skew': None,
    }
    assert (near['members'], near['others'], near['weight']) == (['a/0'], ['b'], None)
    assert found['warnings'] == ['key_name is not read']
