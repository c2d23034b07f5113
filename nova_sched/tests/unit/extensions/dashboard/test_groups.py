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

"""Members of a group by their domains."""

from nova_sched.extensions.dashboard.groups import states, tree


def member(path, at, /, **domains):
    return {'path': path, 'host': at, 'state': 'planned' if at else 'unplaced',
            'domains': domains}  # fmt: skip


def names(branches):
    return {one['name']: names(one['branches']) or [each['path'] for each in one['members']]
            for one in branches}  # fmt: skip


def test_a_tree():
    found = tree(
        [
            member('a', 'h1', host='h1', rack='r1', zone='z1'),
            member('b', 'h2', host='h2', rack='r1', zone='z1'),
            member('c', 'h3', host='h3', rack='h3', zone='z2'),
            member('d', None),
        ]
    )
    assert names(found) == {
        'z1': {'r1': {'h1': ['a'], 'h2': ['b']}},
        'z2': {'h3': ['c']},
        'no place': ['d'],
    }


def test_without_names_of_hosts():
    """As a project sees it."""
    found = tree(
        [member('a', None, rack='r1', zone='z1'), member('b', None, rack='r1', zone='z1')]
    )
    assert names(found) == {'z1': {'r1': ['a', 'b']}}


def test_states():
    assert states([member('a', 'h'), member('b', None)]) == {'planned': 1, 'unplaced': 1}
