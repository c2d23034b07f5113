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
"""NUMA cells and PCI devices in the cluster: what a report tells, less what claims hold of it."""

import dataclasses

import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED, Claim
from nova_sched.hardware.machine import Machine
from nova_sched.hardware.numa import HostTopology
from nova_sched.hardware.pci import pools_from_json
from nova_sched.state.node import Node
from nova_sched.tests.builders import cluster, put, report, request, uuid_of
from nova_sched.tests.rows import table
from nova_sched.tests.unit.hardware.builders import (
    cell,
    dedicated,
    machine,
    pool,
    shared,
    told,
    wanted,
)
from nova_sched.tests.unit.hardware.builders import request as device

A, B = map(uuid_of, ['a', 'b'])
HAS = machine(
    cell(0, [], range(4), pages=[(4, 100_000)]),
    cell(1, [], range(4, 8)),
    pools=[pool(2, 0), pool(1, 1)],
)
PAIR = wanted(dedicated(2), requests=[device(1)])


def asked(pieces=PAIR, **words):
    return request(**{'instance_uuid': A, 'pieces': pieces} | words)


def held(consumer, parts, **fields):
    return Claim(consumer, uuid_of('node host-0'), {'VCPU': 1}, parts=parts, **fields)


def pinned(node):
    return sorted(cpu for one in node.machine.topology.cells for cpu in one.pinned_cpus)


def devices(made, row=0):
    """Free ones: of each pool, and by the column."""
    return [one.count for one in made.hosts.nodes[row].machine.pools], made.hosts.free_pci_devices[
        row
    ]


@pytest.fixture
def made():
    return cluster(1, **told(HAS))


@pytest.fixture
def node(made):
    return made.hosts.nodes[0]


# Reports.


def test_the_ratios_are_those_of_the_inventories():
    node = cluster(1, vcpus_ratio=4.0, memory_mb_ratio=1.5, **told(HAS)).hosts.nodes[0]
    assert (node.machine.cpu_ratio, node.machine.ram_ratio) == (4.0, 1.5)
    assert cluster(1, vcpus=None, memory_mb=None, **told(HAS)).hosts.nodes[0].machine == HAS


@pytest.mark.parametrize(
    'words, machine_is',
    [
        pytest.param({'vcpus_used': 3}, HAS, id='another fact'),
        pytest.param(
            {'vcpus_ratio': 2.0}, dataclasses.replace(HAS, cpu_ratio=2.0), id='another ratio'
        ),
        pytest.param(
            {'pci_pools': None}, dataclasses.replace(HAS, pools=()), id='its devices are gone'
        ),
        pytest.param(
            {'numa_topology': None, 'pci_pools': None}, None, id='it tells of none any more'
        ),
    ],
)
def test_the_next_report(made, node, words, machine_is):
    before = node.reported
    put(made, report(**{**told(HAS), **words}))
    assert node.machine == machine_is
    # To read the text is dear, so it is read when it changes.
    assert (node.reported is before) == (machine_is is HAS)


@pytest.mark.parametrize('name', ['numa_topology', 'pci_pools'])
def test_what_cannot_be_read_is_not_counted(made, node, caplog, name):
    """The door refuses such a report; an older release may have stored one."""
    put(made, report(vcpus=3, **{**told(HAS), name: '{"half'}))
    assert node.machine is None
    assert made.hosts.vcpus_total.tolist() == [3]
    assert 'of node host-0 are not counted' in caplog.text
    put(made, report(**told(HAS)))
    assert node.machine == HAS


# Claims.


def test_a_second_request_sees_them_gone(made, node):
    first = wanted(dedicated(3))
    assert made.consume(node, asked(first)).claim.parts.cells.host_cells == (1,)
    assert made.consume(node, asked(first, instance_uuid=B)).claim.parts.cells.host_cells == (0,)
    with pytest.raises(errors.ComputeResourcesUnavailable) as short:
        made.consume(node, asked(first, instance_uuid=uuid_of('c')))
    assert (
        short.value.shortages
        == 'guest cell 0 needs 3 free dedicated CPUs, the best host cell has 1'
    )
    assert sorted(node.claims) == sorted([A, B])


@table(
    'has, pieces, words, shortages',
    {
        'everything that is short': (
            HAS,
            wanted(dedicated(5)),
            {'vcpus': 17},
            (
                'VCPU: 17 asked, the node has 16 in all; '
                'guest cell 0 needs 5 dedicated CPUs, the best host cell has 4'
            ),
        ),
        'devices': (
            HAS,
            wanted(requests=[device(4, name='gpu')]),
            {},
            'gpu: 4 devices asked, 3 free that match',
        ),
        'no cells told': (
            machine(pools=[pool()]),
            wanted(shared()),
            {},
            'the host reports no NUMA cells',
        ),
        'nothing told': (
            machine(),
            wanted(requests=[device()]),
            {},
            'the node reports neither NUMA cells nor PCI devices',
        ),
    },
)
def test_what_is_short_is_said(has, pieces, words, shortages):
    made = cluster(1, **told(has))
    node = made.hosts.nodes[0]
    before = node.machine
    with pytest.raises(errors.ComputeResourcesUnavailable) as short:
        made.consume(node, asked(pieces, **words))
    assert short.value.shortages == shortages
    assert node.machine == before
    assert made.hosts.resources['VCPU'].used[0] == 0


def test_a_request_without_pieces_holds_none(made, node):
    assert made.consume(node, asked(wanted())).claim.parts is None
    assert node.machine is node.reported


