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
"""Spoils a message by its structure: values, keys, types, sizes, depth; always alike for one
seed."""

import copy
import json
import math

from nova_sched.objects import object_io
from nova_sched.tests.builders import uuid_of

LONGEST = 300_000  # characters of a text that is repeated; mutations follow mutations
ODD = (
    None,
    True,
    False,
    0,
    1,
    -1,
    7,
    2**31 - 1,
    2**31,
    2**53,
    2**63 - 1,
    2**63,
    2**64,
    10**9,
    10**30,
    -(10**30),
    0.5,
    1e308,
    math.nan,
    math.inf,
    -math.inf,
    '',
    ' ',
    'x',
    '0',
    '-1',
    '1e5',
    'NaN',
    'true',
    'a' * 256,
    'a' * 70_000,
    '9' * 5_000,
    'a\0b',
    'half \ud800',
    'größe\n\u202e',
    "%s {0} '; --",
    '../../etc',
    '1.0',
    '4.5',
    '999.0',
    '<or> <or>',
    '>= many',
    '2026-01-01T12:00:00Z',
    'agent',
    'default',
    uuid_of('nothing'),
    uuid_of('nothing').upper(),
    [],
    {},
    [None],
    [[]],
    {'': None},
    {'a': {'b': [1]}},
    {'get_param': 'x'},
    {'get_attr': ['server', 'flavor', 'vcpus']},
    {'get_resource': 'server'},
    {'list_join': [',', ['a', 'b']]},
    {'repeat': {'for_each': {'%i%': [1, 2]}, 'template': '%i%'}},
    {'if': [True, 1, 2]},
    {'equals': [1, 1]},
    {'str_replace': {'template': 'a', 'params': {'a': 'b'}}},
)
LARGE = (
    lambda: list(range(20_000)),
    lambda: ['a'] * 20_000,
    lambda: {str(number): number for number in range(5_000)},
    lambda: _deep(lambda inner: [inner], 60),
    lambda: _deep(lambda inner: [inner], 300),
    lambda: _deep(lambda inner: {'a': inner}, 300),
    lambda: _deep(lambda inner: {'not': inner}, 200),
    lambda: 'a,' * 40_000,
    lambda: '0-65535,' * 1_000,
)
OBJECTS = (
    ('Flavor', {'vcpus': 1, 'memory_mb': 64, 'root_gb': 0, 'extra_specs': {}}),
    ('Flavor', {}),
    ('ImageMeta', {'id': uuid_of('image')}),
    ('RequestSpec', {}),
    ('ComputeNode', {'uuid': uuid_of('node')}),
    ('AggregateList', {'objects': []}),
    ('Aggregate', {'id': 1}),
    ('Instance', {'uuid': uuid_of('instance')}),
    ('NUMATopology', {'cells': []}),
    ('Service', {}),
    ('NoSuchThing', {'a': 1}),
)
EXTRA_SPECS = {
    'hw:numa_nodes': ('1', '2', '0', '-3', '999999999', '128'),
    'hw:numa_cpus.0': ('0', '0-1', '0-65535', '^0', '0-999999999'),
    'hw:numa_mem.0': ('64', '-64', '999999999999'),
    'hw:cpu_policy': ('dedicated', 'mixed', 'shared', 'none'),
    'hw:cpu_thread_policy': ('isolate', 'require', 'prefer', ''),
    'hw:cpu_dedicated_mask': ('0', '^0', '0-65535', ',' * 200),
    'hw:cpu_realtime': ('yes', 'no'),
    'hw:cpu_realtime_mask': ('^0', '0-1', '0-999999999999999999999'),
    'hw:emulator_threads_policy': ('isolate', 'share'),
    'hw:mem_page_size': ('small', 'large', 'any', '2MB', '-1', '1e400', '9' * 400, '²'),
    'hw:locked_memory': ('true', 'maybe'),
    'hw:pmem': ('a,b', ','),
    'hw:maxphysaddr_bits': ('42', 'many', '9' * 5_000),
    'pci_passthrough:alias': ('gpu:1', 'gpu:-1', 'gpu:many', 'gpu:999999999', ':', 'gpu:²'),
    'resources:VCPU': ('0', '1', '-1', 'x', '999999999999', '²'),
    'resources:PCPU': ('1', '2'),
    'resources:CUSTOM_X': ('1', '9' * 100),
    'resources1:VCPU': ('1',),
    'resources_A:CUSTOM_X': ('1',),
    'group_policy': ('none', 'isolate', 'x'),
    'trait:HW_CPU_HYPERTHREADING': ('required', 'forbidden', 'x'),
    'trait1:CUSTOM_T': ('required',),
    'capabilities:hypervisor_type': ('s== QEMU', '<in> Q', '<or> a <or> b', '>= x', '= 1'),
    'aggregate_instance_extra_specs:a': ('b', '<or> b', '>= 5'),
    'quota:cpu_shares': ('10',),
}


def _deep(around, levels):
    made = None
    for _ in range(levels):
        made = around(made)
    return made


def versioned(name, data):
    """The primitive of an object, whether there is a class of that name or not."""
    if name in object_io.CLASSES:
        return object_io.primitive(name, data)
    known = {object_io.NAME: name, object_io.NAMESPACE: object_io.NOVA, object_io.VERSION: '1.0'}
    return {**known, object_io.DATA: data}


def odd(rng):
    """A value that no method expects."""
    kind = rng.random()
    if kind < 0.85:
        return copy.deepcopy(rng.choice(ODD))
    if kind < 0.96:
        return copy.deepcopy(versioned(*rng.choice(OBJECTS)))
    return rng.choice(LARGE)()


