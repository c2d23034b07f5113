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

"""The CPU's metrics, under the names that Nova's metrics weigher knows."""

import datetime
import json
from typing import Any

import psutil

SOURCE = 'nova_sched.agent'
# Nova's name -> psutil's
_FIELDS = {'user': 'user', 'kernel': 'system', 'idle': 'idle', 'iowait': 'iowait'}


def cpu(now: datetime.datetime) -> str:
    """Returns the metrics of this machine, in the form of ``tell``.

    Shares are of the time since the last call. The first call in a process covers the time since
    its start.
    """
    frequency = psutil.cpu_freq()
    return tell(
        psutil.cpu_times(),
        psutil.cpu_times_percent(),
        psutil.cpu_percent(),
        frequency.current if frequency else None,
        now,
    )


def tell(
    times: Any, percents: Any, busy_percent: float, mhz: float | None, now: datetime.datetime
) -> str:
    """Returns the JSON text of a list of metrics: times in ns since boot, shares of 1, frequency
    in MHz.

    ``times`` (seconds) and ``percents`` are psutil's, ``now`` is in UTC.
    """
    values: dict[str, float] = {} if mhz is None else {'cpu.frequency': int(mhz)}
    for name, field in _FIELDS.items():
        values[f'cpu.{name}.time'] = int(getattr(times, field) * 1e9)
        values[f'cpu.{name}.percent'] = _share(getattr(percents, field))
    values['cpu.percent'] = _share(busy_percent)
    rest = {
        'timestamp': now.replace(tzinfo=None).isoformat(timespec='microseconds'),
        'source': SOURCE,
    }
    return json.dumps([{'name': name, 'value': value, **rest} for name, value in values.items()])


def _share(percent: float) -> float:
    return round(min(max(percent, 0), 100) / 100, 4)
