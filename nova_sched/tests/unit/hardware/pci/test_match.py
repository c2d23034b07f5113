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
"""Devices for requests."""

import json

import pytest

from nova_sched.hardware import Overdrawn, pci
from nova_sched.tests.rows import each
from nova_sched.tests.unit.hardware.builders import cell, host, named, pool, recorded, request


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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