def take(made, *names):
    """Consumptions of shared CPUs for instances of these names, in order."""
    pieces = wanted(shared(1, memory_mb=16))
    node = made.hosts.nodes[0]
    return [made.consume(node, asked(pieces, instance_uuid=uuid_of(name))) for name in names]


SHARING = machine(cell(0, range(8)))
# What is done to many claims of a node at once, and in the end.
AT_ONCE = {
    'drop': lambda made: made.drop(*(one.held for one in take(made, *'abcd'))),
    'release': lambda made: made.release(*take(made, *'abcd')),
    'release of an instance again': lambda made: made.release(*take(made, *'abcb')),
    'drop of what is not there': lambda made: made.drop(
        *(one.claim for one in take(made, 'a')), held(B, None), Claim(A, uuid_of('none'), {})
    ),
    'add of what has no node': lambda made: made.add(Claim(A, uuid_of('none'), {})),
    'drop and add': lambda made: [
        made.drop(*(claims := [one.held for one in take(made, *'abcd')])),
        made.add(*claims),
        made.drop(*claims),
    ],
}


def test_many_claims_end_as_one_by_one():
    wrong = []
    for name, work in AT_ONCE.items():
        made = cluster(1, **told(SHARING))
        (node,) = made.hosts.nodes
        work(made)
        if node.claims or node.machine != SHARING or node.usage('VCPU').used:
            wrong.append(name)
    assert wrong == []


def test_an_earlier_claim_is_back_after_the_release_of_many():
    made = cluster(1, **told(SHARING))
    (node,) = made.hosts.nodes
    (first,) = take(made, 'a')
    made.release(*take(made, 'b', 'a', 'c', 'a'))
    assert node.claims == {A: first.held}
    assert node.machine == SHARING.hold(first.held.parts)


def test_a_node_is_counted_once_for_all_claims(monkeypatch):
    """A host of a thousand members took half a minute for each plan of their group."""
    counts, recount = [], Node.recount
    monkeypatch.setattr(Node, 'recount', lambda node: counts.append(node) or recount(node))
    made = cluster(1, **told(SHARING))
    counted = [
        dataclasses.replace(one.held, state=CONFIRMED, counted=True) for one in take(made, *'abcd')
    ]
    found = {}
    for name, work in {
        'drop': lambda: made.drop(*counted),
        'add': lambda: made.add(*counted),
        'release': lambda: made.release(*take(made, *'efgh')),
    }.items():
        counts.clear()
        work()
        found[name] = len(counts)
    assert found == {'drop': 1, 'add': 1, 'release': 1}


def test_the_same_instance_again_may_have_the_same_parts(made, node):
    all_of_it = wanted(dedicated(4), dedicated(4), requests=[device(3)])
    first = made.consume(node, asked(all_of_it))
    again = made.consume(node, asked(all_of_it))
    assert again.held.parts == first.held.parts
    made.release(again)
    assert node.machine == HAS.hold(first.held.parts)


@pytest.mark.parametrize(
    'pieces, counted',
    [
        pytest.param(PAIR, True, id='new ones'),
        pytest.param(PAIR, False, id='new ones, of a claim that no report has counted'),
        pytest.param(wanted(), True, id='none asked'),
        pytest.param(wanted(), False, id='none asked, of a claim that no report has counted'),
    ],
)
def test_a_resize_in_place_holds_the_old_and_the_new_ones(made, node, pieces, counted):
    old = HAS.fit(wanted(dedicated(1)))
    before = HAS.hold(old) if counted else HAS
    made.put(report(**told(before)), [held(A, old, state=CONFIRMED, counted=counted)], {}, 0)
    consumption = made.consume(node, asked(pieces))
    new = consumption.claim.parts
    assert (consumption.held.parts, consumption.held.counted) == (old, counted)
    assert consumption.held.resizing.parts == new
    assert node.machine == (HAS.hold(old).hold(new) if new else HAS.hold(old))
    made.release(consumption)
    assert node.machine == HAS.hold(old)


# Questions of rules.


def test_machines_that_are_alike_are_judged_once_until_they_change():
    made = cluster(3, numa_topology=told(HAS)['numa_topology'])
    asked_about = []

    def judge(one):
        asked_about.append(one)
        return one.may_take(wanted(dedicated(3)))

    rows = [0, 1, 2]
    for _ in range(2):
        assert made.hosts.map_machines(rows, 'three', judge).tolist() == [True] * 3
    assert len(asked_about) == 1
    consumption = made.consume(made.hosts.nodes[1], asked(wanted(dedicated(2), dedicated(2))))
    assert made.hosts.map_machines(rows, 'three', judge).tolist() == [True, False, True]
    assert len(asked_about) == 2
    assert made.hosts.machines(rows) == [made.hosts.nodes[0].machine, made.hosts.nodes[1].machine]
    made.release(consumption)
    assert made.hosts.map_machines(rows, 'three', judge).tolist() == [True] * 3


def test_a_plug_in_reads_what_is_left(made, node):
    state = made.hosts.state(0)
    assert state.numa_topology == node.report.numa_topology
    assert [one['count'] for one in state.pci_stats.pools] == [2, 1]
    made.consume(node, asked(wanted(dedicated(2), requests=[device(2)])))
    state = made.hosts.state(0)
    assert HostTopology.from_json(state.numa_topology) == node.machine.topology
    assert [one['count'] for one in state.pci_stats.pools] == [1], 'empty pools are left out'


def test_texts_and_machines_agree():
    """What the builders write is what a node would."""
    texts = told(HAS)
    assert (
        Machine(
            HostTopology.from_json(texts['numa_topology']), pools_from_json(texts['pci_pools'])
        )
        == HAS
    )