def spoilt(rng, message, pool):
    """The message with one to four things spoilt; ``pool`` are sound values of others to put into
    it.

    The message itself is changed, and perhaps returned.
    """
    for _ in range(rng.choice((1, 1, 1, 1, 2, 2, 3, 4))):
        found = list(places(message))
        if not found:
            return odd(rng)
        rng.choice(HOW)(rng, message, found, pool)
    return message


def places(value):
    """Container and key of all that is inside of a value, the deepest last."""
    todo = [value]
    while todo:
        inside = todo.pop()
        for key, item in inside.items() if isinstance(inside, dict) else enumerate(inside):
            yield inside, key
            if isinstance(item, (dict, list)) and item:
                todo.append(item)


def _replace(rng, message, found, pool):
    inside, key = rng.choice(found)
    inside[key] = odd(rng)


def _drop(rng, message, found, pool):
    inside, key = rng.choice(found)
    del inside[key]


def _borrow(rng, message, found, pool):
    """Another value of the message, or of another one."""
    inside, key = rng.choice(found)
    there, other = rng.choice(found if rng.random() < 0.5 else pool)
    inside[key] = copy.deepcopy(there[other])


def _alike(rng, message, found, pool):
    """A value of the same type, which fits where nonsense is found at once."""
    inside, key = rng.choice(found)
    value = inside[key]
    if isinstance(value, bool) or value is None:
        inside[key] = rng.choice((True, False, None))
    elif isinstance(value, (int, float)):
        inside[key] = rng.choice(
            (value + 1, value - 1, -value, value * 2**31, float(value), str(value), 0)
        )
    elif isinstance(value, str):
        inside[key] = _text(rng, value)
    elif isinstance(value, list):
        inside[key] = rng.choice(
            (value * 2, value[::-1], value[:1], [*value, odd(rng)], {'0': value})
        )
    else:
        value[rng.choice(('', 'x', 'get_param', 'name', *list(value)[:5]))] = odd(rng)


def _text(rng, text):
    cut = rng.randrange(len(text) + 1)
    piece = rng.choice(
        ('', '\0', ',', '/', '\ud800', '"', '{', '0', '-', '%', 'é', ' ', text[:20])
    )
    if text.startswith(('{', '[')):  # JSON within text
        try:
            inner = json.loads(text)
        except ValueError:
            pass
        else:
            found = list(places(inner)) if isinstance(inner, (dict, list)) else []
            if found:
                rng.choice((_replace, _drop, _borrow))(rng, inner, found, found)
                return json.dumps(inner)
    return rng.choice(
        (
            text[:cut] + piece + text[cut:],
            text[:cut],
            text[cut:],
            text.upper(),
            text[:LONGEST] * 3,
            text[: min(cut, LONGEST // 100)] * 300,
        )
    )


def _rename(rng, message, found, pool):
    inside, key = rng.choice(found)
    if isinstance(inside, dict):
        name = (
            _text(rng, key)
            if rng.random() < 0.5
            else str(rng.choice(list(rng.choice(found)[0]) or ['']))
        )
        inside[name] = inside.pop(key)
    elif len(inside) > 1:
        other = rng.randrange(len(inside))
        inside[key], inside[other] = inside[other], inside[key]


def _wrap(rng, message, found, pool):
    inside, key = rng.choice(found)
    value = inside[key]
    inside[key] = rng.choice(
        (
            [value],
            {'a': value},
            [value, value],
            json.dumps(value, default=str),
            {'get_param': value},
        )
    )


def _spec(rng, message, found, pool):
    """Extra specs that mean something."""
    specs = [inside[key] for inside, key in found if key in ('extra_specs', 'properties')]
    specs = [one for one in specs if isinstance(one, dict)]
    if not specs:
        return _replace(rng, message, found, pool)
    into = rng.choice(specs)
    for _ in range(rng.choice((1, 2, 3))):
        name = rng.choice(tuple(EXTRA_SPECS))
        into[name if rng.random() < 0.8 else name.replace(':', '_')] = rng.choice(
            EXTRA_SPECS[name]
        )
    return None


def _amount(rng, message, found, pool):
    """A number of what a cloud counts."""
    numbers = [(inside, key) for inside, key in found if type(inside[key]) is int]
    inside, key = rng.choice(numbers or found)
    inside[key] = rng.choice(
        (0, 1, 2, 3, 64, 4096, 65536, 65537, 10**6, 10**9, 2**31 - 1, 2**31, 2**63 - 1)
    )


HOW = (_replace, _replace, _drop, _borrow, _alike, _alike, _alike, _rename, _wrap, _spec, _amount)


def spoilt_bytes(rng, data):
    """Text or a document as bytes, with a piece of it changed, dropped, doubled or put
    elsewhere."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        begin = rng.randrange(len(data) + 1)
        end = min(len(data), begin + rng.choice((1, 1, 2, 5, 50)))
        piece = data[begin:end]
        at = rng.randrange(len(data) + 1)
        bits = rng.choice(
            (b'', bytes([rng.randrange(256)]), b'\xff', b'\0', b'&a ', b'*a', b'- ', b': ',
             b'"', b'{', b'}', b'!!binary ', b'\n', b'\t', b'<<: ', b'? ', b'|\n', b'%YAML',
             b'---\n', piece * 3)
        )  # fmt: skip
        data = rng.choice(
            (
                data[:begin] + bits + data[end:],
                data[:begin] + data[end:],
                data[:at] + piece + data[at:],
            )
        )
    return data
