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
"""Odd numbers at every entrance: each is read as Nova does, left out, or refused with its name.

A row of ``ENTRANCES`` says what an entrance makes of each of the texts ``ODD``, in order: the
number that it reads, NO for the error that it raises, DEFAULT for the value that holds without.
"""

import copy
import math

import pytest

from nova_sched import errors, objects, words
from nova_sched.api.calls import _value as query_value
from nova_sched.cmd.manage import arguments, output, quota
from nova_sched.extensions.agent import cpus, numa
from nova_sched.extensions.optimize.rebalance import most_moves
from nova_sched.extensions.queues import catalogue
from nova_sched.filters import extra_specs
from nova_sched.groups import template
from nova_sched.groups.members import guest_numa, pci_aliases
from nova_sched.objects.image_meta import ImageMetaProps
from nova_sched.rpc import translate
from nova_sched.state import aggregates, compute_node, lifetime
from nova_sched.tests.builders import aggregate
from nova_sched.tests.functional.harness import compute_node as compute_node_object
from nova_sched.tests.reference import wire
from nova_sched.tests.rows import each

NO, DEFAULT = 'refused', 'default'
LONG, LONGER = '9' * 400, '9' * 5000  # Python refuses to read more than 4300 digits
# fmt: off
ODD =      ['1', ' 1', '+1', '1_000', '-0', '\u0661\u0662', '\u00b2', '-1', '1.0', '1.5', '1e5', 'nan', 'inf', '0x10', '', 'x', '1\0', str(2**63), LONG, LONGER]  # noqa: E501
# What int and float read, and a whole number or an amount in the range of its kind.
AMOUNT =   [1,   1,    1,    1000,    0,    12,             NO,       NO,   NO,    NO,    NO,    NO,    NO,    NO,     NO, NO,  NO,    NO,         NO,   NO]      # noqa: E501
STAT =     AMOUNT
COUNT =    [1,   1,    1,    1000,    NO,   12,             NO,       NO,   NO,    NO,    NO,    NO,    NO,    NO,     NO, NO,  NO,    NO,         NO,   NO]      # noqa: E501
SIGNED =   [1,   1,    1,    1000,    0,    12,             NO,       -1,   NO,    NO,    NO,    NO,    NO,    NO,     NO, NO,  NO,    NO,         NO,   NO]      # noqa: E501
FLOAT =    [1,   1,    1,    1000,    0,    12,             NO,       -1,   1,     1.5,   1e5,   NO,    NO,    NO,     NO, NO,  NO,    2.0**63,    NO,   NO]      # noqa: E501
RATIO =    [1,   1,    1,    1000,    DEFAULT, 12,          NO,       NO,   1,     1.5,   1e5,   NO,    NO,    NO,     NO, NO,  NO,    NO,         NO,   NO]      # noqa: E501
# Nova's API has no upper bound for the rule of a server group: such a group is without a limit.
MOST =     words.MAX_INTEGER
RULE =     [1,   1,    1,    1000,    0,    12,             NO,       NO,   NO,    NO,    NO,    NO,    NO,    NO,     1,  NO,  NO,    MOST,       MOST, NO]      # noqa: E501
# Metadata of an aggregate that is not a number is left out, as Nova does it.
OF_FLOAT = [1,   1,    1,    1000,    0,    12,             7,        -1,   1,     1.5,   1e5,   7,     7,     7,      7,  7,   7,     2.0**63,    7,    7]       # noqa: E501
OF_INT =   [1,   1,    1,    1000,    0,    12,             7,        -1,   7,     7,     7,     7,     7,     7,      7,  7,   7,     2.0**63,    7,    7]       # noqa: E501
# The end of a server is unknown, if a hint makes no sense; a time is not after the last date.
SECONDS =  [1,   1,    1,    1000,    0,    12,             None,     None, 1,     1.5,   1e5,   None,  None,  None,   None, None, None, None,     None, None]    # noqa: E501
# `>= 1` of a text of the host; and `>= ` text, of the host's 10.
MEETS =    [True, True, True, True,   False, True,          False,    False, True, True,  True,  False, True,  False,  False, False, False, True,  True, True]    # noqa: E501
MET =      [True, True, True, False,  True, False,          NO,       True, True,  True,  False, False, False, NO,     False, NO, NO,  False,      False, False]  # noqa: E501
# The guest's NUMA cells: as many of 4 CPUs and 1024 MiB, CPUs in one cell, memory of one.
CELLS =    [1,   1,    1,    NO,      NO,   NO,             NO,       NO,   NO,    NO,    NO,    NO,    NO,    NO,     None, NO, NO,   NO,         NO,   NO]      # noqa: E501
PAGES =    [1,   NO,   NO,   NO,      NO,   12,             NO,       NO,   NO,    NO,    NO,    NO,    NO,    NO,     None, NO, NO,   NO,         NO,   NO]      # noqa: E501
CPUS =     [1,   1,    NO,   NO,      NO,   NO,             NO,       NO,   NO,    NO,    NO,    NO,    NO,    NO,     None, NO, NO,   NO,         NO,   NO]      # noqa: E501
ALIAS =    [1,   1,    1,    1000,    NO,   12,             NO,       NO,   NO,    NO,    NO,    NO,    NO,    NO,     NO, NO,  NO,    NO,         NO,   NO]      # noqa: E501
# Moves: a number from 1, of any size.
MOVES =    [1,   1,    1,    1000,    NO,   12,             NO,       NO,   NO,    NO,    NO,    NO,    NO,    NO,     NO, NO,  NO,    NO,         NO,   NO]      # noqa: E501
SHARE =    [1,   1,    1,    NO,      NO,   12,             NO,       NO,   1,     1,     NO,    NO,    NO,    NO,     NO, NO,  NO,    NO,         NO,   NO]      # noqa: E501
# The API and templates are stricter: digits of ASCII.
QUERY =    [1,   NO,   NO,   NO,      NO,   NO,             NO,       NO,   NO,    NO,    NO,    NO,    NO,    NO,     NO, NO,  NO,    NO,         NO,   NO]      # noqa: E501
TEMPLATE = [1,   1,    1,    NO,      NO,   NO,             NO,       NO,   NO,    NO,    NO,    NO,    NO,    NO,     NO, NO,  NO,    NO,         NO,   NO]      # noqa: E501
PARAMETER =[1,   1,    1,    NO,      0,    NO,             NO,       -1,   1,     1.5,   1e5,   NO,    NO,    NO,     NO, NO,  NO,    NO,         NO,   NO]      # noqa: E501
RULE_OF_TEMPLATE = [*TEMPLATE]
ARGUMENT = [1,   1,    1,    1000,    NO,   12,             NO,       NO,   NO,    NO,    NO,    NO,    NO,    NO,     NO, NO,  NO,    NO,         NO,   NO]      # noqa: E501
LIMIT =    [1,   1,    1,    1000,    0,    12,             NO,       -1,   NO,    NO,    NO,    NO,    NO,    NO,     NO, NO,  NO,    NO,         NO,   NO]      # noqa: E501
LENGTH =   [1,   1,    1,    1000,    NO,   12,             NO,       NO,   1,     1.5,   1e5,   NO,    NO,    NO,     NO, NO,  NO,    NO,         NO,   NO]      # noqa: E501
NEVER =    [NO] * len(ODD)
# fmt: on

