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
"""How long one message holds the loop, over hostile and fuzzed requests at 1,000 hosts, and what
boots take beside them.

Hosts differ in NUMA cells and child providers, so that each first request judges all of them.
Holds are processor time of the loop's thread: a busy machine adds to all others. Boots are timed
by the clock: compare them with those beside no other requests, of the same run.
"""

import collections
import contextlib
import json
import math
import random
import threading
import time
from unittest import mock

from nova_sched import objects, service
from nova_sched.engine import measuring, time_slice
from nova_sched.measures.catalogue import MEASURES
from nova_sched.tests.bench import all_rules
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional import harness
from nova_sched.tests.fuzz import run, seeds
from nova_sched.tests.fuzz.world import World
from nova_sched.tests.reference import wire

HOSTS = 1_000
EACH_S = 0.02  # a boot beside
CALM_S = 5.0
FIELDS = 'what', 'p50', 'p99.9', 'most', 'holds', 'boots beside', 'of boots alone'
GPU = 'CUSTOM_GPU_MILLI'
BIG = {'flavor': {'vcpus': 1, 'ram': 64, 'disk': 0}}


class Holds:
    """What the loop says of its holds: seconds by kind."""

    def __init__(self):
        self._by_kind = collections.defaultdict(list)

    def record_hold(self, kind, seconds):
        self._by_kind[kind].append(seconds)

    def taken(self):
        found, self._by_kind = self._by_kind, collections.defaultdict(list)
        return found


def hosts_of(world, count=HOSTS):
    """Give the world so many hosts, no two of them alike."""
    chance = random.Random(9)
    for number in range(count):
        name = f'big{number:04}'
        node = harness.compute_node(
            name, vcpus=64, memory_mb=256 * 1024, local_gb=1000, cpu_allocation_ratio=4.0
        )
        node.numa_topology = all_rules.cells(chance)
        root, tree = node.uuid, {}
        tree[root] = {
            'inventories': {'VCPU': {'total': 64}, 'MEMORY_MB': {'total': 2**18}},
            'traits': ['HW_CPU_HYPERTHREADING'],
        }
        for place in range(8):
            tree[uuid_of(f'{name} gpu{place}')] = {
                'name': f'gpu{place}',
                'parent_provider_uuid': root,
                'traits': [f'CUSTOM_T{place % 3}'],
                'inventories': {GPU: {'total': 3000 + 17 * place}},
                'used': {GPU: 10 * place + chance.randrange(300)},
            }
        world._ask('stats', 'update_resource_stats', name=name, stats=node, inventories=tree,
                   instances=[])  # fmt: skip


def boot(extra_specs=None, image=None, **fields):
    """A call of select_destinations, as (door, message)."""
    message = json.loads(json.dumps(wire('select_destinations-boot-1')))
    spec = harness.spec(extra_specs=extra_specs, **fields)
    made = objects.to_primitive(spec)
    data = made['nova_object.data']
    if image:
        data['image']['nova_object.data']['properties']['nova_object.data'].update(image)
    identity = [uuid_of(f'boot {next(NUMBERS)} {place}') for place in range(data['num_instances'])]
    data['instance_uuid'] = identity[0]
    args = {**message['message']['args'], 'spec_obj': made, 'instance_uuids': identity}
    return seeds.RPC, {**message, 'message': {**message['message'], 'args': args}}


NUMBERS = iter(range(10**9))


def template(members, **group):
    return {
        'heat_template_version': '2021-04-16',
        'resources': {
            **{
                f's{place}': {'type': 'OS::Nova::Server', 'properties': one}
                for place, one in enumerate(members)
            },
            'g': {
                'type': 'OS::NovaSched::Group',
                'properties': {
                    'members': [{'get_resource': f's{place}'} for place in range(len(members))],
                    'policies': [{'type': 'anti-affinity', 'level': 'host'}],
                    **group,
                },
            },
        },
    }


