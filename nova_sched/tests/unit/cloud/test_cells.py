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
"""Which cells are read, and with which URL."""

import logging

import pytest

from nova_sched import errors
from nova_sched.cloud import cells
from nova_sched.db import engine
from nova_sched.db.nova_api import NovaApi
from nova_sched.state.host_aggregate import HostAggregate
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.rows import each, each_afresh, table
from nova_sched.tests.unit.db import nova_tables as tables
from nova_sched.tests.unit.db.nova_tables import fill, mapping, service

OWN = 'mysql+pymysql://nova:s%40cret@db.example:3307/nova_cell0?charset=utf8mb4#part'
FIRST, SECOND = uuid_of('cell 1'), uuid_of('cell 2')


@table(
    'template, connection, url',
    {
        'every field': (
            '{scheme}://{username}:{password}@{hostname}:{port}/nova_cell1?{query}#{fragment}',
            OWN,
            OWN.replace('cell0', 'cell1'),
        ),
        'path': ('{scheme}://other/{path}_2', OWN, 'mysql+pymysql://other/nova_cell0_2'),
        'empty fields': ('sqlite:////x?{query}', 'sqlite:////y', 'sqlite:////x?'),
    },
)
def test_templates(template, connection, url):
    assert cells.filled(template, connection) == url


@pytest.fixture
def database(tmp_path):
    made = engine.create(f'sqlite:///{tmp_path}/nova_api')
    yield tables.emptied(made, tables.OF_API)
    made.dispose()


@pytest.fixture
def cloud(database):
    return cells.Cells(NovaApi(database), OWN)


def set_cells(database, *rows):
    tables.emptied(database, tables.OF_API)
    if rows:
        fill(database, tables.CELLS, *rows)


def cell0():
    return {**mapping(), 'uuid': cells.CELL0, 'name': 'cell0'}


def test_the_enabled_cells_are_read(database, cloud, caplog):
    set_cells(database, cell0(), mapping(3), mapping(1, disabled=True), mapping(2))
    assert list(cloud) == []
    cloud.reread()
    cloud.reread()
    assert [(cell.uuid, cell.name) for cell in cloud] == [
        (SECOND, 'cell2'),
        (uuid_of('cell 3'), 'cell3'),
    ]
    assert cloud.left_out == {FIRST: 'it is disabled'}
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_cell_stays_while_its_mapping_does(database, cloud):
    set_cells(database, mapping(1), mapping(2))
    cloud.reread()
    one, two = cloud
    set_cells(database, mapping(1), mapping(2, 'mysql+pymysql://moved/nova'), mapping(3))
    cloud.reread()
    assert [cell in (one, two) for cell in cloud] == [True, False, False]
    set_cells(database, mapping(1, disabled=True))
    cloud.reread()
    assert list(cloud) == []


def test_a_cell_is_read_with_the_filled_template(tmp_path, database):
    in_cell = engine.create(f'sqlite:///{tmp_path}/nova_cell1')
    tables.emptied(in_cell, tables.OF_CELL)
    fill(in_cell, tables.SERVICES, service(disabled=True))
    in_cell.dispose()
    set_cells(database, mapping(url='{scheme}:////{path}_cell1'))
    cloud = cells.Cells(NovaApi(database), f'sqlite:///{tmp_path}/nova')
    cloud.reread()
    (cell,) = cloud
    assert [row.host for row in cell.services_not_up(60)] == ['cmp1']
    cell.close()


@each_afresh(
    'url, connection, why',
    {
        'a template, and nothing to fill it': ('{hostname}', None, 'is not set'),
        'an unknown field': ('{nothing}', OWN, 'does not have'),
        'a field without value': ('x://{port}', 'mysql://db/nova', 'does not have'),
        'half a template': ('{', OWN, 'does not have'),
        'no URL': ('no url secret', OWN, 'not the URL'),
        'a port that is none': ('mysql://u:se/cret@db:port/x', OWN, 'not the URL'),
        'NULL': (None, OWN, 'not the URL'),
        'an unknown kind': ('secrets://u:secret@db/x', OWN, 'plugin'),
    },
)
def test_a_cell_with_a_bad_url_is_left_out(database, caplog, url, connection, why):
    set_cells(database, mapping(1, url), mapping(2))
    cloud = cells.Cells(NovaApi(database), connection)
    cloud.reread()
    assert [cell.uuid for cell in cloud] == [SECOND]
    assert why in cloud.left_out[FIRST]
    assert FIRST in caplog.text
    assert 'secret@' not in caplog.text
    assert 'se/cret' not in caplog.text


def test_the_cells_stay_while_the_api_database_is_away(database, cloud, tmp_path):
    set_cells(database, mapping())
    cloud.reread()
    database.dispose()
    (tmp_path / 'nova_api').unlink()
    (tmp_path / 'nova_api').mkdir()
    with pytest.raises(errors.StoreUnavailable):
        cloud.reread()
    assert [cell.uuid for cell in cloud] == [FIRST]


def test_a_cell_that_is_away_is_a_cell(database, cloud):
    set_cells(database, mapping(url='postgresql+psycopg2://nova@127.0.0.1:1/nova'))
    cloud.reread()
    (cell,) = cloud
    with pytest.raises(errors.StoreUnavailable, match='refused'):
        cell.now_s()


def test_aggregates(database, cloud):
    fill(database, tables.AGGREGATES, {'id': 1, 'uuid': 'x', 'name': 'zone'})
    fill(database, tables.AGGREGATE_HOSTS, {'aggregate_id': 1, 'host': 'cmp1'})
    data = {'aggregate_id': 1, 'key': 'availability_zone', 'value': 'az1'}
    fill(database, tables.AGGREGATE_METADATA, data)
    (found,) = cloud.aggregates()
    assert found == HostAggregate(
        1, 'zone', frozenset(['cmp1']), {'availability_zone': 'az1'}, 'x'
    )


class OneCell:
    def __init__(self, answer):
        self._answer = answer

    def is_moving(self, server):
        if self._answer is None:
            raise errors.StoreUnavailable('connection refused')
        return self._answer


@each(
    'answers, is_moving',
    [
        pytest.param([False, True], True, id='one says so'),
        pytest.param([None, True], True, id='a cell that is away before it'),
        pytest.param([True, None], True, id='a cell that is away after it'),
        pytest.param([False, False], False, id='none says so'),
        pytest.param([None, False], None, id='none says so, and one is away'),
    ],
)
def test_a_server_that_nova_moves(cloud, monkeypatch, answers, is_moving):
    monkeypatch.setattr(cells.Cells, '__iter__', lambda _: map(OneCell, answers))
    if is_moving is None:
        with pytest.raises(errors.StoreUnavailable):
            cloud.is_moving(FIRST)
    else:
        assert cloud.is_moving(FIRST) is is_moving
