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
"""The list of instances and its file, and what instances use."""

import json

import pytest

from nova_sched import errors, objects
from nova_sched.claim import Resizing
from nova_sched.extensions.agent import usage
from nova_sched.extensions.agent.instances import (
    ACTIVE,
    BUILDING,
    RESIZED,
    LocalInstance,
    LocalInstances,
)
from nova_sched.extensions.agent.usage import CellUse
from nova_sched.hardware import numa
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.rows import each
from nova_sched.tests.unit.extensions.agent.builders import SERVER, guest
from nova_sched.tests.unit.hardware.builders import cell, machine, mixed, pool, wanted
from nova_sched.tests.unit.hardware.builders import request as device

OTHER = uuid_of('other')


def instance(uuid=SERVER, **fields):
    return LocalInstance(uuid=uuid, **{'resources': {'VCPU': 2, 'MEMORY_MB': 512}, **fields})


def written(**changes):
    """The content of a file with one instance; a change to None leaves the field out."""
    fields = {'uuid': SERVER, 'resources': {'VCPU': 2}, 'vm_state': 'active', **changes}
    return json.dumps({'instances': [{name: of for name, of in fields.items() if of is not None}]})


def test_a_new_node_has_none(tmp_path):
    assert list(LocalInstances(tmp_path / 'instances.json')) == []
    assert list(tmp_path.iterdir()) == []


def test_the_list_outlives_the_agent(tmp_path):
    path = tmp_path / 'state' / 'instances.json'
    first = LocalInstances(path)
    kept = instance(
        resources={'PCPU': 2, 'CUSTOM_GOLD': 1}, project_id='p', os_type='linux', vm_state=ACTIVE
    )
    for one in (instance(OTHER), kept, instance(uuid_of('third'))):
        first.put(one)
    first.remove(OTHER)
    again = LocalInstances(path)
    assert list(again) == list(first) == [kept, instance(uuid_of('third'))]
    assert len(again) == 2
    assert (SERVER in again, OTHER in again) == (True, False)
    assert (again.get(SERVER), again.get(OTHER)) == (kept, None)
    assert [entry.name for entry in path.parent.iterdir()] == ['instances.json']
    assert path.stat().st_mode & 0o777 == 0o600


HAS = machine(cell(1, [0], range(1, 5), memory_mb=512), pools=[pool(2, 1, x=None)])
PARTS = HAS.fit(wanted(mixed(1, 2), requests=[device(1)]))


def test_what_it_holds_outlives_the_agent(tmp_path):
    path = tmp_path / 'instances.json'
    kept = instance(parts=PARTS, devices=frozenset({'0000:81:00.0', '0000:82:00.0'}))
    LocalInstances(path).put(kept)
    assert list(LocalInstances(path)) == [kept]


SIZES = Resizing({'VCPU': 2, 'DISK_GB': 1}, {'VCPU': 4, 'DISK_GB': 2}, PARTS)
OLD, NEW = frozenset({'0000:81:00.0'}), frozenset({'0000:82:00.0'})


@pytest.mark.parametrize(
    'fields',
    [
        pytest.param({'move': 'resize'}, id='it comes'),
        pytest.param(
            {'resources': SIZES.together, 'resizing': SIZES, 'new_devices': NEW}, id='in place'
        ),
    ],
)
def test_an_open_resize_outlives_the_agent(tmp_path, fields):
    path = tmp_path / 'instances.json'
    kept = instance(vm_state=RESIZED, parts=PARTS, devices=OLD, **fields)
    LocalInstances(path).put(kept)
    assert list(LocalInstances(path)) == [kept]


def test_a_list_of_an_agent_that_knew_of_no_parts(tmp_path):
    path = tmp_path / 'instances.json'
    path.write_text(written())
    (read,) = LocalInstances(path)
    assert (read.parts, read.devices, read.hidden) == (None, frozenset(), False)


def test_what_is_hidden_is_so_for_the_next_agent(tmp_path):
    path = tmp_path / 'instances.json'
    kept = instance(hidden=True, move='migration')
    LocalInstances(path).put(kept)
    assert list(LocalInstances(path)) == [kept]


def test_put_again_replaces(tmp_path):
    held = LocalInstances(tmp_path / 'instances.json')
    held.put(instance(vm_state=BUILDING))
    held.put(instance(vm_state=ACTIVE))
    assert (
        list(held)
        == list(LocalInstances(tmp_path / 'instances.json'))
        == [instance(vm_state=ACTIVE)]
    )


def test_an_iteration_sees_one_list_to_the_end(tmp_path):
    held = LocalInstances(tmp_path / 'instances.json')
    held.put(instance())
    walk = iter(held)
    held.put(instance(OTHER))
    assert list(walk) == [instance()]


def test_a_draft_that_a_crash_left_is_no_list(tmp_path):
    path = tmp_path / 'instances.json'
    LocalInstances(path).put(instance())
    path.with_name('instances.json.new').write_text('{"instances": [{"uu')
    held = LocalInstances(path)
    assert list(held) == [instance()]
    held.remove(SERVER)
    assert list(LocalInstances(path)) == []


