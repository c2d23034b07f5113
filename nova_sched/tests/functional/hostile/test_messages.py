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
"""Messages of RPC that lie about their caller, or are of absurd sizes: each gets its error, and
the next message its host."""

import json

import pytest

from nova_sched import errors
from nova_sched.objects.object_io import DATA, NAMESPACE, VERSION
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import outcome
from nova_sched.tests.fuzz import run, seeds
from nova_sched.tests.fuzz.mutation import versioned
from nova_sched.tests.fuzz.test_found import sound
from nova_sched.tests.fuzz.world import World

BOOT, TREE, CREATE = 'select_destinations-boot-1', 'report of a tree', 'create server'
DOORS = {one.name: one.door for one in seeds.seeds()}
MANY = 50_000
SLOW_S = 5.0  # some of these took ten and more
LONG = 'x' * 10**6


def of_caller(**fields):
    """Change what the caller says of itself."""
    return lambda given: given['context'].update(fields)


def of_message(**fields):
    return lambda given: given['message'].update(fields)


def of_call(**fields):
    """Change arguments."""
    return lambda given: given['message']['args'].update(fields)


def of_spec(**fields):
    return lambda given: given['message']['args']['spec_obj'][DATA].update(fields)


def of_object(**fields):
    return lambda given: given['message']['args']['spec_obj'].update(fields)


def of_flavor(**fields):
    def change(given):
        given['message']['args']['spec_obj'][DATA]['flavor'][DATA].update(fields)

    return change


def specs(name, value='1', count=MANY):
    return of_flavor(extra_specs={name.format(number): value for number in range(count)})


def of_tree(change):
    """Change the providers of a report: ``change(providers, root, child)``."""

    def work(given):
        providers = given['message']['args']['inventories']
        change(providers, *providers)

    return work


def uuids(count):
    return [uuid_of(str(number)) for number in range(count)]


def group(name, **fields):
    return versioned('RequestGroup', {'requester_id': name, 'resources': {'VCPU': 1}, **fields})


def circle(providers, root, child):
    providers[root]['parent_provider_uuid'] = child


def own_parent(providers, root, child):
    providers[child]['parent_provider_uuid'] = child


def chain(providers, root, child):
    for uuid in uuids(5000):
        providers[uuid] = {'parent_provider_uuid': child}
        child = uuid


def wide(providers, root, child):
    for uuid in uuids(14_000):
        providers[uuid] = {**providers[child], 'parent_provider_uuid': root}


def many_traits(providers, root, child):
    providers[root]['traits'] = [f'CUSTOM_{number:020}' for number in range(150_000)]


def many_classes(providers, root, child):
    for number in range(50_000):
        providers[root]['inventories'][f'CUSTOM_{number:063}'] = {'total': 1}


