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
"""Public bug reports of other schedulers and libraries, each tried here.

A number alone is of Launchpad: https://launchpad.net/bugs/NUMBER.
"""

import contextlib
import json
import re
import socket

import pytest

from nova_sched import errors, objects, urls
from nova_sched.claim import DISK_GB
from nova_sched.conf import CONF
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import (
    TIMEOUT_S,
    at_once,
    error_name,
    eventually,
    outcome,
    running,
    spec,
)
from nova_sched.tests.functional.test_api import serving
from nova_sched.tests.functional.test_rpc_policies import APART, member
from nova_sched.tests.functional.test_rpc_policies import run as run_member
from nova_sched.tests.hardware_objects import node_fields, spec_fields
from nova_sched.tests.options import settings
from nova_sched.tests.unit.hardware.builders import (
    cell,
    dedicated,
    machine,
    mixed,
    pool,
    request,
    shared,
    threaded,
    wanted,
)

FILTERS = [
    'AvailabilityZoneFilter',
    'AggregateInstanceExtraSpecsFilter',
    'AggregateMultiTenancyIsolation',
    'IsolatedHostsFilter',
    'PciPassthroughFilter',
    'NUMATopologyFilter',
]
SMALL_PAGES = [(4, 1_000_000)]


@pytest.fixture(scope='module')
def started(bus_url, tmp_path_factory):
    """A daemon with Nova's default filters and those of hardware and aggregates."""
    enabled = [*CONF.filter_scheduler.enabled_filters, *FILTERS]
    with (
        settings({'filter_scheduler.enabled_filters': enabled}),
        running(bus_url, tmp_path_factory.mktemp('reports')) as made,
    ):
        yield made


def hardware(daemon, *cells, host='a', pools=(), **fields):
    """A host with these cells and devices reports."""
    daemon.add(host, **node_fields(machine(*cells, pools=pools)), **fields)


def boot(daemon, name, *cells, requests=(), emulator=None, **words):
    """The claim of a server with these guest cells and PCI requests."""
    pieces = wanted(*cells, requests=requests, emulator=emulator)
    pinned = sum(len(one.pcpuset) for one in cells)
    cpus = pinned + sum(len(one.cpuset) for one in cells)
    policy = {'mixed': 'mixed'} if any(one.cpuset for one in cells) else {}
    extra = {'hw:cpu_policy': policy.get('mixed', 'dedicated')} if pinned else {}
    extra |= words.pop('extra_specs', {})
    asked = spec(**{'vcpus': cpus or 1, 'extra_specs': extra, **spec_fields(pieces), **words})
    daemon.scheduler.select_destinations(asked, [uuid_of(name)])
    return claim_of(daemon, name)


def claim_of(daemon, name):
    (found,) = daemon.claims.show(uuid_of(name))
    return found


def refused(work, *args, **words):
    """The text of the refusal."""
    with pytest.raises(errors.NoValidHost) as told:
        work(*args, **words)
    return str(told.value)


def cpus_of(claim):
    return sorted(
        cpu for one in claim.numa_topology.cells for cpu in (one.cpu_pinning or {}).values()
    )


def devices_of(claim):
    return sum(one.count for one in claim.pci_device_pools)


def aggregates(daemon, *made):
    daemon.scheduler.update_aggregates(
        objects.AggregateList(
            objects=[
                objects.Aggregate(
                    id=number,
                    uuid=uuid_of(f'aggregate {number}'),
                    name=str(number),
                    hosts=list(hosts),
                    metadata=metadata,
                )
                for number, (hosts, metadata) in enumerate(made, 1)
            ]
        )
    )
    eventually(lambda: len(daemon.table('aggregates')) == len(made))


# PCI devices.


@pytest.mark.parametrize('devices', [1, 2])
def test_nova_1986838(daemon, devices):
    """Two aliases of a flavor ask for one device each, and both match the same devices: one
    device is not given twice."""
    hardware(daemon, pools=[pool(devices, 0)])
    two = [
        request(1, {'vendor_id': '8086'}, name='first', request_id='r1'),
        request(1, {'product_id': '1572'}, name='second', request_id='r2'),
    ]
    if devices == 1:
        refused(boot, daemon, 'one', requests=two)
        assert daemon.table('claims') == []
    else:
        assert devices_of(boot(daemon, 'one', requests=two)) == 2
        refused(boot, daemon, 'two', requests=two[:1])


@pytest.mark.parametrize('count', [1, 2])
def test_nova_2098496(daemon, count):
    """Devices that differ by a tag are in pools of their own: a server gets as many as it asks
    for, not as many from each pool."""
    pools = [pool(1, 0, address_tag='x'), pool(1, 0, address_tag='y'), pool(1, 0)]
    hardware(daemon, pools=pools)
    assert devices_of(boot(daemon, 'one', requests=[request(count)])) == count
    assert devices_of(boot(daemon, 'two', requests=[request(3 - count)])) == 3 - count
    refused(boot, daemon, 'three', requests=[request(1)])


def test_nova_1892361(daemon):
    """A device becomes a physical function when SR-IOV is switched on: from the next report it
    is not a plain device any more."""
    plain = [request(1, {'vendor_id': '8086', 'dev_type': 'type-PCI'})]
    hardware(daemon, pools=[pool(2, 0, dev_type='type-PCI')])
    boot(daemon, 'one', requests=plain)
    daemon.claims.abort_claim(uuid_of('one'))
    hardware(daemon, pools=[pool(2, 0, dev_type='type-PF')])
    refused(boot, daemon, 'one', requests=plain)
    functions = [request(2, {'vendor_id': '8086', 'dev_type': 'type-PF'})]
    assert devices_of(boot(daemon, 'one', requests=functions)) == 2


def test_nova_1860555(daemon):
    """A build that failed on its first host goes on at the alternate: the devices of the first
    are free again."""
    for host in 'ab':
        hardware(daemon, host=host, pools=[pool(1, 0)])
    asked = spec(**spec_fields(wanted(requests=[request(1)])))
    ((best, other),) = daemon.scheduler.select_destinations(asked, [uuid_of('one')])
    first, second = best.service_host, other.service_host
    daemon.claims.claim_alternate(asked, uuid_of('one'), first, second, second)
    assert daemon.hosts_of('one').keys() == {second}
    boot(daemon, 'two', requests=[request(1)])
    assert daemon.hosts_of('two').keys() == {first}


