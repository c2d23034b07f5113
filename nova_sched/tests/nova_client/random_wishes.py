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
"""Words of random requests, by what they wish for, and the metadata of aggregates that answer
them.

They are built to hit: names are shared between requests and hosts, limits lie where hosts are, and
one thing in ten is wrong. All are functions of chance; words are those of random_requests.spec.
"""

from nova_sched.tests.nova_client import queries, random_hardware, random_nodes, random_requests
from nova_sched.tests.nova_client.cloud import CELL, OTHER_CELL
from nova_sched.tests.nova_client.dice import WORDS

PROJECTS = ('demo', 'admin', 'Demo', '7')
FLAVORS = ('m1.small', 'm1', 'm1.small ', 'large,huge', 'x')
POLICIES = ('affinity', 'anti-affinity', 'soft-affinity', 'soft-anti-affinity', 'legacy')
ADDRESSES = ('192.0.2.0', '0.0.0.0', '::')
NO_ADDRESSES = ('192.0.2', 'here', '', '192.0.2.7 ', '192.0.2.256', '0192.0.2.7')
SIZES = ('/24', '/25', '/32', '/0', '/16', '/8', '/20', '/255.255.255.0', '/0.0.0.255')
NO_SIZES = ('24', '', '/33', '/-1', '/x', '/', '/128', '/64')
IMAGES = ('11111111-1111-4111-8111-111111111111', '22222222-2222-4222-8222-222222222222')


def nothing(dice, *_):
    """No words, no metadata, no options."""
    return {}


# Extra specs.

SCOPE = 'aggregate_instance_extra_specs'
AGGREGATE_KEYS = ('tier', 'tier', 'ssd', 'size', 'size', 'no-such-key', f'{SCOPE}:tier', 'tier:x')
PATHS = (
    'hypervisor_type',
    'hypervisor_version',
    'hypervisor_hostname',
    'host',
    'nodename',
    'cpu_info:arch',
    'cpu_info:vendor',
    'cpu_info:model',
    'cpu_info:features',
    'cpu_info:topology:cores',
    'cpu_info:topology:sockets',
    'cpu_info:topology:no-such-step',
    'cpu_info:maxphysaddr:bits',
    'cpu_info:arch:deeper',
    'cpu_info',
    'free_ram_mb',
    'free_disk_mb',
    'vcpus_total',
    'vcpus_used',
    'total_usable_disk_gb',
    'disk_mb_used',
    'num_instances',
    'num_io_ops',
    'failed_builds',
    'ram_allocation_ratio',
    'host_ip',
    'cell_uuid',
    'stats:tier',
    'stats:no-such-stat',
    'free_ram_mb:deeper',
    'no_such_attribute',
    '',
    *random_nodes.STATS,
)
FREE_KEYS = (
    'tier',
    'rack',
    'hypervisor_type',
    'free_ram_mb',
    'capabilities',
    'num_instances',
    'no such key',
    '',
)
FOUND = (
    *WORDS,
    *random_nodes.TYPES,
    *random_nodes.ARCHITECTURES,
    'Intel',
    'AMD',
    '8',
    "['aes']",
    CELL,
    '192.0.2.7',
)


def capabilities(dice, world):
    keys = [
        *(f'capabilities:{dice.choice(PATHS)}' for _ in range(dice.choice((0, 1, 1, 2)))),
        *(dice.choice(FREE_KEYS) for _ in range(dice.choice((0, 0, 1)))),
        *(
            dice.choice(('hw:cpu_policy', 'trait:X', 'other:free_ram_mb', 'capabilities'))
            for _ in range(dice.maybe(0.1))
        ),
    ]
    specs = {key: dice.wish((*FOUND, dice.choice(world.names))) for key in keys}
    if dice.maybe(0.1):
        specs['hw:maxphysaddr_bits'] = dice.choice(('39', '46', '53', ' 40', 'many', ''))
    return {'extra_specs': specs}


def aggregate_specs(dice, world):
    keys = [
        dice.choice(('', '', f'{SCOPE}:', f'{SCOPE}:', 'hw:', ':')) + dice.choice(AGGREGATE_KEYS)
        for _ in range(dice.choice((0, 1, 1, 2)))
    ]
    return {'extra_specs': {key: dice.wish() for key in keys}}


def aggregate_values(dice):
    return {
        key: dice.commas((*WORDS, dice.number(), dice.number()))
        for key in dice.some(AGGREGATE_KEYS, 3)
    }


# Images.

PROPERTIES = {
    'hw_architecture': random_nodes.ARCHITECTURES,
    'img_hv_type': random_nodes.HYPERVISORS,
    'hw_vm_mode': random_nodes.MODES,
    'img_hv_requested_version': (
        '>=2.0',
        '<8.2.2',
        '>=1.0, <9.0',
        '==8.2.1',
        '!= 2.1.0',
        '>=0.0.1',
    ),
    'hw_maxphysaddr_bits': (0, 39, 46, 53),
}


def hypervisor_image(dice, world):
    return {
        'image': None if dice.maybe(0.05) else random_nodes.image(dice, PROPERTIES),
        **_rebuild(dice),
    }


