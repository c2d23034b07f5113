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
"""Tests of what is read of Nova's databases, on SQLite: the API database."""

import pytest

from nova_sched import errors
from nova_sched.db import engine
from nova_sched.db.nova_api import NovaApi
from nova_sched.tests.unit.db import nova_apis


@pytest.fixture
def database(tmp_path):
    made = engine.create(f'sqlite:///{tmp_path}/nova.sqlite')
    yield made
    made.dispose()


class TestNovaApi(nova_apis.NovaApis):
    pass


@pytest.mark.parametrize(
    'work',
    [
        pytest.param(lambda one: one.cell_mappings(), id='cell_mappings'),
        pytest.param(lambda one: one.host_mappings(), id='host_mappings'),
        pytest.param(lambda one: one.aggregates(), id='aggregates'),
        pytest.param(lambda one: one.has_build_request('x'), id='has_build_request'),
        pytest.param(lambda one: one.request_spec('x'), id='request_spec'),
        pytest.param(lambda one: one.server_group('x'), id='server_group'),
    ],
)
def test_a_database_that_is_away(work):
    """It is connected to when it is read, not before."""
    made = NovaApi(engine.reader('postgresql+psycopg2://nova@127.0.0.1:1/nova'))
    with pytest.raises(errors.StoreUnavailable, match='refused'):
        work(made)
