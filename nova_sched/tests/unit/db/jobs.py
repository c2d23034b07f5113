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
"""What the job table keeps, with its quotas, on every database: tests that each database runs.

A module of tests brings the fixture ``database``: an engine on the newest schema, with empty
tables.
"""

import collections
import dataclasses
import json
import random
import time
from concurrent import futures

import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.db.jobs import (
    CANCELLED,
    CHUNK,
    DONE,
    FAILED,
    MAX_REASON_CHARS,
    QUEUED,
    JobEntry,
    QuotaHold,
    SqlJobTable,
)
from nova_sched.db.tables import JOBS, QUOTA_HOLDS, QUOTA_USAGE
from nova_sched.tests.builders import NOW, uuid_of
from nova_sched.tests.rows import each_afresh


def entry(name='a', **facts):
    """A create of instance `i (name)`, of project p."""
    known = {
        'uuid': uuid_of(name),
        'kind': 'create',
        'instance_uuid': uuid_of(f'i {name}'),
        'message': '{}',
    }
    return JobEntry(**{**known, 'project_id': 'p', 'created_s': NOW, 'updated_s': NOW, **facts})


class Retrying:
    """A job table that does again what others were in the way of, as those do who use it."""

    def __init__(self, job_table):
        self._job_table = job_table

    def __getattr__(self, name):
        def again(*given, **words):
            while True:
                try:
                    return getattr(self._job_table, name)(*given, **words)
                except errors.StoreBusy:
                    time.sleep(0.001)

        return again


def hold(name='a', project='p', servers=1, vcpus=0):
    amounts = {'servers': servers, 'class:VCPU': vcpus}
    return QuotaHold(
        uuid_of(f'i {name}'), project, {key: amount for key, amount in amounts.items() if amount}
    )


def limited(**most):
    """The same limits for everybody."""
    named = {{'vcpus': 'class:VCPU'}.get(name, name): limit for name, limit in most.items()}
    return lambda _project: named


def check_usage(database):
    """The use of each project is the sum of its holds."""
    sums = collections.defaultdict(collections.Counter)
    with database.connect() as connection:
        for _, project, amounts in connection.execute(sa.select(QUOTA_HOLDS)):
            sums[project].update(json.loads(amounts))
        used = {
            project: json.loads(found)
            for project, found, _ in connection.execute(sa.select(QUOTA_USAGE))
        }
    assert {project: found for project, found in used.items() if found} == sums


class Battery:
    @pytest.fixture
    def job_table(self, database):
        yield SqlJobTable(database)
        check_usage(database)