def compared_image(dice, world):
    return {'image': None if dice.maybe(0.05) else random_nodes.image(dice), **_rebuild(dice)}


def compared_values(dice):
    made = {}
    for name in dice.some((*random_nodes.PROPERTIES, 'os_no_such_property', 'tier', 'os_'), 3):
        values = tuple(map(str, random_nodes.PROPERTIES.get(name, WORDS)))
        made[name] = dice.commas(values)
    return made


def isolated_image(dice, world):
    return {
        'image': None if dice.maybe(0.1) else {},
        'image_id': dice.choice((*IMAGES, '33333333-3333-4333-8333-333333333333', None)),
        **_rebuild(dice),
    }


def _rebuild(dice):
    check = dice.choice((['rebuild'], ['rebuild', 'rebuild'], ['live'], []))
    return {'hints': {'_nova_check_type': check}} if dice.maybe(0.2) else {}


# Where the instances are.


def _near(dice, hint, world):
    named = dice.some(world.instances, 4) + dice.bag(('', 'no-uuid', dice.uuid()), dice.maybe(0.2))
    return {'hints': {hint: named} if dice.maybe(0.9) else {}} | (
        {} if dice.maybe(0.9) else _rebuild(dice)
    )


def same_host(dice, world):
    return _near(dice, 'same_host', world)


def different_host(dice, world):
    return _near(dice, 'different_host', world)


def group(policy):
    """Requests of server groups, most of them of this policy."""

    def request(dice, world):
        if dice.maybe(0.05):
            return {}
        members = dice.some(world.instances, 8)
        rules = dice.choice(
            (None, {}, {'max_server_per_host': dice.choice(('0', '1', '2', '3', ' 2'))})
        )
        hosts = dice.some([*world.names, 'elsewhere'], 6)
        one = policy if dice.maybe(0.7) else dice.choice(POLICIES)
        return {
            'instance_group': random_requests.group(one, members, hosts=hosts, rules=rules),
            'instance_uuid': dice.choice((*members, dice.choice(world.instances), dice.uuid())),
        }

    return request


def apart(dice, world):
    """Requests of an anti-affinity group; of a few its rule is no number."""
    words = group('anti-affinity')(dice, world)
    if words and dice.maybe(0.05):
        words['instance_group']._rules = {'max_server_per_host': 'many'}
        words['instance_uuid'] = (
            dice.uuid()
        )  # of an instance that is on no host: there the rule is not read
    return words


def subnet(dice, world):
    hints = {}
    if dice.maybe(0.95):
        address = dice.choice(
            NO_ADDRESSES if dice.maybe(0.1) else (*random_nodes.ADDRESSES[1:], *ADDRESSES)
        )
        hints['build_near_host_ip'] = [address] * (2 if dice.maybe(0.05) else 1)
    if dice.maybe(0.8):
        hints['cidr'] = [dice.choice(NO_SIZES if dice.maybe(0.1) else SIZES)]
    return {'hints': hints}


def tenant(dice, world):
    return {'project_id': dice.choice((*PROJECTS, None))}


def tenants(dice):
    keys = (
        'filter_tenant_id',
        'filter_tenant_id2',
        'filter_tenant_id_west',
        'Filter_tenant_id',
        'filter_tenant',
        'tier',
    )
    return {key: dice.commas((*PROJECTS, '')) for key in dice.some(keys, 2)}


def flavor(dice, world):
    return {'flavor_name': dice.choice(FLAVORS)}


def flavors(dice):
    return {
        key: dice.commas(FLAVORS)
        for key in dice.some(('instance_type', 'flavor', 'Instance_type'), 2)
    }


def query(dice, world):
    return {'hints': {'query': queries.hint(dice, world.names)} if dice.maybe(0.97) else {}}


def cell(dice, world):
    if dice.maybe(0.2):
        return {}
    wanted = random_requests.destination(
        dice.choice((CELL, OTHER_CELL, None)), allow_cross_cell_move=dice.maybe(0.7)
    )
    return {'requested_destination': wanted}


# Hardware.


def devices(dice, world):
    return {'pci_requests': None if dice.maybe(0.05) else random_hardware.pci_requests(dice)}


def topology(dice, world):
    topology = random_hardware.guest_topology(dice) if dice.maybe(0.9) else None
    words = {
        'numa_topology': topology,
        'vcpus': sum(len(cell.total_cpus) for cell in topology.cells) if topology else 1,
    }
    if dice.maybe(0.3):
        words['network_metadata'] = random_hardware.networks(dice)
    if dice.maybe(0.4):
        words['pci_requests'] = dice.choice((None, random_hardware.pci_requests(dice, most=2)))
    policies = {
        'cpu_policy': ('dedicated', 'shared', 'mixed'),
        'cpu_thread_policy': ('require', 'isolate'),
    }
    asked = {name: dice.choice(values) for name, values in policies.items() if dice.maybe(0.3)}
    if dice.maybe(0.5):
        words['extra_specs'] = {f'hw:{name}': value for name, value in asked.items()}
    else:
        words['image'] = {f'hw_{name}': value for name, value in asked.items()}
    return words