CALL = wire('select_destinations-group-anti-affinity-rules')['message']['args']
DATA = 'nova_object.data'
FLAVOR = DATA, 'flavor', DATA


def request(value, *path):
    """The request of a recorded call that has this value at this path."""
    args = copy.deepcopy(CALL)
    place = args['spec_obj']
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    spec = objects.from_primitive(args['spec_obj'])
    return translate.requests(translate.spec(spec), args['instance_uuids'])[0]


def node(**fields):
    given = objects.to_primitive(compute_node_object('host-0'))
    given[DATA].update(fields)
    return compute_node.report(objects.from_primitive(given), 10_000, 'host-0')


def cells(key, value, **more):
    found = guest_numa.topology(4, 1024, {key: value, **more}, ImageMetaProps())
    return None if found is None else found.cells


def page_kb(value):
    found = cells('hw:mem_page_size', value)
    return found and found[0].pagesize


def realtime_cpu(value):
    """The dedicated CPU of a guest that has one, by the mask."""
    found = cells(
        'hw:cpu_realtime_mask', value, **{'hw:cpu_realtime': 'yes', 'hw:cpu_policy': 'mixed'}
    )
    (cpu,) = found[0].pcpuset
    return cpu


def one_cell(value):
    """The number of cells, of CPUs that make only one cell of their own."""
    found = guest_numa.topology(1, 1024, {'hw:numa_nodes': value}, ImageMetaProps())
    return None if found is None else len(found.cells)


ALIASES = pci_aliases.read(('{"name": "a", "vendor_id": "8086", "product_id": "1234"}',))


def devices(value):
    found = pci_aliases.requests({pci_aliases.EXTRA_SPEC: f'a:{value}'}, ImageMetaProps(), ALIASES)
    return found[0].count


def vcpus_of_template(value):
    flavor = {'vcpus': value, 'ram': 512}
    found = template.read(server(flavor=flavor))
    return found.members['s'].flavor.vcpus


