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
"""PCI: pools and requests, from whatever has the attributes; devices for requests."""

import json

import pytest

from nova_sched import errors, objects
from nova_sched.hardware import Overdrawn, pci
from nova_sched.tests import reference
from nova_sched.tests.rows import each, table
from nova_sched.tests.unit.hardware.builders import cell, host, named, pool, recorded, request


def reported():
    node = reference.wire('object-ComputeNode-numa-pci-metrics')['primitive']
    return node['nova_object.data']['pci_device_pools']


NIC = pci.PciPool(
    '8086',
    '1572',
    0,
    {
        'dev_type': 'type-PF',
        'physical_network': 'physnet0',
        'remote_managed': 'false',
        'parent_ifname': 'ens1f0',
    },
    2,
)
GPU = pci.PciPool('10de', '20b0', 1, {'dev_type': 'type-PCI', 'remote_managed': 'false'}, 4)


def test_a_recorded_node():
    assert pci.pools_from_json(json.dumps(reported())) == (NIC, GPU)
    assert pci.pools_of(objects.from_primitive(reported()).objects) == (NIC, GPU)
    assert pci.pools_of(None) == ()


def test_what_is_not_told():
    assert pci.pools_of([objects.PciDevicePool(vendor_id='10de')]) == (
        pci.PciPool('10de', '', None, {}, 0),
    )


def test_the_text_is_the_object():
    theirs = objects.from_primitive(json.loads(pci.pools_to_json((NIC, GPU))))
    assert pci.pools_of(theirs.objects) == (NIC, GPU)


def test_a_node_does_not_report_empty_pools():
    assert pci.pools_from_json(pci.pools_to_json((pool(0), GPU))) == (GPU,)


@table(
    'change',
    {
        'count in words': ('"count": 2', '"count": "two"'),
        'another class': ('"PciDevicePool"', '"PciDevice"'),
        'no vendor': ('"vendor_id"', '"vendor"'),
        'no JSON': ('{', ''),
    },
)
def test_a_malformed_text(change):
    old, new = change
    text = json.dumps(reported())
    assert old in text
    with pytest.raises(errors.MalformedObject, match='PciDevicePoolList'):
        pci.pools_from_json(text.replace(old, new))


def test_tags():
    some = pool(
        dev_type='type-VF',
        physical_network='a',
        remote_managed='True',
        managed='no',
        live_migratable='yes',
        resource_class='CUSTOM_NIC',
        traits='CUSTOM_A,CUSTOM_B',
        rp_uuid='rp1',
    )
    assert (some.dev_type, some.physical_network, some.remote_managed) == ('type-VF', 'a', True)
    assert (some.managed, some.live_migratable, some.resource_class) == (False, True, 'CUSTOM_NIC')
    assert (some.traits, some.rp_uuid) == ({'CUSTOM_A', 'CUSTOM_B'}, 'rp1')


def test_no_tags():
    some = pool()
    assert (some.dev_type, some.physical_network, some.remote_managed) == (None, None, False)
    assert (some.managed, some.live_migratable, some.resource_class) == (True, False, None)
    assert (some.traits, some.rp_uuid) == (frozenset(), None)


@table(
    'other, like',
    {
        'another count': (pool(7, x='1'), True),
        'another tag': (pool(1, x='2'), False),
        'another cell': (pool(1, node=1, x='1'), False),
        'another vendor': (pool(1, vendor='10de', x='1'), False),
        'another product': (pool(1, product='20b0', x='1'), False),
    },
)
def test_is_like(other, like):
    assert pool(1, x='1').is_like(other) is like


def test_a_recorded_request():
    gpu, qat = pci.requests_of(reference.scenario('pci-alias-in-placement').pci_requests)
    spec = {'vendor_id': '10de', 'product_id': '20b0', 'dev_type': 'type-PCI'}
    uuid = 'c288d070-d84a-513d-817b-ca0e6585825f'
    assert gpu == pci.PciRequest(2, (spec,), 'legacy', uuid, None, 'gpu-a100')
    assert qat.dev_types == {'type-VF'}
    assert qat.alternatives == (
        {'vendor_id': '8086', 'product_id': '4941', 'dev_type': 'type-vf'},
    )


