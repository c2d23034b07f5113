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
from nova_sched.tests.rows import each
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


@each(
    'change',
    [
        pytest.param(('"count": 2', '"count": "two"'), id='count in words'),
        pytest.param(('"PciDevicePool"', '"PciDevice"'), id='another class'),
        pytest.param(('"vendor_id"', '"vendor"'), id='no vendor'),
        pytest.param(('{', ''), id='no JSON'),
    ],
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


@each(
    'other, like',
    [
        pytest.param(pool(7, x='1'), True, id='another count'),
        pytest.param(pool(1, x='2'), False, id='another tag'),
        pytest.param(pool(1, node=1, x='1'), False, id='another cell'),
        pytest.param(pool(1, vendor='10de', x='1'), False, id='another vendor'),
        pytest.param(pool(1, product='20b0', x='1'), False, id='another product'),
    ],
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


@each(
    'requests, found',
    [
        pytest.param(None, (), id='none'),
        pytest.param(objects.InstancePCIRequests(), (), id='unset'),
        pytest.param(
            objects.InstancePCIRequests(requests=[objects.InstancePCIRequest(count=1, spec=[{}])]),
            (pci.PciRequest(1, ({},)),),
            id='fields unset',
        ),
    ],
)
def test_what_a_request_does_not_tell(requests, found):
    assert pci.requests_of(requests) == found


@each(
    'asked, name',
    [
        pytest.param(request(name='gpu', requester_id='port'), 'gpu', id='alias'),
        pytest.param(request(name=None, requester_id='port'), 'port', id='port'),
        pytest.param(request(name=None), 'r1', id='neither'),
        pytest.param(request(name=None, request_id=None), 'PCI request', id='nothing at all'),
    ],
)
def test_name(asked, name):
    assert asked.name == name


@each(
    'specs, remote, movable',
    [
        pytest.param([{}], False, False, id='neither'),
        pytest.param([{'remote_managed': 'True'}], True, False, id='remote'),
        pytest.param([{}, {'remote_managed': 'true'}], True, False, id='one of two remote'),
        pytest.param([{'live_migratable': 'yes'}], False, True, id='movable'),
        pytest.param([{}, {'live_migratable': 'yes'}], False, False, id='one of two movable'),
        pytest.param(
            [{'live_migratable': 'no', 'remote_managed': 'false'}], False, False, id='no'
        ),
    ],
)
def test_wishes(specs, remote, movable):
    asked = request(1, *specs)
    assert (asked.remote_managed, asked.live_migratable) == (remote, movable)


TOLD = {'rp_uuids': 'rp8,rp9'}


@each(
    'asked, mapping, providers',
    [
        pytest.param(request(1), {'r1-0': ['rp1']}, ['rp1'], id='one device'),
        pytest.param(
            request(2),
            {'r1-0': ['rp1'], 'r2-0': ['rp2'], 'r1-1': ['rp3']},
            ['rp1', 'rp3'],
            id='each',
        ),
        pytest.param(
            request(2),
            {'r1-0': ['rp1'], 'r1-1': ['rp1']},
            ['rp1', 'rp1'],
            id='two of one provider',
        ),
        pytest.param(request(1), {'r2-0': ['rp2']}, [], id='of another request'),
        pytest.param(request(1), {'r1-0': []}, [], id='to nobody'),
        pytest.param(request(1, TOLD), {'r2-0': ['rp2']}, [], id='the mapping comes first'),
        pytest.param(request(1, TOLD), None, ['rp8', 'rp9'], id='what the request was told'),
        pytest.param(request(1, TOLD), {}, ['rp8', 'rp9'], id='an empty mapping'),
        pytest.param(request(1, {}, TOLD), None, [], id='only its first alternative is told'),
        pytest.param(request(1), None, [], id='nothing told'),
        pytest.param(request(1, TOLD, name=None), {'r1-0': ['rp1']}, [], id='a port'),
        pytest.param(request(1, request_id=None), {'r1-0': ['rp1']}, [], id='no id'),
    ],
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


@each(
    'some, spec, matches',
    [
        pytest.param(pool(), {}, True, id='anything'),
        pytest.param(pool(), {'vendor_id': '8086', 'product_id': '1572'}, True, id='both ids'),
        pytest.param(
            pool(), {'vendor_id': '8086', 'product_id': '20b0'}, False, id='one of both ids'
        ),
        pytest.param(pool(vendor='10DE'), {'vendor_id': '10de'}, True, id='case of the pool'),
        pytest.param(pool(vendor='10de'), {'vendor_id': '10DE'}, True, id='case of the request'),
        pytest.param(pool(x='A'), {'x': 'a'}, True, id='case of a tag'),
        pytest.param(pool(x='a'), {'X': 'a'}, False, id='case of its name'),
        pytest.param(pool(x='a'), {'x': 'b'}, False, id='another tag'),
        pytest.param(pool(x='a,b'), {'x': 'a'}, False, id='no lists'),
        pytest.param(pool(), {'x': 'a'}, False, id='no tag'),
        pytest.param(pool(), {'x': None}, True, id='no tag wanted'),
        pytest.param(pool(x=None), {'x': None}, True, id='tag without a value'),
        pytest.param(pool(x='a'), {'x': None}, False, id='a tag where none is wanted'),
        pytest.param(pool(), {'x': ''}, False, id='an empty tag wanted'),
        pytest.param(pool(physical_network='a'), {'physical_network': 'a'}, True, id='network'),
        pytest.param(
            pool(physical_network='b'), {'physical_network': 'a'}, False, id='another network'
        ),
        pytest.param(pool(managed='no'), {'managed': 'no'}, True, id='managed'),
        pytest.param(pool(live_migratable='yes'), {'live_migratable': 'yes'}, True, id='movable'),
        pytest.param(pool(), {'live_migratable': 'yes'}, False, id='not movable'),
        pytest.param(
            pool(),
            {'resource_class': 'CUSTOM_A', 'traits': 'B'},
            True,
            id='Placement matches these',
        ),
        pytest.param(pool(0), {}, False, id='none free'),
        pytest.param(pool(-1), {}, False, id='fewer than none'),
    ],
)
def test_spec(some, spec, matches):
    assert pci.supports([some], [request(1, spec)]) is matches


def test_alternatives():
    either = {'vendor_id': '10de'}, {'vendor_id': '8086'}
    assert pci.supports([pool(1), pool(1, vendor='10de')], [request(2, *either)])
    assert not pci.supports([pool(2, vendor='15b3')], [request(2, *either)])
    assert not pci.supports([pool(2)], [pci.PciRequest(1, ())])


@each(
    'tags, spec, given',
    [
        pytest.param({'dev_type': 'type-VF'}, {}, True, id='VF to anyone'),
        pytest.param({'dev_type': 'type-PCI'}, {}, True, id='PCI to anyone'),
        pytest.param({'dev_type': 'type-PF'}, {}, False, id='PF not'),
        pytest.param({'dev_type': 'type-PF'}, {'dev_type': 'type-PF'}, True, id='PF asked for'),
        pytest.param({'dev_type': 'vdpa'}, {}, False, id='vdpa not'),
        pytest.param({'dev_type': 'vdpa'}, {'dev_type': 'vdpa'}, True, id='vdpa asked for'),
        pytest.param({'remote_managed': 'true'}, {}, False, id='remote not'),
        pytest.param({'remote_managed': '1'}, {}, False, id='remote, in other words'),
        pytest.param({'remote_managed': 'false'}, {}, True, id='not remote'),
        pytest.param(
            {'remote_managed': 'true'}, {'remote_managed': 'true'}, True, id='remote asked for'
        ),
        pytest.param({}, {'remote_managed': 'true'}, False, id='remote asked for, not there'),
    ],
)
def test_devices_for_those_who_ask(tags, spec, given):
    assert pci.supports([pool(**tags)], [request(1, spec)]) is given
    # One alternative that asks opens the door for the others.
    assert pci.supports([pool(**tags)], [request(1, {}, {'vendor_id': 'x', **spec, **tags})])


NODES = [pool(1, 0), pool(2, 1), pool(4, 2), pool(8, None)]
THREE = host(cell(0, socket=0), cell(1, socket=0), cell(2, socket=1))


@each(
    'policy, cells, most',
    [
        pytest.param('required', [1], 2, id='required'),
        pytest.param('required', [0, 2], 5, id='required, two cells'),
        pytest.param('required', [9], 0, id='required, where nothing is'),
        pytest.param('legacy', [1], 10, id='legacy'),
        pytest.param('socket', [1], 3, id='socket of two cells'),
        pytest.param('socket', [2], 4, id='socket of one'),
        pytest.param('preferred', [1], 15, id='preferred'),
        pytest.param('required', None, 15, id='a guest without cells'),
        pytest.param('required', [], 15, id='no cells'),
    ],
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


@each(
    'policy, wanted, left',
    [
        pytest.param('legacy', 1, [1, 1, 4, 8], id='near ones'),
        pytest.param('legacy', 3, [1, 0, 4, 7], id='legacy: then those of no cell'),
        pytest.param('preferred', 2, [1, 0, 4, 8], id='preferred: near ones will do'),
        pytest.param(
            'preferred', 11, [0, 0, 4, 0], id='preferred: then those of no cell, then any'
        ),
        pytest.param('socket', 3, [0, 0, 4, 8], id='socket'),
    ],
)
def test_near_devices_go_first(policy, wanted, left):
    after, _ = pci.take(NODES, [request(wanted, policy=policy)], [1], THREE)
    assert counts(after) == left


def test_plain_devices_go_first():
    after, taken = pci.take([pool(1, x='1', y='2'), pool(1), pool(1, x='1')], [request(2)])
    assert counts(after) == [1, 0, 0]
    assert [some.pool.tags for some in taken] == [{}, {'x': '1'}]


@each(
    'wanted, mapping, left',
    [
        pytest.param(1, {'r1-0': ['rp2']}, [2, 2, 4], id='one'),
        pytest.param(2, {'r1-0': ['rp2'], 'r1-1': ['rp1']}, [1, 2, 4], id='one of each'),
        pytest.param(2, {'r1-0': ['rp2'], 'r1-1': ['rp2']}, [2, 1, 4], id='two of one'),
        pytest.param(
            3,
            {f'r1-{n}': [f'rp{n}'] for n in (0, 1, 2)} | {'r1-0': ['rp2']},
            [1, 1, 4],
            id='one and two',
        ),
        pytest.param(1, {'r1-0': ['rp9']}, None, id='of none that is here'),
        pytest.param(3, {'r1-0': ['rp1']}, None, id='too few there'),
        pytest.param(1, {'r2-0': ['rp9']}, [2, 3, 3], id='not allocated'),
    ],
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


@each(
    'asked, why',
    [
        pytest.param(request(1), '', id='enough'),
        pytest.param(request(9), 'nic: 9 devices asked, 4 free that match', id='match'),
        pytest.param(
            request(3, policy='required'),
            'nic: 3 devices asked, 2 near to the NUMA cells',
            id='near',
        ),
        pytest.param(
            request(2, policy='required'),
            'nic: 2 devices asked, 1 of a type that was asked for',
            id='type',
        ),
        pytest.param(
            request(1, {'rp_uuids': 'rp9'}),
            'nic: 1 devices asked, 0 of the allocated providers',
            id='rp',
        ),
    ],
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
