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
"""New hosts are mapped to their cells."""

import pytest

from nova_sched.cloud.discovery import HostDiscovery
from nova_sched.db import engine
from nova_sched.db.nova_api import NovaApi
from nova_sched.db.nova_cell import NovaCell
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.db import nova_tables as tables
from nova_sched.tests.unit.db.nova_tables import fill, node

CELL = uuid_of('cell')


class Cloud:
    def __init__(self, folder):
        self.urls = {name: f'sqlite:///{folder}/{name}.sqlite' for name in ('api', 'cell')}
        self.api = tables.emptied(engine.create(self.urls['api']), tables.OF_API)
        self.cell = tables.emptied(engine.create(self.urls['cell']), tables.OF_CELL)
        fill(self.api, tables.CELLS, {'id': 2, 'uuid': CELL, 'name': 'cell1', 'disabled': False})
        fill(self.cell, tables.NODES, node('cmp1', mapped=0), node('cmp2', mapped=1))
        self.now_s, self.interval_s = 0.0, 0
        self.open = engine.create
        cells = [NovaCell(engine.reader(self.urls['cell']), CELL, 'cell1')]
        self.discovery = HostDiscovery(
            cells,
            self.urls['api'],
            lambda url: self.open(url),
            lambda: self.interval_s,
            lambda: self.now_s,
        )

    def mapped(self):
        return NovaApi(self.api).host_mappings()


@pytest.fixture
def cloud(tmp_path):
    return Cloud(tmp_path)


def test_a_new_host(cloud, caplog):
    caplog.set_level('INFO')
    assert cloud.discovery.run()
    assert cloud.mapped() == {'cmp1': CELL}
    assert caplog.messages == ['Mapped 1 new hosts to their cells: cell1:cmp1']
    cloud.now_s += 60.0
    assert not cloud.discovery.run()


@each_afresh(
    'interval_s, after_s, is_found',
    {
        'never': (-1, 1e6, False),
        'before the minute is over': (0, 59.0, False),
        'after a minute': (0, 60.0, True),
        'after the interval': (10, 10.0, True),
    },
)
def test_the_interval(cloud, interval_s, after_s, is_found):
    cloud.interval_s = interval_s
    cloud.discovery.run()
    fill(cloud.cell, tables.NODES, node('cmp3', mapped=0))
    cloud.now_s += after_s
    assert cloud.discovery.run() is is_found
    assert ('cmp3' in cloud.mapped()) is is_found


def test_a_host_that_another_scheduler_has_mapped(cloud, caplog):
    fill(cloud.api, tables.HOSTS, {'host': 'cmp1', 'cell_id': 2})
    assert not cloud.discovery.run()
    assert caplog.messages == []


def test_an_account_that_may_not_write_is_told_once(cloud, caplog):
    caplog.set_level('INFO')
    cloud.open = engine.reader
    for _ in range(2):
        assert not cloud.discovery.run()
        cloud.now_s += 60.0
    (line,) = caplog.messages
    assert f'New hosts of cell {CELL} cannot be mapped: ' in line
    cloud.open = engine.create
    cloud.discovery._engines.clear()
    assert cloud.discovery.run()
    assert caplog.messages[1:] == [
        f'Hosts of cell {CELL} can be mapped again',
        'Mapped 1 new hosts to their cells: cell1:cmp1',
    ]
