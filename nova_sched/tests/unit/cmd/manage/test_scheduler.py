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
"""`nova-sched-manage scheduler`: who is there, and how they fare."""

import json
import time

import pytest

from nova_sched.cmd.manage import scheduler
from nova_sched.db.schedulers import SchedulerFacts, SqlSchedulers
from nova_sched.engine.figures import Figures
from nova_sched.tests.builders import NOW, uuid_of
from nova_sched.tests.rows import each


def facts(name='one', host='control-1', seen_s=NOW - 2, started_s=NOW - 7200, **figures):
    plain = {**Figures().plain(), 'look_lag_s': 1.25, **figures}
    return SchedulerFacts(uuid_of(name), host, 4711, started_s, seen_s, plain)


@pytest.fixture
def schedulers(database):
    return SqlSchedulers(database)


def test_a_row():
    found = facts(placed=200, conflicts=3, retries=5, refused=1, stale_nodes=7)
    assert scheduler.row(found, NOW) == {
        'scheduler_uuid': uuid_of('one'),
        'host': 'control-1',
        'pid': 4711,
        'state': 'alive',
        'started_at': '2027-01-15T06:00:00+00:00',
        'last_seen': '2027-01-15T07:59:58+00:00',
        'lag_s': 1.25,
        'stale_nodes': 7,
        'clock_offset_s': None,
        'placed': 200,
        'refused': 1,
        'conflicts': 3,
        'retries': 5,
        'busy': 0,
        'batches': 0,
        'conflict_rate': 0.015,
        'retry_rate': 0.025,
        'fragmentation': None,
    }


def test_a_process_of_another_release_tells_less():
    less = SchedulerFacts(uuid_of('one'), 'h', 1, NOW, NOW, {'placed': 2})
    row = scheduler.row(less, NOW)
    assert (row['placed'], row['refused']) == (2, 0)
    assert (row['lag_s'], row['conflict_rate']) == (None, 0.0)


@each(
    'found, heading, cell',
    [
        (facts(), 'State', 'alive'),
        (facts(seen_s=NOW - 13), 'State', 'silent, seen 13 s ago'),
        (facts(seen_s=NOW + 60), 'State', 'alive'),
        (facts(), 'Started', '2 h ago'),
        (facts(), 'Lag', '1.2 s'),
        (facts(look_lag_s=0.031), 'Lag', '31 ms'),
        (facts(look_lag_s=None), 'Lag', '-'),
        (facts(conflicts=3, placed=200), 'Conflicts', '3 (1.50%)'),
        (facts(retries=3), 'Retries', '3'),
    ],
)
def test_a_cell(found, heading, cell):
    assert scheduler.columns(NOW)[heading](scheduler.row(found, NOW)) == cell


def test_the_list(manage, schedulers):
    now_s = time.time()
    schedulers.write(facts('silent', 'control-2', now_s - 120, now_s - 500))
    schedulers.write(facts('gone', 'control-3', now_s - 4000, now_s - 9000))
    schedulers.write(facts('here', 'control-1', now_s, now_s - 500, placed=1))
    status, out, _ = manage('scheduler list')
    assert (status, out.count('\n')) == (0, 6)
    assert '| control-1 | 4711 | alive' in out
    assert '| control-2 | 4711 | silent, seen 2 min ago' in out
    rows = json.loads(manage('scheduler list --format json').out)
    assert [(one['host'], one['state'], one['placed']) for one in rows] == [
        ('control-1', 'alive', 1),
        ('control-2', 'silent', 0),
    ]


def test_no_scheduler(manage, schedulers):
    assert json.loads(manage('scheduler list --format json').out) == []


def test_claims_in_memory(manage):
    status, _, err = manage('scheduler list', config='[claims]\nstore = memory\n')
    assert status == 1
    assert '[claims] store' in err


def test_every_key_is_told_of():
    assert all(key in scheduler.list_schedulers.__doc__ for key in scheduler.row(facts(), NOW))
