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
"""The data that a node reports, as plain values: the only form that the cluster accepts, from any
source."""

import dataclasses
import functools
import json
import math
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from nova_sched import errors
from nova_sched.claim import CONFIRMED, DISK_GB, MEMORY_MB, VCPU
from nova_sched.state.vocab import one_set

DISABLED_TRAIT = 'COMPUTE_STATUS_DISABLED'

# A node that reports no ratio has Nova's initial ones (its initial_*_allocation_ratio options).
INITIAL_RATIOS = {VCPU: 4.0, MEMORY_MB: 1.0, DISK_GB: 1.0}

# Texts that stay the same from report to report.
LASTING_FIELDS = (
    'cpu_info',
    'host_ip',
    'hypervisor_type',
    'hypervisor_version',
    'supported_instances',
)

# No machine is this large. A larger value is a mistake, and would not fit the columns when GiB
# become MiB.
MAX_AMOUNT = 2**43

# A start number is a count or a time in seconds, and follows the one before. A step of one report
# is so much smaller than the range that no sender uses that up, and locks out the next one.
MAX_BOOT, MAX_BOOT_STEP = 2**62, 2**32


@dataclasses.dataclass(frozen=True, slots=True)
class Inventory:
    """One resource class of a node: whole units; ``max_unit`` None means ``total``."""

    total: int
    reserved: int = 0
    ratio: float = 1.0
    min_unit: int = 1
    max_unit: int | None = None
    step_size: int = 1

    @property
    def plain(self):
        """The fields in their order, as they are stored."""
        return (
            self.total,
            self.reserved,
            self.ratio,
            self.min_unit,
            self.max_unit,
            self.step_size,
        )

    @property
    def capacity(self):
        """Total units that may be allocated."""
        return int((self.total - self.reserved) * self.ratio)

    @property
    def largest(self):
        """Maximum units for one consumer: never more than the real total."""
        return self.total if self.max_unit is None else min(self.total, self.max_unit)


# The inventories of stored reports: nearly all nodes have the same, and memory for one of each.
one_inventory = functools.lru_cache(maxsize=1024, typed=True)(Inventory)


class ReportOrder(NamedTuple):
    """The position of a report among all that happens to its node.

    ``seen`` is the node's generation that its sender knew before it looked at the node, so the
    report is not older than that. It is number ``sequence`` of its sender's start number ``boot``.
    None: the sender does not report it.
    """

    seen: int | None = None
    boot: int | None = None
    sequence: int | None = None

    def is_numbered_after(self, last):
        """Whether it is newer than another ReportOrder of its node by their numbers; None: one of
        them has none."""
        if None in (self.boot, self.sequence, last.boot, last.sequence):
            return None
        return (self.boot, self.sequence) > (last.boot, last.sequence)

    def is_after(self, last, reported_at):
        """Whether it is newer than the ReportOrder that was applied last, and that gave the node
        the generation ``reported_at``. A report that does not say how old it is counts as
        newer."""
        is_newer = self.is_numbered_after(last)
        if is_newer is None:
            return self.seen is None or self.seen >= reported_at
        return is_newer

    def is_of_later_life(self, boot, made_at):
        """Whether it may replace another node of its host and name. The last report of that node
        is of start ``boot`` of its sender, and the node was made at generation ``made_at``."""
        if self.seen is not None and self.seen < made_at:
            return False
        return None in (self.boot, boot) or self.boot > boot


def check_boot(report, last):
    """Raise BadReport if the start number of a report is too far above ``last``, that of the last
    report of its node, or of the node that it replaces; None: there was none."""
    boot, most = report.order.boot, (last or 0) + MAX_BOOT_STEP
    if boot is not None and boot > most:
        why = f'{boot} is more than {most}, which the last one allows'
        raise errors.BadReport(report.nodename, 'boot', why)


