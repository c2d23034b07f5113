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
"""`nova-sched-manage cloud`: what people are shown."""

from nova_sched.cmd.manage import cloud
from nova_sched.tests.builders import CELL, NOW
from nova_sched.tests.rows import each

CELL_ROW = {
    'cell_uuid': CELL,
    'name': 'cell1',
    'state': 'readable',
    'why': None,
    'looked_at': '2027-01-15T07:59:58+00:00',
    'hosts': 2,
    'taking': 1,
}
HOST = {'host': 'cmp1', 'cell_uuid': CELL, 'state': 'silent', 'why': 'it is silent'}
PARTS = [
    {'part': "Nova's API database", 'reachable': True, 'why': None},
    {'part': 'Placement', 'reachable': False, 'why': 'Placement does not answer: timeout'},
]


def found(**words):
    known = {'cells': [CELL_ROW], 'hosts': [], 'parts': PARTS, 'writes': None}
    return {**known, **words}


UNREADABLE = {**CELL_ROW, 'name': None, 'state': 'unreadable', 'why': 'refused'}


@each(
    'words, line',
    [
        ({}, '| cell1 | readable | 2 s ago   |     2 |            1 |'),
        ({'cells': [UNREADABLE]}, f'| {CELL} | unreadable: refused |'),
        ({'cells': [{**CELL_ROW, 'looked_at': None}]}, '| never     |'),
        ({'hosts': [HOST]}, '| cmp1 | cell1 | silent | it is silent'),
        ({'hosts': [HOST] * 60}, '10 more; --format json has all'),
        ({}, "Nova's API database: answers"),
        ({}, 'Placement: FAILED: Placement does not answer: timeout'),
        ({'writes': {'pending': 3, 'in_doubt': 1}}, 'Writes: 3 pending, 1 in doubt'),
    ],
)
def test_a_page(words, line):
    assert line in cloud.page(found(**words), NOW)
    assert ('Writes' in cloud.page(found(**words), NOW)) == ('writes' in words)
