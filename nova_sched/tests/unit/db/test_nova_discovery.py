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
"""New hosts in Nova's databases, on SQLite."""

import pytest

from nova_sched import errors
from nova_sched.db import engine, nova_discovery
from nova_sched.tests.unit.db import nova_discoveries
from nova_sched.tests.unit.db import nova_tables as nova


@pytest.fixture
def database(tmp_path):
    made = engine.create(f'sqlite:///{tmp_path}/nova.sqlite')
    yield made
    made.dispose()


class TestHostDiscovery(nova_discoveries.HostDiscoveries):
    pass


def test_an_account_that_may_not_write(database):
    nova.emptied(database, nova.OF_API)
    nova.emptied(database, nova.OF_CELL)
    reader = engine.reader(database.url.render_as_string(hide_password=False))
    for work in (
        lambda: nova_discovery.map_host(reader, nova_discoveries.CELL, 'cmp1'),
        lambda: nova_discovery.mark(reader, 'any'),
    ):
        with pytest.raises((errors.BadConfig, errors.StoreUnavailable), match='readonly'):
            work()
