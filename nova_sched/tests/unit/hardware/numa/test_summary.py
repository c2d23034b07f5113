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
"""Figures that rule hosts out."""

import pytest

from nova_sched.hardware import numa
from nova_sched.tests.unit.hardware.builders import (
    cell,
    dedicated,
    guest,
    host,
    mixed,
    shared,
    threaded,
)

HOST = host(
    threaded(0, pinned=[0], socket=0, pages=[(4, 1024, 512), (2048, 100)]),
    cell(
        1,
        range(20, 30),
        [30, 31],
        memory_mb=8192,
        memory_usage_mb=8000,
        socket=1,
        pages=[(2048, 9, 2, 1)],
    ),
    cell(2, socket=1, memory_mb=7),
)


def test_figures():
    assert numa.NumaSummary.of(HOST) == numa.NumaSummary(
        cells=3,
        sockets=2,
        has_siblings=True,
        dedicated_best=7,
        dedicated_total=9,
        shared_best=10,
        memory_best_mb=12,
        memory_largest_mb=18,
        pages_best={4: 512, 2048: 100},
    )


def test_an_empty_host():
    assert numa.NumaSummary.of(host()) == numa.NumaSummary(0, 0, False, 0, 0, 0, 0, 0, {})


@pytest.mark.parametrize(
    'asked, may',
    [
        pytest.param([shared(10, memory_mb=18)], True, id='shared, just'),
        pytest.param([shared(11, memory_mb=1)], False, id='shared CPUs'),
        pytest.param([shared(1, memory_mb=19)], False, id='memory of shared'),
        pytest.param([dedicated(7, memory_mb=12)], True, id='dedicated, just'),
        pytest.param([dedicated(8, memory_mb=1)], False, id='dedicated CPUs of a cell'),
        pytest.param(
            [dedicated(5, memory_mb=1), dedicated(5, memory_mb=1)],
            False,
            id='dedicated CPUs in all',
        ),
        pytest.param([dedicated(1, memory_mb=13)], False, id='memory of dedicated'),
        pytest.param([mixed(11, 1, memory_mb=1)], False, id='shared CPUs of mixed'),
        pytest.param([shared(1, memory_mb=1)] * 4, False, id='cells'),
        pytest.param([shared(1, memory_mb=200, pagesize_kb=2048)], True, id='pages, just'),
        pytest.param([shared(1, memory_mb=202, pagesize_kb=2048)], False, id='pages'),
        pytest.param(
            [shared(1, memory_mb=2, pagesize_kb=64)], False, id='pages of a size that it has not'
        ),
        pytest.param([shared(1, memory_mb=200, pagesize_kb=-2)], True, id='large pages, just'),
        pytest.param([shared(1, memory_mb=202, pagesize_kb=-3)], False, id='pages of any size'),
    ],
)
def test_may_take(asked, may):
    assert numa.NumaSummary.of(HOST).may_take(guest(*asked)) is may


def test_the_emulator_counts():
    summary = numa.NumaSummary.of(HOST)
    both = guest(dedicated(7, memory_mb=1)), guest(dedicated(7, memory_mb=1), emulator='isolate')
    assert [summary.may_take(some) for some in both] == [True, False]


def test_require_needs_siblings():
    single = numa.NumaSummary.of(host(cell(0, pcpuset=range(4))))
    policies = ('require', 'prefer', 'isolate')
    assert [single.may_take(guest(dedicated(1, thread_policy=policy))) for policy in policies] == [
        False,
        True,
        True,
    ]
