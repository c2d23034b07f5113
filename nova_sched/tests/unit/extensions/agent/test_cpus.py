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
"""The kernel's small files; CPUs, their topology, model and metrics."""

import datetime
import json
import types

import pytest

from nova_sched import errors
from nova_sched.extensions.agent import cpus, sysfs
from nova_sched.tests.rows import each
from nova_sched.tests.unit.extensions.agent.fake_machine import FakeMachine, two_cells
from nova_sched.tests.unit.objects.reference import facts


@pytest.mark.parametrize(
    'content, base, value',
    [
        pytest.param('42\n', 10, 42, id='decimal'),
        pytest.param('0x8086\n', 16, 0x8086, id='hexadecimal'),
        pytest.param('-1\n', 10, -1, id='negative'),
    ],
)
def test_number(tmp_path, content, base, value):
    (tmp_path / 'file').write_text(content)
    assert sysfs.number(tmp_path / 'file', base) == value


@pytest.mark.parametrize(
    'content, value',
    [
        pytest.param('0', 0, id='zero is a number'),
        pytest.param('-1', None, id='minus one is the word for none'),
        pytest.param(None, None, id='no file'),
    ],
)
def test_optional_number(tmp_path, content, value):
    if content is not None:
        (tmp_path / 'file').write_text(content)
    assert sysfs.optional_number(tmp_path / 'file') == value


