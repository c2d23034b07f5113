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
"""Guests that are placed: what they take and give back, and their JSON text."""

import pytest

from nova_sched import errors, objects
from nova_sched.hardware import Overdrawn, numa
from nova_sched.objects import object_io
from nova_sched.tests.unit.hardware.builders import (
    cell,
    dedicated,
    guest,
    host,
    mixed,
    shared,
    threaded,
)

PLACED = numa.Fitted(
    (
        numa.PlacedCell(mixed(1, 2), 3, {1: 8, 2: 12}, frozenset([9]), 2048),
        numa.PlacedCell(shared(2), 0),
    )
)


def test_host_cpus_and_cells():
    assert PLACED.cells[0].host_cpus == {8, 9, 12}
    assert PLACED.cells[1].host_cpus == frozenset()
    assert PLACED.host_cells == (3, 0)


def test_the_text_is_the_object():
    """What we write, the versioned object reads; what it holds is what we wrote."""
    theirs = object_io.read_json(PLACED.to_json(), objects.InstanceNUMATopology)
    first = theirs.cells[0]
    assert (first.id, first.pagesize, first.cpuset_reserved) == (3, 2048, {9})
    assert first.cpu_pinning == {1: 8, 2: 12}
    taken = numa.Fitted.of(theirs)
    assert (taken.host_cells, taken.cells[0].pinning) == (
        PLACED.host_cells,
        PLACED.cells[0].pinning,
    )


def test_round_trip():
    again = numa.Fitted.from_json(PLACED.to_json())
    assert numa.Fitted.from_json(again.to_json()) == again
    assert [one.host_cpus for one in again.cells] == [one.host_cpus for one in PLACED.cells]


def test_a_fit_read_again_is_given_back():
    empty = host(threaded())
    fitted = numa.fit(empty, guest(dedicated(2, thread_policy='isolate'), emulator='isolate'))
    full = numa.take(empty, fitted)
    assert numa.give_back(full, numa.Fitted.from_json(fitted.to_json())) == empty


@pytest.mark.parametrize(
    'text',
    [
        pytest.param('', id='no JSON'),
        pytest.param('{}', id='no object'),
        pytest.param('{"nova_object.name": "InstanceNUMATopology"}', id='no data'),
        pytest.param(PLACED.to_json().replace('"memory"', '"mummery"'), id='no memory'),
        pytest.param(PLACED.to_json().replace('"id"', '"ids"'), id='no cell'),
    ],
)
def test_a_malformed_text(text):
    with pytest.raises(errors.MalformedObject, match='InstanceNUMATopology'):
        numa.Fitted.from_json(text)


PAGES = [(4, 100000, 5), (2048, 100, 7)]
ON_0 = {'cpu_usage': 1, 'memory_usage_mb': 100}


def lying(one, pinning=(), reserved=(), pagesize_kb=None, on=0):
    return numa.Fitted(
        (numa.PlacedCell(one, on, dict(pinning), frozenset(reserved), pagesize_kb),)
    )


