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
"""Tests of reading traces."""

import gzip

import pytest

from nova_sched import errors
from nova_sched.extensions.simulator import trace
from nova_sched.tests.rows import each, table
from nova_sched.tests.unit.extensions.simulator.builders import arrival

HEAD = 'time_s,batch,flavor,censored,duration_bin\n'
SMALL, LARGE = trace.TraceFlavor('s', 1, 768), trace.TraceFlavor('l', 16, 114688)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / 'flavors.csv').write_text('flavor,vcpus,memory_gb\ns,1,0.75\nl,16,112\n')
    (tmp_path / 'duration_bins.csv').write_text(
        'duration_bin,min_s,max_s\n0,0,0\n1,300,300\n2,3900,7200\n'
    )
    return tmp_path


@table(
    'rows, arrivals',
    {
        'no server': ('', []),
        'one server': ('300,7,s,0,1', [(300, '7', SMALL, (300,))]),
        'middle of the bin': ('300,7,s,0,2', [(300, '7', SMALL, (5550,))]),
        'censored: for ever': ('300,7,s,1,2', [(300, '7', SMALL, (None,))]),
        'one batch, one request': ('300,7,s,0,0\n300,7,s,0,1', [(300, '7', SMALL, (0, 300))]),
        'a request for each flavor of a batch': (
            '300,7,s,0,0\n300,7,l,0,0\n300,7,s,0,1',
            [(300, '7', SMALL, (0, 300)), (300, '7', LARGE, (0,))],
        ),
        'two batches of one moment': (
            '300,7,s,0,0\n300,8,s,0,0',
            [(300, '7', SMALL, (0,)), (300, '8', SMALL, (0,))],
        ),
        'in order of time': (
            '600,8,s,0,0\n300,7,s,0,0',
            [(300, '7', SMALL, (0,)), (600, '8', SMALL, (0,))],
        ),
    },
)
@each('name', ['vms.csv', 'vms.csv.gz'])
def test_rows_become_requests(folder, name, rows, arrivals):
    (folder / name).write_bytes(
        gzip.compress((HEAD + rows).encode()) if name.endswith('.gz') else (HEAD + rows).encode()
    )
    assert trace.load(folder / name) == [trace.Arrival(*one) for one in arrivals]


@table(
    'rows, where, why',
    {
        'unknown flavor': ('300,7,z,0,1', 'line 2', "'z' is not known"),
        'unknown bin': ('300,7,s,0,1\n300,7,s,0,99', 'line 3', "'99' is not known"),
        'no number': ('soon,7,s,0,1', 'line 2', 'soon'),
        'short line': ('300', 'line 2', ''),
    },
)
def test_a_bad_row_is_named(folder, rows, where, why):
    (folder / 'vms.csv').write_text(HEAD + rows)
    with pytest.raises(errors.BadConfig) as refused:
        trace.load(folder / 'vms.csv')
    assert where in str(refused.value)
    assert why in str(refused.value)


@table(
    'name, content, why',
    {
        'no such file': ('missing.csv', None, 'No such file'),
        'not compressed': ('plain.csv.gz', b'time_s', 'gzip'),
        'cut short': ('cut.csv.gz', gzip.compress(HEAD.encode() * 9)[:-12], 'ended'),
        'not text': ('binary.csv', b'\xff\xfe\x00', 'decode'),
        'another table': ('other.csv', b'a,b\n1,2\n', 'is not known'),
    },
)
def test_a_file_that_is_no_trace_is_named(folder, name, content, why):
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(errors.BadConfig, match=name) as refused:
        trace.load(folder / name)
    assert why in str(refused.value)


@table(
    'sizes, largest, parts',
    {
        'small enough': ([3], 5, [3]),
        'exactly': ([5], 5, [5]),
        'split': ([12], 5, [5, 5, 2]),
        'in order': ([2, 6, 1], 5, [2, 5, 1, 1]),
    },
)
def test_requests_that_are_too_large_are_split(sizes, largest, parts):
    arrivals = [arrival(size) for size in sizes]
    found = list(trace.split(arrivals, largest))
    assert [len(one) for one in found] == parts
    assert [one.batch for one in found] == [
        one.batch for one in arrivals for _ in range(-(-len(one) // largest))
    ]


def test_the_cut_that_comes_with_the_package():
    arrivals = trace.load()
    lifetimes = [lifetime for one in arrivals for lifetime in one.lifetimes_s]
    assert (len(arrivals), len(lifetimes)) == (4395, 15933)
    assert max(map(len, arrivals)) == 436
    assert (arrivals[0].time_s, arrivals[-1].time_s) == (1951200, 1965300)
    assert lifetimes.count(None) == 701