# Name, sound message, what is changed, and the error with words of it; None: it is answered as if
# nothing was changed.
ATTACKS = [
    ('a list of projects', BOOT, of_caller(project_id=['a'], tenant={'x': 1}), None, ''),
    ('roles that are no list', BOOT, of_caller(is_admin='yes', roles='admin'), None, ''),
    ('a hundred thousand roles', BOOT, of_caller(roles=['r'] * 100_000), None, ''),
    ('a request id with an escape', BOOT, of_caller(request_id='req-\n\x1b[2J'), None, ''),
    ('a request id of a million', BOOT, of_caller(request_id=LONG), None, ''),
    ('a request id that is a list', BOOT, of_caller(request_id=['x']), None, ''),
    ('another global id', BOOT, of_caller(global_request_id={'a': [1]}), None, ''),
    ('an object as caller', BOOT, of_caller(**versioned('RequestSpec', {})), None, ''),
    ('a project of two lines', CREATE, of_caller(project_id='a\nb'), errors.InvalidRequest,
     'project_id of the caller'),
    ('a project that is too long', CREATE, of_caller(project_id='p' * 300),
     errors.InvalidRequest, 'project_id of the caller'),
    ('projects', CREATE, of_caller(project_id=['a', 'b']), errors.InvalidRequest,
     'project_id of the caller'),
    ('the caller twice', BOOT, of_call(context={'is_admin': True}), errors.InvalidRequest,
     "multiple values for argument 'context'"),
    ('an argument self', BOOT, of_call(self=1), errors.InvalidRequest, 'multiple values'),
    ('a server twice', BOOT, of_call(instance_uuids=uuids(1) * 3), errors.InvalidRequest,
     'is given twice'),
    ('a hundred thousand servers', BOOT, of_call(instance_uuids=uuids(100_000)),
     errors.InvalidRequest, '1 to 2000 are accepted'),
    ('a text of servers', BOOT, of_call(instance_uuids='x' * 36), errors.InvalidRequest,
     'is not a list of UUIDs'),
    ('no server', BOOT,
     lambda given: (of_call(instance_uuids=[])(given), of_spec(num_instances=0)(given)),
     errors.InvalidRequest, '1 to 2000 are accepted'),
    ('a version of later', BOOT, of_message(version='4.99'), Exception, 'does not support'),
    ('a version without end', BOOT, of_message(version='4.' + '9' * 5000),
     errors.InvalidRequest, 'is not a version'),
    ('a method of Python', BOOT, of_message(method='__class__'), Exception, 'does not support'),
    ('a namespace that is none', BOOT, of_message(namespace={'a': 1}), errors.InvalidRequest,
     'is not a name'),
    ('an object of later', BOOT, of_object(**{VERSION: '1.999999999'}), None, ''),
    ('a version in other digits', BOOT, of_object(**{VERSION: '\u0661.\u0661\u0664'}),
     errors.MalformedObject, 'is not a version'),
    ('a version with a sign', BOOT, of_object(**{VERSION: '+1.1_4'}), errors.MalformedObject,
     'is not a version'),
    ('a namespace of others', BOOT, of_object(**{NAMESPACE: 'evil'}), errors.MalformedObject,
     'is not known'),
    ('less than no memory', BOOT, of_flavor(memory_mb=-5000), errors.InvalidRequest, 'negative'),
    ('CPUs beyond 64 bits', BOOT, of_flavor(vcpus=2**63), errors.MalformedObject, 'vcpus'),
    ('less than no resource', BOOT, specs('resources:VCPU', '-1', 1), errors.InvalidRequest,
     'is not within'),
    ('limits beyond numbers', BOOT, of_spec(limits=versioned('SchedulerLimits', {
        'numa_topology': None, 'vcpu': -1.0, 'disk_gb': 1e308, 'memory_mb': 1})),
     errors.MalformedObject, 'disk_gb'),
    ('many groups', BOOT, specs('resources{}:CUSTOM_A'), errors.InvalidRequest, 'at most 1024'),
    ('many traits', BOOT, specs('trait:CUSTOM_{}', 'required'), errors.InvalidRequest,
     'at most 1024'),
    ('many classes', BOOT, specs('resources:CUSTOM_{}'), errors.InvalidRequest, 'at most 1024'),
    ('many capabilities', BOOT, specs('capabilities:x{}'), errors.InvalidRequest,
     'at most 32'),
    ('versions without end', BOOT, of_spec(image=versioned('ImageMeta', {
        'properties': versioned('ImageMetaProps', {
            'img_hv_requested_version': ','.join(['>=1.0'] * 10_000)})})),
     errors.InvalidRequest, 'at most 255'),
    ('many groups of ports', BOOT, of_spec(requested_resources=[
        group(f'r{number}') for number in range(2000)]), errors.InvalidRequest, 'at most 1024'),
    ('two groups of one name', BOOT, of_spec(requested_resources=[group('a'), group('a')]),
     errors.InvalidRequest, 'two groups are called a'),
    ('a wide hint', BOOT, of_spec(scheduler_hints={'different_host': uuids(10_000)}),
     errors.InvalidRequest, 'at most 65536'),
    ('a deep hint', BOOT, of_spec(scheduler_hints={'query': ['["not",' * 900 + ']' * 900]}), None,
     ''),
    ('a long goal', 'plan_moves small', of_call(goal=f'drain:{LONG}'), errors.InvalidRequest,
     'is not a name'),
    ('a goal of many names', 'plan_moves small', of_call(goal=f'drain:{",".join(uuids(2000))}'),
     errors.InvalidRequest, 'at most 1000'),
    ('weights beyond numbers', 'rank_hosts small', of_call(weights={'cmp01': 10**400}),
     errors.InvalidRequest, 'is not a number'),
    ('a hundred thousand moves', 'create', of_call(moves=[{}] * 100_000), errors.InvalidRequest,
     'at most 10000'),
    ('a candidate of SQL', 'claim_candidate', of_call(uuid="' OR 1=1 --"), errors.InvalidRequest,
     'is not a UUID'),
    ('a flavor of a word', 'queues flavor_create', of_call(flavor={
        'name': 'a', 'vcpus': 1, 'memory_mb': 1, 'extra_specs': {'trait:OWNER_NOVA': 'x'}}),
     errors.InvalidRequest, 'for internal use'),
    ('a flavor of many wishes', 'queues flavor_create', of_call(flavor={
        'name': 'a', 'vcpus': 1, 'memory_mb': 1,
        'extra_specs': {f'resources{number}:A': '1' for number in range(MANY)}}),
     errors.InvalidRequest, 'at most 1024'),
    ('a flavor of two lines', 'queues flavor_create', of_call(flavor={
        'name': 'a\nb', 'vcpus': 1, 'memory_mb': 1}), errors.InvalidRequest, 'printable'),
    ('a place of an agent', 'agent build small', of_call(instance_uuid='../../etc/passwd'),
     errors.InvalidRequest, 'is not a UUID'),
    ('a report of another host', TREE, of_call(name='other'), errors.BadReport, 'sent it'),
    ('instances beyond reason', TREE, of_call(instances=uuids(20_000)), errors.BadReport,
     'at most 10000'),
    ('a provider in a circle', TREE, of_tree(circle), errors.BadReport, 'inventories'),
    ('a provider that is nowhere', TREE,
     of_tree(lambda providers, root, child: providers[child].update(
         parent_provider_uuid=uuid_of('nobody'))),
     errors.BadReport, 'there is no provider'),
    ('a provider below itself', TREE, of_tree(own_parent), errors.BadReport, 'in a circle'),
    ('a chain of providers', TREE, of_tree(chain), errors.BadReport, 'below more than 100'),
    ('thousands of providers', TREE, of_tree(wide), errors.BadReport, 'at most 4194304'),
    ('many traits of a provider', TREE, of_tree(many_traits), errors.BadReport,
     'at most 4194304'),
    ('many classes of a provider', TREE, of_tree(many_classes), errors.BadReport,
     'at most 4194304'),
]  # fmt: skip


@pytest.fixture(scope='module')
def world():
    made = World()
    yield made
    made.close()


def faults_of(tally):
    """Whatever is wrong; a slow machine may take some seconds for the longest messages."""
    return {
        fault: case
        for fault, case in tally.faults.items()
        if not fault.startswith('slow') or tally.slowest_s > SLOW_S
    }


def test_each_message_gets_its_answer(world):
    wrong = {}
    for name, message, change, kind, text in ATTACKS:
        tally = run.Tally()
        given = run.with_real_ids(json.dumps(sound(message)), world.known)
        change(given)
        with run.listening() as heard:
            found = run.Judge(world, tally, heard).send(DOORS[message], given, name)
        is_right = (
            isinstance(found, kind) and text in str(found)
            if kind
            else not isinstance(found, Exception) or isinstance(found, errors.NoValidHost)
        )
        if (faults := faults_of(tally)) or not is_right:
            wrong[name] = str(found)[:300], faults
        after = outcome(world.send, seeds.RPC, json.loads(json.dumps(sound(BOOT))))
        if isinstance(after, Exception):
            wrong[f'after {name}'] = after
    assert wrong == {}
