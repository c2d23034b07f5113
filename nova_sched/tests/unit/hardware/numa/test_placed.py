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
"""Guests that lie somewhere, and their JSON text."""

import pytest

from nova_sched import errors, objects
from nova_sched.hardware import numa
from nova_sched.objects import json_text
from nova_sched.tests.unit.hardware.builders import dedicated, guest, host, mixed, shared, threaded

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
    theirs = json_text.read(PLACED.to_json(), objects.InstanceNUMATopology)
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
