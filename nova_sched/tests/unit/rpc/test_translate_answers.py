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
"""What the engine answers, as it travels; and aggregates, instances and services, as they are
read."""

import datetime

import pytest

from nova_sched import objects
from nova_sched.claim import Claim
from nova_sched.engine.answer import Selected
from nova_sched.hardware.numa import NumaLimits
from nova_sched.rpc import translate
from nova_sched.state.host_aggregate import HostAggregate
from nova_sched.tests.builders import CELL, uuid_of
from nova_sched.tests.reference import recorded, wire
from nova_sched.tests.unit.hardware.builders import cell, dedicated, machine, pool, wanted
from nova_sched.tests.unit.hardware.builders import request as device
from nova_sched.tests.unit.objects.reference import comparable


def selected(**words):
    facts_of_one = {
        'node_uuid': uuid_of('node'),
        'host': 'a',
        'nodename': 'n',
        'cell_uuid': CELL,
        'availability_zone': 'z',
        'allocation_request': '{}',
        'allocation_version': '1.36',
    }
    return Selected(**{**facts_of_one, **words})


def sent(placed):
    """The Selections as their caller gets them. They are written as they would be from objects."""
    primitives = translate.selections(placed, as_objects=True)
    found = objects.from_primitive(primitives)
    assert objects.to_primitive(found) == primitives
    return found


def test_selections():
    ((chosen, alternate),) = sent([[selected(), selected(host='b')]])
    assert chosen.obj_to_primitive()['nova_object.version'] == '1.1'
    assert (chosen.compute_node_uuid, chosen.service_host, chosen.nodename) == (
        uuid_of('node'),
        'a',
        'n',
    )
    assert (chosen.cell_uuid, chosen.availability_zone) == (CELL, 'z')
    assert (chosen.allocation_request, chosen.allocation_request_version) == ('{}', '1.36')
    assert alternate.service_host == 'b'


def test_selections_for_old_callers():
    placed = [[selected(), selected(host='b')], [selected(host='c')]]
    found = translate.selections(placed, as_objects=False)
    assert found == [
        {'host': 'a', 'nodename': 'n', 'limits': {}},
        {'host': 'c', 'nodename': 'n', 'limits': {}},
    ]
    assert {tuple(one) for one in found} == {
        tuple(one) for one in wire('result-legacy-dicts')['primitive']
    }


NUMA = NumaLimits(4.0, 1.0, frozenset(['physnet0']))


@pytest.mark.parametrize(
    'name, limits',
    [
        pytest.param('result-selections-2x2', {}, id='nothing to check again'),
        pytest.param('result-selections-limits-nested', {'numa_topology': NUMA}, id='NUMA'),
    ],
)
def test_limits_are_those_that_nova_sends(name, limits):
    """Every field is set: a conductor that makes a dict of them reads them all."""
    ((one,),) = objects.to_primitive(sent([[selected(limits=limits)]]))
    theirs = wire(name)['primitive'][0][0]
    assert comparable(one['nova_object.data']['limits']) == comparable(
        theirs['nova_object.data']['limits']
    )


def test_limits_for_old_callers():
    (found,) = translate.selections([[selected(limits={'numa_topology': NUMA})]], as_objects=False)
    (theirs,) = (one for one in wire('result-legacy-dicts')['primitive'] if one['limits'])
    assert comparable(objects.to_primitive(found['limits'])) == comparable(theirs['limits'])


@pytest.mark.parametrize(
    'networks, told',
    [
        pytest.param({}, False, id='none'),
        pytest.param({'tunneled': True}, True, id='tunnel'),
        pytest.param({'physnets': frozenset('a')}, True, id='physical'),
    ],
)
def test_networks_that_must_be_near(networks, told):
    limits = {'numa_topology': NumaLimits(1.0, 1.0, **networks)}
    ((one,),) = sent([[selected(limits=limits)]])
    found = one.limits.numa_topology
    assert ('network_metadata' in found) == told
    if told:
        near = found.network_metadata
        assert (near.physnets, near.tunneled) == (
            networks.get('physnets', frozenset()),
            networks.get('tunneled', False),
        )


def test_a_cloud_with_one_unnamed_cell():
    ((chosen,),) = sent([[selected(cell_uuid=None)]])
    assert chosen.cell_uuid == translate.UNKNOWN_CELL


