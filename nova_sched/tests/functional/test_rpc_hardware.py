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
"""NUMA cells and PCI devices over RPC: what is reported, placed, claimed, told and given back."""

import json

import pytest

from nova_sched import errors, objects
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import DATA, primitive, running, spec
from nova_sched.tests.hardware_objects import node_fields, spec_fields
from nova_sched.tests.options import settings, told_all
from nova_sched.tests.unit.hardware.builders import (
    cell,
    dedicated,
    machine,
    mixed,
    pool,
    shared,
    wanted,
)
from nova_sched.tests.unit.hardware.builders import request as device

ONE, TWO, THREE = map(uuid_of, ['one', 'two', 'three'])
HAS = machine(
    cell(
        0,
        [0, 1],
        range(2, 6),
        pages=[(4, 1_000_000), (2048, 100)],
        memory_mb=8192,
        physnets=frozenset('a'),
    ),
    cell(1, [6, 7], range(8, 12), pages=[(4, 1_000_000), (2048, 100)], memory_mb=8192),
    pools=[pool(1, 0, dev_type='type-PCI'), pool(1, 1, dev_type='type-PCI')],
)
FILTERS = ['ComputeFilter', 'PciPassthroughFilter', 'NUMATopologyFilter']
PAIR = wanted(dedicated(2, memory_mb=64, pagesize_kb=2048), requests=[device(1)])


@pytest.fixture(scope='module')
def started(bus_url, tmp_path_factory):
    """A daemon with the filters of this room."""
    with (
        settings({'filter_scheduler.enabled_filters': FILTERS}),
        running(bus_url, tmp_path_factory.mktemp('pieces')) as made,
    ):
        yield made


def asks(pieces=PAIR, **words):
    """A spec as a conductor sends it for these pieces; dedicated CPUs are a resource class of
    their own."""
    guest = pieces.guest
    pinned = sum(len(one.pcpuset) for one in guest.cells) if guest else 0
    extra_specs = {'hw:cpu_policy': 'dedicated'} if pinned else {}
    return spec(
        **{'vcpus': pinned or 1, 'extra_specs': extra_specs, **spec_fields(pieces), **words}
    )


def boot(daemon, uuid, *args, **words):
    """The Selection of one instance."""
    ((chosen, *_),) = daemon.scheduler.select_destinations(asks(*args, **words), [uuid])
    return chosen


def report(daemon, *guests, listed=()):
    """Host a reports, with these parts in use by these instances."""
    has = HAS
    for parts in guests:
        has = has.hold(parts)
    daemon.add('a', instances=list(listed), **node_fields(has))


def pins(claim):
    """Host cell -> host CPUs of a ClaimInfo."""
    cells = claim.numa_topology.cells if claim.numa_topology else ()
    return {one.id: sorted(one.cpu_pinning.values()) for one in cells}


def test_the_next_one_sees_them_gone(daemon):
    daemon.add('a', 'b', **node_fields(HAS))
    hosts = [boot(daemon, uuid).service_host for uuid in (ONE, TWO, THREE)]
    claims = [claim for uuid in (ONE, TWO, THREE) for claim in daemon.claims.show(uuid)]
    held = {(host, *one, where) for host, claim in zip(hosts, claims, strict=True)
            for where, *one in pins(claim).items()
            for one in one}  # fmt: skip
    assert sorted(hosts) in (['a', 'a', 'b'], ['a', 'b', 'b'])
    assert len(held) == 3
    assert {(one.vendor_id, one.count) for claim in claims for one in claim.pci_device_pools} == {
        ('8086', 1)
    }
    assert {one.numa_topology.cells[0].pagesize for one in claims} == {2048}


def test_the_refusal_says_what_is_short(daemon):
    daemon.add('a', **node_fields(HAS))
    for uuid in (ONE, TWO):
        boot(daemon, uuid)
    with told_all(), pytest.raises(errors.NoValidHost) as refused:
        boot(daemon, THREE)
    assert (
        'PciPassthroughFilter removed the last 1: nic: 1 devices asked, 0 free that match'
        in str(refused.value)
    )
    with told_all(), pytest.raises(errors.NoValidHost) as refused:
        boot(daemon, THREE, wanted(dedicated(3)))
    assert 'guest cell 0 needs 3 free dedicated CPUs, the best host cell has 2' in str(
        refused.value
    )


