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
"""Tests of the job table, on SQLite."""

import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.db.jobs import DONE, FAILED, SqlJobTable
from nova_sched.tests.builders import NOW, uuid_of
from nova_sched.tests.unit.db import jobs as battery
from nova_sched.tests.unit.db.jobs import entry, hold


class TestJobs(battery.Jobs):
    pass


class TestQuotas(battery.Quotas):
    pass


class TestAtOnce(battery.AtOnce):
    pass


CALLS = {
    'open': lambda job_table: job_table.open([entry()], [hold()]),
    'settle': lambda job_table: job_table.settle(uuid_of('a'), DONE, NOW, release=True),
    'attempt': lambda job_table: job_table.attempt(uuid_of('a')),
    'cancel': lambda job_table: job_table.cancel(uuid_of('i a'), NOW),
    'end_hold': lambda job_table: job_table.end_hold(uuid_of('i a')),
    'touch': lambda job_table: job_table.touch([uuid_of('a')], NOW),
    'forget': lambda job_table: job_table.forget(NOW),
    'set_limit': lambda job_table: job_table.set_limit('p', 'servers', 1),
}
READS = {
    'find': lambda job_table: job_table.find(uuid_of('a')),
    'list': lambda job_table: job_table.list(),
    'newest': lambda job_table: job_table.newest(1),
    'of_instance': lambda job_table: job_table.of_instance(uuid_of('i a')),
    'overdue': lambda job_table: job_table.overdue(NOW, 1),
    'usage': lambda job_table: job_table.usage('p'),
    'limits': lambda job_table: job_table.limits('p'),
    'projects': lambda job_table: job_table.projects(),
}


@pytest.mark.parametrize(
    'work', [pytest.param(work, id=name) for name, work in (CALLS | READS).items()]
)
def test_a_database_that_is_away(gone, work):
    with pytest.raises(errors.StoreUnavailable):
        work(SqlJobTable(gone))


@pytest.mark.parametrize('work', [pytest.param(work, id=name) for name, work in READS.items()])
def test_who_looks_waits_for_no_writer(database, work):
    before = work(SqlJobTable(database))
    with database.begin():
        assert work(SqlJobTable(database)) == before


@pytest.fixture
def statements(database):
    """What SQLite is told, but for the ends of transactions."""
    told = []

    def listen(statement):
        if not statement.startswith(('BEGIN', 'COMMIT')):
            told.append(statement)

    sa.event.listen(database, 'connect', lambda driver, _record: driver.set_trace_callback(listen))
    database.dispose()
    return told


def test_how_many_statements_a_server_takes(database, statements):
    job_table = SqlJobTable(database)
    job_table.open([entry('first')], [hold('first')])
    counts = {}
    for name, work in {
        'open': lambda: job_table.open([entry()], [hold(vcpus=1)]),
        'settle': lambda: job_table.settle(uuid_of('first'), DONE, NOW),
        'settle and release': lambda: job_table.settle(uuid_of('a'), FAILED, NOW, release=True),
        'end_hold': lambda: job_table.end_hold(uuid_of('i first'), known=[uuid_of('first')]),
    }.items():
        statements.clear()
        work()
        counts[name] = len(statements)
    assert counts == {'open': 5, 'settle': 2, 'settle and release': 4, 'end_hold': 4}