class Jobs(Battery):
    def test_what_was_entered_is_found(self, job_table):
        full = {'user_id': 'u', 'request_id': 'req-1', 'queue': 'tiny+pci:gpu', 'host': 'ü'}
        made = [entry('b', message='x' * 99_999, **full), entry(project_id=None)]
        assert job_table.open(made) == made
        assert [job_table.find(one.uuid) for one in made] == made
        assert job_table.find(uuid_of('c')) is None

    def test_a_job_that_is_entered_again_stays_as_it_is(self, job_table):
        job_table.open([entry()])
        ended = job_table.settle(uuid_of('a'), DONE, NOW + 1, host='n1')
        again = entry('b', updated_s=NOW + 2)
        assert job_table.open([again, entry(updated_s=NOW + 2)]) == [again, ended]
        assert job_table.find(uuid_of('a')) == ended
        assert job_table.find(uuid_of('b')) == again

    @each_afresh(
        'filters, names',
        {
            'all, oldest first': ({}, 'dabc'),
            'project': ({'project_id': 'q'}, 'c'),
            'state': ({'state': FAILED}, 'b'),
            'instance': ({'instance_uuid': uuid_of('i a')}, 'da'),
            'both must hold': ({'instance_uuid': uuid_of('i a'), 'state': FAILED}, ''),
            'at most': ({'limit': 2}, 'da'),
            'after one': ({'marker': uuid_of('a'), 'limit': 1}, 'b'),
            'after the last': ({'marker': uuid_of('c')}, ''),
        },
    )
    def test_jobs_are_listed(self, job_table, filters, names):
        beside = entry('d', created_s=NOW - 1, instance_uuid=uuid_of('i a'), kind='delete')
        later = entry('b', created_s=NOW + 1), entry('c', created_s=NOW + 2, project_id='q')
        job_table.open([entry(), *later, beside])
        job_table.settle(uuid_of('b'), FAILED, NOW)
        assert [one.uuid for one in job_table.list(**filters)] == [uuid_of(name) for name in names]

    def test_the_newest_jobs(self, job_table):
        made = [entry(name, created_s=NOW + at) for at, name in enumerate('abc')]
        job_table.open([*made, entry('d', created_s=NOW + 3, project_id='q')])
        found = [one.uuid for one in job_table.newest(3)]
        assert found == [uuid_of(name) for name in 'dcb']
        assert [one.uuid for one in job_table.newest(1, 'p')] == [uuid_of('c')]

    def test_jobs_of_one_moment_are_listed_page_by_page(self, job_table):
        job_table.open([entry(name) for name in 'abcde'])
        first = job_table.list(limit=2)
        rest = job_table.list(marker=first[-1].uuid)
        assert [one.uuid for one in first + rest] == sorted(map(uuid_of, 'abcde'))

    def test_a_marker_that_is_not_there(self, job_table):
        with pytest.raises(errors.JobNotFound):
            job_table.list(marker=uuid_of('a'))
        job_table.open([entry('b', project_id='q')])
        with pytest.raises(errors.JobNotFound):
            job_table.list('p', marker=uuid_of('b'))
        assert job_table.list('q', marker=uuid_of('b')) == []

    def test_a_job_is_settled_once(self, job_table):
        job_table.open([entry()])
        ended = job_table.settle(uuid_of('a'), FAILED, NOW + 1, 'n1', 3, 'no disk')
        assert ended == entry(state=FAILED, host='n1', tries=3, why='no disk', updated_s=NOW + 1)
        assert job_table.settle(uuid_of('a'), DONE, NOW + 2) is None
        assert job_table.find(uuid_of('a')) == ended
        assert job_table.settle(uuid_of('b'), DONE, NOW) is None

    def test_a_job_is_not_given_up_after_another_attempt(self, job_table):
        job_table.open([entry()])
        assert job_table.attempt(uuid_of('a'))
        assert job_table.settle(uuid_of('a'), FAILED, NOW, seen=0) is None
        assert job_table.find(uuid_of('a')) == entry(tries=1)
        assert job_table.settle(uuid_of('a'), FAILED, NOW, seen=1).state == FAILED
        assert not job_table.attempt(uuid_of('a'))
        assert not job_table.attempt(uuid_of('z'))

    def test_jobs_that_follow_are_stored_with_the_end(self, job_table):
        beside = {'kind': 'delete', 'instance_uuid': uuid_of('i a')}
        there, new = entry('b', **beside), entry('c', **beside)
        job_table.open([entry(), there])
        job_table.settle(there.uuid, DONE, NOW + 1)
        again = dataclasses.replace(there, host='n2')
        assert job_table.settle(uuid_of('a'), DONE, NOW, follow=[again, new]).state == DONE
        assert job_table.find(new.uuid) == new
        assert job_table.find(there.uuid).state == DONE
        late = entry('d', **beside)
        assert job_table.settle(uuid_of('a'), FAILED, NOW, follow=[late]) is None
        assert job_table.find(late.uuid) is None

    def test_a_host_that_is_known_stays_known(self, job_table):
        job_table.open([entry(host='n1')])
        assert job_table.settle(uuid_of('a'), FAILED, NOW).host == 'n1'

    def test_what_drivers_said_is_kept(self, job_table):
        job_table.open([entry()])
        said = json.dumps([{'stderr': 'ü\0' + 'x' * 2**20}])  # more than a TEXT of MariaDB has
        ended = job_table.settle(uuid_of('a'), FAILED, NOW, failures=said)
        assert (ended.failures, job_table.find(uuid_of('a'))) == (said, ended)

    def test_any_reason_can_be_kept(self, job_table):
        job_table.open([entry()])
        ended = job_table.settle(uuid_of('a'), FAILED, NOW, why='ü\0' + 'x' * 2 * MAX_REASON_CHARS)
        assert job_table.find(uuid_of('a')) == ended
        assert (ended.why[:2], len(ended.why)) == ('üx', MAX_REASON_CHARS)

    def test_a_create_is_cancelled_while_it_is_queued(self, job_table):
        job_table.open(
            [entry(host='n1'), entry('b', kind='delete', instance_uuid=uuid_of('i a'))], [hold()]
        )
        gone = job_table.cancel(uuid_of('i a'), NOW + 1)
        assert gone == entry(host='n1', state=CANCELLED, updated_s=NOW + 1)
        assert job_table.find(uuid_of('a')) == gone
        assert job_table.find(uuid_of('b')).state == QUEUED
        assert job_table.usage('p') == {'servers': 1}
        assert job_table.cancel(uuid_of('i a'), NOW) is None
        assert job_table.settle(uuid_of('a'), DONE, NOW) is None

    def test_only_a_named_create_is_cancelled(self, job_table):
        (job,) = job_table.open([entry('a')])
        assert job_table.cancel(job.instance_uuid, NOW, uuid_of('another')) is None
        assert job_table.find(job.uuid).state == QUEUED
        assert job_table.cancel(job.instance_uuid, NOW, job.uuid).state == CANCELLED

    def test_a_create_that_has_ended_is_not_cancelled(self, job_table):
        job_table.open([entry()])
        job_table.settle(uuid_of('a'), DONE, NOW)
        assert job_table.cancel(uuid_of('i a'), NOW) is None
        assert job_table.find(uuid_of('a')).state == DONE

    def test_queued_jobs_are_overdue_until_they_are_touched(self, job_table):
        job_table.open([entry(name, updated_s=NOW + place) for place, name in enumerate('abcd')])
        job_table.settle(uuid_of('a'), DONE, NOW)
        late = [uuid_of('b'), uuid_of('c')]
        assert [one.uuid for one in job_table.overdue(NOW + 3, 9)] == late
        assert [one.uuid for one in job_table.overdue(NOW + 3, 1)] == late[:1]
        job_table.touch([late[0], uuid_of('a'), uuid_of('x')], NOW + 9)
        job_table.touch([], NOW + 9)
        assert [one.uuid for one in job_table.overdue(NOW + 3, 9)] == late[1:]
        assert job_table.find(late[0]).updated_s == NOW + 9
        assert job_table.find(uuid_of('a')).updated_s == NOW

    def test_a_cancelled_job_is_overdue_while_its_instance_holds_quota(self, job_table):
        job_table.open([entry(), entry('b')], [hold()])
        for name in 'ab':
            job_table.cancel(uuid_of(f'i {name}'), NOW)
        assert [one.uuid for one in job_table.overdue(NOW + 1, 9)] == [uuid_of('a')]
        job_table.forget(NOW + 1)
        assert [one.uuid for one in job_table.list()] == [uuid_of('a')]
        job_table.touch([uuid_of('a')], NOW + 1)
        assert job_table.overdue(NOW + 1, 9) == []
        job_table.end_hold(uuid_of('i a'))
        assert job_table.overdue(NOW + 9, 9) == []
        job_table.forget(NOW + 9)
        assert job_table.list() == []

    def test_jobs_that_have_ended_are_dropped_by_age(self, job_table, database):
        old = [entry(f'old {number}', updated_s=NOW) for number in range(CHUNK + 3)]
        job_table.open([*old, entry('new'), entry('queued')])
        with database.begin() as connection:
            ended = sa.update(JOBS).where(JOBS.c.uuid.in_([one.uuid for one in old]))
            connection.execute(ended.values(state=CANCELLED))
        job_table.settle(uuid_of('new'), FAILED, NOW + 1)
        job_table.forget(NOW + 1)
        assert {one.uuid for one in job_table.list()} == {uuid_of('new'), uuid_of('queued')}