def test_nova_1983753(daemon):
    """A resize asks for the devices of the new flavor, not for those of the old one."""
    hardware(daemon, host='a', pools=[pool(2, 0)])
    hardware(daemon, host='b', pools=[pool(1, 0)])
    daemon.add('c')
    boot(daemon, 'one', requests=[request(2)])
    daemon.claims.confirm_claim(uuid_of('one'), 'a')

    def resize(count):
        requests = [request(count)] if count else []
        asked = spec(ignore_hosts=['a'], **spec_fields(wanted(requests=requests)))
        found = daemon.scheduler.select_destinations(asked, [uuid_of('one')])
        host = found[0][0].service_host
        daemon.claims.abort_claim(uuid_of('one'), host)
        return host

    refused(resize, 2)
    assert resize(1) == 'b'
    daemon.stats.remove_node('b', 'b')
    refused(resize, 1)
    assert resize(0) == 'c'


# NUMA cells.


def test_nova_1994526(daemon):
    """Of a mixed guest with two cells, all dedicated CPUs are in one cell: the other cell pins
    nothing, and that is no failure."""
    hardware(
        daemon,
        cell(0, range(4), range(4, 8), pages=SMALL_PAGES),
        cell(1, range(8, 12), range(12, 16), pages=SMALL_PAGES),
        vcpus=16,
    )
    nothing = shared(2, cpu_policy='mixed')
    found = boot(daemon, 'one', mixed(1, 3), nothing)
    assert len(cpus_of(found)) == 3
    assert found.resources == {'VCPU': 3, 'PCPU': 3, 'MEMORY_MB': 512}


def test_nova_1898272(daemon):
    """A mixed guest needs its shared CPUs too."""
    hardware(daemon, cell(0, [0], range(1, 8), pages=SMALL_PAGES), vcpus=8)
    refused(boot, daemon, 'one', mixed(4, 1))
    assert len(cpus_of(boot(daemon, 'one', mixed(1, 1)))) == 1


def test_nova_1889633(daemon):
    """The policy `isolate` is for hosts without threads, or leaves the sibling of each of its
    CPUs unused: nobody else gets the sibling."""
    hardware(daemon, threaded(0, cores=4, pages=SMALL_PAGES), vcpus=8)
    one = dedicated(3, thread_policy='isolate')
    extra = {'hw:cpu_thread_policy': 'isolate'}
    taken = cpus_of(boot(daemon, 'one', one, extra_specs=extra))
    assert len({cpu % 4 for cpu in taken}) == 3
    rest = cpus_of(boot(daemon, 'two', dedicated(2)))
    assert not {cpu % 4 for cpu in rest} & {cpu % 4 for cpu in taken}
    refused(boot, daemon, 'three', dedicated(1))


