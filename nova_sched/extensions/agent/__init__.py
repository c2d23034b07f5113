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

"""The compute node's agent: reports the machine's resources and usage as a ComputeNode and as
inventories.

::

    sysfs <- cpus <- numa ------+
    sysfs <- pci ---------------+- machine.compute_node -> ComputeNode -> machine.inventories
    usage ----------------------+

    instances -> service (local check of a claim) -> reporter -> difference
"""

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from nova_sched.extension import Extension


class Agent(Extension):
    """The agent of compute nodes, and the worker that takes jobs there."""

    def options(self):
        from nova_sched.extensions.agent import conf

        return (conf,)

    def checks(self):
        from nova_sched.extensions.agent import checks

        return (checks.report_interval, checks.driver)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """The operator's settings of one compute node; all other facts are read from the machine.

    An allocation ratio of 0 stands for the default (4.0 for CPUs, 1.0 for memory and disk). CPU
    sets are written as ``2-7,^4``. Without a shared set, CPUs that are not dedicated are shared.
    """

    host: str
    uuid_file: Path  # keeps the node's UUID over restarts
    instances_path: Path  # its file system is the node's disk
    node: str | None = None  # None: as the host
    host_ip: str | None = None  # None: the address of the default route
    cpu_allocation_ratio: float = 4.0
    ram_allocation_ratio: float = 1.0
    disk_allocation_ratio: float = 1.0
    reserved_host_cpus: int = 0
    reserved_host_memory_mb: int = 512  # MiB
    reserved_host_disk_mb: int = 0  # MiB
    reserved_huge_pages: Collection[
        Mapping[str, Any]
    ] = ()  # as {'node': 0, 'size': '2MB', 'count': 64}
    cpu_shared_set: str | None = None
    cpu_dedicated_set: str | None = None
    device_spec: Collection[Mapping[str, Any] | str] = ()  # mappings, or JSON text of them
    # Which NUMA cells are near each physical network, and near the network that carries tunnels.
    physnet_cells: Mapping[str, Collection[int]] = dataclasses.field(default_factory=dict)
    tunnel_cells: Collection[int] = ()
    resources: Mapping[str, int] = dataclasses.field(
        default_factory=dict
    )  # by class, in addition to those that are read
    traits: Collection[str] = ()  # in addition to those that are read
    facts: Mapping[str, str] = dataclasses.field(
        default_factory=dict
    )  # reported among the stats: rack, room
    metrics: bool = False  # report the CPU's metrics
    packing: bool = False  # guests go into the fuller NUMA cells first
    hypervisor_type: str = 'QEMU'
    hypervisor_version: int = 0  # 8002001 is 8.2.1; 0 is unknown
    sys_root: Path = Path('/sys')
    proc_root: Path = Path('/proc')
    kvm_device: Path = Path('/dev/kvm')
