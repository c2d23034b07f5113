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
"""The record of a scheduler among Nova's services, on every database: tests that each database
runs.

A module of tests brings the fixture ``database``: an engine that may write.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.db import nova_services
from nova_sched.db.nova_services import SqlServiceRecords
from nova_sched.db.transactions import transaction
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.unit.db.nova_tables import seconds

OWN = sa.MetaData()
SERVICES = sa.Table(
    'services',
    OWN,
    sa.Column('id', sa.Integer, primary_key=True),
    *(sa.Column(name, sa.String(255)) for name in ('uuid', 'host', 'binary', 'topic')),
    *(sa.Column(name, sa.Integer, nullable=False) for name in ('report_count', 'version')),
    sa.Column('deleted', sa.Integer),
    *(sa.Column(name, sa.Boolean) for name in ('disabled', 'forced_down')),
    *(sa.Column(name, sa.DateTime) for name in ('created_at', 'updated_at', 'last_seen_up')),
    sa.UniqueConstraint('host', 'binary', 'deleted'),
)


class ServiceRecords:
    @pytest.fixture
    def records(self, database):
        OWN.drop_all(database)
        OWN.create_all(database)
        yield SqlServiceRecords(database)
        OWN.drop_all(database)

    def rows(self, database):
        with transaction(database) as connection:
            return connection.execute(sa.select(SERVICES).order_by(SERVICES.c.host)).all()

    def test_the_first_sign_makes_the_row(self, records, database):
        records.write('controller', uuid_of('one'))
        (row,) = self.rows(database)
        assert row.uuid == uuid_of('one')
        assert (row.host, row.binary, row.topic) == ('controller', 'nova-scheduler', 'scheduler')
        assert (row.report_count, row.version, row.deleted) == (0, nova_services.VERSION, 0)
        assert (bool(row.disabled), bool(row.forced_down)) == (False, False)
        assert seconds(row.created_at) == pytest.approx(time.time(), abs=60)

    def test_later_signs_count(self, records, database):
        for name in ('one', 'two', 'three'):
            records.write('controller', uuid_of(name))
        records.write('other', uuid_of('other'))
        first, _ = self.rows(database)
        assert (first.uuid, first.report_count) == (uuid_of('one'), 2)
        for moment in (first.updated_at, first.last_seen_up):
            assert seconds(moment) == pytest.approx(time.time(), abs=60)

    def test_a_row_that_an_operator_has_disabled_stays_so(self, records, database):
        records.write('controller', uuid_of('one'))
        with transaction(database) as connection:
            connection.execute(sa.update(SERVICES).values(disabled=True))
        records.write('controller', uuid_of('one'))
        assert self.rows(database)[0].disabled

    def test_a_deleted_row_is_not_used(self, records, database):
        records.write('controller', uuid_of('one'))
        with transaction(database) as connection:
            connection.execute(sa.update(SERVICES).values(deleted=7))
        records.write('controller', uuid_of('two'))
        assert sorted(row.deleted for row in self.rows(database)) == [0, 7]

    def test_processes_that_start_at_once_make_one_row(self, records, database):
        with ThreadPoolExecutor(4) as pool:
            names = [uuid_of(str(number)) for number in range(8)]
            list(pool.map(lambda name: records.write('controller', name), names))
        assert len(self.rows(database)) == 1

    def test_a_database_that_refuses_is_told(self, records, database):
        OWN.drop_all(database)
        with pytest.raises((errors.BadConfig, errors.StoreUnavailable)):
            records.write('controller', uuid_of('one'))
