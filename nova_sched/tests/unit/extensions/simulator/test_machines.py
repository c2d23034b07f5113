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
"""Tests of simulated machines."""

import collections

import pytest

from nova_sched import errors
from nova_sched.claim import MEMORY_MB, VCPU
from nova_sched.extensions.simulator import machines
from nova_sched.extensions.simulator.trace import TraceFlavor
from nova_sched.rpc import reports
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.rows import table
from nova_sched.tests.unit.extensions.simulator.builders import GIB, node, plan, requests


@table(
    'words, zones, racks',
    {
        'one': ({'nodes': 1}, [1], [1]),
        'zones are alike': ({'nodes': 6, 'zones': 3}, [2, 2, 2], [2, 2, 2]),
        'racks are alike': ({'nodes': 8, 'zones': 2, 'racks': 2}, [4, 4], [2, 2, 2, 2]),
        'what is left over': ({'nodes': 5, 'zones': 2, 'racks': 2}, [3, 2], [2, 1, 1, 1]),
        'more zones than nodes': ({'nodes': 2, 'zones': 3, 'racks': 4}, [1, 1], [1, 1]),
    },
)
def test_nodes_are_spread_over_zones_and_racks(words, zones, racks):
    made = machines.machines(plan(**words))
    assert sorted(collections.Counter(one.zone for one in made).values(), reverse=True) == zones
    assert sorted(collections.Counter(one.rack for one in made).values(), reverse=True) == racks
    assert len({one.host for one in made}) == len({one.uuid for one in made}) == words['nodes']


def test_the_same_plan_makes_the_same_nodes():
    first, second = (machines.machines(plan(nodes=40, disabled=0.3, seed=7)) for _ in range(2))
    assert [(one.uuid, one.disabled) for one in first] == [
        (one.uuid, one.disabled) for one in second
    ]
    other = machines.machines(plan(nodes=40, disabled=0.3, seed=8))
    assert [one.disabled for one in first] != [one.disabled for one in other]
    assert any(one.disabled for one in first)


def test_a_report_is_accepted_and_tells_what_the_node_has():
    shape = machines.MachineShape(vcpus=8, memory_mb=20 * GIB, disk_gb=100, reserved_mb=4 * GIB)
    (one,) = machines.machines(machines.Plan(nodes=1, zones=1, racks=1, shape=shape, failing=0.0))
    one.build(*requests('server', flavor=TraceFlavor('f', 2, 3 * GIB)))
    stats, instances = one.report()
    report = reports.report(stats, one.host, instances, one.inventories)
    assert {
        name: inventory.capacity for name, inventory in report.inventories.items()
    } == one.capacity()
    assert one.capacity() == {'VCPU': 8, 'MEMORY_MB': 16 * GIB, 'DISK_GB': 100}
    assert report.instances == {uuid_of('server')}
    assert (report.used['VCPU'], report.used['MEMORY_MB']) == (2, 7 * GIB)
    assert {name: used for name, (used, _) in one.usage().items()} == {
        'VCPU': 2,
        'MEMORY_MB': 3 * GIB,
        'DISK_GB': 0,
    }


def test_it_builds_no_more_than_it_has_room_for():
    one = node(vcpus=2)
    first, second, third = requests('first', 'second', 'third')
    one.build(first)
    one.build(second)
    with pytest.raises(errors.ComputeResourcesUnavailable, match='VCPU'):
        one.build(third)
    assert list(one.instances) == [uuid_of('first'), uuid_of('second')]
    one.drop(uuid_of('first'))
    one.build(third)
    assert one.usage()[VCPU] == (2, 2)


@table('failing, built', {'never': (0.0, 200), 'always': (1.0, 0)})
def test_builds_fail_as_planned(failing, built):
    one = node(vcpus=200, memory_gib=200, failing=failing)
    for request in requests(*map(str, range(200))):
        if failing:
            with pytest.raises(errors.ComputeResourcesUnavailable, match='the build failed'):
                one.build(request)
        else:
            one.build(request)
    assert len(one.instances) == built
    assert one.usage()[MEMORY_MB][0] == built * GIB


def test_the_same_build_fails_again():
    fails = [[], []]
    for seen in fails:
        one = node(vcpus=200, memory_gib=200, failing=0.3)
        for request in requests(*map(str, range(100))):
            try:
                one.build(request)
            except errors.ComputeResourcesUnavailable:
                seen.append(request.instance_uuid)
    assert fails[0] == fails[1]
    assert 10 < len(fails[0]) < 60


def test_whether_a_report_has_told_of_a_server():
    one = node('early', 'late')
    assert one.dirty
    assert not one.drop(uuid_of('early'))
    one.report()
    assert not one.dirty
    assert one.drop(uuid_of('late'))
    assert one.dirty
    assert one.usage()[VCPU][0] == 0