@pytest.mark.parametrize(
    'read',
    [
        pytest.param(lambda root: sysfs.text(root / 'none'), id='no such file'),
        pytest.param(lambda root: sysfs.text(root), id='a directory'),
        pytest.param(lambda root: sysfs.number(root / 'words'), id='not a number'),
        pytest.param(
            lambda root: sysfs.optional_number(root / 'words'), id='not a number, though optional'
        ),
        pytest.param(lambda root: sysfs.number(root / 'bytes'), id='not even text'),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, read):
    (tmp_path / 'words').write_text('many')
    (tmp_path / 'bytes').write_bytes(b'\xff\xfe\x00')
    with pytest.raises(errors.BadMachineFacts) as error:
        read(tmp_path)
    assert error.value.what.startswith(str(tmp_path))
    assert error.value.why


def test_link_name(tmp_path):
    (tmp_path / 'driver').symlink_to('../../drivers/i40e')
    assert sysfs.link_name(tmp_path / 'driver') == 'i40e'
    assert sysfs.link_name(tmp_path / 'none') is None


def test_children_are_in_order_and_may_be_none(tmp_path):
    for name in ('b', 'a', 'c'):
        (tmp_path / name).touch()
    assert [path.name for path in sysfs.children(tmp_path)] == ['a', 'b', 'c']
    assert sysfs.children(tmp_path / 'none') == []


RANGES = {
    'range and one': ('0-3,8', {0, 1, 2, 3, 8}),
    'one': ('5', {5}),
    'none': ('', set()),
    'spaces': (' 1 - 2 , 4 ', {1, 2, 4}),
    'left out': ('0-7,^2,^4-5', {0, 1, 3, 6, 7}),
    'left out before it comes in': ('^2,0-3', {0, 1, 3}),
    'overlap': ('0-1,1-2', {0, 1, 2}),
}


def test_parse_ranges():
    found = {name: cpus.parse_ranges(text, 'a set') for name, (text, _) in RANGES.items()}
    assert found == {name: ids for name, (_, ids) in RANGES.items()}


@each(
    'text',
    [
        pytest.param('a-b', id='letters'),
        pytest.param('3-1', id='backwards'),
        pytest.param('-1', id='negative'),
        pytest.param('1;2', id='another separator'),
    ],
)
def test_bad_ranges_are_named(text):
    with pytest.raises(errors.BadMachineFacts) as error:
        cpus.parse_ranges(text, 'cpu_shared_set')
    assert error.value.what == 'cpu_shared_set'
    assert text in error.value.why


def test_sockets_and_siblings(tmp_path):
    found = cpus.online(two_cells(tmp_path).sys)
    assert sorted(found) == list(range(8))
    assert found[5] == cpus.Cpu(id=5, socket=0, siblings=frozenset({1, 5}))
    assert found[2] == cpus.Cpu(id=2, socket=1, siblings=frozenset({2, 6}))


def test_offline_cpus_are_left_out_of_everything(tmp_path):
    machine = FakeMachine(tmp_path).cpus(['0,2', '1,3'], online='0-1,3')
    found = cpus.online(machine.sys)
    assert sorted(found) == [0, 1, 3]
    assert found[0].siblings == {0}
    assert found[1].siblings == {1, 3}
    assert cpus.present(machine.sys) == {0, 1, 2, 3}


def test_a_machine_without_topology_has_one_thread_in_a_core(tmp_path):
    machine = FakeMachine(tmp_path).file('devices/system/cpu/online', '0-1')
    assert cpus.online(machine.sys) == {
        0: cpus.Cpu(0, None, frozenset({0})),
        1: cpus.Cpu(1, None, frozenset({1})),
    }


@pytest.mark.parametrize(
    'spoil, what',
    [
        pytest.param(
            lambda machine: machine.unreadable('devices/system/cpu/online'),
            'online',
            id='unreadable',
        ),
        pytest.param(
            lambda machine: machine.file('devices/system/cpu/online', ''),
            'online',
            id='nothing online',
        ),
        pytest.param(
            lambda machine: machine.file(
                'devices/system/cpu/cpu0/topology/thread_siblings_list', '0?4'
            ),
            'thread_siblings_list',
            id='siblings that are no ranges',
        ),
    ],
)
def test_broken_files_are_named(tmp_path, spoil, what):
    with pytest.raises(errors.BadMachineFacts) as error:
        cpus.online(spoil(two_cells(tmp_path)).sys)
    assert error.value.what.endswith(what)


@pytest.mark.parametrize(
    'cores, online, sockets, shape',
    [
        pytest.param(
            ['0,4', '1,5', '2,6', '3,7'], None, 2, (2, 2, 2), id='two sockets with threads'
        ),
        pytest.param(['0', '1', '2'], None, 1, (1, 3, 1), id='no threads'),
        pytest.param(['0,2', '1,3'], '0-1', 1, (1, 2, 1), id='threads switched off'),
    ],
)
def test_topology(tmp_path, cores, online, sockets, shape):
    machine = FakeMachine(tmp_path).cpus(cores, online, sockets)
    assert tuple(cpus.topology(cpus.online(machine.sys).values()).values()) == shape


def test_processor(tmp_path):
    assert cpus.processor(FakeMachine(tmp_path).proc, arch='x86_64') == cpus.Processor(
        arch='x86_64',
        vendor='Intel',
        model='Intel(R) Xeon(R) Gold 6126 CPU @ 2.60GHz',
        features=('aes', 'avx2', 'fpu', 'pni', 'sse4.1', 'sse4.2', 'vmx'),
        physical_bits=46,
    )


@pytest.mark.parametrize(
    'cpuinfo, expected',
    [
        pytest.param(
            'processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n',
            cpus.Processor('aarch64', 'ARM', '0xd0c', ('asimd', 'fp'), None),
            id='ARM has other words',
        ),
        pytest.param(
            'processor\t: 0\n', cpus.Processor('aarch64', None, None, (), None), id='nothing told'
        ),
    ],
)
def test_processor_of_other_kinds(tmp_path, cpuinfo, expected):
    machine = FakeMachine(tmp_path)
    machine.file('cpuinfo', cpuinfo, machine.proc)
    assert cpus.processor(machine.proc, arch='aarch64') == expected


NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


TIMES = types.SimpleNamespace(user=1.5, system=2, idle=30, iowait=0.25)
PERCENTS = types.SimpleNamespace(user=20.0, system=5.5, idle=100.1, iowait=0)


def read(text):
    return {metric['name']: metric['value'] for metric in json.loads(text)}


def test_units():
    assert read(cpus.metrics_text(TIMES, PERCENTS, 25.5, 2600.4, NOW)) == {
        'cpu.frequency': 2600,
        'cpu.user.time': 1_500_000_000,
        'cpu.user.percent': 0.2,
        'cpu.kernel.time': 2_000_000_000,
        'cpu.kernel.percent': 0.055,
        'cpu.idle.time': 30_000_000_000,
        'cpu.idle.percent': 1.0,
        'cpu.iowait.time': 250_000_000,
        'cpu.iowait.percent': 0.0,
        'cpu.percent': 0.255,
    }


def test_an_unknown_frequency_is_not_reported():
    assert 'cpu.frequency' not in read(cpus.metrics_text(TIMES, PERCENTS, 0, None, NOW))


def test_each_says_when_and_where_from():
    told = json.loads(cpus.metrics_text(TIMES, PERCENTS, 0, None, NOW))
    assert {(metric['timestamp'], metric['source']) for metric in told} == {
        ('2026-01-01T12:00:00.000000', 'nova_sched.agent')
    }


def test_this_machine_tells_names_that_nova_knows():
    before, after = read(cpus.metrics(NOW)), read(cpus.metrics(NOW))
    known = facts()['objects']['MonitorMetric']['fields']['name']['valid_values']
    assert after.keys() <= set(known)
    assert after['cpu.idle.time'] >= before['cpu.idle.time'] > 0