class Quotas(Battery):
    def test_use_is_counted_by_instance(self, job_table):
        job_table.open([entry(), entry('b')], [hold(vcpus=2), hold('b', vcpus=4)])
        job_table.open([entry('c', project_id='q')], [hold('c', 'q')])
        assert job_table.usage('p') == {'servers': 2, 'class:VCPU': 6}
        assert job_table.usage('q') == {'servers': 1}
        assert job_table.usage('P') == job_table.usage('r') == {}

    @each_afresh(
        'again, used',
        {
            'the same is once': (hold(vcpus=2), {'servers': 1, 'class:VCPU': 2}),
            'more': (hold(vcpus=5), {'servers': 1, 'class:VCPU': 5}),
            'less': (hold(vcpus=1), {'servers': 1, 'class:VCPU': 2}),
            'more of one, none of the other': (hold(servers=2), {'servers': 2, 'class:VCPU': 2}),
        },
    )
    def test_a_hold_is_raised(self, job_table, again, used):
        job_table.open([entry()], [hold(vcpus=2)])
        job_table.open([entry('b', kind='resize', instance_uuid=uuid_of('i a'))], [again])
        assert job_table.usage('p') == used

    def test_holds_of_one_instance_in_one_call(self, job_table):
        job_table.open([entry()], [hold(vcpus=1), hold(vcpus=3), hold(vcpus=2)])
        assert job_table.usage('p') == {'servers': 1, 'class:VCPU': 3}

    @each_afresh(
        'limits, refused',
        {
            'just enough': (limited(servers=3, vcpus=6), None),
            'one too many': (limited(servers=2), ('p', 'servers', 2, 1, 2)),
            'of the second': (limited(servers=9, vcpus=5), ('p', 'class:VCPU', 4, 2, 5)),
            'none allowed': (limited(servers=0), ('p', 'servers', 2, 1, 0)),
            'no limit': (limited(servers=-1, vcpus=-1), None),
            'not named': (limited(), None),
        },
    )
    def test_limits(self, job_table, limits, refused):
        job_table.open([entry()], [hold(vcpus=2)])
        wanted = [entry('b'), entry('c')], [hold('b', vcpus=1), hold('c', vcpus=3)]
        if refused is None:
            job_table.open(*wanted, limits)
            assert job_table.usage('p') == {'servers': 3, 'class:VCPU': 6}
            return
        with pytest.raises(errors.QuotaExceeded) as found:
            job_table.open(*wanted, limits)
        assert found.value.args == refused
        assert job_table.usage('p') == {'servers': 1, 'class:VCPU': 2}
        assert job_table.list() == [entry()]

    def test_one_project_over_its_limit_refuses_the_whole_call(self, job_table):
        most = {'p': {}, 'q': {'servers': 0}}
        with pytest.raises(errors.QuotaExceeded):
            job_table.open(
                [entry(), entry('b', project_id='q')], [hold(), hold('b', 'q')], most.__getitem__
            )
        assert job_table.usage('p') == job_table.usage('q') == {}
        assert job_table.list() == []

    def test_who_is_over_a_limit_may_ask_for_no_more_and_only_for_that(self, job_table):
        job_table.open([entry()], [hold(servers=3, vcpus=1)])
        resize = {'kind': 'resize', 'instance_uuid': uuid_of('i a')}
        job_table.open([entry('b', **resize)], [hold(servers=3, vcpus=2)], limited(servers=1))
        assert job_table.usage('p') == {'servers': 3, 'class:VCPU': 2}
        with pytest.raises(errors.QuotaExceeded):
            job_table.open([entry('c', **resize)], [hold(servers=4)], limited(servers=1))

    def test_limits_are_asked_for_before_anything_is_locked(self, job_table, database):
        """The one who answers may be slow, or ask the same database."""
        other, asked = SqlJobTable(database), []

        def limits(project):
            asked.append(project)
            other.set_limit(project, 'servers', 2)
            return other.limits(project)

        job_table.open([entry(), entry('b')], [hold(), hold('b')], limits)
        assert asked == ['p']
        job_table.open([entry('c', kind='delete')], limits=limits)
        assert asked == ['p']

    def test_without_an_answer_nothing_is_entered(self, job_table):
        def limits(_project):
            raise errors.StoreBusy('no')

        with pytest.raises(errors.StoreBusy):
            job_table.open([entry()], [hold()], limits)
        assert job_table.list() == []

    def test_an_instance_is_of_one_project(self, job_table):
        job_table.open([entry()], [hold()])
        with pytest.raises(errors.InvalidRequest, match='project p has it'):
            job_table.open([entry('b')], [hold(project='q')])
        assert job_table.usage('q') == {}

    def test_a_failed_create_gives_back_what_it_took_once(self, job_table):
        job_table.open([entry(), entry('b')], [hold(vcpus=2), hold('b', vcpus=1)])
        for _ in range(2):
            job_table.settle(uuid_of('a'), FAILED, NOW, release=True)
            assert job_table.usage('p') == {'servers': 1, 'class:VCPU': 1}

    def test_what_comes_late_brings_no_hold_back(self, job_table):
        job_table.open([entry()], [hold()])
        ended = job_table.settle(uuid_of('a'), FAILED, NOW, release=True)
        assert job_table.open([entry()], [hold()]) == [ended]
        assert job_table.usage('p') == {}

    def test_a_job_that_is_there_and_one_that_is_new(self, job_table):
        job_table.open([entry()], [hold()])
        job_table.settle(uuid_of('a'), FAILED, NOW, release=True)
        job_table.open([entry(), entry('b')], [hold(), hold('b', vcpus=7)])
        assert job_table.usage('p') == {'servers': 1, 'class:VCPU': 7}

    def test_a_resize_ends_with_what_it_came_to(self, job_table):
        job_table.open([entry()], [hold(vcpus=4)])
        job_table.settle(uuid_of('a'), DONE, NOW)
        job_table.open([entry('b', kind='resize', instance_uuid=uuid_of('i a'))], [hold(vcpus=6)])
        job_table.settle(uuid_of('b'), DONE, NOW, amounts={'servers': 1, 'class:DISK_GB': 5})
        assert job_table.usage('p') == {'servers': 1, 'class:DISK_GB': 5}

    def test_no_amounts_at_all_end_a_hold(self, job_table):
        job_table.open([entry()], [hold()])
        job_table.settle(uuid_of('a'), DONE, NOW, amounts={})
        assert job_table.end_hold(uuid_of('i a')) is None

    @each_afresh('words', {'release': {'release': True}, 'amounts': {'amounts': {'servers': 7}}})
    def test_a_hold_that_has_ended_stays_so(self, job_table, words):
        job_table.open([entry()], [hold()])
        job_table.end_hold(uuid_of('i a'))
        assert job_table.settle(uuid_of('a'), DONE, NOW, **words).state == DONE
        assert job_table.usage('p') == {}

    def test_a_hold_ends_once(self, job_table):
        job_table.open([entry(), entry('b')], [hold(vcpus=2), hold('b')])
        assert job_table.end_hold(uuid_of('i a')) == hold(vcpus=2)
        assert job_table.end_hold(uuid_of('i a')) is None
        assert job_table.usage('p') == {'servers': 1}

    @each_afresh(
        'known, used',
        {
            'all are known': ('ab', {}),
            'and one that is forgotten': ('abz', {}),
            'one has come meanwhile': ('a', {'servers': 1}),
        },
    )
    def test_a_hold_stays_with_an_unseen_create(self, job_table, known, used):
        job_table.open([entry()], [hold()])
        job_table.settle(uuid_of('a'), FAILED, NOW)
        job_table.open([entry('b', instance_uuid=uuid_of('i a')), entry('c')], [hold()])
        job_table.open([entry('d', kind='delete', instance_uuid=uuid_of('i a'))])
        ended = job_table.end_hold(uuid_of('i a'), known=[uuid_of(name) for name in known])
        assert (ended is None) == bool(used)
        assert job_table.usage('p') == used

    def test_an_end_leaves_the_hold_of_an_unseen_create(self, job_table):
        delete = {'kind': 'delete', 'instance_uuid': uuid_of('i a')}
        job_table.open([entry(), entry('d', **delete), entry('e', **delete)], [hold()])
        job_table.settle(uuid_of('a'), DONE, NOW)
        job_table.open([entry('b', instance_uuid=uuid_of('i a'))], [hold()])
        ended = job_table.settle(uuid_of('d'), DONE, NOW, release=True, known=[uuid_of('a')])
        assert (ended.state, job_table.usage('p')) == (DONE, {'servers': 1})
        known = [uuid_of('a'), uuid_of('b')]
        job_table.settle(uuid_of('e'), DONE, NOW, release=True, known=known)
        assert job_table.usage('p') == {}

    def test_own_limits(self, job_table):
        for resource, limit in (
            ('servers', 3),
            ('class:VCPU', 1),
            ('class:VCPU', 1),
            ('class:VCPU', -1),
        ):
            job_table.set_limit('p', resource, limit)
        job_table.set_limit('q', 'servers', 0)
        assert job_table.limits('p') == {'servers': 3, 'class:VCPU': -1}
        for _ in range(2):
            job_table.set_limit('p', 'servers', None)
        assert job_table.limits('p') == {'class:VCPU': -1}
        assert job_table.limits('P') == {}

    def test_projects_that_have_something_to_show(self, job_table):
        job_table.open([entry(), entry('b', project_id='r')], [hold(), hold('b', 'r')])
        job_table.set_limit('q', 'servers', 1)
        assert job_table.projects() == ['p', 'q', 'r']
        job_table.end_hold(uuid_of('i a'))
        assert job_table.projects() == ['q', 'r']


