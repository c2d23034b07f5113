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
"""Tests of the figures: as values for others, and as a line of the log."""

import json

from nova_sched.engine.figures import COUNTS, Figures, MinuteLog

START_S = 1000.0


def test_plain_values():
    made = Figures(placed=3, conflicts=2, stale_nodes=5)
    plain = json.loads(json.dumps(made.plain()))
    assert set(plain) == {*COUNTS, 'stale_nodes', 'look_lag_s'}
    assert (plain['placed'], plain['conflicts'], plain['stale_nodes']) == (3, 2, 5)
    assert 0 <= plain['look_lag_s'] < 60


def test_a_line_a_minute_if_anything_happened(caplog):
    caplog.set_level('INFO')
    figures = Figures(placed=100)
    minute = MinuteLog(figures, START_S)
    figures.placed, figures.retries = 107, 2
    minute.tell((1, 3), START_S + 59)
    assert caplog.messages == []
    minute.tell((1, 3), START_S + 61)
    (line,) = caplog.messages
    assert line.startswith(
        'Scheduler 2 of 3, in the last minute: 7 instances placed, 0 requests refused; '
    )
    assert '0 conflicts, 2 retries; ' in line
    assert line.endswith('0 nodes stale')
    minute.tell((1, 3), START_S + 200)
    assert len(caplog.messages) == 1
    figures.refused += 1
    minute.tell((0, 1), START_S + 230)
    minute.tell((0, 1), START_S + 261)
    assert (
        'Scheduler 1 of 1, in the last minute: 0 instances placed, 1 requests'
        in caplog.messages[1]
    )
