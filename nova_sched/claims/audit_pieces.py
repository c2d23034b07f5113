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
"""Audit of the hardware allocations of claims: CPUs held by two claims; pages, devices and
providers held in excess of the node's amounts.

The node decides which CPUs and devices its instances have. So a finding is not certain where the
node has taken over some of the claims.
"""

import collections

from nova_sched.hardware import providers
from nova_sched.hardware.machine import Machine


def as_claimed(report, claims):
    """Whether the node has given its instances the CPUs that were claimed for them, as far as the
    report shows."""
    counted = [claim for claim in claims if claim.counted and claim.parts]
    machine = Machine.from_texts(report.numa_topology, report.pci_pools)
    cells = machine.topology.cells if machine.topology else ()
    pinned = {cpu for cell in cells for cpu in cell.pinned_cpus}
    return (
        report.instances is not None
        and not any(claim.parts.devices for claim in counted)
        and (not counted or pinned == {cpu for claim in counted for cpu in _cpus(claim.parts)})
    )


def shared(claims):
    """CPUs that several claims of a node hold exclusively: (CPU, those claims, whether none is
    counted).

    Once a node counts a claim, it may have given it other CPUs than those claimed. The claimed
    CPUs are then free again.
    """
    holders = collections.defaultdict(list)
    for claim in claims:
        for cpu in {cpu for parts in claim.all_parts for cpu in _cpus(parts)}:
            holders[cpu].append(claim)
    for cpu, sharing in sorted(holders.items()):
        if len(sharing) > 1:
            waiting = [
                claim for claim in sharing if any(cpu in _cpus(parts) for parts in claim.uncounted)
            ]
            yield (cpu, waiting, True) if len(waiting) > 1 else (cpu, sharing, False)


def overdrawn(report, claims):
    """Hardware of which claims take more than the node has: (name, amount taken, amount of the
    node).

    Hardware that the report may already count as used, because it lists the instance, is not
    counted again.
    """
    machine = Machine.from_texts(report.numa_topology, report.pci_pools)
    free = _free(machine)
    taken: collections.Counter = collections.Counter()
    for claim in claims:
        if report.instances is None or claim.consumer_uuid not in report.instances:
            for parts in claim.uncounted:
                taken.update(_things(parts))
    for thing, amount in sorted(taken.items(), key=repr):
        if amount > free[thing]:
            yield _name(thing), amount, free[thing]
    yield from _beyond_providers(report, claims)


# A thing is (CPUS,), ('pages', cell, KiB), or (vendor, product, cell, tags) of a device. CPUs are
# counted over the node, because the node may choose other CPUs than those claimed.
CPUS, PAGES = 'CPUs for one guest alone', 'pages'


def _cpus(parts):
    placed = parts.cells.cells if parts.cells else ()
    return {cpu for cell in placed for cpu in cell.host_cpus}


def _things(parts):
    """The amount of each thing in a hardware allocation."""
    amounts: collections.Counter = collections.Counter({(CPUS,): len(_cpus(parts))})
    for placed in parts.cells.cells if parts.cells else ():
        if placed.pagesize_kb:
            pages = placed.cell.memory_mb * 1024 // placed.pagesize_kb
            amounts[PAGES, placed.host_cell, placed.pagesize_kb] += pages
    for _, pool in parts.devices:
        amounts[_device(pool)] += pool.count
    return amounts


def _free(machine):
    """The amount of each thing that the node reports as free."""
    free: collections.Counter = collections.Counter()
    for cell in machine.topology.cells if machine.topology else ():
        free[CPUS,] += len(cell.free_pcpus)
        for pages in cell.pages:
            free[PAGES, cell.id, pages.size_kb] = pages.free
    for pool in machine.pools:
        free[_device(pool)] += pool.count
    return free


def _device(pool):
    return pool.vendor_id, pool.product_id, pool.numa_node, tuple(sorted(pool.tags.items()))


def _name(thing):
    match thing:
        case (only,):
            return only
        case _, cell, size_kb:
            return f'pages of {size_kb} KiB in cell {cell}'
        case vendor, product, cell, _:
            return f'PCI devices {vendor}:{product} in cell {cell}'


def _beyond_providers(report, claims):
    """Usage of child providers beyond their inventories. Few nodes report the usage there, so each
    claim counts in addition to it."""
    if not report.providers:
        return
    tree = providers.ProviderTree.from_json(report.providers, report.node_uuid)
    held = [
        allotted for claim in claims for parts in claim.all_parts for allotted in parts.providers
    ]
    for claim in claims:
        if claim.parts and report.has_used(claim):
            tree = providers.less_known(tree, claim.parts.providers)
    tree = providers.hold(tree, held)
    for uuid, name in sorted(
        {(allotted.provider_uuid, name) for allotted in held for name in allotted.resources}
    ):
        stock = None if uuid == tree.root else tree.stock(uuid, name)
        if stock is not None and stock.free < 0:
            yield f'{name} of provider {uuid}', stock.used, stock.used + stock.free
