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
"""A node's facts: there and back through the database's text, and what is refused."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nova_sched import errors
from nova_sched.claim import VCPU
from nova_sched.state.report import MAX_AMOUNT, Inventory, Report, check
from nova_sched.tests.builders import hosts, report, uuid_of
from nova_sched.tests.rows import each

words = st.text(max_size=8)
counts = st.integers(0, 2**40)
full_reports = st.builds(
    Report,
    node_uuid=st.uuids().map(str),
    host=words,
    nodename=words,
    inventories=st.dictionaries(
        words,
        st.builds(
            Inventory,
            total=counts,
            reserved=counts,
            ratio=st.floats(0.1, 16),
            min_unit=counts,
            max_unit=st.none() | counts,
            step_size=counts,
        ),
    ),
    used=st.dictionaries(words, counts),
    cell_uuid=st.none() | words,
    instances=st.none() | st.frozensets(words),
    traits=st.frozensets(words),
    supported_instances=st.lists(st.tuples(words, words, words)).map(tuple),
    stats=st.dictionaries(words, words),
    hypervisor_version=st.none() | counts,
    cpu_info=st.none() | words,
)


@given(full_reports)
def test_there_and_back(one):
    again = Report.from_json(one.to_json())
    assert again == one
    assert {type(getattr(again, name)) for name in ('traits', 'supported_instances')} == {
        frozenset,
        tuple,
    }


def test_the_same_facts_are_the_same_text():
    one = report(
        traits=frozenset(f'T{number}' for number in range(50)), instances=frozenset('abc')
    )
    again = dataclasses.replace(one, traits=frozenset(sorted(one.traits, reverse=True)))
    assert one.to_json() == again.to_json()
    assert json.loads(one.to_json())['instances'] == ['a', 'b', 'c']


@pytest.mark.parametrize(
    'inventory, capacity, largest',
    [
        pytest.param(Inventory(8), 8, 8, id='plain'),
        pytest.param(Inventory(8, reserved=2, ratio=4.0), 24, 8, id='ratio'),
        pytest.param(Inventory(3, ratio=1.5), 4, 3, id='rounded down'),
        pytest.param(Inventory(8, max_unit=4), 8, 4, id='max_unit'),
        pytest.param(Inventory(8, max_unit=99), 8, 8, id='max_unit above the total'),
        pytest.param(Inventory(0, ratio=4.0), 0, 0, id='nothing'),
    ],
)
def test_inventory(inventory, capacity, largest):
    assert (inventory.capacity, inventory.largest) == (capacity, largest)


def inventory(**fields):
    """Words of a report with one odd inventory."""
    return {'inventories': {'VCPU': Inventory(**{'total': 8, **fields})}, 'used': {}}


@pytest.mark.parametrize(
    'words',
    [
        pytest.param({}, id='plain'),
        pytest.param({'vcpus': 0, 'memory_mb': 0, 'disk_gb': 0}, id='a node of nothing'),
        pytest.param({'vcpus': None, 'memory_mb': None, 'disk_gb': None}, id='no inventory'),
        pytest.param({'vcpus': 4, 'vcpus_used': 40_001}, id='far over its capacity'),
        pytest.param(inventory(ratio=100_000.0), id='a ratio that ends counting'),
        pytest.param(inventory(total=MAX_AMOUNT), id='the largest total'),
        pytest.param(inventory(reserved=8), id='all reserved'),
        pytest.param({'disk_slack_gb': -3}, id='more free on the disk than recorded'),
    ],
)
def test_a_report_that_can_be_true(words):
    one = report(**words)
    assert check(one) is one


@each(
    'words, field',
    [
        pytest.param({'node_uuid': ''}, 'node_uuid', id='no UUID'),
        pytest.param({'host': ''}, 'host', id='no host'),
        pytest.param({'nodename': ''}, 'nodename', id='no name'),
        pytest.param(inventory(total=-1), 'VCPU total', id='negative total'),
        pytest.param(inventory(total=MAX_AMOUNT + 1), 'VCPU total', id='huge total'),
        pytest.param(inventory(total=float('nan')), 'VCPU total', id='total that is not a number'),
        pytest.param(inventory(reserved=-1), 'VCPU reserved', id='negative reserve'),
        pytest.param(inventory(reserved=9), 'VCPU reserved', id='reserve above the total'),
        pytest.param(inventory(ratio=0.0), 'VCPU allocation ratio', id='ratio of nothing'),
        pytest.param(inventory(ratio=-1.0), 'VCPU allocation ratio', id='negative ratio'),
        pytest.param(
            inventory(ratio=float('nan')), 'VCPU allocation ratio', id='ratio that is not a number'
        ),
        pytest.param(inventory(ratio=float('inf')), 'VCPU allocation ratio', id='endless ratio'),
        pytest.param(
            inventory(total=MAX_AMOUNT, ratio=2.0), 'VCPU allocation ratio', id='huge capacity'
        ),
        pytest.param(inventory(min_unit=0), 'VCPU units', id='min_unit'),
        pytest.param(inventory(max_unit=0), 'VCPU units', id='max_unit'),
        pytest.param(inventory(step_size=-1), 'VCPU units', id='step_size'),
        pytest.param(inventory(step_size=MAX_AMOUNT + 1), 'VCPU units', id='huge step_size'),
        pytest.param({'vcpus_used': -1}, 'VCPU used', id='negative use'),
        pytest.param(
            {'vcpus': MAX_AMOUNT, 'vcpus_used': MAX_AMOUNT + 1}, 'VCPU used', id='huge use'
        ),
        pytest.param({'num_instances': -1}, 'num_instances', id='negative instances'),
        pytest.param({'io_workload': MAX_AMOUNT + 1}, 'io_workload', id='huge workload'),
        pytest.param({'failed_builds': -1}, 'failed_builds', id='negative failures'),
        pytest.param({'hypervisor_version': -1}, 'hypervisor_version', id='negative version'),
        pytest.param({'hypervisor_version': 2**70}, 'hypervisor_version', id='huge version'),
        pytest.param({'disk_slack_gb': -(2**70)}, 'disk_slack_gb', id='huge slack'),
    ],
)
def test_a_report_that_cannot_be_true_is_refused_by_field(words, field):
    with pytest.raises(errors.BadReport) as caught:
        check(report(**words))
    assert caught.value.field == field
    assert field in str(caught.value)


@pytest.mark.parametrize(
    'words, node',
    [
        pytest.param({'vcpus_used': -1}, 'host-0', id='by its name'),
        pytest.param(
            {'nodename': '', 'node_uuid': uuid_of('n')},
            uuid_of('n'),
            id='by its UUID if it has no name',
        ),
    ],
)
def test_a_refusal_names_the_node(words, node):
    with pytest.raises(errors.BadReport) as caught:
        check(report(**words))
    assert caught.value.node == node


def test_what_is_accepted_fits_the_columns():
    """The largest of everything is stored without loss."""
    largest = {
        'inventories': {
            VCPU: Inventory(
                MAX_AMOUNT, step_size=MAX_AMOUNT, min_unit=MAX_AMOUNT, max_unit=MAX_AMOUNT
            )
        },
        'used': {VCPU: MAX_AMOUNT},
        'num_instances': MAX_AMOUNT,
        'io_workload': MAX_AMOUNT,
        'failed_builds': MAX_AMOUNT,
        'hypervisor_version': MAX_AMOUNT,
        'disk_slack_gb': -MAX_AMOUNT,
    }
    check(report(**largest))
    seen = hosts(1, **largest)
    cpus = seen.resources[VCPU]
    assert (cpus.total[0], cpus.used[0], cpus.step_size[0], seen.failed_builds[0]) == (
        MAX_AMOUNT,
    ) * 4
    assert seen.disk_slack_mb[0] == -1024 * MAX_AMOUNT
    full = hosts(1, disk_gb=MAX_AMOUNT, disk_slack_gb=-MAX_AMOUNT)
    assert full.free_disk_mb[0] == 2 * 1024 * MAX_AMOUNT
