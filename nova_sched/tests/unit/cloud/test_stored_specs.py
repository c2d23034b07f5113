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
"""The requests of running servers, from what Nova has stored."""

import json

import pytest

from nova_sched import errors, objects
from nova_sched.cloud.stored_specs import StoredSpecs
from nova_sched.db.nova_api import ServerGroupRow
from nova_sched.rpc import translate
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import spec
from nova_sched.tests.rows import each, each_afresh, table
from nova_sched.tests.unit.cloud.doubles import FakeCell

ONE, TWO, GONE = (uuid_of(name) for name in ('one', 'two', 'gone'))
GROUP = uuid_of('group')


class Api:
    """``texts`` and ``groups`` by server."""

    def __init__(self):
        self.texts, self.groups = {}, {}

    def request_spec(self, uuid):
        return self.texts.get(uuid)

    def server_group(self, uuid):
        return self.groups.get(uuid)


@pytest.fixture
def api():
    made = Api()
    stored = spec(
        vcpus=2,
        memory_mb=1024,
        num_instances=3,
        ignore_hosts=['cmp7'],
        force_hosts=['cmp8'],
        scheduler_hints={'group': [GROUP]},
        instance_group=objects.InstanceGroup(uuid=GROUP, policy='affinity', members=None),
    )
    made.texts[ONE] = json.dumps(objects.to_primitive(stored))
    return made


@pytest.fixture
def cells():
    first, second = FakeCell(uuid_of('cell 1')), FakeCell(uuid_of('cell 2'))
    second.serve(ONE, host='cmp1', vm_state='active')
    first.serve(TWO, host='cmp2', vm_state='active')
    second.serve(GONE, host='cmp3', deleted=True)
    return [first, second]


def found(api, cells):
    (request,) = translate.requests(StoredSpecs(api, cells).spec(ONE), [ONE])
    return request


def test_a_server(api, cells):
    request = found(api, cells)
    assert (request.vcpus, request.memory_mb, request.instance_uuid) == (2, 1024, ONE)
    assert request.destination.cell_uuid == uuid_of('cell 2')
    assert (request.destination.host, request.destination.node) == (None, None)
    # What was so when the server was built does not matter any more.
    assert not request.ignore_hosts | request.force_hosts | request.force_nodes
    assert request.group is None


def test_its_group_is_as_it_is_now(api, cells):
    members = frozenset([ONE, TWO, GONE])
    rules = '{"max_server_per_host": 2}'
    api.groups[ONE] = ServerGroupRow(GROUP, 'anti-affinity', rules, members)
    group = found(api, cells).group
    assert (group.uuid, group.policy, group.max_server_per_host) == (GROUP, 'anti-affinity', 2)
    assert (group.members, group.hosts) == (members, {'cmp1', 'cmp2'})


@each('rules', ['{', '[1]', '5', '"x"', '[' * 100_000])
def test_rules_that_cannot_be_read(api, cells, rules):
    api.groups[ONE] = ServerGroupRow(GROUP, 'anti-affinity', rules, frozenset([ONE]))
    with pytest.raises(errors.MalformedObject, match='rules'):
        found(api, cells)


def test_a_group_without_rules(api, cells):
    api.groups[ONE] = ServerGroupRow(GROUP, 'affinity', None, frozenset([ONE]))
    assert found(api, cells).group.max_server_per_host == 1


@each_afresh(
    'change',
    {
        'no request': lambda api, cells: api.texts.clear(),
        'no instance': lambda api, cells: cells[1].servers.clear(),
        'deleted': lambda api, cells: cells[1].serve(ONE, deleted=True),
    },
)
def test_no_such_server(api, cells, change):
    change(api, cells)
    with pytest.raises(errors.NotFound, match=f'Server {ONE}'):
        found(api, cells)


@table(
    'text',
    {
        'no JSON': '{',
        'no object': '[]',
        'another one': json.dumps(objects.to_primitive(objects.Destination())),
    },
)
def test_a_request_that_cannot_be_read(api, cells, text):
    api.texts[ONE] = text
    with pytest.raises(errors.MalformedObject):
        found(api, cells)


def test_a_cell_that_is_away(api, cells):
    cells[0].is_away = True
    with pytest.raises(errors.StoreUnavailable):
        found(api, cells)
