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
from nova_sched.tests.rows import table

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


def test_stored_reports_share_what_they_have_in_common():
    traits = frozenset(f'T{number}' for number in range(50))
    one, other, whole = (
        Report.from_json(report(host, traits=traits, vcpus_ratio=ratio).to_json())
        for host, ratio in (('host-0', 4.0), ('host-1', 4.0), ('host-2', 4))
    )
    assert one.traits is other.traits
    assert one.inventories[VCPU] is other.inventories[VCPU]
    assert type(whole.inventories[VCPU].ratio) is int  # as it is stored
    assert [*map(id, one.used)] == [*map(id, one.inventories)] == [*map(id, other.used)]


@table(
    'inventory, capacity, largest',
    {
        'plain': (Inventory(8), 8, 8),
        'ratio': (Inventory(8, reserved=2, ratio=4.0), 24, 8),
        'rounded down': (Inventory(3, ratio=1.5), 4, 3),
        'max_unit': (Inventory(8, max_unit=4), 8, 4),
        'max_unit above the total': (Inventory(8, max_unit=99), 8, 8),
        'nothing': (Inventory(0, ratio=4.0), 0, 0),
    },
)
def test_inventory(inventory, capacity, largest):
    assert (inventory.capacity, inventory.largest) == (capacity, largest)


def inventory(**fields):
    """Words of a report with one odd inventory."""
    return {'inventories': {'VCPU': Inventory(**{'total': 8, **fields})}, 'used': {}}


@table(
    'words',
    {
        'plain': {},
        'a node of nothing': {'vcpus': 0, 'memory_mb': 0, 'disk_gb': 0},
        'no inventory': {'vcpus': None, 'memory_mb': None, 'disk_gb': None},
        'far over its capacity': {'vcpus': 4, 'vcpus_used': 40_001},
        'a ratio that ends counting': inventory(ratio=100_000.0),
        'the largest total': inventory(total=MAX_AMOUNT),
        'all reserved': inventory(reserved=8),
        'more free on the disk than recorded': {'disk_slack_gb': -3},
    },
)
def test_a_report_that_can_be_true(words):
    one = report(**words)
    assert check(one) is one


@table(
    'words, field',
    {
        'no UUID': ({'node_uuid': ''}, 'node_uuid'),
        'no host': ({'host': ''}, 'host'),
        'no name': ({'nodename': ''}, 'nodename'),
        'negative total': (inventory(total=-1), 'VCPU total'),
        'huge total': (inventory(total=MAX_AMOUNT + 1), 'VCPU total'),
        'total that is not a number': (inventory(total=float('nan')), 'VCPU total'),
        'negative reserve': (inventory(reserved=-1), 'VCPU reserved'),
        'reserve above the total': (inventory(reserved=9), 'VCPU reserved'),
        'ratio of nothing': (inventory(ratio=0.0), 'VCPU allocation ratio'),
        'negative ratio': (inventory(ratio=-1.0), 'VCPU allocation ratio'),
        'ratio that is not a number': (inventory(ratio=float('nan')), 'VCPU allocation ratio'),
        'endless ratio': (inventory(ratio=float('inf')), 'VCPU allocation ratio'),
        'huge capacity': (inventory(total=MAX_AMOUNT, ratio=2.0), 'VCPU allocation ratio'),
        'min_unit': (inventory(min_unit=0), 'VCPU units'),
        'max_unit': (inventory(max_unit=0), 'VCPU units'),
        'step_size': (inventory(step_size=-1), 'VCPU units'),
        'huge step_size': (inventory(step_size=MAX_AMOUNT + 1), 'VCPU units'),
        'negative use': ({'vcpus_used': -1}, 'VCPU used'),
        'huge use': ({'vcpus': MAX_AMOUNT, 'vcpus_used': MAX_AMOUNT + 1}, 'VCPU used'),
        'negative instances': ({'num_instances': -1}, 'num_instances'),
        'huge workload': ({'io_workload': MAX_AMOUNT + 1}, 'io_workload'),
        'negative failures': ({'failed_builds': -1}, 'failed_builds'),
        'negative version': ({'hypervisor_version': -1}, 'hypervisor_version'),
        'huge version': ({'hypervisor_version': 2**70}, 'hypervisor_version'),
        'huge slack': ({'disk_slack_gb': -(2**70)}, 'disk_slack_gb'),
    },
)
def test_a_report_that_cannot_be_true_is_refused_by_field(words, field):
    with pytest.raises(errors.BadReport) as caught:
        check(report(**words))
    assert caught.value.field == field
    assert field in str(caught.value)


@table(
    'words, node',
    {
        'by its name': ({'vcpus_used': -1}, 'host-0'),
        'by its UUID if it has no name': (
            {'nodename': '', 'node_uuid': uuid_of('n')},
            uuid_of('n'),
        ),
    },
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
