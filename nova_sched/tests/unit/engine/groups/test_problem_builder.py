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
"""Placement groups whose members take NUMA cells, dedicated CPUs and devices, or whose number a
filter limits; and which filters a plan evaluates again, because members change their verdict."""

import pytest

from nova_sched import errors
from nova_sched.engine.catalog import Rules, always
from nova_sched.engine.explain import capacity
from nova_sched.engine.groups.problem_builder import unsettled
from nova_sched.filters import Filter
from nova_sched.filters.foreign import ForeignFilter
from nova_sched.filters.num_instances import NumInstancesFilter
from nova_sched.filters.numa_topology import NUMATopologyFilter
from nova_sched.filters.pci_passthrough import PciPassthroughFilter
from nova_sched.groups.definition import Member, MemberFlavor
from nova_sched.state.facts import LASTING, HostFacts
from nova_sched.tests.builders import request
from nova_sched.tests.options import settings
from nova_sched.tests.rows import table
from nova_sched.tests.rules import FILTERS
from nova_sched.tests.unit.engine.groups.group_cloud import cloud, definition, members
from nova_sched.tests.unit.engine.world import rules
from nova_sched.tests.unit.hardware.builders import cell, machine, pool, told
from nova_sched.weighers.ram import RAMWeigher

ALWAYS = {type(rule).__name__ for rule in always()}
EVERY = tuple(make() for name, make in FILTERS.items() if name not in ALWAYS)
COUNTING = {
    'AggregateIoOpsFilter',
    'AggregateNumInstancesFilter',
    'IoOpsFilter',
    'NumInstancesFilter',
}


class Undeclared(Filter):
    """It may read anything."""


class Lasting(Filter):
    host_facts = LASTING


class Counting(Filter):
    host_facts = LASTING | HostFacts.COUNTS


@table(
    'specs, more',
    {
        'nothing asked': ({}, set()),
        'lasting': ({'capabilities:hypervisor_type': 'x', 'ssd': '1'}, set()),
        'a count': ({'capabilities:num_instances': '<= 3'}, {'ComputeCapabilitiesFilter'}),
    },
)
def test_built_in_filters_that_read_counts(specs, more):
    found = unsettled(Rules(always(), EVERY, ()), request(extra_specs=specs))
    assert {rule.name for rule in found} == COUNTING | more


def test_a_query_of_the_request_may_read_counts():
    asked = request(hints={'query': ['[">=", "$free_ram_mb", 1]']})
    found = unsettled(Rules(always(), EVERY, ()), asked)
    assert {rule.name for rule in found} == COUNTING | {'JsonFilter'}


def test_plug_ins_that_declare_nothing_or_counts():
    class Theirs:
        pass

    rules = Rules((), (Undeclared(), Lasting(), Counting(), ForeignFilter(Theirs())), ())
    found = [rule.name for rule in unsettled(rules, request())]
    assert found == ['Undeclared', 'Counting', 'Theirs']


STRICT = rules([NUMATopologyFilter(), PciPassthroughFilter()], [RAMWeigher()])
ALIAS = '{"name": "nic", "vendor_id": "8086", "product_id": "1572"}'


def two_cells(shared=(4, 4), dedicated=0, pools=()):
    """A node's words: two cells with so many shared and dedicated CPUs each."""
    made, first = [], 0
    for number, count in enumerate(shared):
        cpus = range(first, first + count)
        own = range(first + count, first + count + dedicated)
        made.append(cell(number, cpus, own, memory_mb=4096))
        first += count + dedicated
    inventories = {'vcpus': first or 8, 'memory_mb': 8192}
    return {**inventories, **told(machine(*made, pools=pools))}


def flavor(vcpus, memory_mb=512, **extra_specs):
    return MemberFlavor(
        vcpus,
        memory_mb,
        extra_specs={name.replace('__', ':'): str(value) for name, value in extra_specs.items()},
    )


def of(**flavors):
    return definition({path: Member(path, one) for path, one in flavors.items()})


@table(
    'found, fits',
    {
        'cells that are filled to the last CPU': (
            of(**{f'm{n}': flavor(size, hw__numa_nodes=1) for n, size in enumerate([1, 3, 1, 3])}),
            True,
        ),
        'two cells and one': (
            of(
                a=flavor(4, hw__numa_nodes=2),
                b=flavor(2, hw__numa_nodes=1),
                c=flavor(2, hw__numa_nodes=1),
            ),
            True,
        ),
        'no cell has room for two of three': (
            of(**{f'm{n}': flavor(3, hw__numa_nodes=1) for n in range(3)}),
            False,
        ),
    },
)
def test_cells_that_are_shared(found, fits):
    with cloud(0, chain=STRICT) as made:
        made.join(0, **two_cells())
        if not fits:
            with pytest.raises(errors.GroupRefused):
                made.create(found)
            assert made.store.claims() == []
            return
        group = made.create(found)
        for path, member in found.members.items():
            assert made.build(group, path, found=member)[0] == 'h0'
        assert {len(claim.parts.cells.cells) for claim in made.store.claims()} <= {1, 2}


