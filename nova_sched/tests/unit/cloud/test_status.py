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
"""What operators are shown of the cloud."""

import dataclasses

import pytest

from nova_sched import errors
from nova_sched.cloud.status import CloudStatus
from nova_sched.tests.builders import CELL, NOW
from nova_sched.tests.rows import each, each_afresh
from nova_sched.tests.unit.cloud.doubles import FakeCell, node_uuid
from nova_sched.tests.unit.cloud.test_mirror import OTHER, cloud, make

__all__ = ['cloud', 'make']

GOOD = {
    'cell_uuid': CELL,
    'name': 'cell',
    'state': 'readable',
    'why': None,
    'looked_at': NOW,
    'hosts': 2,
    'taking': 2,
}


class Writer:
    pending = 2, 1


def read(cloud, writer=None):
    made = CloudStatus(
        cloud.scheduler, cloud.mirror, cloud.nova, cloud.placement, writer, lambda: 60.0
    )
    return made.read()


def test_a_cloud_without_problems(cloud):
    found = read(cloud, Writer())
    assert found == {
        'ok': True,
        'now': NOW,
        'cells': [GOOD],
        'hosts': [],
        'parts': [
            {'part': "Nova's API database", 'reachable': True, 'why': None},
            {'part': 'Placement', 'reachable': True, 'why': None},
        ],
        'writes': {'pending': 2, 'in_doubt': 1},
    }
    assert read(cloud)['writes'] is None


@each_afresh(
    'spoil, state, why, ok',
    {
        'no mapping': (
            lambda cloud: cloud.nova.unmapped.add('host-0'),
            'left out',
            'discover_hosts',
            False,
        ),
        'silent': (
            lambda cloud: cloud.cell.silence('host-0', seen_s=NOW - 100),
            'silent',
            '101 s old',
            False,
        ),
        'disabled': (
            lambda cloud: cloud.cell.silence(
                'host-0', disabled=True, disabled_reason='disk', seen_s=NOW
            ),
            'disabled',
            'disk',
            True,
        ),
    },
)
def test_a_host_that_takes_no_servers(cloud, spoil, state, why, ok):
    cloud.world.now_s += 1
    spoil(cloud)
    cloud.poll(compare=True)
    found = read(cloud)
    (host,) = found['hosts']
    assert (host['host'], host['cell_uuid'], host['state']) == ('host-0', CELL, state)
    assert why in host['why']
    assert (found['cells'][0]['hosts'], found['cells'][0]['taking']) == (2, 1)
    assert found['ok'] is ok


def test_a_cell_that_is_away(cloud):
    cloud.cell.is_away = True
    cloud.poll(after_s=70.0)
    found = read(cloud)
    (cell,) = found['cells']
    assert (cell['state'], cell['looked_at'], cell['taking']) == ('unreadable', NOW, 0)
    assert 'connection refused' in cell['why']
    assert {one['state'] for one in found['hosts']} == {'silent'}
    assert not found['ok']


def test_a_mirror_that_has_stopped(cloud):
    cloud.world.now_s += 70.0
    (cell,) = read(cloud)['cells']
    assert (cell['state'], cell['why']) == ('unreadable', '70 s since a poll')


@each_afresh(
    'why, state, ok',
    {
        'disabled': ('it is disabled', 'disabled', True),
        'a URL with an error': ('it is not the URL of a database', 'left out', False),
    },
)
def test_a_cell_that_is_left_out(cloud, why, state, ok):
    cloud.nova.left_out[OTHER] = why
    found = read(cloud)
    assert found['cells'][0] == GOOD
    left_out = {'cell_uuid': OTHER, 'name': None, 'state': state, 'why': why}
    assert found['cells'][1] == {**left_out, 'looked_at': None, 'hosts': 0, 'taking': 0}
    assert found['ok'] is ok


@each('problem', [errors.PlacementUnavailable('timeout'), errors.PlacementRefused('no role', 403)])
def test_placement_that_does_not_answer(cloud, problem):
    with cloud.placement.failing(problem):
        found = read(cloud)
    assert [one['part'] for one in found['parts'] if not one['reachable']] == ['Placement']
    assert not found['ok']


def test_an_api_database_that_is_away(cloud):
    def away():
        raise errors.StoreUnavailable('connection refused')

    cloud.nova.reread = away
    cloud.poll(compare=True)
    found = read(cloud)
    assert 'connection refused' in found['parts'][0]['why']
    assert not found['ok']


class TestACellOfAnotherScheduler:
    """Its nodes are read by that one, so hosts that are left out are not known here."""

    @pytest.fixture
    def shared(self, make):
        made = make(FakeCell(), FakeCell(OTHER))
        made.world.context.membership.position_and_count = (0, 2)
        self.far = max(made.nova.cells, key=lambda cell: cell.uuid)
        made.poll(compare=True)
        return made

    def test_hosts_that_are_left_out(self, shared):
        self.far.add('host-8', free_disk_gb=None)
        self.far.add('host-9')
        shared.placement.add('host-8', 'host-9')
        found = read(shared)
        assert {
            one['host']: one['why'].rpartition(', ')[2]
            for one in found['hosts']
            if one['cell_uuid'] == self.far.uuid
        } == {
            'host-8': 'host_mappings: host host-8 is mapped to no cell: run '
            'nova-manage cell_v2 discover_hosts',
            'host-9': 'host_mappings: host host-9 is mapped to no cell: run '
            'nova-manage cell_v2 discover_hosts',
        }
        shared.mirror.nodes.mappings = dict.fromkeys(['host-8', 'host-9'], self.far.uuid)
        why = {one['host']: one['why'] for one in read(shared)['hosts']}
        assert 'free_disk_gb' in why['host-8']
        assert why['host-9'] == 'another scheduler has not read it yet'

    def test_a_row_without_a_uuid(self, shared):
        """Placement, which refuses such a name, is not asked for it."""
        self.far.add('host-8')
        row = self.far.rows.pop(node_uuid('host-8'))
        self.far.rows['odd'] = dataclasses.replace(row, uuid='odd')
        shared.placement.broken = {'odd'}
        (found,) = [one for one in read(shared)['hosts'] if one['cell_uuid'] == self.far.uuid]
        assert (found['host'], 'is not a UUID' in found['why']) == ('host-8', True)

    def test_it_is_away_since_the_last_poll(self, shared):
        self.far.is_away = True
        states = {one['cell_uuid']: one['state'] for one in read(shared)['cells']}
        assert states[self.far.uuid] == 'unreadable'