def unsettled(states, instances):
    """Return the consumers whose claims a report with this list of instances has left to the next
    report, because its sender had not seen their last change. ``states`` are those of the claims
    by consumer, after the report."""
    return {uuid for uuid, state in states.items() if (state == CONFIRMED) != (uuid in instances)}


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """The data of one node.

    ``inventories`` and ``used`` are keyed by Placement's resource class. ``used`` counts all usage
    on the node, including the reserved part, as Nova's ComputeNode does. With ``instances`` None,
    the report does not list the instances. ``held`` are the amounts that each of them holds, by
    resource class; None: the report has totals alone. ``nova`` says of a node of a stock Nova
    cloud what each instance has of it (a ``claims.nova_node.NovaUse``). ``providers`` holds child
    providers as received. ``order`` identifies the report; ``held`` and ``nova`` become rows of
    the node. None of these three is part of a comparison of two reports, or of their text. Disk in
    GiB, memory in MiB.
    """

    node_uuid: str
    host: str
    nodename: str
    inventories: Mapping[str, Inventory]
    used: Mapping[str, int]
    cell_uuid: str | None = None
    instances: frozenset[str] | None = None
    traits: frozenset[str] = frozenset()
    disk_slack_gb: int = 0
    num_instances: int = 0
    io_workload: int = 0
    failed_builds: int = 0
    hypervisor_type: str | None = None
    hypervisor_version: int | None = None
    host_ip: str | None = None
    cpu_info: str | None = None
    supported_instances: tuple[tuple[str, ...], ...] = ()
    stats: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    numa_topology: str | None = None
    metrics: str | None = None
    pci_pools: str | None = None
    providers: str | None = None
    running_vms: int | None = None
    current_workload: int | None = None
    order: ReportOrder = dataclasses.field(default=ReportOrder(), compare=False)
    held: Mapping[str, Mapping[str, int]] | None = dataclasses.field(default=None, compare=False)
    nova: Mapping[str, Any] | None = dataclasses.field(default=None, compare=False)

    @property
    def lasting(self):
        """Data that stays the same from report to report, unless an operator changes the node."""
        machine = (
            self.hypervisor_type,
            self.hypervisor_version,
            self.cpu_info,
            self.supported_instances,
        )
        # Stats replace unreported values.
        shadowed = tuple(self.stats.get(name) for name in LASTING_FIELDS)
        return self.cell_uuid, self.traits, self.host_ip, *machine, shadowed

    @property
    def kept(self):
        """The report without what becomes rows of the node."""
        if self.held is None and self.nova is None:
            return self
        return dataclasses.replace(self, held=None, nova=None)

    def has_used(self, claim):
        """Whether the usage of child providers includes a claim's."""
        is_listed = self.instances is not None and claim.consumer_uuid in self.instances
        return claim.counted or (claim.is_confirmed and is_listed)

    def told(self, names):
        """Return the entries of the stats under these names."""
        return [self.stats.get(name) for name in names]

    @property
    def pieces(self):
        """NUMA cells, PCI pools, and the allocation ratios of CPUs and memory in a cell."""
        ratios = (self.inventories[name].ratio if name in self.inventories else 1.0
                  for name in (VCPU, MEMORY_MB))  # fmt: skip
        return self.numa_topology, self.pci_pools, *ratios

    def to_json(self):
        """Return the data as text, for the database."""
        plain = {name: getattr(self, name) for name in _STORED}
        plain['inventories'] = {
            name: inventory.plain for name, inventory in self.inventories.items()
        }
        plain['traits'] = sorted(self.traits)
        plain['instances'] = None if self.instances is None else sorted(self.instances)
        return json.dumps(plain, sort_keys=True)

    @classmethod
    def from_json(cls, text):
        """Read the text that ``to_json`` wrote, here or in another release: facts that this
        release does not know are left out."""
        plain = json.loads(text)
        for name in plain.keys() - _FIELDS:
            del plain[name]
        plain['inventories'] = {
            sys.intern(name): one_inventory(*values)
            for name, values in plain['inventories'].items()
        }
        plain['used'] = {sys.intern(name): amount for name, amount in plain['used'].items()}
        plain['traits'] = one_set(frozenset(plain['traits']))
        plain['instances'] = None if plain['instances'] is None else frozenset(plain['instances'])
        plain['supported_instances'] = tuple(map(tuple, plain['supported_instances']))
        return cls(**plain)


_FIELDS = frozenset(field.name for field in dataclasses.fields(Report))
_STORED = tuple(field.name for field in dataclasses.fields(Report) if field.compare)


def check(report):
    """Raise BadReport, with node and field, for impossible values."""

    def refuse(field, why):
        raise errors.BadReport(report.nodename or report.node_uuid, field, why)

    for field in ('node_uuid', 'host', 'nodename'):
        if not getattr(report, field):
            refuse(field, 'it is empty')
    for name, inventory in report.inventories.items():
        check_inventory(name, inventory, refuse)
    for name, used in report.used.items():
        # Usage above the capacity occurs: an inventory shrinks, or goes, while it is in use.
        if not 0 <= used <= MAX_AMOUNT:
            refuse(f'{name} used', f'{used} is negative or too large')
    for field in ('num_instances', 'io_workload', 'failed_builds'):
        if not 0 <= getattr(report, field) <= MAX_AMOUNT:
            refuse(field, f'{getattr(report, field)} is negative or too large')
    if not 0 <= (report.hypervisor_version or 0) <= MAX_AMOUNT:
        refuse('hypervisor_version', f'{report.hypervisor_version} is negative or too large')
    if not abs(report.disk_slack_gb) <= MAX_AMOUNT:
        refuse('disk_slack_gb', f'{report.disk_slack_gb} is too large')
    return report


def check_inventory(name, inventory, refuse):
    """Calls ``refuse`` with the field and the reason for an impossible value of an Inventory."""
    if not 0 <= inventory.total <= MAX_AMOUNT:
        refuse(f'{name} total', f'{inventory.total} is not between 0 and {MAX_AMOUNT}')
    if not 0 <= inventory.reserved <= inventory.total:
        refuse(
            f'{name} reserved',
            f'{inventory.reserved} is not between 0 and the total {inventory.total}',
        )
    if not (math.isfinite(inventory.ratio) and inventory.ratio > 0):
        refuse(f'{name} allocation ratio', f'{inventory.ratio} is not a ratio above 0')
    if inventory.capacity > MAX_AMOUNT:
        refuse(
            f'{name} allocation ratio',
            f'{inventory.ratio} makes the capacity more than {MAX_AMOUNT}',
        )
    units = (
        inventory.min_unit,
        inventory.step_size,
        1 if inventory.max_unit is None else inventory.max_unit,
    )
    if min(units) < 1 or max(units) > MAX_AMOUNT:
        refuse(
            f'{name} units',
            f'min_unit, max_unit and step_size must be between 1 and {MAX_AMOUNT}',
        )