def test_several_at_once_or_none(daemon):
    daemon.add('a', **node_fields(HAS))
    four = wanted(dedicated(2))
    names = [uuid_of(f'many {number}') for number in range(5)]
    with pytest.raises(errors.NoValidHost):
        daemon.scheduler.select_destinations(asks(four), names)
    assert daemon.table('claims') == []
    daemon.scheduler.select_destinations(asks(four), names[:4])
    claims = [claim for uuid in names[:4] for claim in daemon.claims.show(uuid)]
    assert sorted(cpu for claim in claims for found in pins(claim).values() for cpu in found) == [
        2,
        3,
        4,
        5,
        8,
        9,
        10,
        11,
    ]


@pytest.mark.parametrize(
    'pieces, limits',
    [
        pytest.param(PAIR, (4.0, 1.5, None), id='ratios'),
        pytest.param(
            wanted(dedicated(1), physnets=frozenset('a')), (4.0, 1.5, ['a']), id='networks'
        ),
        pytest.param(wanted(requests=[device(1)]), None, id='devices alone'),
        pytest.param(wanted(), None, id='neither'),
    ],
)
def test_limits_travel_with_the_answer(daemon, pieces, limits):
    daemon.add('a', cpu_allocation_ratio=4.0, ram_allocation_ratio=1.5, **node_fields(HAS))
    answer = daemon.raw(
        'select_destinations',
        spec_obj=primitive(asks(pieces)),
        instance_uuids=[ONE],
        return_objects=True,
        return_alternates=False,
    )
    data = answer[0][0][DATA]['limits'][DATA]
    assert {name for name, value in data.items() if value is None} >= {
        'vcpu',
        'memory_mb',
        'disk_gb',
    }
    if limits is None:
        assert data['numa_topology'] is None
        return
    found = data['numa_topology'][DATA]
    near = found.get('network_metadata')
    assert (found['cpu_allocation_ratio'], found['ram_allocation_ratio']) == limits[:2]
    assert (near and near[DATA]['physnets']) == limits[2]


def test_a_live_migration_keeps_to_the_limits_of_its_selection(daemon):
    """As in Nova 34: https://launchpad.net/bugs/2153425."""
    two = wanted(shared(2))
    for host in ('a', 'b'):
        daemon.add(host, cpu_allocation_ratio=1.0, **node_fields(HAS))
    boot(daemon, ONE, two, vcpus=2, ignore_hosts=['b'])
    daemon.claims.confirm_claim(ONE, 'a')
    for uuid in (TWO, THREE):
        boot(daemon, uuid, two, vcpus=2, ignore_hosts=['a'])
    there = objects.Destination(host='b')
    for move in ('live-migration', 'migration'):
        with pytest.raises(errors.ComputeResourcesUnavailable, match='CPU'):
            daemon.claims.resize_claim(asks(two, vcpus=2), ONE, 'b', 'b', move)
    with pytest.raises(errors.NoValidHost, match='NUMA'):
        boot(daemon, ONE, two, vcpus=2, requested_destination=there)
    daemon.add('b', cpu_allocation_ratio=2.0, **node_fields(HAS))
    chosen = boot(daemon, ONE, two, vcpus=2, requested_destination=there)
    assert chosen.limits.numa_topology.cpu_allocation_ratio == 2.0
    assert {claim.host for claim in daemon.claims.show(ONE)} == {'a', 'b'}


def test_a_pinned_cell_of_an_older_version(daemon):
    """As RequestSpecs from before Victoria have it: its CPUs are pinned by every path."""
    daemon.add('a', **node_fields(HAS))
    pinned = objects.to_primitive(asks(wanted(dedicated(2))))
    (old,) = pinned[DATA]['numa_topology'][DATA]['cells']
    old['nova_object.version'] = '1.4'
    old[DATA]['cpuset'] = old[DATA].pop('pcpuset')
    old.pop('nova_object.changes')
    asked = {'spec_obj': pinned, 'instance_uuids': [ONE]}
    daemon.raw('select_destinations', **asked, return_objects=True, return_alternates=True)
    found = daemon.raw(
        'select_candidates', '1.0', 'candidates', **asked | {'instance_uuids': [TWO]}
    )
    daemon.candidates.claim_candidate(found[0][0][DATA]['uuid'])
    read = objects.from_primitive(json.loads(json.dumps(pinned)))
    daemon.scheduler.select_destinations(read, [THREE])
    for uuid in (ONE, TWO, THREE):
        (claim,) = daemon.claims.show(uuid)
        assert [len(cpus) for cpus in pins(claim).values()] == [2], uuid