@each(
    'content',
    [
        pytest.param('', id='empty'),
        pytest.param(written()[:-9], id='cut short'),
        pytest.param('[]', id='another list'),
        pytest.param('{"instances": 5}', id='no list'),
        pytest.param('{"instances": ["x"]}', id='no instance'),
        pytest.param(written(uuid='x'), id='no UUID'),
        pytest.param(written(uuid=7), id='a number for a UUID'),
        pytest.param(written(resources=None), id='no resources'),
        pytest.param(written(resources=[]), id='a list of resources'),
        pytest.param(written(resources={'VCPU': -1}), id='a negative amount'),
        pytest.param(written(resources={'VCPU': True}), id='an amount that is none'),
        pytest.param(written(resources={'VCPU': 1.5}), id='half a CPU'),
        pytest.param(written(vm_state='strange'), id='unknown state'),
        pytest.param(written(hidden=1), id='hidden by a number'),
        pytest.param(written(claim_uuid='x'), id='no UUID of a claim'),
        pytest.param(written(colour='red'), id='unknown field'),
        pytest.param(written(parts='{}'), id='parts that are none'),
        pytest.param(written(parts=5), id='a number of parts'),
        pytest.param(written(devices=5), id='a number of devices'),
        pytest.param(written(new_devices=5), id='a number of new devices'),
        pytest.param(written(move='flight'), id='unknown move'),
        pytest.param(written(resizing='{}'), id='no sizes'),
        pytest.param(written(resizing=5), id='a number of sizes'),
        pytest.param(
            written(resizing='{"old": {"VCPU": -1}, "new": {}, "parts": null}'),
            id='a negative old size',
        ),
        pytest.param(
            written(resizing='{"old": {}, "new": {"VCPU": 0.5}, "parts": null}'),
            id='half a CPU to come',
        ),
        pytest.param('\x00\x01', id='bytes'),
    ],
)
def test_a_corrupt_file_is_told_and_left_as_it_is(tmp_path, content):
    path = tmp_path / 'instances.json'
    path.write_text(content)
    with pytest.raises(errors.BadMachineFacts) as error:
        LocalInstances(path)
    assert error.value.what == str(path)
    assert 'restore it' in error.value.why
    assert path.read_text() == content


def test_a_file_that_is_no_text_is_told(tmp_path):
    path = tmp_path / 'instances.json'
    path.write_bytes(b'\xff\xfe\xff')
    with pytest.raises(errors.BadMachineFacts, match='instances'):
        LocalInstances(path)


@pytest.mark.parametrize(
    'change',
    [
        pytest.param(lambda held: held.put(instance(OTHER)), id='put'),
        pytest.param(lambda held: held.remove(SERVER), id='remove'),
    ],
)
def test_what_cannot_be_written_is_not_done(tmp_path, change):
    path = tmp_path / 'instances.json'
    held = LocalInstances(path)
    held.put(instance())
    before = path.read_text()
    path.with_name('instances.json.new').mkdir()  # the draft cannot be made
    with pytest.raises(errors.BadMachineFacts) as error:
        change(held)
    assert error.value.what == str(path)
    assert list(held) == [instance()]
    assert path.read_text() == before


@each(
    'fields, counted',
    [
        pytest.param(
            {'resources': {'VCPU': 2, 'MEMORY_MB': 512, 'DISK_GB': 10}, 'vm_state': ACTIVE},
            {'vcpus': 2, 'dedicated': 0, 'memory_mb': 512, 'disk_gb': 10, 'task_state': None},
            id='running',
        ),
        pytest.param(
            {'vm_state': BUILDING},
            {'vm_state': 'building', 'task_state': 'spawning'},
            id='building',
        ),
        pytest.param(
            {'resources': {'VCPU': 1, 'PCPU': 3}},
            {'vcpus': 4, 'dedicated': 3, 'memory_mb': 0},
            id='dedicated CPUs',
        ),
        pytest.param(
            {'resources': {'CUSTOM_GOLD': 1}, 'os_type': 'linux', 'project_id': 'p'},
            {'vcpus': 0, 'os_type': 'linux', 'project_id': 'p', 'uuid': SERVER},
            id='a resource that no report counts',
        ),
        pytest.param(
            {'parts': PARTS, 'devices': frozenset({'0000:81:00.0'})},
            {
                'cells': {
                    1: CellUse(vcpus=1, memory_mb=128, pinned=frozenset({1, 2}), plain_mb=128)
                },
                'devices': {'0000:81:00.0'},
            },
            id='CPUs, memory and a device',
        ),
        pytest.param(
            {'parts': HAS.fit(wanted(requests=[device(1)]))}, {'cells': {}}, id='a device alone'
        ),
    ],
)
def test_how_an_instance_counts(fields, counted):
    guest = instance(**fields).guest()
    assert {name: getattr(guest, name) for name in counted} == counted


GROWING = instance(
    resources=SIZES.together,
    vm_state=RESIZED,
    resizing=SIZES,
    devices=OLD,
    new_devices=NEW,
    project_id='p',
)