class AtOnce(Battery):
    """Many threads at the same time: no limit is exceeded, no caller has to retry."""

    def test_the_last_of_a_limit_is_taken_once(self, job_table):
        def take(number):
            name = f'{number}'
            try:
                job_table.open([entry(name)], [hold(name, vcpus=2)], limited(servers=99, vcpus=15))
            except errors.QuotaExceeded:
                return 0
            return 1

        with futures.ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(take, range(24))) == 7
        assert job_table.usage('p') == {'servers': 7, 'class:VCPU': 14}
        assert len(job_table.list()) == 7

    def test_one_job_that_many_enter(self, job_table):
        job_table.open([entry('c')], [hold('c')])
        with futures.ThreadPoolExecutor(6) as pool:
            found = list(
                pool.map(
                    lambda _: job_table.open([entry(), entry('b')], [hold(), hold('b')]), range(6)
                )
            )
        assert found == [[entry(), entry('b')]] * 6
        assert job_table.usage('p') == {'servers': 3}

    def test_one_job_that_many_settle(self, job_table):
        job_table.open([entry()], [hold()])

        def settle(number):
            return job_table.settle(uuid_of('a'), DONE, NOW, host=f'n{number}', release=True)

        with futures.ThreadPoolExecutor(6) as pool:
            (won,) = [one for one in pool.map(settle, range(6)) if one]
        assert job_table.find(uuid_of('a')) == won
        assert job_table.usage('p') == {}

    def test_a_life_of_many_servers_of_three_projects(self, job_table):
        """Creates of several projects, resizes, repeats and deletes in any order."""
        job_table = Retrying(job_table)

        def live(worker):
            chance, made = random.Random(worker), []
            for number in range(12):
                names = [f'{worker} {number} {one}' for one in range(3)]
                projects = chance.choices('pqr', k=3)
                jobs = [
                    entry(name, project_id=of) for name, of in zip(names, projects, strict=True)
                ]
                holds = [hold(name, of, vcpus=2) for name, of in zip(names, projects, strict=True)]
                chance.shuffle(jobs), chance.shuffle(holds)
                try:
                    job_table.open(jobs, holds, limited(servers=9))
                except errors.QuotaExceeded:
                    continue
                finally:
                    while made and chance.random() < 0.7:
                        self._end(job_table, chance, made.pop())
                made += [job for job in jobs if job_table.open([job]) == [job]]
            for job in made:
                self._end(job_table, chance, job)

        with futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(live, range(4)))
        assert [job_table.usage(project) for project in 'pqr'] == [{}] * 3
        assert {one.state for one in job_table.list()} <= {DONE, FAILED, CANCELLED}

    def _end(self, job_table, chance, job):
        way = chance.randrange(4)
        if way == 0:
            assert job_table.settle(job.uuid, FAILED, NOW, release=True).state == FAILED
            return
        if way == 1:
            assert job_table.cancel(job.instance_uuid, NOW).state == CANCELLED
        else:
            assert job_table.settle(job.uuid, DONE, NOW).state == DONE
        if way == 2:
            resize = dataclasses.replace(job, uuid=uuid_of(f'resize {job.uuid}'), kind='resize')
            job_table.open(
                [resize], [QuotaHold(job.instance_uuid, job.project_id, {'class:VCPU': 5})]
            )
            job_table.settle(resize.uuid, DONE, NOW, amounts={'servers': 1, 'class:VCPU': 3})
        assert job_table.end_hold(job.instance_uuid).project_id == job.project_id
