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
from nova_sched.objects import fields
from nova_sched.tests.rows import each_afresh, each_named
from nova_sched.tests.unit.extensions.agent.fake_machine import FakeMachine, two_cells


@each_afresh(
    'content, value',
    {
        'zero is a number': ('0', 0),
        'minus one is the word for none': ('-1', None),
        'no file': (None, None),
    },
)
def test_optional_number(tmp_path, content, value):
    if content is not None:
        (tmp_path / 'file').write_text(content)
    assert sysfs.optional_number(tmp_path / 'file') == value


@each_afresh(
    'read',
    {
        'no such file': lambda root: sysfs.text(root / 'none'),
        'a directory': lambda root: sysfs.text(root),
        'not a number': lambda root: sysfs.number(root / 'words'),
        'not a number, though optional': lambda root: sysfs.optional_number(root / 'words'),
        'not even text': lambda root: sysfs.number(root / 'bytes'),
    },
)
def test_what_cannot_be_read_is_named(tmp_path, read):
    (tmp_path / 'words').write_text('many')
    (tmp_path / 'bytes').write_bytes(b'\xff\xfe\x00')
    with pytest.raises(errors.BadMachineFacts) as error:
        read(tmp_path)
    assert error.value.what.startswith(str(tmp_path))
    assert error.value.why


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


@each_named(
    'text', {'letters': 'a-b', 'backwards': '3-1', 'negative': '-1', 'another separator': '1;2'}
)
def test_bad_ranges_are_named(text):
    with pytest.raises(errors.BadMachineFacts) as error:
        cpus.parse_ranges(text, 'cpu_shared_set')
    assert error.value.what == 'cpu_shared_set'
    assert text in error.value.why


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


@each_afresh(
    'spoil, what',
    {
        'unreadable': (lambda machine: machine.unreadable('devices/system/cpu/online'), 'online'),
        'nothing online': (
            lambda machine: machine.file('devices/system/cpu/online', ''),
            'online',
        ),
        'siblings that are no ranges': (
            lambda machine: machine.file(
                'devices/system/cpu/cpu0/topology/thread_siblings_list', '0?4'
            ),
            'thread_siblings_list',
        ),
    },
)
def test_broken_files_are_named(tmp_path, spoil, what):
    with pytest.raises(errors.BadMachineFacts) as error:
        cpus.online(spoil(two_cells(tmp_path)).sys)
    assert error.value.what.endswith(what)


@each_afresh(
    'cores, online, sockets, shape',
    {
        'two sockets with threads': (['0,4', '1,5', '2,6', '3,7'], None, 2, (2, 2, 2)),
        'no threads': (['0', '1', '2'], None, 1, (1, 3, 1)),
        'threads switched off': (['0,2', '1,3'], '0-1', 1, (1, 2, 1)),
    },
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


@each_afresh(
    'cpuinfo, expected',
    {
        'ARM has other words': (
            'processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n',
            cpus.Processor('aarch64', 'ARM', '0xd0c', ('asimd', 'fp'), None),
        ),
        'nothing told': ('processor\t: 0\n', cpus.Processor('aarch64', None, None, (), None)),
    },
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


def test_metrics():
    told = json.loads(cpus.metrics_text(TIMES, PERCENTS, 25.5, 2600.4, NOW))
    assert {metric['name']: metric['value'] for metric in told} == {
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
    assert {(metric['timestamp'], metric['source']) for metric in told} == {
        ('2026-01-01T12:00:00.000000', 'nova_sched.agent')
    }
    assert 'cpu.frequency' not in cpus.metrics_text(TIMES, PERCENTS, 0, None, NOW)


def test_this_machine_tells_names_that_nova_knows():
    before, after = read(cpus.metrics(NOW)), read(cpus.metrics(NOW))
    field = fields.MonitorMetricTypeField()
    assert [field.coerce(None, 'name', name) for name in after] == list(after)
    assert after['cpu.idle.time'] >= before['cpu.idle.time'] > 0
