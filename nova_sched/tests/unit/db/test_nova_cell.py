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
"""Tests of what is read of Nova's databases, on SQLite: a cell."""

import pytest

from nova_sched import errors
from nova_sched.db import engine
from nova_sched.db.nova_cell import NovaCell
from nova_sched.tests.unit.db import nova_cells


@pytest.fixture
def database(tmp_path):
    made = engine.create(f'sqlite:///{tmp_path}/nova.sqlite')
    yield made
    made.dispose()


class TestNovaCell(nova_cells.NovaCells):
    pass


@pytest.mark.parametrize(
    'work',
    [
        pytest.param(lambda one: one.now_s(), id='now_s'),
        pytest.param(lambda one: one.services_not_up(60), id='services_not_up'),
        pytest.param(lambda one: one.services_not_up(60, ['x']), id='services_not_up, of hosts'),
        pytest.param(lambda one: one.node_stamps(), id='node_stamps'),
        pytest.param(lambda one: one.nodes(['x']), id='nodes'),
        pytest.param(lambda one: one.served(['x']), id='served'),
    ],
)
def test_a_database_that_is_away(work):
    """It is connected to when it is read, not before."""
    made = NovaCell(engine.reader('postgresql+psycopg2://nova@127.0.0.1:1/nova'))
    with pytest.raises(errors.StoreUnavailable, match='refused'):
        work(made)
