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
"""The worked examples of the manual mean what they say, and keep the JSON schema."""

from pathlib import Path

import jsonschema
import pytest

from nova_sched.groups import template
from nova_sched.groups.definition import MemberFlavor
from nova_sched.groups.template import VERSIONS, source, values
from nova_sched.groups.template.functions import FUNCTIONS
from nova_sched.tests.unit.groups.template import group, relation, repeated, server

EXAMPLES = Path(__file__).resolve().parents[5] / 'doc' / 'source' / 'examples' / 'groups'
LEVELS = ('host', 'rack', 'room', 'zone', 'power_feed')


def definition(name, **given):
    return template.read((EXAMPLES / f'{name}.yaml').read_text('utf-8'), levels=LEVELS, **given)


def shown(policies):
    """Policies in one line each: name, members, those they are related to, the numbers that
    differ."""
    for policy in policies:
        numbers = {
            'most': (policy.most, 1),
            'min': (policy.min_domains, 1),
            'skew': (policy.max_skew, None),
        }
        more = [f'{key}={value}' for key, (value, usual) in numbers.items() if value != usual]
        more += [] if policy.weight is None else [f'weight={policy.weight:g}']
        to = f' > {len(policy.b)}' if policy.b else ''
        yield f'{policy.name} | {len(policy.a)}{to} {" ".join(more)}'.rstrip()


MEANINGS = [
    pytest.param(
        'three-hosts',
        ['trio/server/0', 'trio/server/1', 'trio/server/2'],
        ['trio: anti-affinity at host | 3'],
    ),
    pytest.param(
        'web-tier',
        ['tier/web/0', 'tier/web/1', 'tier/web/2', 'tier/web/3', 'tier/web/4', 'tier/web/5'],
        [
            'tier: spread at zone | 6 min=3 skew=1',
            'tier: anti-affinity at host, preferred | 6 weight=1',
        ],
    ),
    pytest.param(
        'database-shards',
        [
            f'shards/{shard}/{name}'
            for shard in range(3)
            for name in ('primary', 'replicas/0', 'replicas/1')
        ],
        [
            'shards/0: anti-affinity at rack | 3',
            'shards/1: anti-affinity at rack | 3',
            'shards/2: anti-affinity at rack | 3',
            'primaries: anti-affinity at host | 3',
        ],
    ),
    pytest.param(
        'hadoop-cells',
        [
            f'cluster/cells/{cell}/{name}'
            for cell in range(2)
            for name in ('master', 'workers/0', 'workers/1', 'workers/2')
        ],
        [
            'cluster: affinity at room, preferred | 8 weight=5',
            'cluster/cells/0: affinity at rack | 4',
            'cluster/cells/1: affinity at rack | 4',
            'masters: anti-affinity at rack | 2',
        ],
    ),
    pytest.param(
        'ha-pair',
        ['pair/active', 'pair/passive', 'witness'],
        [
            'pair: anti-affinity at power_feed | 2',
            'apart: anti-affinity at host | 2',
            'witness_elsewhere: apart at room | 1 > 2',
        ],
    ),
    pytest.param(
        'tenant-racks',
        ['vault/nodes/0', 'vault/nodes/1', 'vault/nodes/2', 'vault/nodes/3', 'gateway'],
        [
            'vault: exclusive at rack | 4',
            'vault: affinity at rack | 4',
            'gateway_by_the_vault: near at room, preferred | 1 > 4 weight=10',
        ],
    ),
    pytest.param(
        'autoscaling',
        ['service/queue', *(f'service/pool/workers/{i}' for i in range(4))],
        [
            'service/pool: anti-affinity at host | 4 most=2',
            'service/pool: spread at zone | 4 min=2',
        ],
    ),
    pytest.param(
        'three-tier',
        [
            'site/web/servers/0',
            'site/web/servers/1',
            *(f'site/application/servers/{i}' for i in range(4)),
            'site/database/primary',
            'site/database/standby',
        ],
        [
            'site: affinity at zone | 8',
            'site relation 0: near at room, preferred | 4 > 2 weight=2',
            'site relation 1: near at room, preferred | 2 > 4 weight=1',
            'site/web: anti-affinity at rack | 2',
            'site/application: anti-affinity at rack | 4 most=2',
            'site/database: anti-affinity at rack | 2',
        ],
    ),
    pytest.param(
        'near-caches',
        [*(f'readers/{i}' for i in range(6)), *(f'cache_racks/caches/{i}' for i in range(3))],
        [
            'cache_racks: anti-affinity at rack | 3',
            'readers_have_a_cache: near at rack | 6 > 3',
            'caches_have_readers: near at rack, preferred | 3 > 6 weight=3',
            'caches_alone: apart at host | 3 > 6',
        ],
    ),
    pytest.param(
        'batch-farm',
        [f'farm/workers/{i}' for i in range(12)],
        [
            'farm: anti-affinity at host, preferred | 12 most=2 weight=10',
            'farm: spread at rack, preferred | 12 min=4 skew=1 weight=4',
            'farm: affinity at room, preferred | 12 weight=1',
        ],
    ),
    pytest.param(
        'packet-gateway',
        ['controller', 'forwarding/forwarders/0', 'forwarding/forwarders/1'],
        [
            'forwarding: anti-affinity at host | 2',
            'forwarding: affinity at room | 2',
            'controller_in_the_room: near at room | 1 > 2',
            'controller_in_the_rack: near at rack, preferred | 1 > 2 weight=1',
        ],
    ),
]
NAMES = [row.values[0] for row in MEANINGS]