def test_nova_1596692(daemon):
    """The policy `require` on hosts of several cells: siblings of one cell, or of one for each
    guest cell; and 1550269: never on a host without threads."""
    four = dedicated(4, thread_policy='require')
    two = [dedicated(2, memory_mb=64, thread_policy='require')] * 2
    hardware(
        daemon,
        *(threaded(number, first=4 * number, cores=2, pages=SMALL_PAGES) for number in (0, 1)),
        vcpus=8,
    )
    taken = cpus_of(boot(daemon, 'one', four))
    assert {cpu // 4 for cpu in taken} in ({0}, {1})
    refused(boot, daemon, 'two', *two)
    daemon.claims.abort_claim(uuid_of('one'))
    assert len(cpus_of(boot(daemon, 'two', *two))) == 4
    hardware(daemon, cell(0, [], range(8), pages=SMALL_PAGES), host='b', vcpus=8)
    refused(boot, daemon, 'three', four, ignore_hosts=['a'])


@pytest.mark.parametrize('cpus', [3, 5, 7])
def test_nova_1501358(daemon, cpus):
    """An odd number of dedicated CPUs on cores of two threads."""
    hardware(daemon, threaded(0, cores=4, pages=SMALL_PAGES), vcpus=8)
    assert len(set(cpus_of(boot(daemon, 'one', dedicated(cpus))))) == cpus
    assert len(set(cpus_of(boot(daemon, 'two', dedicated(8 - cpus))))) == 8 - cpus


def test_nova_1811886(daemon):
    """Memory in huge pages is not there for a guest that pins CPUs and has small pages."""
    pages = [(4, 1024 * 256), (1024 * 1024, 1)]
    hardware(daemon, cell(0, [], range(4), memory_mb=2048, pages=pages), vcpus=4)
    boot(daemon, 'one', dedicated(1, memory_mb=1024), memory_mb=1024)
    refused(boot, daemon, 'two', dedicated(1, memory_mb=1024), memory_mb=1024)
    huge = dedicated(1, memory_mb=1024, pagesize_kb=1024 * 1024)
    boot(daemon, 'three', huge, memory_mb=1024)


def test_nova_1810977(daemon):
    """Guests with cells and without a page size share memory as the ratio of the node allows."""
    small = [(4, 1024 * 256)]
    hardware(
        daemon,
        cell(0, range(8), [], memory_mb=1024, pages=small),
        memory_mb=1024,
        ram_allocation_ratio=2.0,
    )
    for name in ('one', 'two'):
        boot(daemon, name, shared(1, memory_mb=1024), memory_mb=1024)
    refused(boot, daemon, 'three', shared(1, memory_mb=1024), memory_mb=1024)


def test_nova_1485631(daemon):
    """Ratios are for many servers on one host: one server has no more CPUs and no more memory
    than the host, with and without cells."""
    hardware(
        daemon,
        cell(0, range(8), [], pages=SMALL_PAGES, memory_mb=16384),
        cpu_allocation_ratio=16.0,
        ram_allocation_ratio=16.0,
    )
    refused(daemon.boot, 'one', vcpus=9)
    refused(daemon.boot, 'one', memory_mb=16385)
    refused(boot, daemon, 'one', shared(9))
    for name in ('one', 'two', 'three'):
        daemon.boot(name, vcpus=8)


def test_nova_1978372(daemon):
    """A guest of eight cells that does not fit on a host with sixteen: to try all orders of cells
    would take longer than a call waits."""
    hardware(
        daemon,
        *(
            cell(
                number,
                [],
                range(4 * number, 4 * number + (4 if number < 7 else 1)),
                pages=SMALL_PAGES,
            )
            for number in range(16)
        ),
        vcpus=64,
    )
    refused(boot, daemon, 'one', *[dedicated(2, memory_mb=64) for _ in range(8)])
    assert len(cpus_of(boot(daemon, 'one', *[dedicated(4) for _ in range(7)]))) == 28


def test_nova_1804502(daemon):
    """A rebuild stays on its host: that its cells and devices are in use by itself is no reason
    against it, and it claims nothing again (1732976)."""
    hardware(daemon, cell(0, [], range(4), pages=SMALL_PAGES), pools=[pool(1, 0)], vcpus=4)
    pieces = wanted(dedicated(4), requests=[request(1)])
    extra = {'hw:cpu_policy': 'dedicated'}
    asked = spec(vcpus=4, extra_specs=extra, **spec_fields(pieces))
    daemon.scheduler.select_destinations(asked, [uuid_of('one')])
    daemon.claims.confirm_claim(uuid_of('one'), 'a')
    before = daemon.table('claims')
    asked.scheduler_hints = {'_nova_check_type': ['rebuild']}
    asked.force_hosts = asked.force_nodes = ['a']
    for _ in range(3):
        ((chosen, *_),) = daemon.scheduler.select_destinations(asked, [uuid_of('one')])
        assert chosen.service_host == 'a'
    assert daemon.table('claims') == before


def test_nova_1995153(daemon):
    """The sockets of a host are still known when a guest with cells is there, by its claim and by
    the next report."""
    cells = [
        cell(number, [], range(4 * number, 4 * number + 4), pages=SMALL_PAGES, socket=number // 2)
        for number in range(4)
    ]
    has = machine(*cells, pools=[pool(2, 3)])
    near = request(1, policy='socket')

    def cell_of(claim):
        (found,) = claim.numa_topology.cells
        return found.id

    daemon.add('a', vcpus=16, **node_fields(has))
    first = boot(daemon, 'one', dedicated(4), requests=[near])
    assert cell_of(first) in (2, 3)
    assert cell_of(boot(daemon, 'two', dedicated(3), requests=[near])) in (2, 3)
    daemon.claims.abort_claim(uuid_of('two'))
    daemon.claims.confirm_claim(uuid_of('one'), 'a')
    daemon.add('a', vcpus=16, **node_fields(machine(*cells, pools=[pool(1, 3)])))
    assert cell_of(boot(daemon, 'three', dedicated(4), requests=[near])) in (2, 3)
    refused(boot, daemon, 'four', dedicated(1), requests=[near])


def test_nova_1746393(daemon):
    """Emulator threads on a CPU of their own: it counts, and nobody else gets it."""
    hardware(daemon, cell(0, [], range(4), pages=SMALL_PAGES), vcpus=4)
    extra = {'hw:emulator_threads_policy': 'isolate'}
    refused(boot, daemon, 'one', dedicated(4), emulator='isolate', extra_specs=extra)
    found = boot(daemon, 'one', dedicated(2), emulator='isolate', extra_specs=extra)
    assert found.resources['PCPU'] == 3
    assert len(cpus_of(boot(daemon, 'two', dedicated(1)))) == 1
    refused(boot, daemon, 'three', dedicated(1))


# Server groups.


def test_nova_1781710(daemon):
    """Several members of an anti-affinity group by one request, whose spec has the UUID of the
    first: each is placed apart from the others."""
    daemon.add('a', 'b', 'c')
    names = ['one', 'two', 'three']
    uuids = [uuid_of(name) for name in names]
    asked = member(APART, instance_uuid=uuids[0])
    asked.instance_group.members = uuids
    asked.num_instances = 3
    found = daemon.scheduler.select_destinations(asked, uuids)
    assert sorted(one[0].service_host for one in found) == ['a', 'b', 'c']
    for name in names:
        daemon.claims.abort_claim(uuid_of(name))
    asked.ignore_hosts = ['c']
    refused(daemon.scheduler.select_destinations, asked, uuids)
    assert daemon.table('claims') == []


def test_nova_1558532(daemon):
    """A member of an anti-affinity group may be resized on the host where it is: the member
    there is itself."""
    daemon.add('a')
    run_member(daemon, APART, uuid_of('one'), 'a')
    asked = member(APART, vcpus=2, instance_uuid=uuid_of('one'))
    asked.instance_group.members, asked.instance_group.hosts = [uuid_of('one')], ['a']
    ((chosen, *_),) = daemon.scheduler.select_destinations(asked, [uuid_of('one')])
    assert chosen.service_host == 'a'


def test_kube_72565(daemon):
    """A host with a member goes down: the next member waits for a host, and does not double up."""
    daemon.add('a', 'b')
    run_member(daemon, APART, uuid_of('one'), 'a')
    daemon.stats.update_service(
        'b', objects.Service(host='b', disabled=False, disabled_reason=None, forced_down=True)
    )
    asked = member(APART)
    eventually(
        lambda: isinstance(
            outcome(daemon.scheduler.select_destinations, asked, [uuid_of('two')]),
            errors.NoValidHost,
        )
    )
    assert daemon.hosts_of('two') == {}


def test_nova_1830747(daemon):
    """An old request has a server group without its UUID: its policy and its members count."""
    daemon.add('a', instances=[uuid_of('one')])
    daemon.add('b', memory_mb=4096)
    members = [uuid_of(name) for name in ('one', 'two', 'three')]
    group = objects.InstanceGroup(policies=[APART], members=members, hosts=['a'])
    assert daemon.boot('two', instance_group=group) == ['b']
    refused(daemon.boot, 'three', instance_group=group)


def test_nova_1821755(daemon):
    """Two members of an anti-affinity group leave their hosts at the same time, and there is one
    other host: one of them gets it."""
    daemon.add('a', 'b', 'c')
    for name, host in (('one', 'a'), ('two', 'b')):
        run_member(daemon, APART, uuid_of(name), host)

    def move(name):
        asked = member(APART, instance_uuid=uuid_of(name), ignore_hosts=['a', 'b'])
        asked.instance_group.members = [uuid_of('one'), uuid_of('two')]
        asked.instance_group.hosts = ['a', 'b']
        return outcome(daemon.scheduler.select_destinations, asked, [uuid_of(name)])

    found = at_once(move, ['one', 'two'])
    (error,) = (one for one in found if isinstance(one, Exception))
    assert isinstance(error, errors.NoValidHost)
    (placed,) = (one for one in found if not isinstance(one, Exception))
    assert placed[0][0].service_host == 'c'


# Hosts, aggregates and flavors.


def test_kube_102339(daemon):
    """https://github.com/kubernetes/kubernetes/issues/102339: a host comes back under its name as
    another one: servers of the old one do not count on it."""
    daemon.add('a')
    daemon.boot('one', vcpus=8)
    refused(daemon.boot, 'two', vcpus=1)
    daemon.add('a', uuid=uuid_of('another node'))
    assert daemon.boot('two', vcpus=8) == ['a']
    assert daemon.hosts_of('one') == {}


def test_nova_1464348(daemon):
    """Names of hosts are compared without regard to case where a request forces or leaves out
    hosts."""
    daemon.add('Cmp-1', 'cmp-2')
    assert daemon.boot('one', force_hosts=['cmp-1']) == ['Cmp-1']
    assert daemon.boot('two', force_hosts=['CMP-2']) == ['cmp-2']
    assert daemon.boot('three', ignore_hosts=['CMP-1']) == ['cmp-2']
    refused(daemon.boot, 'four', ignore_hosts=['CMP-1', 'Cmp-2'])


def test_nova_1793747(daemon):
    """Aggregates name hosts exactly: one of another case is another host."""
    daemon.add('cmp', 'CMP')
    aggregates(daemon, (['CMP'], {'availability_zone': 'north'}))
    assert daemon.boot('one', availability_zone='north') == ['CMP']
    assert daemon.boot('two', availability_zone='nova') == ['cmp']


@pytest.mark.parametrize('key', ['fast', 'aggregate_instance_extra_specs:fast'])
def test_nova_1582589(daemon, key):
    """A key of an operator's own, without a scope, is about aggregates: no capability of a
    host, and no reason against all hosts."""
    daemon.add('a', 'b')
    aggregates(daemon, (['b'], {'fast': 'yes'}))
    assert daemon.boot('one', extra_specs={key: 'yes'}) == ['b']
    refused(daemon.boot, 'two', extra_specs={key: 'no'})


def test_nova_1512511(daemon):
    """A flavor without extra specs goes to hosts in any aggregate."""
    daemon.add('a')
    aggregates(daemon, (['a'], {'fast': 'yes'}))
    assert daemon.boot('one', extra_specs={}) == ['a']


def test_nova_1413087(daemon):
    """The value of a key of an aggregate may be a list, with blanks."""
    daemon.add('a', 'b')
    aggregates(daemon, (['b'], {'disk': 'ssd, nvme', 'filter_tenant_id': 'red, blue'}))
    for value in ('ssd', 'nvme'):
        assert daemon.boot(value, extra_specs={'disk': value}, project_id='blue') == ['b']
    refused(daemon.boot, 'three', extra_specs={'disk': 'ssd, nvme'}, project_id='blue')
    assert daemon.boot('four', project_id='green') == ['a']


def test_nova_1746483(daemon):
    """The image of a server that boots from a volume has no ID: it runs on no isolated host,
    and elsewhere."""
    daemon.add('a', 'b')
    image = objects.ImageMeta(properties=objects.ImageMetaProps())
    with settings(
        {
            'filter_scheduler.isolated_hosts': ['a'],
            'filter_scheduler.isolated_images': [uuid_of('image')],
        }
    ):
        assert daemon.boot('one', image=image, is_bfv=True) == ['b']


def test_nova_1469179(daemon):
    """A server that boots from a volume needs no disk of the host for its root."""
    daemon.add('a', local_gb=10)
    refused(daemon.boot, 'one', root_gb=20)
    assert daemon.boot('one', root_gb=20, is_bfv=True) == ['a']
    assert claim_of(daemon, 'one').resources.get('DISK_GB', 0) == 0


def test_nova_1408859(daemon):
    """Of several servers by one request the last one finds no host: what the first ones took is
    free again."""
    daemon.add('a', 'b')
    refused(daemon.boot, 'one', 'two', 'three', vcpus=8)
    assert daemon.table('claims') == []
    assert sorted(daemon.boot('one', 'two', vcpus=8)) == ['a', 'b']


def test_nova_1823370(daemon):
    """An evacuation stays in the cell of its server."""
    here, there = uuid_of('cell of a and b'), uuid_of('cell of c')
    daemon.add('a', 'b', cell_uuid=here)
    daemon.add('c', cell_uuid=there, memory_mb=65536)
    destination = objects.Destination(cell=objects.CellMapping(uuid=here))
    words = {'requested_destination': destination, 'ignore_hosts': ['a']}
    assert daemon.boot('one', **words) == ['b']
    refused(daemon.boot, 'two', vcpus=8, **words)


def test_nova_1834691(daemon):
    """A host that tells of no failed builds, and one that tells of some."""
    daemon.add('a', stats={})
    daemon.add('b', stats={'failed_builds': '3'})
    assert daemon.boot('one') == ['a']


def test_nova_1707252(daemon):
    """A resize on the same host: the disks of both sizes are held until it is settled."""
    daemon.add('a')
    daemon.claims.instance_claim(spec(root_gb=30), uuid_of('one'), 'a', 'a')
    daemon.claims.confirm_claim(uuid_of('one'), 'a')
    daemon.claims.resize_claim(spec(root_gb=40), uuid_of('one'), 'a', 'a')
    refused(daemon.boot, 'two', root_gb=31)
    daemon.claims.revert_claim(uuid_of('one'))
    assert daemon.boot('two', root_gb=70) == ['a']
    assert claim_of(daemon, 'one').resources[DISK_GB] == 30


@pytest.mark.parametrize(
    'change',
    [lambda cloud: aggregates(cloud, (['b'], {'fast': 'yes'})), None],
    ids=['left', 'gone'],
)
def test_nova_1605804(daemon, change):
    """A host that has left its aggregate is not taken for a member any more."""
    daemon.add('a', 'b', 'c')
    aggregates(daemon, (['a', 'b'], {'fast': 'yes'}))
    fast = {'extra_specs': {'fast': 'yes'}}
    assert daemon.boot('one', **fast, ignore_hosts=['b']) == ['a']
    if change:
        change(daemon)
        eventually(lambda: '"a"' not in str(daemon.table('aggregates')))
        assert daemon.boot('two', **fast) == ['b']
    else:
        daemon.scheduler.delete_aggregate(objects.Aggregate(id=1))
        eventually(lambda: not daemon.table('aggregates'))
    refused(daemon.boot, 'three', **fast, ignore_hosts=['b'])


def test_nova_1680661(daemon):
    """A host tells of its instances before it is known."""
    daemon.scheduler.sync_instance_info('new', [uuid_of('one')])
    daemon.scheduler.delete_instance_info('newer', uuid_of('two'))
    daemon.add('new')
    assert daemon.boot('three') == ['new']


def test_nomad_18549(daemon):
    """https://github.com/hashicorp/nomad/issues/18549: dedicated CPUs that are not next to each
    other are given, all of them, and given again."""
    cpus = [1, 2, 5, 7, 11, 12, 30, 31]
    hardware(daemon, cell(0, [], cpus, pages=SMALL_PAGES), vcpus=8)
    taken = [cpu for n in range(8) for cpu in cpus_of(boot(daemon, f'{n}', dedicated(1)))]
    assert sorted(taken) == cpus
    for number in range(0, 8, 2):
        daemon.claims.abort_claim(uuid_of(f'{number}'))
    assert cpus_of(boot(daemon, 'nine', dedicated(4))) == sorted(taken[::2])


def test_nova_1438238(daemon):
    """Several servers with cells by one request: each gets CPUs of its own, of what the earlier
    ones left."""
    hardware(daemon, cell(0, [], range(4), pages=SMALL_PAGES), vcpus=4)
    asked = spec(
        vcpus=2, extra_specs={'hw:cpu_policy': 'dedicated'}, **spec_fields(wanted(dedicated(2)))
    )
    names = ['one', 'two', 'three']
    uuids = [uuid_of(name) for name in names]
    refused(daemon.scheduler.select_destinations, asked, uuids)
    daemon.scheduler.select_destinations(asked, uuids[:2])
    assert sorted(cpu for name in names[:2] for cpu in cpus_of(claim_of(daemon, name))) == [
        0,
        1,
        2,
        3,
    ]


@pytest.mark.parametrize('metrics', [None, '', '[]', '[{"name": "other", "value": 1}]'])
def test_nova_1499271(daemon, metrics):
    """A host without the metric that a weigher reads, beside one that has it."""
    known = [
        {'name': 'cpu.percent', 'value': 7, 'timestamp': '2026-01-01T00:00:00', 'source': 'x'}
    ]
    daemon.add('a', metrics=metrics)
    daemon.add('b', metrics=json.dumps(known))
    weighed = {'metrics.weight_setting': ['cpu.percent=1.0'], 'metrics.required': False}
    with settings(weighed):
        assert daemon.boot('one') == ['b']
    with settings(weighed | {'filter_scheduler.weight_classes': []}):
        assert daemon.boot('two')


def test_nova_1769283(daemon):
    """An image without an architecture has the one that the operator says."""
    daemon.add(
        'a', supported_hv_specs=[objects.HVSpec(arch='aarch64', hv_type='kvm', vm_mode='hvm')]
    )
    image = objects.ImageMeta(id=uuid_of('image'), properties=objects.ImageMetaProps())
    assert daemon.boot('one', image=image) == ['a']
    with settings({'filter_scheduler.image_properties_default_architecture': 'x86_64'}):
        refused(daemon.boot, 'two', image=image)


# The bus.


@pytest.mark.parametrize('method', ['__init__', '_answer', 'target', '__class__', 'call', 'stop'])
def test_oslo_messaging_1194279(daemon, method):
    """A caller reaches the methods of an endpoint that are meant for it, and nothing else."""
    for namespace in (None, 'claims', 'groups', 'stats', 'explain', 'candidates'):
        error = outcome(daemon.raw, method, '1.0' if namespace else '4.0', namespace)
        assert error_name(error) in ('NoSuchMethod', 'UnsupportedVersion'), error


def test_oslo_messaging_1935883(daemon):
    """The bus delivers a request twice: it is one claim, and the same answer."""
    daemon.add('a', 'b')
    asked, uuids = spec(), [uuid_of('one')]
    first, again = (daemon.scheduler.select_destinations(asked, uuids) for _ in range(2))
    assert [one.service_host for one in first[0]] == [one.service_host for one in again[0]]
    assert len(daemon.table('claims')) == 1


@pytest.mark.parametrize('login', ['u:s@cret', 'u:s@cr:et', 'u@x:s@cret', 'u:s%40cret'])
def test_oslo_messaging_1675423(login):
    """A password with an @ in it: the last one is before the host. Nothing of it is shown."""
    for place in ('host:5672/', 'host:5672,v:s@cret@other:5672/', 'host'):
        text = urls.shown(f'rabbit://{login}@{place}')
        assert not re.search('cret|s%40|s@', text), text
        assert text.endswith(place.rpartition('@')[2])


# Templates.

HEAD = 'heat_template_version: 2021-04-16\n'
SERVER = 'type: OS::Nova::Server, properties: {flavor: {vcpus: 1, ram: 512}'


def described(daemon, parameters='', resources='', given=None, more=''):
    """What `validate` says of a template with these parameters and resources."""
    text = HEAD + more
    if parameters:
        text += f'parameters:\n{parameters}\n'
    text += f'resources:\n{resources}\n'
    return daemon.groups.validate(text, given)


def members(found):
    return {one['path']: one for one in found['members']}


def wrong(work, *args, **words):
    """The error of a template."""
    with pytest.raises(errors.TemplateError) as told:
        work(*args, **words)
    return told.value


def test_heat_1600209(daemon):
    """Of two texts to replace, one of which begins with the other, the longer is replaced."""
    found = described(
        daemon,
        resources="""
  one:
    type: OS::Nova::Server
    properties:
      flavor: {vcpus: 1, ram: 512}
      availability_zone: {str_replace: {template: "$zone-$zone1", params: {$zone: a, $zone1: b}}}
""",
    )
    assert members(found)['one']['availability_zone'] == 'a-b'


@pytest.mark.parametrize('empty', [0, '', [], {}])
def test_heat_1423946(daemon, empty):
    """A value that is empty or zero is a value: the default does not replace it."""
    kind = {int: 'number', str: 'string', list: 'comma_delimited_list', dict: 'json'}[type(empty)]
    default = {'number': 3, 'string': 'x', 'comma_delimited_list': 'x', 'json': '{x: 1}'}[kind]
    resources = f"""
  other: {{{SERVER}}}}}
  one:
    condition: {{equals: [{{get_param: p}}, {{get_param: q}}]}}
    {SERVER.replace(', properties', chr(10) + '    properties')}}}
"""
    parameters = f'  p: {{type: {kind}, default: {default}}}\n  q: {{type: {kind}}}'
    found = described(daemon, parameters, resources, {'p': empty, 'q': empty})
    assert members(found).keys() == {'one', 'other'}


def test_heat_1661049(daemon):
    """A group of zero members beside a server."""
    found = described(
        daemon,
        '  n: {type: number, default: 2}',
        f"""
  other: {{{SERVER}}}}}
  web:
    type: OS::Heat::ResourceGroup
    properties: {{count: {{get_param: n}}, resource_def: {{{SERVER}}}}}}}
  all:
    type: OS::NovaSched::Group
    properties: {{members: [web, other], policies: [{{type: anti-affinity, level: host}}]}}
""",
        {'n': 0},
    )
    assert members(found).keys() == {'all/other'}


@pytest.mark.parametrize(
    'items, text',
    [
        pytest.param('{get_param: list}', '1-2', id='numbers'),
        pytest.param('[1, null]', '1-', id='null in a list'),
        pytest.param('[x], null', 'x', id='1358831: null for a list'),
        pytest.param('[x], {get_param: [map, none]}', 'x', id='empty text for a list'),
    ],
)
def test_heat_1467139(daemon, items, text):
    """A list of numbers is joined, and what is empty has no items."""
    parameters = """
  list: {type: comma_delimited_list}
  map: {type: json, default: {none: ""}}
"""
    resources = f"""
  one:
    type: OS::Nova::Server
    properties:
      flavor: {{vcpus: 1, ram: 512}}
      availability_zone: {{list_join: ["-", {items}]}}
"""
    found = described(daemon, parameters, resources, {'list': [1, 2]})
    assert members(found)['one']['availability_zone'] == text


@pytest.mark.parametrize('value', [[1], {'a': 1}, 'many', '1e999', '', None, '٣', True])
def test_heat_1698365(daemon, value):
    """What is not a number is refused where the parameter is."""
    error = wrong(
        described,
        daemon,
        '  n: {type: number}',
        f'  one: {{{SERVER}}}}}\n  two: {{type: OS::Heat::ResourceGroup, properties: '
        f'{{count: {{get_param: n}}, resource_def: {{{SERVER}}}}}}}}}',
        {'n': value},
    )
    assert 'n' in error.where, error


def test_heat_1567373(daemon):
    """A number for a parameter that is a string is its text; so is the number of a flavor."""
    found = described(
        daemon,
        '  zone: {type: string}',
        """
  one:
    type: OS::Nova::Server
    properties: {flavor: {vcpus: 1, ram: 512}, availability_zone: {get_param: zone}}
""",
        {'zone': 7},
    )
    assert members(found)['one']['availability_zone'] == '7'


@pytest.mark.parametrize(
    'each, permutations, paths',
    [
        pytest.param('{"%a%": null}', 'true', [], id='null'),
        pytest.param('{"%a%": null}', 'false', [], id='1732934: all are null'),
        pytest.param('{"%a%": [web, db], "%b%": null}', 'false', [], id='one is null'),
        pytest.param('{"%a%": {get_param: hosts}}', 'true', ['all/db', 'all/web'], id='keys'),
        pytest.param('{"%a%": [web, db], "%b%": [x]}', 'false', None, id='of two lengths'),
        pytest.param('{"%a%": {get_param: hosts}}', 'false', None, id='keys have no order'),
    ],
)
def test_heat_1629899(daemon, each, permutations, paths):
    """A list of a repeat that is null makes no copies, and its length counts as that of the
    others."""
    template = (
        '  hosts: {type: json, default: {web: 1, db: 2}}',
        f"""
  web: {{{SERVER}}}}}
  db: {{{SERVER}}}}}
  all:
    type: OS::NovaSched::Group
    properties:
      members:
        repeat: {{for_each: {each}, permutations: {permutations}, template: "%a%"}}
""",
    )
    if paths is None:
        assert 'repeat.for_each' in wrong(described, daemon, *template).where
    else:
        assert sorted(members(described(daemon, *template))) == (paths or ['db', 'web'])


def test_heat_1617019(daemon):
    """A list of a parameter, written with commas, is the list of a property."""
    found = described(
        daemon,
        '  names: {type: comma_delimited_list, default: "web,db"}',
        f"""
  web: {{{SERVER}}}}}
  db: {{{SERVER}}}}}
  all: {{type: OS::NovaSched::Group, properties: {{members: {{get_param: names}}}}}}
""",
    )
    assert members(found).keys() == {'all/web', 'all/db'}


def test_heat_1701677(daemon):
    """A resource may depend on one that its condition leaves out."""
    found = described(
        daemon,
        more='conditions: {never: {equals: [a, b]}}\n',
        resources=f"""
  web: {{condition: never, {SERVER}}}}}
  db: {{depends_on: [web], {SERVER}}}}}
""",
    )
    assert members(found).keys() == {'db'}


def test_heat_1585206(daemon):
    """Names that removal policies leave out are left out from the first creation on; with the
    mode `update` (1741053) too."""
    for mode in ('append', 'update'):
        found = described(
            daemon,
            resources=f"""
  web:
    type: OS::Heat::ResourceGroup
    properties:
      count: 2
      removal_policies: [{{resource_list: ["0"]}}]
      removal_policies_mode: {mode}
      resource_def: {{{SERVER}}}}}
""",
        )
        assert members(found).keys() == {'web/1', 'web/2'}
        assert found['warnings'] == []


@pytest.mark.parametrize('section', ['parameters', 'conditions', 'outputs', 'parameter_groups'])
def test_heat_1312114(daemon, section):
    """A section without content is as none."""
    found = described(daemon, more=f'{section}:\n', resources=f'  one: {{{SERVER}}}}}')
    assert members(found).keys() == {'one'}


@pytest.mark.parametrize('text', ['', HEAD, f'{HEAD}resources:\n', f'{HEAD}resources: {{}}\n'])
def test_heat_1339893(daemon, text):
    """A template without servers is nothing to place: it is refused in words."""
    assert wrong(daemon.groups.validate, text).why


@pytest.mark.parametrize(
    'value, is_one',
    [('0', False), ('1', False), ('"yes"', False), ('off', True), ('"TRUE"', True)],
)
def test_heat_1634096(daemon, value, is_one):
    """A boolean property takes no number for a boolean."""
    resources = f"""
  one: {{{SERVER}}}}}
  all:
    type: OS::NovaSched::Group
    properties: {{members: [one], overlay: {value}}}
"""
    if is_one:
        assert members(described(daemon, '', resources))
    else:
        assert wrong(described, daemon, '', resources).where.endswith('overlay')


@pytest.mark.parametrize('zone', ['""', 'null'])
def test_heat_1749767(daemon, zone):
    """An availability zone is optional: an empty one restricts nothing."""
    daemon.add('a')
    made = daemon.groups.create(
        f'{HEAD}resources:\n  one: {{{SERVER}, availability_zone: {zone}}}}}\n', dry_run=True
    )
    assert [one.host for one in made.members] == ['a']


FLAVOR = '{{vcpus: 2, ram: 512, extra_specs: {{{}}}}}'


def planned(daemon, extra_specs, count=1, flavor=FLAVOR):
    """Hosts of servers that one group asks for."""
    server = f'{{type: OS::Nova::Server, properties: {{flavor: {flavor.format(extra_specs)}}}}}'
    text = f"""{HEAD}resources:
  web: {{type: OS::Heat::ResourceGroup, properties: {{count: {count}, resource_def: {server}}}}}
"""
    return [one.host for one in daemon.groups.create(text).members]


@pytest.fixture
def plans(daemon):
    """The daemon; groups go when a test is over."""
    yield daemon
    for one in daemon.groups.list():
        if one.status != 'deleting':
            daemon.groups.delete(one.uuid)


@pytest.mark.parametrize('alias', ['"a 1:1, b:1"', '" a 1 : 1 ,b:1"'])
def test_nova_1638200(plans, alias):
    """An alias may have a blank in its name, and blanks around it."""
    card = '"vendor_id": "8086", "product_id": "1572"'
    aliases = [f'{{"name": "a 1", {card}}}', f'{{"name": "b", {card}}}']
    with settings({'pci.alias': aliases}):
        hardware(plans, pools=[pool(1, 0)])
        extra = f'"pci_passthrough:alias": {alias}'
        with pytest.raises(errors.GroupRefused):  # 1986838
            planned(plans, extra)
        hardware(plans, pools=[pool(2, 0)])
        assert planned(plans, extra) == ['a']
        refused(boot, plans, 'one', requests=[request(1)])


@pytest.mark.parametrize(
    'extra, key',
    [
        pytest.param('"hw:numa_nodes": "0"', 'hw:numa_nodes', id='1402709'),
        pytest.param('"hw:numa_nodes": "-1"', 'hw:numa_nodes', id='1402709: negative'),
        pytest.param('"hw:mem_page_size": tiny', 'hw:mem_page_size', id='1879964'),
        pytest.param(
            '"hw:cpu_policy": dedicated, "hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0-1"',
            'hw:cpu_realtime_mask',
            id='1884231: no CPU is left',
        ),
        pytest.param(
            '"hw:cpu_policy": dedicated, "hw:cpu_realtime": "yes"',
            'hw:cpu_realtime_mask',
            id='1884231: no mask',
        ),
    ],
)
def test_nova_extra_specs(plans, extra, key):
    """What Nova's API refuses is refused when a group is planned, and names the extra spec."""
    plans.add('a')
    with pytest.raises(errors.InvalidRequest, match=key):
        planned(plans, extra)


def test_no_page_size(daemon):
    """Nova takes a page size of 0 for none (hw:mem_page_size of a flavor with cells)."""
    hardware(daemon, cell(0, range(4), range(4, 8), pages=SMALL_PAGES))
    for name, guest in (('one', shared(1, pagesize_kb=0)), ('two', dedicated(1, pagesize_kb=0))):
        assert boot(daemon, name, guest).host == 'a'


@pytest.mark.parametrize('size', ['2048', '2MB', '2048KB', 'large'])
def test_nova_page_sizes(plans, size):
    """A page size may have a unit."""
    pages = [(4, 262_144), (2048, 512)]
    hardware(plans, cell(0, range(8), [], memory_mb=2048, pages=pages))
    assert planned(plans, f'"hw:mem_page_size": {size}', count=2) == ['a', 'a']
    with pytest.raises(errors.GroupRefused):
        planned(plans, f'"hw:mem_page_size": {size}')


def test_nomad_24304(plans):
    """https://github.com/hashicorp/nomad/pull/24304: each part of a job that is placed as a whole
    has CPUs of its own, and nobody else gets them."""
    hardware(plans, cell(0, [], range(4), pages=SMALL_PAGES), vcpus=4)
    assert planned(plans, '"hw:cpu_policy": dedicated', count=2) == ['a', 'a']
    refused(boot, plans, 'one', dedicated(1))
    with pytest.raises(errors.GroupRefused):
        planned(plans, '"hw:cpu_policy": dedicated')


def test_kube_97687(plans):
    """https://github.com/kubernetes/kubernetes/issues/97687: a host without a value at a level is
    in no domain of others there."""
    plans.add('a', 'b', stats={'rack': 'r1'})
    plans.add('c', 'd')
    text = f"""{HEAD}resources:
  web: {{type: OS::Heat::ResourceGroup, properties: {{count: %d, resource_def: {{{SERVER}}}}}}}}}
  all:
    type: OS::NovaSched::Group
    properties: {{members: [web], policies: [{{type: anti-affinity, level: rack}}]}}
"""
    found = [one.host for one in plans.groups.create(text % 3).members]
    assert {'c', 'd'} < set(found)
    with pytest.raises(errors.GroupRefused):
        plans.groups.create(text % 4)


@pytest.mark.parametrize('weight', ['0', '0.0', '1e-300', '.inf', '.nan', '-1'])
def test_nomad_8863(plans, weight):
    """https://github.com/hashicorp/nomad/issues/8863: a share of zero is no division by zero: a
    weight that is no sensible number is refused."""
    plans.add('a', 'b')
    policy = f'{{type: spread, level: host, max_skew: 0, weight: {weight}}}'
    text = f"""{HEAD}resources:
  web: {{type: OS::Heat::ResourceGroup, properties: {{count: 3, resource_def: {{{SERVER}}}}}}}}}
  all: {{type: OS::NovaSched::Group, properties: {{members: [web], policies: [{policy}]}}}}
"""
    assert wrong(plans.groups.create, text, dry_run=True).where.endswith('weight')


def test_nova_1695861(plans):
    """A colon in an availability zone would name a host to Nova: it is no zone."""
    plans.add('a')
    template = f'{HEAD}resources:\n  one: {{{SERVER}, availability_zone: "nova:a"}}}}\n'
    assert 'availability_zone' in wrong(plans.groups.create, template).where


# YAML.


@pytest.mark.parametrize(
    'source, text',
    [
        pytest.param(868, '0b_:', id='868'),
        pytest.param(861, '0x_', id='861'),
        pytest.param(898, '!!float +_', id='898'),
        pytest.param(898, '!!float 1::3', id='898 base 60'),
        pytest.param(473, '._:', id='473'),
    ],
)
def test_pyyaml_scalars(daemon, source, text):
    """https://github.com/yaml/pyyaml/issues: what looks like a number and is none is a text, or
    refused as an error of the template."""
    found = outcome(
        described,
        daemon,
        f'  x: {{type: json, default: {{{text}: 1, k: [{text}]}}}}',
        f'  one: {{{SERVER}}}}}',
    )
    assert isinstance(found, dict | errors.TemplateError), found
    found = outcome(described, daemon, '', f'  one: {{{SERVER}, availability_zone: {text}}}}}')
    assert isinstance(found, dict | errors.TemplateError), found


@pytest.mark.parametrize(
    'text, count',
    [
        pytest.param('010', 8, id='365: octal'),
        pytest.param('"010"', 10, id='text'),
        pytest.param('0o10', None, id='octal of YAML 1.2'),
        pytest.param('1:2', 62, id='801: base 60'),
    ],
)
def test_pyyaml_numbers(daemon, text, count):
    """https://github.com/yaml/pyyaml/issues/365 and 801: a number means what it means to Heat,
    which reads YAML 1.1."""
    properties = f'{{count: {text}, resource_def: {{{SERVER}}}}}}}'
    resources = f'  web: {{type: OS::Heat::ResourceGroup, properties: {properties}}}'
    if count is None:
        assert wrong(described, daemon, '', resources).where.endswith('count')
    else:
        assert len(members(described(daemon, '', resources))) == count


# HTTP.


@pytest.fixture(scope='module')
def port(started, tmp_path_factory):
    """The API on a port of its own."""
    with serving(started, tmp_path_factory.mktemp('queues')) as caller:
        yield caller._port


def statuses(port, text):
    """The status of each answer on one connection, until the server closes it or is silent."""
    found = b''
    with socket.create_connection(('127.0.0.1', port), timeout=TIMEOUT_S) as connection:
        connection.sendall(text)
        with contextlib.suppress(OSError):
            while some := connection.recv(65536):
                found += some
                connection.settimeout(3.0)  # for an answer that must not come
    return [int(one) for one in re.findall(rb'HTTP/1\.[01] (\d{3}) ', found)]


WHO = b'Host: x\r\nX-Auth-Token: ann:red\r\n'
NEXT = b'GET /v1/groups HTTP/1.1\r\n' + WHO + b'\r\n'
CHUNKED = b'Transfer-Encoding: chunked\r\n'
POST = b'POST /v1/groups/validate HTTP/1.1\r\n' + WHO


def lengthy(name=b'Content-Length', more=0):
    return name + b': %d\r\n' % (len(NEXT) + more)


@pytest.mark.parametrize(
    'text, found',
    [
        pytest.param(
            POST + lengthy(more=5) + CHUNKED + b'\r\n0\r\n\r\n' + NEXT,
            [400],
            id='Pylons/waitress 464: two lengths',
        ),
        pytest.param(
            POST + lengthy(b'Content-Length ') + b'\r\n' + NEXT,
            [400],
            id='cherrypy/cheroot 714: blank after a name',
        ),
        pytest.param(
            b'GET /v1/groups HTTP/1.1\r\n Folded: x\r\n' + WHO + b'\r\n',
            [400],
            id='cherrypy/cheroot 728: the first line is folded',
        ),
        pytest.param(
            NEXT[:-2] + b'A: b\x00c\rd\r\n\r\n', [400], id='cherrypy/cheroot 720: CR in a value'
        ),
        pytest.param(
            NEXT[:-2] + b'Content-Type: text/html\r\n ;x=1\r\nConnection: close\r\n\r\n',
            [200],
            id='cherrypy/cheroot 726: a folded value',
        ),
        pytest.param(
            NEXT.replace(b'/v1', b'http://\xff\xfe/v1'), [400], id='pallets/werkzeug 808: host'
        ),
        pytest.param(NEXT.replace(b'groups', b'groups/%FF%FE'), [404], id='no UTF-8'),
    ],
)
def test_requests(daemon, port, caplog, text, found):
    assert statuses(port, text) == found
    assert not [one for one in caplog.records if one.exc_info]