def server(vcpus=1, ram=64, extra_specs=None, **properties):
    flavor = {'vcpus': vcpus, 'ram': ram, 'disk': 0, 'extra_specs': extra_specs or {}}
    return {'flavor': flavor, **properties}


def groups_of(count, of=100, **more):
    return {
        **{f'resources{place}:{GPU}': str(of + place) for place in range(count)},
        'group_policy': 'isolate',
        **more,
    }


def packed(seed=0):
    """Groups without isolation that no counting refutes."""
    sizes = [size for place in range(8) for size in (1400, 800 + 3 * place + seed, 500 + place)]
    found = {f'resources{place}:{GPU}': str(size) for place, size in enumerate(sizes)}
    return {**found, 'group_policy': 'none'}


def hostile(world):
    """Yield (name, door, message): what a tenant or its templates may ask for."""

    def rest(body, query=None):
        headers = {'X-Auth-Token': 'admin:red'}
        return seeds.REST, {
            'method': 'POST', 'path': '/v1/groups', 'headers': headers, 'query': query or {},
            'body': {'template': body},
        }  # fmt: skip

    def rpc(namespace, method, version='1.0', **arguments):
        _, given = boot()
        message = {'method': method, 'namespace': namespace, 'version': version}
        return seeds.RPC, {**given, 'message': {**message, 'args': arguments}}

    def spec_of(message):
        return message[1]['message']['args']['spec_obj']

    numa = {'hw:numa_nodes': '2', 'hw:cpu_policy': 'dedicated'}
    asked = {
        'ten isolated groups': groups_of(10),
        'eight isolated groups': groups_of(8),
        'isolated groups and CPUs of the host': groups_of(8, **{'resources9:VCPU': '2'}),
        'groups to pack': packed(),
        'groups to pack, with CPUs of the host': {**packed(), 'resources99:VCPU': '1'},
        'groups in a subtree': {**packed(), 'same_subtree': '_1,_2,_3'},
        'two hundred groups': groups_of(200, of=1, group_policy='none'),
        'a device by its UUID': {**packed(), 'resources0:in_tree': uuid_of('x')},
        'NUMA cells': {**numa, 'hw:numa_mem.0': '300', 'hw:numa_mem.1': '212'},
    }  # fmt: skip
    for name, specs in asked.items():
        yield f'boot: {name}', *boot(specs)
        yield f'boot: {name}, again', *boot(specs)
        yield (
            f'dry run of a group: {name}',
            *rest(template([server(extra_specs=specs)] * 3), {'dry_run': 'true'}),
        )
        for method, more in (('dry_run', {}), ('capacity', {}), ('why_not', {'host': 'big0001'})):
            yield (
                f'{method}: {name}',
                *rpc('explain', method, spec_obj=spec_of(boot(specs)), **more),
            )
    many = [server(ram=64 + place) for place in range(200)]
    yield 'dry run of 200 kinds', *rest(template(many), {'dry_run': 'true'})
    yield 'a group of 200 kinds', *rest(template(many))
    many = [server(extra_specs={**packed(place), 'a': str(place)}) for place in range(20)]
    yield 'dry run of 20 kinds with groups to pack', *rest(template(many), {'dry_run': 'true'})
    yield 'a group of 400', *rest(template([server()] * 400))
    yield 'a group that is too large', *rest(template([server()] * 900), {'dry_run': 'true'})
    yield '200 instances at once', *boot(num_instances=200)
    query = json.dumps(['and', *[['>', '$free_ram_mb', number] for number in range(400)]])
    yield 'a long query', *boot(scheduler_hints={'query': [query]})
    names = [uuid_of(f'other {number}') for number in range(5000)]
    yield 'many names to avoid', *boot(scheduler_hints={'different_host': names})
    yield 'many hosts to rank', *rpc(
        'explain', 'rank_hosts', '1.2', spec_obj=spec_of(boot(asked['NUMA cells'])),
        hosts=[[f'big{number:04}', None] for number in range(HOSTS)], weights={},
    )  # fmt: skip
    yield (
        'what is stranded',
        *rpc('explain', 'fragmentation', '1.3', zone=None, aggregate=None, most=10),
    )
    yield 'moves', *rpc(
        'explain', 'plan_moves', '1.3', goal='empty', moves='10%', zone=None, aggregate=None,
        spec_obj=None,
    )  # fmt: skip