@table(
    'requests, found',
    {
        'none': (None, ()),
        'unset': (objects.InstancePCIRequests(), ()),
        'fields unset': (
            objects.InstancePCIRequests(requests=[objects.InstancePCIRequest(count=1, spec=[{}])]),
            (pci.PciRequest(1, ({},)),),
        ),
    },
)
def test_what_a_request_does_not_tell(requests, found):
    assert pci.requests_of(requests) == found


@table(
    'asked, name',
    {
        'alias': (request(name='gpu', requester_id='port'), 'gpu'),
        'port': (request(name=None, requester_id='port'), 'port'),
        'neither': (request(name=None), 'r1'),
        'nothing at all': (request(name=None, request_id=None), 'PCI request'),
    },
)
def test_name(asked, name):
    assert asked.name == name


@table(
    'specs, remote, movable',
    {
        'neither': ([{}], False, False),
        'remote': ([{'remote_managed': 'True'}], True, False),
        'one of two remote': ([{}, {'remote_managed': 'true'}], True, False),
        'movable': ([{'live_migratable': 'yes'}], False, True),
        'one of two movable': ([{}, {'live_migratable': 'yes'}], False, False),
        'no': ([{'live_migratable': 'no', 'remote_managed': 'false'}], False, False),
    },
)
def test_wishes(specs, remote, movable):
    asked = request(1, *specs)
    assert (asked.remote_managed, asked.live_migratable) == (remote, movable)


TOLD = {'rp_uuids': 'rp8,rp9'}


@table(
    'asked, mapping, providers',
    {
        'one device': (request(1), {'r1-0': ['rp1']}, ['rp1']),
        'each': (request(2), {'r1-0': ['rp1'], 'r2-0': ['rp2'], 'r1-1': ['rp3']}, ['rp1', 'rp3']),
        'two of one provider': (request(2), {'r1-0': ['rp1'], 'r1-1': ['rp1']}, ['rp1', 'rp1']),
        'of another request': (request(1), {'r2-0': ['rp2']}, []),
        'to nobody': (request(1), {'r1-0': []}, []),
        'the mapping comes first': (request(1, TOLD), {'r2-0': ['rp2']}, []),
        'what the request was told': (request(1, TOLD), None, ['rp8', 'rp9']),
        'an empty mapping': (request(1, TOLD), {}, ['rp8', 'rp9']),
        'only its first alternative is told': (request(1, {}, TOLD), None, []),
        'nothing told': (request(1), None, []),
        'a port': (request(1, TOLD, name=None), {'r1-0': ['rp1']}, []),
        'no id': (request(1, request_id=None), {'r1-0': ['rp1']}, []),
    },
)
def test_providers(asked, mapping, providers):
    assert asked.providers(mapping) == providers


def counts(pools):
    return [some.count for some in pools]


def as_left(pools):
    """Pools as Nova has them: without the empty ones, those with the fewest tags first."""
    ordered = sorted(pools, key=lambda some: len(some.tags))
    return [
        [p.vendor_id, p.product_id, p.numa_node, dict(p.tags), p.count] for p in ordered if p.count
    ]


@each('case', recorded('pci-requests'))
def test_a_recorded_answer_of_nova(case):
    pools = pci.pools_from_json(json.dumps(case['pools']))
    requests = tuple(map(pci.PciRequest.of, named(case['requests'])))
    on = host(*(cell(number, socket=socket) for number, socket in enumerate(case['sockets'])))
    where = {'cells': case['cells'], 'host': on, 'provider_mapping': case['mapping']}
    assert pci.supports(pools, requests, **where) is (case['left'] is not None)
    assert bool(pci.why_not(pools, requests, **where)) is (case['left'] is None)
    if case['left'] is not None:
        left, taken = pci.take(pools, requests, **where)
        assert as_left(left) == case['left']
        assert pci.give_back(left, taken) == pools


