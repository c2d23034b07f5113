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
"""From the facts of a store to the rows that are printed: states, zones, use, claims."""

import pytest

from nova_sched.claim import CONFIRMED, PLANNED
from nova_sched.claims import Changes, NodeFacts, ServiceFacts
from nova_sched.claims.cloud_facts import CloudFacts
from nova_sched.cmd.manage import rows
from nova_sched.hardware.machine import HardwareAllocation
from nova_sched.hardware.providers import Allotted
from nova_sched.tests.builders import NOW, aggregate, claim, report, uuid_of
from nova_sched.tests.rows import each
from nova_sched.tests.unit.hardware.builders import cell, dedicated, machine, pool, wanted
from nova_sched.tests.unit.hardware.builders import request as device


def facts(host='host-0', claims=(), foreign=None, seen_s=NOW, foreign_instances=0, **words):
    """One node as a store gives it; other words are those of a report."""
    one = report(host, **words)
    held = tuple(claim(uuid_of(name), one.node_uuid, **more) for name, more in claims)
    return NodeFacts(one, 7, held, {'': foreign or {}}, foreign_instances, seen_s)


OFF = frozenset(['COMPUTE_STATUS_DISABLED'])


def cloud(*nodes, **changes):
    return CloudFacts(
        Changes(nodes=nodes or (facts(),), **changes), NOW, down_time_s=60, default_zone='nova'
    )


@each(
    'node, service, state',
    [
        ({}, None, 'up'),
        ({'seen_s': NOW - 60}, None, 'up'),
        ({'seen_s': NOW - 61}, None, 'down'),
        ({'seen_s': NOW + 61}, None, 'down'),  # its clock is ahead
        ({'seen_s': 0.0}, None, 'down'),
        ({'seen_s': 0.0}, {'seen_s': NOW}, 'up'),  # the service sent the heartbeat
        ({}, {'disabled': True}, 'disabled'),
        ({'seen_s': 0.0}, {'disabled': True}, 'disabled'),
        ({'traits': OFF}, None, 'disabled'),
        ({}, {'disabled': True, 'forced_down': True}, 'forced down'),
    ],
)
def test_the_state_of_a_host(node, service, state):
    services = None if service is None else (ServiceFacts('host-0', **service),)
    assert cloud(facts(**node), services=services).state('host-0') == state


@each(
    'traits, state',
    [
        pytest.param(frozenset(), 'unknown', id='only Nova knows it'),
        pytest.param(OFF, 'disabled', id='by a trait of its provider'),
    ],
)
def test_a_host_that_is_read_from_nova(traits, state):
    """It was read a moment ago, and an earlier release has stored settings of it."""
    stored = ServiceFacts('host-0', True, 'x', True)
    known = CloudFacts(
        Changes(nodes=(facts(traits=traits),), services=(stored,)),
        NOW,
        seen={uuid_of('node host-0'): NOW},
        reads_nova=True,
    )
    found = rows.host(known, 'host-0')
    assert (found['state'], found['last_seen']) == (state, None)
    assert set(found['service'].values()) == {None}
    (row,) = rows.nodes(known)
    assert (row['state'], row['last_seen'], row['disabled_reason']) == (state, None, None)


@each(
    'aggregates, zones',
    [
        ([], ['nova']),
        ([aggregate(1, ['host-0'], ssd='true')], ['nova']),
        ([aggregate(1, ['host-0'], availability_zone='b, a')], ['a', 'b']),
        ([aggregate(1, ['host-1'], availability_zone='a')], ['nova']),
    ],
)
def test_the_zones_of_a_host(aggregates, zones):
    assert cloud(aggregates=tuple(aggregates)).zones('host-0') == zones


@each(
    'words, found',
    [
        pytest.param(
            {'vcpus': 16, 'vcpus_ratio': 4.0, 'vcpus_reserved': 1},
            {'total': 16, 'reserved': 1, 'ratio': 4.0, 'capacity': 60,
             'claimed': 0, 'foreign': 0, 'used': 0, 'available': 60},
            id='idle',
        ),
        pytest.param(
            {'vcpus': 8, 'foreign': {'VCPU': 3},
             'claims': [('a', {'vcpus': 2}), ('b', {'vcpus': 4})]},
            {'total': 8, 'reserved': 0, 'ratio': 1.0, 'capacity': 8,
             'claimed': 6, 'foreign': 3, 'used': 9, 'available': -1},
            id='use above capacity is shown',
        ),
    ],
)  # fmt: skip
def test_what_is_used_of_a_resource(words, found):
    assert rows.resources(facts(**words))['VCPU'] == found


def test_a_claim_on_a_class_that_the_node_lost_hides_nothing_else():
    node = facts(disk_gb=None, claims=[('a', {})])
    assert sorted(rows.resources(node)) == ['MEMORY_MB', 'VCPU']


NODES = (facts('a-1'), facts('a-2'), facts('b-1'), facts('b-1', nodename='metal'))
ZONES = (aggregate(1, ['a-1', 'b-1'], availability_zone='north'),)


