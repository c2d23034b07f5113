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

"""Tests of the CPU's metrics."""

import datetime
import json
import types

from nova_sched.agent import metrics
from nova_sched.objects import enums

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


TIMES = types.SimpleNamespace(user=1.5, system=2, idle=30, iowait=0.25)
PERCENTS = types.SimpleNamespace(user=20.0, system=5.5, idle=100.1, iowait=0)


def read(text):
    return {metric['name']: metric['value'] for metric in json.loads(text)}


def test_units():
    assert read(metrics.tell(TIMES, PERCENTS, 25.5, 2600.4, NOW)) == {
        'cpu.frequency': 2600,
        'cpu.user.time': 1_500_000_000,
        'cpu.user.percent': 0.2,
        'cpu.kernel.time': 2_000_000_000,
        'cpu.kernel.percent': 0.055,
        'cpu.idle.time': 30_000_000_000,
        'cpu.idle.percent': 1.0,
        'cpu.iowait.time': 250_000_000,
        'cpu.iowait.percent': 0.0,
        'cpu.percent': 0.255,
    }


def test_an_unknown_frequency_is_not_reported():
    assert 'cpu.frequency' not in read(metrics.tell(TIMES, PERCENTS, 0, None, NOW))


def test_each_says_when_and_where_from():
    told = json.loads(metrics.tell(TIMES, PERCENTS, 0, None, NOW))
    assert {(metric['timestamp'], metric['source']) for metric in told} == {
        ('2026-01-01T12:00:00.000000', 'nova_sched.agent')
    }


def test_this_machine_tells_names_that_nova_knows():
    before, after = read(metrics.cpu(NOW)), read(metrics.cpu(NOW))
    field = enums.MonitorMetricTypeField()
    assert [field.coerce(None, 'name', name) for name in after] == list(after)
    assert after['cpu.idle.time'] >= before['cpu.idle.time'] > 0