def server(**properties):
    one = {'type': 'OS::Nova::Server', 'properties': properties}
    return {'heat_template_version': '2018-08-31', 'resources': {'s': one}}


def parameter(value):
    made = server(flavor={'vcpus': 1, 'ram': 512, 'extra_specs': {'k': {'get_param': 'p'}}})
    made['parameters'] = {'p': {'type': 'number'}}
    return float(template.read(made, {'p': value}).members['s'].flavor.extra_specs['k'])


def rule_of_template(value):
    made = server(
        flavor={'vcpus': 1, 'ram': 512}, scheduler_hints={'group': {'get_resource': 'g'}}
    )
    rules = {'max_server_per_host': value}
    made['resources']['g'] = {'type': 'OS::Nova::ServerGroup', 'properties': {'rules': rules}}
    return template.read(made).policies[0].most


def aggregate_number(convert):
    return lambda text: aggregates.number([aggregate(1, ['a'], k=text)], 'k', 7, convert)


def reserved(value):
    ((_, count),) = numa.reserved_pages([{'node': 0, 'size': 4, 'count': value}]).items()
    return count


LIMIT_OF_QUERY = {'type': 'integer', 'minimum': 1, 'maximum': words.MAX_INTEGER}

ENTRANCES = {
    'rule of a server group': (
        lambda text: (
            request(
                text, DATA, 'instance_group', DATA, '_rules', 'max_server_per_host'
            ).group.max_server_per_host
        ),
        RULE,
    ),
    'flavor.vcpus': (lambda text: request(text, *FLAVOR, 'vcpus').vcpus, AMOUNT),
    'flavor.swap': (lambda text: request(text, *FLAVOR, 'swap').swap_mb, AMOUNT),
    'resources of an extra spec': (
        lambda text: request(text, *FLAVOR, 'extra_specs', 'resources:CUSTOM_A').resources.get(
            'CUSTOM_A', 0
        ),
        AMOUNT,
    ),
    'flavor.rxtx_factor': (
        lambda text: (
            objects.from_primitive(
                {**CALL['spec_obj'][DATA]['flavor'], DATA: {'rxtx_factor': text}}
            ).rxtx_factor
        ),
        FLOAT,
    ),
    'total of a node': (lambda text: node(vcpus=text).inventories['VCPU'].total, AMOUNT),
    'ratio of a node': (
        lambda text: node(cpu_allocation_ratio=text).inventories['VCPU'].ratio,
        [4.0 if one == DEFAULT else one for one in RATIO[:10]] + RATIO[10:],
    ),
    'stats of a node': (lambda text: node(stats={'io_workload': text}).io_workload, STAT),
    'aggregate, a ratio': (aggregate_number(float), OF_FLOAT),
    'aggregate, a count': (aggregate_number(int), OF_INT),
    'hint ttl': (lambda text: lifetime._seconds('here', text), SECONDS),
    'hint lease_end': (lambda text: lifetime._moment('here', text), SECONDS),
    'host value of an extra spec': (lambda text: extra_specs.matches(text, '>= 1', 'k'), MEETS),
    'extra spec, compared': (lambda text: extra_specs.matches('10', f'>= {text}', 'k'), MET),
    'hw:numa_nodes': (one_cell, CELLS),
    'hw:mem_page_size': (page_kb, PAGES),
    'hw:cpu_realtime_mask': (realtime_cpu, [1, 1, *[NO] * 18]),
    'PCI alias': (devices, ALIAS),
    'weight of an offered host': (
        lambda text: translate.offered_hosts([('h', None)], {'h': text})['h', None],
        FLOAT,
    ),
    'moves of a plan': (lambda text: most_moves(text, 100), MOVES),
    'share of the servers': (lambda text: most_moves(f'{text}%', 100), SHARE),
    'flavor of a queue': (
        lambda text: catalogue.flavor_of({'name': 'a', 'vcpus': text, 'memory_mb': 1}),
        NEVER,
    ),
    'limit of a query': (lambda text: query_value('limit', text, LIMIT_OF_QUERY), QUERY),
    'vcpus of a template': (vcpus_of_template, TEMPLATE),
    'parameter of a template': (parameter, PARAMETER),
    'rule of a template': (rule_of_template, RULE_OF_TEMPLATE),
    'argument of the RPC': (lambda text: words.number(text, 'limit'), NEVER),
    'number of a command': (arguments.from_1, ARGUMENT),
    'seconds of a command': (arguments.seconds, LENGTH),
    'limit of a command': (quota._amount, LIMIT),
    'reserved pages of the agent': (reserved, AMOUNT),
}
REFUSALS = errors.SchedError, ValueError  # argparse makes its own error of the latter


