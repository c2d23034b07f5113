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
"""NUMA cells and PCI devices of this node: its own double check, and what its reports say is in
use."""

import pytest

from nova_sched import errors
from nova_sched.hardware.machine import HardwareAllocation
from nova_sched.tests.builders import request, uuid_of
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.extensions.agent.builders import agent_of
from nova_sched.tests.unit.extensions.agent.fake_machine import network_card, two_cells
from nova_sched.tests.unit.hardware.builders import dedicated, shared, wanted
from nova_sched.tests.unit.hardware.builders import request as device

ONE, TWO, THREE = map(uuid_of, ['one', 'two', 'three'])
VF, PF, GPU = ({'product_id': product} for product in ('154c', '1572', '20b0'))
LARGE = {'memory_mb': 64, 'pagesize_kb': 2048}


@pytest.fixture
def make(tmp_path):
    """Make the agent of one machine of two cells, with a network card and a GPU, again and again.

    ::

        cell 0  CPUs 0 1 4 5, of which 4 5 dedicated; 60 of 100 pages of 2 MiB are free, the host
                uses 40
        cell 1  CPUs 2 3 6 7, of which 6 7 dedicated; a physical function and two virtual ones
    """
    fake = network_card(two_cells(tmp_path))

    def agent(**options):
        plain = {
            'reserved_huge_pages': [{'node': 0, 'size': '2MB', 'count': 40}],
            'cpu_dedicated_set': '4-7',
            'device_spec': [{'vendor_id': '8086', 'physical_network': 'a'}, {'vendor_id': '10de'}],
        }
        return agent_of(tmp_path, fake, **plain | options)

    return agent


def asks(pieces, uuid=ONE, **words):
    pinned = sum(len(one.pcpuset) for one in pieces.guest.cells) if pieces.guest else 0
    resources = {'PCPU': pinned} if pinned else {'VCPU': 1}
    return request(**{'instance_uuid': uuid, 'pieces': pieces, 'resources': resources} | words)


def told(agent):
    """What the agent reports of its cells and devices."""
    return agent.read().node.machine


def addresses(agent):
    return {one['uuid']: one['devices'] for one in agent.instances()}


def free(agent):
    return {one.product_id: one.count for one in told(agent).pools}


@each_afresh(
    'pieces',
    {
        'dedicated CPUs': wanted(dedicated(2)),
        'of two cells': wanted(dedicated(1), dedicated(1)),
        'and one for the emulator': wanted(dedicated(1), emulator='isolate'),
        'huge pages': wanted(dedicated(1, **LARGE)),
        'shared CPUs, whatever pages': wanted(shared(2)),
        'small pages': wanted(shared(1, memory_mb=64, pagesize_kb=4)),
        'a device': wanted(requests=[device(1, GPU)]),
        'both': wanted(dedicated(1), requests=[device(1, GPU, policy='preferred')]),
    },
)
def test_a_report_has_what_the_scheduler_would_have_taken(make, pieces):
    """From the same report the scheduler picks the same, and finds it in use when the next one
    comes."""
    agent = make()
    before = told(agent)
    agent.build(asks(pieces))
    (here,) = agent.instances()
    parts = HardwareAllocation.from_json(here['parts'])
    assert parts == before.fit(pieces)
    left = before.hold(parts)
    assert told(agent).topology == left.topology
    assert [one for one in left.pools if one.count] == list(told(agent).pools)
    agent.destroy(ONE)
    assert told(agent) == before


def test_an_isolated_guest_has_its_cores_alone(make):
    agent = make(cpu_dedicated_set=None)
    before = told(agent)
    agent.build(
        asks(
            wanted(dedicated(1, thread_policy='isolate'), emulator='isolate'),
            resources={'VCPU': 2},
        )
    )
    assert [sorted(one.pinned_cpus) for one in told(agent).topology.cells] == [[0, 1, 4, 5], []]
    assert (
        told(agent).topology
        == before.hold(HardwareAllocation.from_json(agent.instances()[0]['parts'])).topology
    )


def test_the_next_one_sees_them_gone(make):
    agent = make()
    for uuid in (ONE, TWO):
        agent.build(asks(wanted(dedicated(2)), uuid))
    with pytest.raises(errors.ComputeResourcesUnavailable) as short:
        agent.build(asks(wanted(dedicated(1)), THREE, resources={'VCPU': 1}))
    assert (
        short.value.shortages
        == 'guest cell 0 needs 1 free dedicated CPUs, the best host cell has 0'
    )
    assert sorted(addresses(agent)) == sorted([ONE, TWO])


def test_pages_of_the_host_are_not_given(make):
    with pytest.raises(
        errors.ComputeResourcesUnavailable, match='needs 122 MiB in free pages of 2048 KiB'
    ):
        make().build(asks(wanted(shared(1, memory_mb=122, pagesize_kb=2048))))
    make().build(asks(wanted(shared(1, memory_mb=120, pagesize_kb=2048))))


def test_devices_by_address(make):
    agent = make()
    agent.build(asks(wanted(requests=[device(1, VF)])))
    assert addresses(agent) == {ONE: ['0000:03:00.1']}
    assert free(agent) == {'154c': 1, '20b0': 1}, 'its physical function is gone as well'
    with pytest.raises(errors.ComputeResourcesUnavailable, match='1 devices asked, 0 free'):
        agent.build(asks(wanted(requests=[device(1, {**PF, 'dev_type': 'type-PF'})]), TWO))
    agent.build(asks(wanted(requests=[device(1, VF), device(1, GPU)]), TWO))
    assert addresses(agent)[TWO] == ['0000:03:00.2', '0000:81:00.0']
    agent.destroy(ONE)
    assert free(agent) == {'154c': 1}
    agent.destroy(TWO)
    assert free(agent) == {'154c': 2, '1572': 1, '20b0': 1}


def test_devices_that_are_part_of_another(make):
    """By their numbers there are enough; but the one is part of the other."""
    agent = make()
    both = wanted(requests=[device(1, VF), device(1, {**PF, 'dev_type': 'type-PF'})])
    with pytest.raises(
        errors.ComputeResourcesUnavailable, match='no 8086:1572 is left that is not part'
    ):
        agent.build(asks(both))
    assert agent.instances() == []


def test_a_repeated_build_has_what_it_had(make):
    agent = make()
    pieces = wanted(dedicated(2), dedicated(2), requests=[device(1, GPU)])
    for _ in range(2):
        agent.build(asks(pieces))
    assert addresses(agent) == {ONE: ['0000:81:00.0']}
    assert told(agent).free_devices == 3


def test_a_restarted_agent_knows_what_is_held(make):
    pieces = wanted(dedicated(2), requests=[device(1, GPU)])
    make().build(asks(pieces))
    agent = make()
    assert free(agent) == {'154c': 2, '1572': 1}
    agent.build(asks(wanted(dedicated(2)), TWO))
    with pytest.raises(errors.ComputeResourcesUnavailable):
        agent.build(asks(wanted(dedicated(1)), THREE))


@pytest.mark.parametrize('packing, cells', [(False, {0, 1}), (True, {1})])
def test_packing(make, packing, cells):
    agent = make(packing=packing, device_spec=[])
    for uuid in (ONE, TWO):
        agent.build(asks(wanted(dedicated(1)), uuid))
    used = {one.id for one in told(agent).topology.cells if one.pinned_cpus}
    assert used == cells