@table(
    'some, spec, matches',
    {
        'anything': (pool(), {}, True),
        'both ids': (pool(), {'vendor_id': '8086', 'product_id': '1572'}, True),
        'one of both ids': (pool(), {'vendor_id': '8086', 'product_id': '20b0'}, False),
        'case of the pool': (pool(vendor='10DE'), {'vendor_id': '10de'}, True),
        'case of the request': (pool(vendor='10de'), {'vendor_id': '10DE'}, True),
        'case of a tag': (pool(x='A'), {'x': 'a'}, True),
        'case of its name': (pool(x='a'), {'X': 'a'}, False),
        'another tag': (pool(x='a'), {'x': 'b'}, False),
        'no lists': (pool(x='a,b'), {'x': 'a'}, False),
        'no tag': (pool(), {'x': 'a'}, False),
        'no tag wanted': (pool(), {'x': None}, True),
        'tag without a value': (pool(x=None), {'x': None}, True),
        'a tag where none is wanted': (pool(x='a'), {'x': None}, False),
        'an empty tag wanted': (pool(), {'x': ''}, False),
        'network': (pool(physical_network='a'), {'physical_network': 'a'}, True),
        'another network': (pool(physical_network='b'), {'physical_network': 'a'}, False),
        'managed': (pool(managed='no'), {'managed': 'no'}, True),
        'movable': (pool(live_migratable='yes'), {'live_migratable': 'yes'}, True),
        'not movable': (pool(), {'live_migratable': 'yes'}, False),
        'Placement matches these': (pool(), {'resource_class': 'CUSTOM_A', 'traits': 'B'}, True),
        'none free': (pool(0), {}, False),
        'fewer than none': (pool(-1), {}, False),
    },
)
def test_spec(some, spec, matches):
    assert pci.supports([some], [request(1, spec)]) is matches


def test_alternatives():
    either = {'vendor_id': '10de'}, {'vendor_id': '8086'}
    assert pci.supports([pool(1), pool(1, vendor='10de')], [request(2, *either)])
    assert not pci.supports([pool(2, vendor='15b3')], [request(2, *either)])
    assert not pci.supports([pool(2)], [pci.PciRequest(1, ())])


@table(
    'tags, spec, given',
    {
        'VF to anyone': ({'dev_type': 'type-VF'}, {}, True),
        'PCI to anyone': ({'dev_type': 'type-PCI'}, {}, True),
        'PF not': ({'dev_type': 'type-PF'}, {}, False),
        'PF asked for': ({'dev_type': 'type-PF'}, {'dev_type': 'type-PF'}, True),
        'vdpa not': ({'dev_type': 'vdpa'}, {}, False),
        'vdpa asked for': ({'dev_type': 'vdpa'}, {'dev_type': 'vdpa'}, True),
        'remote not': ({'remote_managed': 'true'}, {}, False),
        'remote, in other words': ({'remote_managed': '1'}, {}, False),
        'not remote': ({'remote_managed': 'false'}, {}, True),
        'remote asked for': ({'remote_managed': 'true'}, {'remote_managed': 'true'}, True),
        'remote asked for, not there': ({}, {'remote_managed': 'true'}, False),
    },
)
def test_devices_for_those_who_ask(tags, spec, given):
    assert pci.supports([pool(**tags)], [request(1, spec)]) is given
    # One alternative that asks opens the door for the others.
    assert pci.supports([pool(**tags)], [request(1, {}, {'vendor_id': 'x', **spec, **tags})])


NODES = [pool(1, 0), pool(2, 1), pool(4, 2), pool(8, None)]
THREE = host(cell(0, socket=0), cell(1, socket=0), cell(2, socket=1))


@table(
    'policy, cells, most',
    {
        'required': ('required', [1], 2),
        'required, two cells': ('required', [0, 2], 5),
        'required, where nothing is': ('required', [9], 0),
        'legacy': ('legacy', [1], 10),
        'socket of two cells': ('socket', [1], 3),
        'socket of one': ('socket', [2], 4),
        'preferred': ('preferred', [1], 15),
        'a guest without cells': ('required', None, 15),
        'no cells': ('required', [], 15),
    },
)
def test_policies(policy, cells, most):
    fits = [
        pci.supports(NODES, [request(n, policy=policy)], cells, THREE)
        for n in (most or 1, most + 1)
    ]
    assert fits == [most > 0, False]


def test_socket_without_sockets():
    """The cells of the guest alone, where some cell does not tell its socket, or no host is
    known."""
    dumb = host(cell(0, socket=0), cell(1, socket=0), cell(2))
    assert [
        pci.supports(NODES, [request(3, policy='socket')], [1], some)
        for some in (THREE, dumb, None)
    ] == [
        True,
        False,
        False,
    ]