@each('entrance', ENTRANCES)
def test_texts(entrance):
    read, expected = ENTRANCES[entrance]
    wrong = []
    for text, right in zip(ODD, expected, strict=True):
        try:
            found = read(text)
        except REFUSALS as error:
            found = NO if len(str(error)) < 600 else f'a text of {len(str(error))} characters'
        if found != right:
            wrong.append((text[:30], right, found))
    assert wrong == []


# Values of JSON that are no text: what the entrances of whole numbers and of others make of them.
VALUES = [True, False, 1, 1.0, 1.5, -0.0, math.nan, math.inf, 1e300, 2**63, 10**400, [], {}]
WHOLE = [NO, NO, 1, 1, NO, 0, NO, NO, NO, NO, NO, NO, NO]
EXACT = [NO, NO, 1, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO]
DECIMAL = [NO, NO, 1, 1, 1.5, 0, NO, NO, NO, 2.0**63, NO, NO, NO]


@each(
    'read, expected',
    [
        pytest.param(lambda value: request(value, *FLAVOR, 'vcpus').vcpus, WHOLE, id='flavor'),
        pytest.param(lambda value: request(value, *FLAVOR, 'swap').swap_mb, WHOLE, id='swap'),
        pytest.param(
            lambda value: node(vcpus=value).inventories['VCPU'].total, WHOLE, id='total of a node'
        ),
        pytest.param(
            lambda value: node(cpu_allocation_ratio=value).inventories['VCPU'].ratio,
            [NO, NO, 1, 1, 1.5, 4.0, *[NO] * 7],
            id='ratio of a node',
        ),
        pytest.param(lambda value: words.number(value, 'limit'), EXACT, id='argument of the RPC'),
        pytest.param(
            lambda value: catalogue.flavor_of({'name': 'a', 'vcpus': value, 'memory_mb': 1}).vcpus,
            EXACT,
            id='flavor of a queue',
        ),
        pytest.param(
            lambda value: translate.offered_hosts([('h', None)], {'h': value})['h', None],
            DECIMAL,
            id='weight of an offered host',
        ),
        pytest.param(lambda value: most_moves(value, 9), [NO, NO, 1, 1, *[NO] * 9], id='moves'),
        pytest.param(
            vcpus_of_template,
            [NO, NO, 1, 1, *[NO] * 9],
            id='vcpus of a template',
        ),
    ],
)
def test_values(read, expected):
    wrong = []
    for value, right in zip(VALUES, expected, strict=True):
        try:
            found = read(value)
        except errors.SchedError as error:
            found = NO if len(str(error)) < 600 else str(error)
        if found != right:
            wrong.append((words.short(value), right, found))
    assert wrong == []


@each(
    'text, ids',
    [
        ('0-3,^2', {0, 1, 3}),
        (' 1 - 2 , 4 ', {1, 2, 4}),
        ('', set()),
        ('0-16383', set(range(16384))),
        ('0-16384', None),
        ('0-9999999999', None),
        ('0-999999999', None),
        (','.join(['0-9999'] * 2), None),
        ('3-0', None),
        ('-1', None),
        ('\u0661', None),
        ('1_0', None),
        ('+1', None),
        (f'0-{LONG}', None),
    ],
)
def test_sets_of_cpus(text, ids):
    """One function reads them for images, flavors and the agent, before anything is expanded."""
    if ids is None:
        for read, error in (
            (lambda: ImageMetaProps.from_dict({'hw_numa_cpus.0': text}), errors.MalformedObject),
            (lambda: guest_numa.cpu_ids(text, 'here'), errors.InvalidRequest),
            (lambda: cpus.parse_ranges(text, 'here'), errors.BadMachineFacts),
        ):
            with pytest.raises(error, match='CPU'):
                read()
    else:
        assert ImageMetaProps.from_dict({'hw_numa_cpus.0': text}).hw_numa_cpus == [ids]
        assert guest_numa.cpu_ids(text, 'here') == cpus.parse_ranges(text, 'here') == ids


def test_the_order_of_rows_with_odd_digits():
    """A sort of the command line takes any name: digits that are no decimal ones are letters."""
    names = [LONGER, 'a10', 'a\u00b2', 'a2', 'a002', '\u00b2', 'a', '\u0661', '10', '9', '']
    found = sorted(names, key=output._natural)
    assert found == [
        '',
        '9',
        '10',
        LONGER,
        'a',
        'a2',
        'a002',
        'a10',
        'a\u00b2',
        '\u00b2',
        '\u0661',
    ]
