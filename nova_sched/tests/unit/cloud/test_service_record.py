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
"""The record of a scheduler among Nova's services."""

import logging

import pytest

from nova_sched import errors
from nova_sched.cloud.service_record import ServiceRecord


class Records:
    """Heartbeats that were written; ``problem`` is raised instead."""

    def __init__(self):
        self.heartbeats, self.problem = [], None

    def write(self, host, uuid):
        if self.problem:
            raise self.problem
        self.heartbeats.append((host, uuid))


@pytest.fixture
def records():
    return Records()


@pytest.fixture
def times():
    return [0.0]


@pytest.fixture
def record(records, times):
    return ServiceRecord(records, 'controller', lambda: 10, lambda: times[0])


def test_a_heartbeat_is_written_at_each_interval(record, records, times):
    for times[0] in (0.0, 5.0, 10.0, 11.0, 20.0):
        record.write()
    assert [host for host, _ in records.heartbeats] == ['controller'] * 3
    assert len({uuid for _, uuid in records.heartbeats}) == 1


def test_a_database_that_is_away_is_tried_again(record, records, times):
    records.problem = errors.StoreUnavailable('gone')
    with pytest.raises(errors.StoreUnavailable):
        record.write()
    records.problem = None
    times[0] = 1.0
    record.write()
    assert len(records.heartbeats) == 1


def test_without_write_access_there_is_one_warning(record, records, times, caplog):
    records.problem = errors.BadConfig('[database] connection', 'INSERT command denied')
    with caplog.at_level(logging.WARNING):
        for times[0] in (0.0, 10.0, 20.0):
            record.write()
    (line,) = caplog.messages
    assert 'controller' in line
    assert 'INSERT command denied' in line
