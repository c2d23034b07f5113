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
"""Jobs and quotas on database servers, and what only several connections at once can
show."""

from concurrent import futures

import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.db.jobs import DONE, FAILED, SqlJobTable
from nova_sched.db.tables import QUOTA_USAGE
from nova_sched.tests.builders import NOW, uuid_of
from nova_sched.tests.integration.messages import counted
from nova_sched.tests.integration.test_claim_store import waiting
from nova_sched.tests.unit.db import jobs as battery
from nova_sched.tests.unit.db.jobs import entry, hold, limited
from nova_sched.tests.unit.db.test_jobs import CALLS, READS


class TestJobs(battery.Jobs):
    pass


class TestQuotas(battery.Quotas):
    pass


class TestAtOnce(battery.AtOnce):
    pass


def locked(connection, project='p'):
    """Have a project's row until the transaction ends."""
    row = QUOTA_USAGE.c.project_id == project
    connection.execute(sa.update(QUOTA_USAGE).where(row).values(used=QUOTA_USAGE.c.used))


def test_the_last_of_a_limit_while_both_wait_for_the_project(database):
    """Each has entered its job by then, and only one is left."""
    job_table = SqlJobTable(database)
    job_table.open([entry()], [hold()])
    with futures.ThreadPoolExecutor(2) as pool:
        with database.begin() as connection:
            locked(connection)
            wants = [
                pool.submit(job_table.open, [entry(name)], [hold(name)], limited(servers=2))
                for name in 'bc'
            ]
            waiting(database, 2)
            assert not any(one.done() for one in wants)
        lost = [one for one in wants if isinstance(one.exception(60), errors.QuotaExceeded)]
    assert len(lost) == 1
    assert job_table.usage('p') == {'servers': 2}
    assert len(job_table.list()) == 2


def test_a_hold_changes_while_it_is_given_back(database):
    """The amount given back is the current one, not the one that was read before."""
    job_table = SqlJobTable(database)
    job_table.open(
        [entry(), entry('b', kind='resize', instance_uuid=uuid_of('i a'))], [hold(vcpus=2)]
    )
    with futures.ThreadPoolExecutor(2) as pool:
        with database.begin() as connection:
            locked(connection)
            first = pool.submit(
                job_table.settle, uuid_of('b'), DONE, NOW, amounts={'class:VCPU': 7}
            )
            waiting(database, 1)
            last = pool.submit(job_table.settle, uuid_of('a'), FAILED, NOW, release=True)
            waiting(database, 2)
            assert not any(one.done() for one in (first, last))
        assert first.result(60).state == DONE
        assert last.result(60).state == FAILED
    assert job_table.usage('p') == {}
    battery.check_usage(database)


def test_a_hold_that_stays_the_same_is_written(database):
    """On Galera only that keeps it apart from its end: an UPDATE to the same amounts writes
    nothing."""
    job_table = SqlJobTable(database)
    job_table.open([entry()], [hold()])
    with counted() as messages:
        job_table.open([entry('b', instance_uuid=uuid_of('i a'))], [hold()])
    assert any('INSERT INTO quota_holds' in message for message in messages)
    assert job_table.usage('p') == {'servers': 1}
    battery.check_usage(database)


def test_projects_do_not_wait_for_each_other(database):
    job_table = SqlJobTable(database)
    job_table.open([entry(), entry('b')], [hold(), hold('b', 'q')])
    with futures.ThreadPoolExecutor(1) as pool, database.begin() as connection:
        locked(connection)
        pool.submit(job_table.open, [entry('c')], [hold('c', 'q')]).result(60)
        pool.submit(job_table.settle, uuid_of('a'), DONE, NOW).result(60)
    assert job_table.find(uuid_of('c')) is not None
    assert job_table.find(uuid_of('a')).state == DONE


@pytest.mark.parametrize('count', [1, 20])
def test_how_many_messages_jobs_take(database, count):
    """However many there are; MariaDB's driver says COMMIT, and takes one statement in a
    message."""
    job_table = SqlJobTable(database)
    job_table.open([entry()], [hold()])
    names = [str(number) for number in range(count)]
    with counted() as messages:
        job_table.open(
            [entry(name) for name in names], [hold(name) for name in names], limited(servers=99)
        )
    assert len(messages) == {'postgresql': 3, 'mysql': 6}[database.dialect.name]


def test_how_many_messages_an_end_takes(database):
    """One that gives its hold back, and one that does not; the drivers say COMMIT, and
    SQLAlchemy's BEGIN."""
    job_table = SqlJobTable(database)
    job_table.open([entry(), entry('b')], [hold(), hold('b')])
    with counted() as messages:
        job_table.settle(uuid_of('a'), FAILED, NOW, release=True)
        job_table.settle(uuid_of('b'), DONE, NOW)
    assert len(messages) == 4 + 1 + 2 + 1


def test_while_the_server_is_away_every_call_says_so_and_then_goes_on(database, server):
    job_table = SqlJobTable(database)
    job_table.open([entry('b')], [hold('b')])
    server.kill()
    away = []
    for call in (*CALLS.values(), *READS.values()):
        try:
            call(job_table)
        except errors.StoreUnavailable as error:
            away.append(error)
    server.start()
    assert len(away) == len(CALLS) + len(READS)
    assert job_table.usage('p') == {'servers': 1}
    for call in (*CALLS.values(), *READS.values()):
        call(job_table)
    assert job_table.usage('p') == {'servers': 1}