@each(
    'hosts, zone, found',
    [
        ((), None, ['a-1', 'a-2', 'b-1', 'metal']),
        (('b-1',), None, ['b-1', 'metal']),
        (('a-*', 'b-2'), None, ['a-1', 'a-2']),
        (('A-*',), None, []),
        ((), 'north', ['a-1', 'b-1', 'metal']),
        ((), 'nova', ['a-2']),
        (('a-*',), 'north', ['a-1']),
    ],
)
def test_which_nodes_are_listed(hosts, zone, found):
    listed = rows.nodes(cloud(*reversed(NODES), aggregates=ZONES), hosts, zone)
    assert [row['node'] for row in listed] == found


def test_the_row_of_a_node():
    node = facts(
        claims=[('a', {'state': CONFIRMED}), ('b', {}), ('c', {'state': PLANNED})],
        foreign_instances=2,
    )
    row = rows.node(cloud(node, services=(ServiceFacts('host-0', True, 'why not'),)), node)
    assert row.pop('resources').keys() == {'VCPU', 'MEMORY_MB', 'DISK_GB'}
    assert row == {
        'host': 'host-0',
        'node': 'host-0',
        'node_uuid': uuid_of('node host-0'),
        'cell_uuid': '00000000-0000-0000-0000-0000000000ce',
        'zones': ['nova'],
        'state': 'disabled',
        'disabled_reason': 'why not',
        'last_seen': '2027-01-15T08:00:00+00:00',
        'claims': {'planned': 1, 'pending': 1, 'confirmed': 1},
        'foreign_instances': 2,
    }


def test_all_that_is_known_of_a_host():
    node = facts(
        claims=[('a', {})],
        traits=frozenset(['T2', 'T1']),
        instances=frozenset(['i-2']),
        hypervisor_type='QEMU',
    )
    found = rows.host(
        cloud(node, facts('host-1'), aggregates=ZONES, instances={'host-0': frozenset(['i-1'])}),
        'host-0',
    )
    assert [one['node'] for one in found['nodes']] == ['host-0']
    assert found['nodes'][0]['traits'] == ['T1', 'T2']
    assert found['nodes'][0]['units']['VCPU'] == {'min_unit': 1, 'max_unit': 16, 'step_size': 1}
    assert found['nodes'][0]['generation'] == 7
    assert found['instances'] == ['i-1', 'i-2']
    assert found['aggregates'] == []
    assert [one['consumer_uuid'] for one in found['claims']] == [uuid_of('a')]


def test_an_operator_may_name_a_host_that_has_no_node_yet():
    known = cloud(facts('other'), services=(ServiceFacts('host-0', disabled=True),))
    assert known.knows('host-0')
    assert not known.knows('host-1')
    assert rows.host(known, 'host-0')['nodes'] == []


@each(
    'words, expires_at',
    [({'expires_s': NOW}, '2027-01-15T08:00:00+00:00'), ({'state': CONFIRMED}, None)],
)
def test_the_row_of_a_claim(words, expires_at):
    node = facts(claims=[('a', {'created_s': NOW, 'project_id': 'p', **words})])
    (row,) = rows.claims(cloud(node), node.claims)
    assert row['claim_uuid'] == node.claims[0].uuid
    assert (row['host'], row['node']) == ('host-0', 'host-0')
    assert (row['node_uuid'], row['project_id']) == (uuid_of('node host-0'), 'p')
    assert row['resources'] == {'MEMORY_MB': 512, 'VCPU': 1}
    assert (row['created_at'], row['expires_at']) == ('2027-01-15T08:00:00+00:00', expires_at)


def test_what_a_claim_holds_besides_amounts():
    has = machine(cell(0, [], range(4), pages=[(2048, 8)]), pools=[pool(2)])
    parts = has.fit(wanted(dedicated(2, memory_mb=4, pagesize_kb=2048), requests=[device(1)]))
    below = HardwareAllocation(
        parts.cells, parts.devices, (Allotted('1', 'gpu', {'CUSTOM_GPU': 1}),)
    )
    node = facts(claims=[('a', {'parts': below}), ('b', {})])
    holding, plain = rows.claims(cloud(node), node.claims)
    assert holding['cells'] == [
        {'cell': 0, 'dedicated_cpus': [0, 1], 'memory_mb': 4, 'page_kb': 2048}
    ]
    assert holding['devices'] == [
        {'vendor_id': '8086', 'product_id': '1572', 'numa_node': 0, 'count': 1}
    ]
    assert holding['providers'] == [{'provider_uuid': 'gpu', 'resources': {'CUSTOM_GPU': 1}}]
    assert (plain['cells'], plain['devices'], plain['providers']) == ([], [], [])


def test_the_node_of_a_claim_may_have_left():
    (row,) = rows.claims(cloud(), [claim(uuid_of('a'), uuid_of('gone'))])
    assert (row['host'], row['node'], row['node_uuid']) == (None, None, uuid_of('gone'))
