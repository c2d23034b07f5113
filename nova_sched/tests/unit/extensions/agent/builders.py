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

"""Builders of what the agent's rules work on: settings, facts of a machine, instances."""

from pathlib import Path

from nova_sched.extensions.agent import AgentSettings, cpus, machine, numa, pci, usage
from nova_sched.extensions.agent.instances import LocalInstances
from nova_sched.extensions.agent.service import Agent

NODE = '0b9e0d0c-2f7a-4a0e-8c8e-5a3e8d2a9f10'
SERVER = '6f7ac3a4-58e0-4e87-bd33-6c5a2d3f6c11'
CLAIM, LATER = '0c1a1000-0000-4000-8000-000000000001', '0c1a1000-0000-4000-8000-000000000002'
CORES = tuple(frozenset({core, core + 4}) for core in range(4))
CPUS = {cpu: cpus.Cpu(cpu, cpu % 4 // 2, CORES[cpu % 4]) for cpu in range(8)}
CELLS = [
    numa.MachineCell(
        0, frozenset({0, 1, 4, 5}), CORES[:2], 0, 4096, (numa.MachinePages(4, 1048576),)
    ),
    numa.MachineCell(
        1, frozenset({2, 3, 6, 7}), CORES[2:], 1, 2048, (numa.MachinePages(4, 524288),)
    ),
]
GPU = pci.Device('0000:81:00.0', '10de', '20b0', '030200', 1, pci.PCI)


def settings(**options):
    plain = {'host': 'cmp1', 'uuid_file': Path('unused'), 'instances_path': Path('unused')}
    return AgentSettings(**plain | options)


def processor(**told):
    plain = {
        'arch': 'x86_64',
        'vendor': 'Intel',
        'model': 'Xeon',
        'features': ('aes',),
        'physical_bits': 46,
    }
    return cpus.Processor(**plain | told)


def facts(**read):
    """Facts of a machine with two sockets of two cores of two threads, 6 GiB, and a disk of 100
    GiB."""
    plain = {
        'uuid': NODE,
        'online': CPUS,
        'present': frozenset(CPUS),
        'processor': processor(),
        'cells': CELLS,
        'devices': [GPU],
        'memory_mb': 6144,
        'disk_gb': 100,
        'disk_free_gb': 60,
        'kvm': True,
        'host_ip': '192.0.2.5',
    }
    return machine.MachineFacts(**plain | read)


def guest(**told):
    return usage.InstanceUsage(
        **{'uuid': SERVER, 'vcpus': 2, 'memory_mb': 1024, 'disk_gb': 10} | told
    )


def node(found=None, guests=(), **options):
    """The report of a machine with these instances; ``options`` are settings."""
    return machine.describe(found or facts(), settings(**options), usage.total(guests))


def agent_of(root, fake, **options):
    """The agent of a fake machine, with what an agent before it has left in ``root``."""
    plain = {
        'uuid_file': root / 'compute_id',
        'instances_path': root,
        'host_ip': '192.0.2.7',
        'reserved_host_memory_mb': 0,
        'sys_root': fake.sys,
        'proc_root': fake.proc,
    }
    return Agent(settings(**plain | options), LocalInstances(root / 'instances.json'))


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self, now_s=1000.0):
        self.now_s = now_s

    def __call__(self):
        return self.now_s