@pytest.mark.parametrize('name, members, policies', MEANINGS, ids=NAMES)
def test_an_example(name, members, policies):
    found = definition(name)
    assert list(found.members) == members
    assert list(shown(found.policies)) == policies


def test_every_example_is_known_here_and_in_the_manual():
    page = (EXAMPLES.parents[1] / 'groups.rst').read_text('utf-8')
    assert sorted(path.stem for path in EXAMPLES.iterdir()) == sorted(NAMES)
    assert [name for name in NAMES if f'examples/groups/{name}.yaml' not in page] == []


def test_no_example_warns_but_of_an_image():
    warnings = {warning for name in NAMES for warning in definition(name).warnings}
    assert warnings == {'image database is not described; it is placed as one without properties'}


def test_a_scaling_group_grows_by_its_parameter():
    before, after = (definition('autoscaling', parameters={'capacity': n}).members for n in (4, 7))
    assert [*after][: len(before)] == [*before]
    assert len(after) == len(before) + 3


def test_a_condition_leaves_the_witness_out():
    found = definition('ha-pair', parameters={'with_witness': False})
    assert list(found.members) == ['pair/active', 'pair/passive']
    assert [policy.kind for policy in found.policies] == ['anti-affinity', 'anti-affinity']


def test_a_zone_is_given_or_left_open():
    found = [
        definition('three-tier', parameters=given).members.values()
        for given in ({}, {'zone': 'z1'})
    ]
    assert [{member.availability_zone for member in members} for members in found] == [
        {None},
        {'z1'},
    ]


def test_the_gateway_asks_for_its_devices():
    flavor = (
        definition('packet-gateway', parameters={'alias': 'fast'})
        .members['forwarding/forwarders/0']
        .flavor
    )
    assert flavor == MemberFlavor(
        vcpus=4,
        memory_mb=4096,
        root_gb=10,
        extra_specs={
            'hw:cpu_policy': 'dedicated',
            'hw:mem_page_size': '2048',
            'hw:numa_nodes': '1',
            'pci_passthrough:alias': 'fast:1',
        },
    )


def test_shards_boot_from_volumes():
    assert all(
        member.boots_from_volume for member in definition('database-shards').members.values()
    )


VALIDATOR = jsonschema.Draft202012Validator(template.schema())


def test_it_is_a_schema():
    VALIDATOR.check_schema(template.schema())


@pytest.mark.parametrize('name', NAMES)
def test_an_example_keeps_it(name):
    text = (EXAMPLES / f'{name}.yaml').read_text('utf-8')
    VALIDATOR.validate(values.to_plain(source.parse(text)))


@pytest.mark.parametrize(
    'resource',
    [
        pytest.param(server(flavor=None, image=[1]), id='image'),
        pytest.param({'type': 'OS::Nova::Server'}, id='no flavor'),
        pytest.param(server(flavor={'vcpu': 1}), id='flavor'),
        pytest.param(repeated(-1), id='negative count'),
        pytest.param(repeated(1, {'typ': 'x'}), id='repeated nothing'),
        pytest.param(group('a', policies=[{'type': 'afinity', 'level': 'rack'}]), id='policy'),
        pytest.param(
            group('a', policies=[{'type': 'affinity', 'level': 'rack', 'weight': 0}]), id='weight'
        ),
        pytest.param(group({'name': 'x'}), id='inline member'),
        pytest.param(relation('near'), id='no sides'),
        pytest.param({'type': 'OS::Neutron::Net', 'propertys': {}}, id='key'),
        pytest.param({}, id='no type'),
    ],
)
def test_a_resource_that_it_refuses(resource):
    assert not VALIDATOR.is_valid(
        {'heat_template_version': 'wallaby', 'resources': {'r': resource}}
    )


def test_it_knows_the_versions_and_the_functions():
    schema = template.schema()
    assert schema['properties']['heat_template_version']['enum'] == list(VERSIONS)
    assert list(schema['$defs']['call']['properties']) == list(FUNCTIONS)


def test_who_changes_it_changes_a_copy():
    template.schema().clear()
    assert template.schema()['type'] == 'object'