# What becomes of a claim.


def test_a_claim_on_a_node_that_the_caller_names(daemon):
    daemon.add('a', 'b', **node_fields(HAS))
    first = daemon.claims.instance_claim(asks(), ONE, 'b', 'b')
    again = daemon.claims.instance_claim(asks(), ONE, 'b', 'b')
    assert pins(first) == pins(again)
    second = daemon.claims.instance_claim(asks(), TWO, 'b', 'b')
    assert sorted([*pins(first), *pins(second)]) == [0, 1]
    (shown,) = daemon.claims.show(TWO)
    assert (pins(shown), shown.resources['PCPU']) == (pins(second), 2)


def test_a_claim_that_does_not_fit_says_all_that_is_short(daemon):
    daemon.add('a', **node_fields(HAS))
    before = daemon.state()
    with pytest.raises(errors.ComputeResourcesUnavailable) as short:
        daemon.claims.instance_claim(
            asks(wanted(mixed(3, 1)), vcpus=99, extra_specs={}), ONE, 'a', 'a'
        )
    assert short.value.shortages == (
        'VCPU: 99 asked, the node has 8 in all; guest cell 0 needs 3 shared CPUs, '
        'the best host cell has 2'
    )
    assert daemon.state() == before


def test_an_alternate_gets_parts_of_its_own(daemon):
    daemon.add('a', 'b', **node_fields(HAS))
    daemon.claims.instance_claim(asks(), TWO, 'b', 'b')
    failed = daemon.claims.instance_claim(asks(), ONE, 'a', 'a')
    moved = daemon.claims.claim_alternate(asks(), ONE, 'a', 'b', 'b')
    assert (failed.host, moved.host) == ('a', 'b')
    # What was held on the failed host is free for others.
    both = asks(wanted(dedicated(4), dedicated(4), requests=[device(2)]))
    assert sorted(pins(daemon.claims.instance_claim(both, THREE, 'a', 'a'))) == [0, 1]


def test_abort_frees_what_was_held(daemon):
    daemon.add('a', **node_fields(HAS))
    whole = wanted(dedicated(4), dedicated(4))
    boot(daemon, ONE, whole)
    (ended,) = daemon.claims.abort_claim(ONE)
    assert pins(ended) == {0: [2, 3, 4, 5], 1: [8, 9, 10, 11]}
    assert boot(daemon, TWO, whole).service_host == 'a'


def test_what_the_node_reports_is_not_held_twice(daemon):
    report(daemon)
    boot(daemon, ONE)
    (claim,) = daemon.claims.confirm_claim(ONE, 'a')
    assert claim.state == 'confirmed'
    parts = HAS.fit(PAIR)
    assert pins(claim) == {one.host_cell: sorted(one.host_cpus) for one in parts.cells.cells}
    report(daemon, parts, listed=[ONE])
    boot(daemon, TWO)
    (other,) = daemon.claims.show(TWO)
    assert pins(other).keys().isdisjoint(pins(claim))
    # The instance is gone, and the next report says so.
    report(daemon)
    assert daemon.claims.show(ONE) == []
    assert boot(daemon, ONE).service_host == 'a'


def test_without_room_a_forced_host_is_left_to_decide(daemon):
    daemon.add('a', **node_fields(HAS))
    assert boot(daemon, ONE, wanted(dedicated(5)), force_hosts=['a']).limits.to_dict() == {}
    (claim,) = daemon.claims.show(ONE)
    assert (claim.numa_topology, claim.resources['PCPU']) == (None, 5)


def test_shared_cpus_have_cells_too(daemon):
    daemon.add('a', cpu_allocation_ratio=2.0, **node_fields(HAS))
    for uuid in (ONE, TWO, THREE):
        boot(daemon, uuid, wanted(shared(2)), vcpus=2)
    cells = [
        one.id
        for uuid in (ONE, TWO, THREE)
        for one in daemon.claims.show(uuid)[0].numa_topology.cells
    ]
    assert sorted(cells) in ([0, 0, 1], [0, 1, 1])


def test_the_database_holds_them_as_plain_json(daemon):
    daemon.add('a', **node_fields(HAS))
    boot(daemon, ONE)
    texts = [
        text
        for row in daemon.table('claims')
        for text in row
        if isinstance(text, str) and '"cells"' in text
    ]
    (plain,) = map(json.loads, texts)
    assert set(plain) >= {'cells', 'devices'}
