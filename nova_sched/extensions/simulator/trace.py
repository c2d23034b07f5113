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
"""Reads traces of VM creations: arrival times, batches, flavors and lifetimes.

A trace is a folder with the table of VMs (``time_s,batch,flavor,censored,duration_bin``, gzip or
plain), ``flavors.csv`` (``flavor,vcpus,memory_gb``) and ``duration_bins.csv``
(``duration_bin,min_s,max_s``). Times are seconds, memory is GiB.
"""

import collections
import csv
import dataclasses
import gzip
import pathlib

from nova_sched import errors

SAMPLE = pathlib.Path(__file__).parent / 'data' / 'vms.csv.gz'


@dataclasses.dataclass(frozen=True, slots=True)
class TraceFlavor:
    name: str
    vcpus: int
    memory_mb: int

    def __str__(self):
        return f'{self.vcpus} vCPU, {self.memory_mb / 1024:g} GiB'


@dataclasses.dataclass(frozen=True, slots=True)
class Arrival:
    """One request: servers of one flavor that one project creates together.

    ``lifetimes_s`` has an entry for each server: its lifetime, None for no end.
    """

    time_s: float
    batch: str
    flavor: TraceFlavor
    lifetimes_s: tuple[float | None, ...]

    def __len__(self):
        return len(self.lifetimes_s)


def load(path=SAMPLE):
    """Return all arrivals of a trace, in order of time; by default of the packaged extract.

    Raise BadConfig with the error and its line.
    """
    path = pathlib.Path(path)
    flavors = dict(rows(path.with_name('flavors.csv'), _flavor))
    middles = dict(rows(path.with_name('duration_bins.csv'), _middle))
    servers = collections.defaultdict(list)
    for key, lifetime_s in rows(path, lambda row: _server(row, flavors, middles)):
        servers[key].append(lifetime_s)
    arrivals = [Arrival(*key, tuple(lifetimes_s)) for key, lifetimes_s in servers.items()]
    return sorted(arrivals, key=lambda arrival: arrival.time_s)


def split(arrivals, largest):
    """Return the same servers in requests of at most ``largest`` servers."""
    for arrival in arrivals:
        for start in range(0, len(arrival), largest):
            yield dataclasses.replace(
                arrival, lifetimes_s=arrival.lifetimes_s[start : start + largest]
            )


def rows(path, read):
    """Yield the result of ``read`` for each row of a CSV table, gzip or plain. Raise BadConfig
    with the error and its line."""
    path = pathlib.Path(path)
    opened = gzip.open if path.suffix == '.gz' else open
    try:
        with opened(path, 'rt', newline='') as lines:
            table = csv.DictReader(lines)
            for row in table:
                try:
                    value = read(row)
                except KeyError as error:
                    raise errors.BadConfig(
                        f'{path}, line {table.line_num}', f'{error} is not known'
                    ) from None
                except (TypeError, ValueError) as error:
                    raise errors.BadConfig(f'{path}, line {table.line_num}', str(error)) from None
                yield value
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise errors.BadConfig(
            f'the trace {path}', getattr(error, 'strerror', None) or str(error)
        ) from None


def _flavor(row):
    memory_mb = round(float(row['memory_gb']) * 1024)
    return row['flavor'], TraceFlavor(row['flavor'], int(row['vcpus']), memory_mb)


def _middle(row):
    return row['duration_bin'], (int(row['min_s']) + int(row['max_s'])) / 2


def _server(row, flavors, middles):
    lifetime_s = middles[row['duration_bin']]
    key = float(row['time_s']), row['batch'], flavors[row['flavor']]
    return key, lifetime_s if row['censored'] == '0' else None
