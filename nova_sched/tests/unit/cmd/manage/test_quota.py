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
"""`nova-sched-manage quota` and `job` on a database in a file."""

import json
import re

import pytest

from nova_sched.claims.sql import SqlClaimStore
from nova_sched.conf import quota
from nova_sched.db.jobs import FAILED, SqlJobTable
from nova_sched.tests.builders import NOW, uuid_of
from nova_sched.tests.keystone import Keystone, served
from nova_sched.tests.rows import each
from nova_sched.tests.unit.claims.batteries.group_records.records import commit, plan, record
from nova_sched.tests.unit.claims.batteries.group_records.records import (
    planned as claim_of_member,
)
from nova_sched.tests.unit.claims.batteries.steps import ready
from nova_sched.tests.unit.cmd.manage.test_commands import ROOT, cells, keys
from nova_sched.tests.unit.db.jobs import entry, hold

FAILURES = json.dumps(
    [{'host': 'n1', 'why': 'no image', 'stdout': '', 'stderr': 'looking\nno image\n'}]
)


@pytest.fixture
def job_table(database):
    """The job table of the configuration: project p has two servers and a job that has failed, q a
    limit."""
    made = SqlJobTable(database)
    made.open([entry(queue='tiny'), entry('b', created_s=NOW + 1)], [hold(vcpus=3), hold('b')])
    made.open([entry('c', project_id='q', created_s=NOW + 2, message='secret')])
    made.settle(uuid_of('c'), FAILED, NOW, host='n1', tries=2, why='no disk', failures=FAILURES)
    made.set_limit('q', 'servers', -1)
    return made


@pytest.fixture
def run(manage, job_table, tmp_path):
    """``run('quota list', ...)`` with a configuration of these lines besides."""

    def run(words, *more, lines='[quota]\nlimits = servers=5, class:VCPU=7\n'):
        return manage(
            words,
            *more,
            config=f'[database]\nconnection = sqlite:///{tmp_path}/db.sqlite\n{lines}',
        )

    return run


def shown(out):
    """Project, resource, used, limit, own of each row, without what plans may use and do not."""
    rows = [tuple(row.values()) for row in json.loads(out)]
    return [row for row in rows if row[2] or row[1] not in quota.PLANS]


JOB = uuid_of('a')


def test_quota_show(run):
    assert shown(run('quota show p --format json').out) == [
        ('p', 'servers', 2, 5, None),
        ('p', 'class:VCPU', 3, 7, None),
    ]
    assert shown(run('quota show q --format json').out)[0] == ('q', 'servers', 0, None, -1)
    nobody = shown(run('quota show nobody --format json').out)
    assert nobody[0] == ('nobody', 'servers', 0, 5, None)


def test_quota_list(run):
    no_plans = ', '.join(f'{name}=-1' for name in quota.PLANS)
    said = run('quota list', lines=f'[quota]\nlimits = servers=5, class:VCPU=7, {no_plans}\n')
    assert [row for row in cells(said.out) if row[1] not in quota.PLANS] == [
        ['Project', 'Resource', 'Used', 'Limit', 'Own'],
        ['p', 'servers', '2', '5', ''],
        ['p', 'class:VCPU', '3', '7', ''],
        ['q', 'servers', '0', 'none', 'none'],
        ['q', 'class:VCPU', '0', '7', ''],
    ]


def test_quota_without_limits(run):
    lines = '[quota]\ndriver = none\n'
    assert shown(run('quota show p --format json', lines=lines).out) == [
        ('p', 'servers', 2, None, None),
        ('p', 'class:VCPU', 3, None, None),
    ]


@pytest.fixture
def planned(database):
    """Project g has a group of one member, whose host is held for two vCPUs."""
    store = SqlClaimStore(database)
    ready(store)
    group = record(project_id='g', members=1)
    assert commit(store, plan(claim_of_member(vcpus=2), of=group)).won


PLANS = [
    ('g', 'group_bytes', 15, 4194304, None),
    ('g', 'group_members', 1, 500, None),
    ('g', 'planned_class:MEMORY_MB', 512, 1638400, None),
    ('g', 'planned_class:VCPU', 2, 400, None),
    ('g', 'planned_servers', 1, 4, None),
]


def test_quota_of_plans(run, planned):
    lines = '[quota]\nlimits = planned_servers=4\n'
    assert shown(run('quota show g --format json', lines=lines).out) == PLANS
    listed = shown(run('quota list --format json', lines=lines).out)
    assert [row for row in listed if row[0] == 'g'] == PLANS
    unused = [row['resource'] for row in json.loads(run('quota show g --format json').out)]
    assert {*quota.PLANS, 'servers', 'class:VCPU'} == set(unused)
    said = run('quota set g planned_class:VCPU 8', lines=lines).out
    assert said == 'Project g has the limit 8 of planned_class:VCPU, of its own; 2 used.\n'