@table(
    'policy, wanted, left',
    {
        'near ones': ('legacy', 1, [1, 1, 4, 8]),
        'legacy: then those of no cell': ('legacy', 3, [1, 0, 4, 7]),
        'preferred: near ones will do': ('preferred', 2, [1, 0, 4, 8]),
        'preferred: then those of no cell, then any': ('preferred', 11, [0, 0, 4, 0]),
        'socket': ('socket', 3, [0, 0, 4, 8]),
    },
)
def test_near_devices_go_first(policy, wanted, left):
    after, _ = pci.take(NODES, [request(wanted, policy=policy)], [1], THREE)
    assert counts(after) == left


def test_plain_devices_go_first():
    after, taken = pci.take([pool(1, x='1', y='2'), pool(1), pool(1, x='1')], [request(2)])
    assert counts(after) == [1, 0, 0]
    assert [some.pool.tags for some in taken] == [{}, {'x': '1'}]


@table(
    'wanted, mapping, left',
    {
        'one': (1, {'r1-0': ['rp2']}, [2, 2, 4]),
        'one of each': (2, {'r1-0': ['rp2'], 'r1-1': ['rp1']}, [1, 2, 4]),
        'two of one': (2, {'r1-0': ['rp2'], 'r1-1': ['rp2']}, [2, 1, 4]),
        'one and two': (
            3,
            {f'r1-{n}': [f'rp{n}'] for n in (0, 1, 2)} | {'r1-0': ['rp2']},
            [1, 1, 4],
        ),
        'of none that is here': (1, {'r1-0': ['rp9']}, None),
        'too few there': (3, {'r1-0': ['rp1']}, None),
        'not allocated': (1, {'r2-0': ['rp9']}, [2, 3, 3]),
    },
)
def test_allocated_devices(wanted, mapping, left):
    pools = [pool(2, rp_uuid='rp1'), pool(3, rp_uuid='rp2'), pool(4)]
    asked = [request(wanted)]
    assert pci.supports(pools, asked, provider_mapping=mapping) is (left is not None)
    if left:
        assert counts(pci.take(pools, asked, provider_mapping=mapping)[0]) == left


def test_one_request_after_the_other():
    two = [request(1, name='a', request_id='r1'), request(1, name='b', request_id='r2')]
    after, taken = pci.take([pool(2)], two)
    assert counts(after) == [0]
    assert [some.request_id for some in taken] == ['r1', 'r2']
    with pytest.raises(Overdrawn, match='b: 1 devices asked, 0 free that match'):
        pci.take([pool(1)], two)


def test_no_requests():
    assert pci.take([pool()], []) == ((pool(),), ())


@table(
    'asked, why',
    {
        'enough': (request(1), ''),
        'match': (request(9), 'nic: 9 devices asked, 4 free that match'),
        'near': (request(3, policy='required'), 'nic: 3 devices asked, 2 near to the NUMA cells'),
        'type': (
            request(2, policy='required'),
            'nic: 2 devices asked, 1 of a type that was asked for',
        ),
        'rp': (
            request(1, {'rp_uuids': 'rp9'}),
            'nic: 1 devices asked, 0 of the allocated providers',
        ),
    },
)
def test_why_not(asked, why):
    pools = [pool(1, 0), pool(1, 0, dev_type='type-PF'), pool(2, 1)]
    assert pci.why_not(pools, [asked], [0], THREE) == why


def test_a_long_name_makes_no_long_text():
    assert len(pci.why_not([], [request(name='x' * 8000)])) < 300


def test_what_comes_back():
    pools = pool(1, x='1'), pool(0)
    back = pci.TakenDevice('r1', pool(2)), pci.TakenDevice('r1', pool(1, vendor='10de'))
    assert pci.give_back(pools, back) == (pool(1, x='1'), pool(2), pool(1, vendor='10de'))


def test_wanted_by_a_guest():
    wanted = pci.WantedDevices(
        (pool(1, 0), pool(2, 0, x='1'), pool(4, None)), (request(3, policy='required'),)
    )
    assert [wanted.devices_in(number) for number in (0, 1)] == [3, 0]
    assert [wanted.why_not(cells, THREE) == '' for cells in ([0], [1])] == [True, False]