@pytest.mark.parametrize(
    'fitted, after',
    [
        pytest.param(
            lying(shared(2)), {'cpu_usage': 3, 'pages': [32773, 7]}, id='shared, smallest pages'
        ),
        pytest.param(
            lying(shared(2), pagesize_kb=2048), {'cpu_usage': 3, 'pages': [5, 71]}, id='its pages'
        ),
        pytest.param(
            lying(shared(2), pagesize_kb=64), {'cpu_usage': 3, 'pages': [5, 7]}, id='pages unknown'
        ),
        pytest.param(
            lying(shared(2), pagesize_kb=-1),
            {'cpu_usage': 3, 'pages': [5, 7]},
            id='pages not settled',
        ),
        pytest.param(lying(dedicated(2), {0: 0, 1: 4}), {'pinned': {0, 4}}, id='dedicated'),
        pytest.param(lying(dedicated(1), {0: 0}, [1]), {'pinned': {0, 1}}, id='emulator'),
        pytest.param(lying(mixed(1, 1), {1: 0}), {'cpu_usage': 2, 'pinned': {0}}, id='mixed'),
        pytest.param(lying(dedicated(1)), {}, id='dedicated, never pinned'),
        pytest.param(
            lying(dedicated(1, thread_policy='isolate'), {0: 0}, [1]),
            {'pinned': {0, 4, 1, 5}},
            id='isolated',
        ),
        pytest.param(
            lying(mixed(1, 0, thread_policy='isolate')), {'cpu_usage': 2}, id='nothing to isolate'
        ),
    ],
)
def test_take_and_give_back(fitted, after):
    before = host(threaded(pages=PAGES, **ON_0), cell(1))
    full = numa.take(before, fitted)
    one = full.cells[0]
    expected = {'cpu_usage': 1, 'pinned': set(), 'pages': [32773, 7]} | after
    assert one.cpu_usage == expected['cpu_usage']
    assert one.memory_usage_mb == 228
    assert one.pinned_cpus == expected['pinned']
    assert [some.used for some in one.pages] == expected['pages']
    assert full.cells[1] == before.cells[1]
    assert numa.give_back(full, fitted) == before


def test_two_cells_on_one():
    fitted = numa.Fitted((numa.PlacedCell(shared(2), 0), numa.PlacedCell(shared(1), 0)))
    assert numa.take(host(cell(0)), fitted).cells[0].cpu_usage == 3


@pytest.mark.parametrize(
    'before, fitted, why',
    [
        pytest.param(
            threaded(pinned=[0]), lying(dedicated(1), {0: 0}), r'\[0\] are not free', id='in use'
        ),
        pytest.param(
            threaded(), lying(dedicated(1), {0: 77}), r'\[77\] are not free', id='unknown'
        ),
        pytest.param(
            cell(0, [1], [2]), lying(dedicated(1), {0: 1}), r'\[1\] are not free', id='shared'
        ),
        pytest.param(
            threaded(pinned=[1]),
            lying(dedicated(0), {}, [1]),
            r'\[1\] are not free',
            id='emulator',
        ),
        pytest.param(
            threaded(pinned=[4]),
            lying(dedicated(1, thread_policy='isolate'), {0: 0}),
            r'\[4\] are not free',
            id='sibling of an isolated one',
        ),
        pytest.param(
            threaded(),
            lying(shared(1), on=9),
            'NUMA cell 9: the host has no such cell',
            id='no such cell',
        ),
    ],
)
def test_what_is_not_there_is_not_taken(before, fitted, why):
    with pytest.raises(Overdrawn, match=why):
        numa.take(host(before), fitted)


def test_one_cpu_for_two_cells_of_a_guest():
    fitted = numa.Fitted(tuple(numa.PlacedCell(dedicated(1), 0, {0: 3}) for _ in range(2)))
    with pytest.raises(Overdrawn, match=r'\[3\] are not free'):
        numa.take(host(threaded()), fitted)


def test_what_is_not_taken_is_not_given_back():
    with pytest.raises(Overdrawn, match=r'NUMA cell 0: CPUs \[0\] are not in use'):
        numa.give_back(host(threaded(pinned=[1])), lying(dedicated(2), {0: 0, 1: 1}))


def test_usage_never_falls_below_nothing():
    """The node's own report may have left the guest out already."""
    after = numa.give_back(host(cell(0, pages=[(4, 100)])), lying(shared(2)))
    assert after == host(cell(0, pages=[(4, 100)]))


def test_a_cell_that_is_gone_gets_nothing_back():
    assert numa.give_back(host(cell(0)), lying(shared(2), on=9)) == host(cell(0))


def test_an_instance_as_the_compute_has_it():
    """Ids of cells are the host's; no pins are asked for, and none are taken."""
    own = objects.InstanceNUMACell(
        id=0, cpuset=set(), pcpuset={0}, memory=128, cpu_policy='dedicated'
    )
    fitted = numa.Fitted.of(objects.InstanceNUMATopology(cells=[own]))
    assert numa.take(host(threaded()), fitted) == host(threaded(memory_usage_mb=128))