@pytest.mark.filterwarnings('ignore::openstack.warnings.RemovedInSDK50Warning')
def test_what_is_not_registered_of_plans_has_its_default(run, planned):
    with served(Keystone({'planned_servers': 4}, {})) as keystone:
        assert shown(run('quota show g --format json', lines=keystone.config()).out) == PLANS


@pytest.mark.filterwarnings('ignore::openstack.warnings.RemovedInSDK50Warning')
def test_quota_of_keystone(run):
    with served(Keystone({'servers': 4}, {'p': {'class:DISK_GB': 9}})) as keystone:
        found = run('quota show p --format json', lines=keystone.config())
    assert shown(found.out) == [
        ('p', 'servers', 2, 4, None),
        ('p', 'class:DISK_GB', 0, 9, None),
        ('p', 'class:VCPU', 3, 0, None),
    ]


@each(
    'words, own, said',
    [
        ('p servers 9', {'servers': 9}, 'the limit 9 of servers, of its own; 2 used'),
        ('p servers 0', {'servers': 0}, 'the limit 0 of servers, of its own; 2 used'),
        ('p servers default', {}, 'the limit 5 of servers, as by default'),
        ('p class:CUSTOM_GPU -1', {'class:CUSTOM_GPU': -1}, 'no limit of class:CUSTOM_GPU'),
        ('p class:CUSTOM_GPU default', {}, 'no limit of class:CUSTOM_GPU, as by default'),
        ('q servers default', {}, 'the limit 5 of servers, as by default'),
    ],
)
def test_quota_set(run, job_table, words, own, said):
    done = run(f'quota set {words}')
    assert (done.status, done.err) == (0, '')
    assert said in done.out
    assert job_table.limits(words.split()[0]) == own


@pytest.mark.parametrize('driver', ['keystone', 'none'])
def test_a_limit_that_the_driver_would_not_read(run, job_table, driver):
    status, out, err = run('quota set p servers 9', lines=f'[quota]\ndriver = {driver}\n')
    assert (status, out) == (1, '')
    assert f'it is {driver}' in err
    assert job_table.limits('p') == {}


@each(
    'more, names',
    [
        ('', 'abc'),  # oldest first
        ('--project q', 'c'),
        ('--state queued', 'ab'),
        (f'--instance {uuid_of("i b")}', 'b'),
        (f'--instance {uuid_of("i b")} --state failed', ''),
        (f'--limit 1 --marker {uuid_of("a")}', 'b'),
    ],
)
def test_job_list(run, more, names):
    found = json.loads(run('job list --format json', *more.split()).out)
    assert [row['job_uuid'] for row in found] == [uuid_of(name) for name in names]


def test_job_list_as_table(run):
    (last,) = (row for row in cells(run('job list').out) if row[0] == uuid_of('c'))
    assert last[1:8] == ['create', uuid_of('i c'), 'q', '-', 'n1', 'failed', '2']


def test_job_show(run):
    found = json.loads(run(f'job show {uuid_of("c")} --format json').out)
    assert (found['state'], found['why'], found['tries']) == ('failed', 'no disk', 2)
    assert found['failures'] == json.loads(FAILURES)
    out = run(f'job show {uuid_of("c")}').out
    assert out.splitlines()[-5:] == [
        'Why         no disk',
        '',
        'Failed on n1: no image',
        '  stderr | looking',
        '  stderr | no image',
    ]
    assert 'secret' not in out


def test_job_cancel(run):
    found = json.loads(run(f'job cancel {uuid_of("a")} --format json').out)
    assert (found['job_uuid'], found['state']) == (uuid_of('a'), 'cancelled')
    for name, state in (('a', 'cancelled'), ('c', 'failed')):
        status, out, err = run(f'job cancel {uuid_of(name)}')
        assert (status, out) == (1, '')
        assert f'is a create and {state}: only a queued create can be cancelled' in err
    assert f'instance {uuid_of("i b")} will not be built' in run(f'job cancel {uuid_of("b")}').out


@each('words', ['job show x', 'job list --marker x', 'job cancel x'])
def test_a_job_that_is_not_there(run, words):
    status, out, err = run(words)
    assert (status, out) == (1, '')
    assert 'There is no job x' in err


@each(
    'words',
    ['quota show p', 'quota list', 'quota set p servers 1', 'job list', f'job show {JOB}'],
)
def test_what_json_holds_is_documented(run, words):
    page = (ROOT / 'doc/source/command-line.rst').read_text()
    found = keys(json.loads(run(f'{words} --format json').out))
    assert found
    assert [name for name in sorted(found) if f'``{name}``' not in page] == []


def test_the_age_of_a_job_is_by_the_clock_of_the_database(run, job_table, an_hour_ahead):
    now_s = job_table.now_s()
    job_table.open([entry('new', created_s=now_s, updated_s=now_s)])
    table = run('job list').out
    (last,) = (line for line in table.splitlines() if uuid_of('new') in line)
    assert re.search(r'\d+ s ago +\| \d+ s ago', last)
    assert re.search(r'Made +\d+ s ago', run('job show', uuid_of('new')).out)
