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
"""Tests of the crowd: who is there, in which place, whatever the clocks say."""

import os
import subprocess
import sys

import pytest

from nova_sched import errors
from nova_sched.db.schedulers import SchedulerFacts
from nova_sched.engine.sync.membership import KEPT_S, SILENT_S, SchedulerMembership
from nova_sched.tests.builders import NOW
from nova_sched.tests.unit.engine.world import World


class Table:
    """SqlSchedulers in a dictionary."""

    def __init__(self):
        self.rows = {}

    def write(self, facts):
        self.rows[facts.uuid] = facts

    def alive(self, since_s):
        return [facts for facts in self.rows.values() if facts.seen_s >= since_s]

    def remove(self, uuid):
        del self.rows[uuid]

    def forget(self, before_s):
        self.rows = {uuid: facts for uuid, facts in self.rows.items() if facts.seen_s >= before_s}


class Time:
    """A clock for all; each member may read it wrong by some seconds."""

    def __init__(self):
        self.now_s = 0.0
        self.table = Table()

    def member(self, wrong_s=0.0):
        return SchedulerMembership(
            self.table, 'host', 7, lambda: NOW + self.now_s + wrong_s, lambda: self.now_s
        )


def heartbeat(*members):
    """Twice, so that each has seen the others."""
    for member in members * 2:
        member.heartbeat({})


@pytest.fixture
def time():
    return Time()


def test_without_a_table_it_is_alone():
    alone = SchedulerMembership()
    alone.heartbeat({})
    alone.forget()
    alone.leave()
    assert alone.position_and_count == (0, 1)


def test_each_has_its_place_by_uuid(time):
    members = [time.member() for _ in range(5)]
    assert {member.position_and_count for member in members} == {(0, 1)}
    heartbeat(*members)
    in_order = sorted(members, key=lambda member: member.uuid)
    assert [member.position_and_count for member in in_order] == [
        (position, 5) for position in range(5)
    ]


def test_a_process_that_was_killed_leaves_no_row(time):
    dead = subprocess.Popen([sys.executable, '-c', ''])
    dead.wait()
    for name, host, pid in (
        ('killed', 'host', dead.pid),
        ('running', 'host', os.getpid()),
        ('elsewhere', 'host-2', dead.pid),
    ):
        time.table.write(SchedulerFacts(name, host, pid, NOW, NOW, {}))
    one = time.member()
    one.heartbeat({})
    assert set(time.table.rows) == {'running', 'elsewhere', one.uuid}


def test_a_row_says_who_it_is(time):
    one = time.member()
    time.now_s = 3.0
    one.heartbeat({'placed': 4})
    (row,) = time.table.rows.values()
    assert (row.uuid, row.host, row.pid) == (one.uuid, 'host', 7)
    assert (row.started_s, row.seen_s, row.figures) == (NOW, NOW + 3.0, {'placed': 4})


def test_one_that_is_silent_counts_no_more_until_it_is_back(time):
    one, two = time.member(), time.member()
    heartbeat(one, two)
    time.now_s += SILENT_S - 0.1
    one.heartbeat({})
    assert one.position_and_count[1] == 2
    time.now_s += 0.2
    one.heartbeat({})
    assert one.position_and_count == (0, 1)
    two.heartbeat({})
    one.heartbeat({})
    assert one.position_and_count[1] == 2


def test_one_that_leaves_counts_no_more(time):
    one, two = time.member(), time.member()
    heartbeat(one, two)
    two.leave()
    one.heartbeat({})
    assert one.position_and_count == (0, 1)


@pytest.mark.parametrize('wrong_s', [-100.0, 100.0])
def test_clocks_that_differ(time, wrong_s):
    one, two = time.member(), time.member(wrong_s)
    for _ in range(10):
        time.now_s += 3.0
        heartbeat(one, two)
        assert {one.position_and_count, two.position_and_count} == {(0, 2), (1, 2)}


def test_rows_of_long_ago_are_dropped(time):
    one, two = time.member(), time.member()
    heartbeat(one, two)
    time.now_s += KEPT_S + 1
    one.heartbeat({})
    one.forget()
    assert set(time.table.rows) == {one.uuid}


def test_a_scheduler_is_in_the_list_while_it_runs():
    members = Table()
    world = World(membership=SchedulerMembership(members, 'host', 7))
    assert (members.rows, world.scheduler.position_and_count) == ({}, (0, 1))
    world.scheduler.start()
    assert list(members.rows) == [world.context.membership.uuid]
    world.scheduler.stop()
    assert members.rows == {}


def test_a_database_that_is_away_at_the_end(time, caplog):
    def remove(uuid):
        raise errors.StoreUnavailable('gone')

    time.table.remove = remove
    time.member().leave()
    assert 'stays in the list of schedulers' in caplog.text
