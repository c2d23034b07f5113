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

"""What is told of a placement group, its members and its moves."""

import datetime
import json

import pytest

from nova_sched import objects
from nova_sched.objects import object_io

SOME = '7a9f961e-91b7-5eec-ba67-426d5c717816'
MOMENT = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def member(**fields):
    facts = {
        'path': 'app/web/3',
        'state': 'pending',
        'member_uuid': SOME,
        'instance_uuid': SOME,
        'host': 'a',
        'nodename': 'n',
        'compute_node_uuid': SOME,
        'availability_zone': 'west',
        'domains': {'host': 'a', 'rack': 'r1', 'zone': 'west'},
    }
    return objects.GroupMember(**facts | fields)


def move(**fields):
    facts = {
        'path': 'app/db',
        'instance_uuid': SOME,
        'from_host': 'a',
        'to_host': 'b',
        'reason': 'apart',
    }
    return objects.GroupMove(**facts | fields)


def group(**fields):
    facts = {
        'uuid': SOME,
        'name': 'shop',
        'project_id': 'p',
        'user_id': 'u',
        'status': 'planned',
        'generation': 1,
        'serial': 3,
        'template': 'heat_template_version: rocky\n',
        'parameters': '{"count": 3}',
        'members': [member()],
        'moves': [move()],
        'warnings': ['one node tells no rack'],
        'dry_run': False,
        'created_at': MOMENT,
        'updated_at': None,
        'expires_at': MOMENT,
    }
    return objects.TopGroup(**facts | fields)


UNPLACED = dict.fromkeys(
    ['member_uuid', 'instance_uuid', 'host', 'nodename', 'compute_node_uuid', 'availability_zone']
)


@pytest.mark.parametrize(
    'made',
    [
        pytest.param(group(), id='all'),
        pytest.param(
            group(uuid=None, name=None, dry_run=True, created_at=None, expires_at=None),
            id='a trial',
        ),
        pytest.param(
            group(members=[member(state='unplaced', domains={}, **UNPLACED)]), id='no place'
        ),
        pytest.param(
            group(moves=[move(instance_uuid=None, from_host=None)]), id='a move from nowhere'
        ),
        pytest.param(objects.TopGroup(uuid=SOME, status='built'), id='without members'),
    ],
)
def test_a_group_crosses_the_wire(made):
    written = objects.to_primitive(made)
    assert written[object_io.NAMESPACE] == 'nova_sched'
    assert written[object_io.VERSION] == '1.0'
    assert objects.to_primitive(objects.from_primitive(json.loads(json.dumps(written)))) == written


def test_a_list_has_no_members():
    made = objects.from_primitive(
        objects.to_primitive(objects.TopGroup(uuid=SOME, status='built'))
    )
    assert 'members' not in made
    assert 'status' in made


@pytest.mark.parametrize(
    'make, fields',
    [
        pytest.param(group, {'uuid': 'x'}, id='no UUID'),
        pytest.param(group, {'status': 'fine'}, id='status'),
        pytest.param(group, {'generation': None}, id='no generation'),
        pytest.param(group, {'members': [move()]}, id='no members'),
        pytest.param(member, {'state': 'building'}, id='state of a member'),
        pytest.param(member, {'path': None}, id='no path'),
        pytest.param(member, {'domains': {'rack': None}}, id='no name of a domain'),
        pytest.param(move, {'to_host': None}, id='to nowhere'),
    ],
)
def test_what_is_no_group(make, fields):
    with pytest.raises(ValueError):
        make(**fields)