class Beside:
    """Boots of others, one after the other in a thread of their own."""

    def __init__(self, world):
        self._world, self.took, self._ended = world, [], threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        while not self._ended.wait(EACH_S):
            door, given = boot()
            begin_s = time.perf_counter()
            with contextlib.suppress(Exception):
                self._world.doors[door].call(given['message'], given['context'])
            self.took.append(time.perf_counter() - begin_s)

    def taken(self):
        found, self.took = self.took, []
        return found

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()


def rows(budget_s=60.0):
    """Rows of the table of the benchmarks; fuzzed messages for ``budget_s`` seconds."""
    with contextlib.ExitStack() as stack:
        world = World()
        stack.callback(world.close)
        hosts_of(world)
        service.collect_seldom()
        holds, everything, all_took = Holds(), collections.defaultdict(list), []
        stack.enter_context(mock.patch.object(measuring, 'record_hold', holds.record_hold))
        stack.enter_context(mock.patch.object(time_slice, 'hold_clock', time.thread_time))
        stack.enter_context(mock.patch.object(MEASURES, 'is_on', True))
        for _ in range(20):
            _send(world, *boot())
        holds.taken()
        beside = stack.enter_context(Beside(world))
        time.sleep(CALM_S)
        calm = beside.taken()
        yield _told('no other requests', holds.taken(), calm, calm)

        def told(what):
            found, took = holds.taken(), beside.taken()
            for kind, some in found.items():
                everything[kind] += some
            all_took.extend(took)
            return _told(what, found, took, calm)

        for name, door, given in hostile(world):
            begin_s = time.perf_counter()
            found = _send(world, door, given)
            yield told(f'{name} ({time.perf_counter() - begin_s:.2f} s, {found})')
        end_s = time.monotonic() + budget_s
        for _, sound, bits in run.cases(1, 10**6):
            if time.monotonic() > end_s:
                break
            with contextlib.suppress(Exception):
                _send(world, sound.door, run.message(sound, bits, world.known))
        yield told('fuzzed messages')
        time.sleep(CALM_S)
        again = beside.taken()
        for kind, some in sorted(everything.items()):
            yield _told(f'all of kind {kind}', {kind: some}, all_took, [*calm, *again])
        yield _told('all', everything, all_took, [*calm, *again])


def _send(world, door, given):
    try:
        found = world.send(door, given)
    except Exception as error:  # noqa: BLE001, it is an answer as well
        return type(error).__name__
    return found.get('status', 'answered') if isinstance(found, dict) else 'answered'


def _told(what, holds, took, calm):
    every = [one for some in holds.values() for one in some]
    longest = max(holds, key=lambda kind: max(holds[kind]), default='')
    return {
        'what': f'{what}; longest: {longest}',
        'p50': f'{_at(every, 0.5):.2f} ms',
        'p99.9': f'{_at(every, 0.999):.1f} ms',
        'most': f'{_at(every, 1):.1f} ms',
        'holds': len(every),
        'boots beside': f'{len(took)}: {_at(took, 0.5):.1f}, {_at(took, 1):.1f} ms',
        'of boots alone': f'{_at(took, 0.5) / max(_at(calm, 0.5), 1e-9):.2f}',
    }


def _at(samples, share):
    """The sample below which this share is, in milliseconds."""
    if not samples:
        return 0.0
    return sorted(samples)[min(math.ceil(share * len(samples)), len(samples)) - 1] * 1000