@each(
    'before, finished, reverted',
    [
        pytest.param(
            GROWING,
            instance(
                resources=SIZES.new, vm_state=ACTIVE, parts=PARTS, devices=NEW, project_id='p'
            ),
            instance(resources=SIZES.old, vm_state=ACTIVE, devices=OLD, project_id='p'),
            id='a resize in place',
        ),
        pytest.param(
            instance(vm_state=RESIZED, move='resize', devices=OLD),
            instance(vm_state=ACTIVE, devices=OLD),
            None,
            id='one that came from elsewhere',
        ),
    ],
)
def test_how_a_resize_ends(before, finished, reverted):
    assert before.is_open
    assert (before.finished(OTHER), before.reverted(OTHER)) == (finished, reverted)
    assert not finished.is_open


def test_one_that_grows_counts_twice_in_disk_alone_and_reports_what_it_had():
    assert GROWING.all_devices == OLD | NEW
    guest = GROWING.guest()
    assert (guest.vcpus, guest.disk_gb, guest.devices, guest.cells) == (4, 3, OLD, {})


@each(
    'pagesize, policy, pages, plain_mb, isolated',
    [
        pytest.param(None, None, {}, 512, set(), id='plain'),
        pytest.param(-1, None, {}, 0, set(), id='a wish for small pages'),
        pytest.param(4, 'prefer', {4: 131072}, 0, set(), id='small pages'),
        pytest.param(2048, 'isolate', {2048: 256}, 0, {8, 9}, id='huge pages, isolated'),
    ],
)
def test_pages_and_isolation(pagesize, policy, pages, plain_mb, isolated):
    cell = objects.InstanceNUMACell(
        id=0,
        cpuset=set(),
        pcpuset={0},
        memory=512,
        pagesize=pagesize,
        cpu_pinning_raw={'0': 8},
        cpuset_reserved={9},
        cpu_thread_policy=policy,
    )
    use = usage.cells(numa.Fitted.of(objects.InstanceNUMATopology(cells=[cell])))[0]
    assert (use.pages, use.plain_mb, use.pinned, use.isolated) == (
        pages,
        plain_mb,
        {8, 9},
        isolated,
    )


def test_nothing_on_the_node():
    used = usage.total([])
    assert (used.vcpus, used.memory_mb, used.disk_gb, used.instances, used.busy) == (0, 0, 0, 0, 0)
    assert used.stats == {'num_instances': '0', 'io_workload': '0', 'failed_builds': '0'}
    assert (used.cells, used.devices) == ({}, frozenset())


def test_sums_and_stats():
    used = usage.total(
        [
            guest(
                vm_state='active',
                project_id='a',
                os_type='linux',
                devices=frozenset({'0000:81:00.0'}),
            ),
            guest(
                vm_state='building',
                task_state='spawning',
                project_id='a',
                devices=frozenset({'0000:82:00.0'}),
            ),
            guest(vm_state='active', task_state='rebuilding', project_id='b', dedicated=2),
            guest(vm_state='active', task_state='deleting', project_id='b'),
        ],
        failed_builds=3,
    )
    assert (used.vcpus, used.dedicated, used.memory_mb, used.disk_gb) == (8, 2, 4096, 40)
    assert (used.instances, used.busy) == (4, 3)
    assert used.devices == {'0000:81:00.0', '0000:82:00.0'}
    assert used.stats == {
        'num_instances': '4',
        'io_workload': '2',
        'failed_builds': '3',
        'num_vm_active': '3',
        'num_vm_building': '1',
        'num_task_None': '1',
        'num_task_spawning': '1',
        'num_task_rebuilding': '1',
        'num_task_deleting': '1',
        'num_os_type_None': '3',
        'num_os_type_linux': '1',
        'num_proj_a': '2',
        'num_proj_b': '2',
    }


@each(
    'state, counted',
    [
        pytest.param('active', 1, id='active'),
        pytest.param('stopped', 1, id='stopped holds its place'),
        pytest.param('deleted', 0, id='deleted'),
        pytest.param('shelved_offloaded', 0, id='offloaded'),
    ],
)
def test_instances_that_are_gone_use_nothing(state, counted):
    used = usage.total([guest(vm_state=state, devices=frozenset({'0000:81:00.0'}))])
    assert (used.instances, used.vcpus, len(used.devices)) == (counted, 2 * counted, counted)


def test_cells_of_several_instances_add_up():
    one = usage.CellUse(1, 100, frozenset({4}), frozenset(), {2048: 50}, plain_mb=7)
    two = usage.CellUse(
        2, 200, frozenset({5}), frozenset({5}), {2048: 100, 1048576: 1}, plain_mb=3
    )
    used = usage.total([guest(cells={0: one}), guest(cells={0: two, 1: one})])
    assert used.cells == {
        0: usage.CellUse(
            3, 300, frozenset({4, 5}), frozenset({5}), {2048: 150, 1048576: 1}, plain_mb=10
        ),
        1: one,
    }