def test_dedicated_cpus():
    found = of(**{f'm{number}': flavor(2, hw__cpu_policy='dedicated') for number in range(4)})
    with cloud(0, chain=STRICT) as made:
        for number in range(2):
            words = two_cells((0, 0), 2)
            made.join(number, **{**words, 'vcpus': 4})
        group = made.create(found)
        assert sorted(made.places(group).values()) == ['h0', 'h0', 'h1', 'h1']
        taken = [
            cpu
            for claim in made.store.claims()
            if claim.node_uuid == made.cluster.find('h0', 'h0').uuid
            for placed in claim.parts.cells.cells
            for cpu in placed.host_cpus
        ]
        assert len(taken) == len(set(taken)) == 4
        for path, member in found.members.items():
            assert made.build(group, path, found=member)[0] == made.places(group)[path]


def test_dedicated_cpus_of_different_sizes():
    """Each of two cells has four: a guest of three leaves one, and no cell has room for two of
    three."""
    sizes = [3, 1, 3, 1, 4, 4, 2, 2, 2, 2]
    found = of(
        **{f'm{n}': flavor(size, hw__cpu_policy='dedicated') for n, size in enumerate(sizes)}
    )
    with cloud(0, chain=STRICT) as made:
        for number in range(3):
            made.join(number, **{**two_cells((0, 0), 4), 'vcpus': 8})
        group = made.create(found)
        assert len(group.members) == 10
        with pytest.raises(errors.GroupRefused):
            made.create(of(more=flavor(1, hw__cpu_policy='dedicated')))


def test_picks_of_others_do_not_take_a_plan_away():
    """The plan is held: other picks on the node in the meantime are no race."""
    found = of(a=flavor(1, hw__cpu_policy='dedicated'))
    with cloud(0, chain=STRICT) as made, cloud(0, made.store, chain=STRICT) as other:
        made.join(0, **{**two_cells((0, 0), 2), 'vcpus': 4})
        group = made.create(found)
        (planned,) = made.store.claims()
        other.scheduler.call(other.scheduler.state_sync.refresh)
        other.place('rival', flavor=flavor(1, hw__cpu_policy='dedicated'))
        commits = made.scheduler.figures.conflicts
        made.build(group, 'a', found=found.members['a'])
        (built,) = made.store.group_claims(group.uuid)
        assert built.parts == planned.parts
        assert made.scheduler.figures.conflicts == commits


@pytest.mark.parametrize('slice_s', [capacity.SLICE_S, -1.0])
def test_devices(slice_s, monkeypatch):
    """However often the plan pauses while it tries hosts."""
    monkeypatch.setattr(capacity, 'SLICE_S', slice_s)
    one_each = flavor(1, pci_passthrough__alias='nic:1')
    found = of(**{f'm{number}': one_each for number in range(6)})
    with settings({'pci.alias': [ALIAS]}), cloud(0, chain=STRICT) as made:
        for number in range(3):
            made.join(number, **told(machine(pools=[pool(number + 1)])))
        group = made.create(found)
        assert sorted(made.places(group).values()) == ['h0', 'h1', 'h1', 'h2', 'h2', 'h2']
        with pytest.raises(errors.GroupRefused):
            made.create(of(one_more=one_each))


def test_pieces_that_no_filter_judges_keep_no_member_out():
    """As for any server then: they are claimed where they fit, and left to the compute node where
    not."""
    pinned = flavor(2, hw__cpu_policy='dedicated', hw__mem_page_size=2048)
    lenient = rules([], [RAMWeigher()])
    with cloud(2, chain=lenient) as made:
        group = made.create(of(a=pinned, b=pinned))
        assert made.build(group, 'a', found=Member('a', pinned))[0] == made.places(group)['a']


def test_a_filter_that_counts_instances():
    counting = rules([NumInstancesFilter()], [RAMWeigher()])
    with (
        settings({'filter_scheduler.max_instances_per_host': 2}),
        cloud(3, chain=counting) as made,
    ):
        with pytest.raises(errors.GroupRefused):
            made.create(definition(members(*(f'm{number}' for number in range(7)))))
        several = members('a1', 'a2', 'a3') | members('b1', 'b2', 'b3', flavor=flavor(1))
        group = made.create(definition(several))
        assert sorted(made.places(group).values()) == ['h0', 'h0', 'h1', 'h1', 'h2', 'h2']