def test_claim_info():
    claim = Claim(uuid_of('one'), uuid_of('node'), {'VCPU': 1}, created_s=0.0, expires_s=60.0)
    info = translate.claim_info(claim, ('a', 'n'))
    assert (info.instance_uuid, info.host, info.nodename, info.state) == (
        uuid_of('one'),
        'a',
        'n',
        'pending',
    )
    assert info.resources == {'VCPU': 1}
    assert info.created_at == datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert info.expires_at == datetime.datetime(1970, 1, 1, 0, 1, tzinfo=datetime.UTC)


def test_claim_info_tells_what_is_held():
    has = machine(
        cell(0, [], [3]),
        cell(1, [], range(4, 8)),
        pools=[pool(2, 1, x=None, y='1'), pool(1, 1, 'dead')],
    )
    parts = has.fit(wanted(dedicated(2), requests=[device(2)]))
    info = translate.claim_info(
        Claim(uuid_of('one'), uuid_of('node'), {'PCPU': 2}, parts=parts), ('a', 'n')
    )
    (found,) = info.numa_topology.cells
    assert (found.id, found.cpu_pinning, found.memory) == (1, {0: 4, 1: 5}, 128)
    (devices,) = info.pci_device_pools.objects
    assert (devices.vendor_id, devices.count, devices.tags) == ('8086', 2, {'x': None, 'y': '1'})
    assert objects.to_primitive(
        objects.from_primitive(objects.to_primitive(info))
    ) == objects.to_primitive(info)


def test_claim_info_of_amounts_alone():
    info = translate.claim_info(Claim(uuid_of('one'), uuid_of('node'), {'VCPU': 2}), ('a', 'n'))
    assert (info.numa_topology, info.pci_device_pools) == (None, None)


def test_a_claim_that_never_expires():
    info = translate.claim_info(Claim(uuid_of('one'), uuid_of('node'), {}), ('a', 'n'))
    assert info.expires_at is None


# Aggregates, instances, services.

ZONE = objects.Aggregate(
    id=1, uuid=uuid_of('zone'), name='zone', hosts=['a'], metadata={'availability_zone': 'z'}
)


@pytest.mark.parametrize(
    'given',
    [
        pytest.param(ZONE, id='one'),
        pytest.param([ZONE], id='a list'),
        pytest.param(objects.AggregateList(objects=[ZONE]), id='a list object'),
    ],
)
def test_aggregates(given):
    wanted = HostAggregate(1, 'zone', frozenset('a'), {'availability_zone': 'z'}, uuid_of('zone'))
    assert translate.aggregates(given) == [wanted]


def test_an_aggregate_of_which_little_is_set():
    assert translate.aggregates(objects.Aggregate(id=1)) == [
        HostAggregate(1, '1', frozenset(), {}, None)
    ]


def test_recorded_aggregates():
    found = translate.aggregates(recorded('AggregateList'))
    assert [(one.id, one.hosts) for one in found] == [
        (one.id, frozenset(one.hosts)) for one in recorded('AggregateList')
    ]


ONE, TWO = uuid_of('one'), uuid_of('two')


@pytest.mark.parametrize(
    'given, found',
    [
        pytest.param(None, None, id='nothing'),
        pytest.param([], set(), id='none'),
        pytest.param([ONE, TWO], {ONE, TWO}, id='UUIDs'),
        pytest.param(objects.Instance(uuid=ONE), {ONE}, id='an instance'),
        pytest.param(
            objects.InstanceList(objects=[objects.Instance(uuid=ONE), objects.Instance(uuid=TWO)]),
            {ONE, TWO},
            id='a list object',
        ),
    ],
)
def test_instance_uuids(given, found):
    assert translate.instance_uuids(given) == found


NOON = datetime.datetime(2030, 1, 1, 12, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    'given, found',
    [
        pytest.param({}, (None, None, None, 0.0), id='nothing is set'),
        pytest.param(
            {'disabled': True, 'disabled_reason': 'x', 'forced_down': True, 'last_seen_up': NOON},
            (True, 'x', True, NOON.timestamp()),
            id='all is set',
        ),
        pytest.param(
            {'last_seen_up': None, 'disabled_reason': None}, (None, None, None, 0.0), id='nulls'
        ),
    ],
)
def test_service(given, found):
    assert translate.service(objects.Service(**given)) == found
