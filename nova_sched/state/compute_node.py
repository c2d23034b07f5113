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
"""Turns a ComputeNode and its inventories into a Report, and checks each field."""

import json
import math

from nova_sched import errors, objects, words
from nova_sched.claim import DISK_GB, MEMORY_MB, PCPU, VCPU
from nova_sched.hardware.numa import HostTopology
from nova_sched.hardware.pci import pools_from_json
from nova_sched.hardware.providers import ProviderTree
from nova_sched.state.report import (
    INITIAL_RATIOS,
    MAX_AMOUNT,
    Inventory,
    Report,
    check,
    check_inventory,
)

# Resource class: fields of total, use and ratio.
FIELDS = {
    VCPU: ('vcpus', 'vcpus_used', 'cpu_allocation_ratio'),
    MEMORY_MB: ('memory_mb', 'memory_mb_used', 'ram_allocation_ratio'),
    DISK_GB: ('local_gb', 'local_gb_used', 'disk_allocation_ratio'),
}
# Of a node with its child providers. Each resource class is a column over all hosts, and each
# trait a bit; os-traits has several hundred.
MAX_CLASSES, MAX_TRAITS = 200, 2000
INVENTORY_KEYS = frozenset(
    ['total', 'reserved', 'min_unit', 'max_unit', 'step_size', 'allocation_ratio']
)


def report(
    node,
    max_size,
    name=None,
    inventories=None,
    cell_uuid=None,
    default_cell_uuid=None,
    allocated=None,
):
    """The Report of a ComputeNode, without its instances. Raises BadReport with node and field.

    ``max_size``: characters that the nested facts may have in all. ``name`` is the host that sent
    it. ``inventories`` is a provider tree in Placement's form, whose root is the node itself and
    replaces the ComputeNode's own totals, reserves and ratios. ``allocated`` is the sum of
    Placement's allocations on the root, by resource class: with it, the root's inventories and
    these amounts are the only ones, and the ComputeNode's own count nothing.
    """
    nodename = _get(node, 'hypervisor_hostname')

    def refuse(field, why):
        raise errors.BadReport(
            nodename if words.is_name(nodename) else words.short(name), field, why
        )

    uuid, host = _identity(node, nodename, name, refuse)
    if cell_uuid is not None and not words.is_uuid(cell_uuid):
        refuse('cell_uuid', f'{words.short(cell_uuid)} is not a UUID')
    tree, text, by_provider = _read_tree(inventories, max_size, refuse)
    of_root, root = by_provider.get(uuid), tree.get(uuid, {})
    if tree and not root:
        refuse('inventories', f'they have no provider {uuid}, the node itself')
    if allocated is None:
        root_inventories, used = _inventories(node, of_root, refuse)
    else:
        root_inventories = of_root or {}
        # A ComputeNode's usage includes the reserves, allocations in Placement do not.
        used = {
            resource_class: inventory.reserved
            for resource_class, inventory in root_inventories.items()
        }
        for resource_class, amount in allocated.items():
            used[resource_class] = used.get(resource_class, 0) + amount
    stats = {
        key: value if value is None else str(value)
        for key, value in (_get(node, 'stats') or {}).items()
    }
    # Of a tree of the node alone, the report has all.
    facts = _facts(node, text if len(tree) > 1 else None)
    _check_size([*facts.values(), *stats, *stats.values(), text], max_size, refuse)
    _check_hardware(facts, uuid, refuse)
    return check(
        Report(
            node_uuid=uuid,
            host=host,
            nodename=nodename,
            inventories=root_inventories,
            used=used,
            cell_uuid=cell_uuid or default_cell_uuid,
            traits=frozenset(root.get('traits', ())),
            disk_slack_gb=_slack_gb(node),
            num_instances=_count(stats, 'num_instances', refuse),
            io_workload=_count(stats, 'io_workload', refuse),
            failed_builds=_count(stats, 'failed_builds', refuse),
            hypervisor_type=_get(node, 'hypervisor_type'),
            hypervisor_version=_get(node, 'hypervisor_version'),
            host_ip=None if _get(node, 'host_ip') is None else str(node.host_ip),
            supported_instances=tuple(
                tuple(spec.to_list()) for spec in _get(node, 'supported_hv_specs') or ()
            ),
            stats=stats,
            running_vms=_get(node, 'running_vms'),
            current_workload=_get(node, 'current_workload'),
            **facts,
        )
    )


def _identity(node, nodename, name, refuse):
    """UUID and host of the node, after a check of these and of its name."""
    uuid = _get(node, 'uuid')
    host = _get(node, 'host') or name
    if not words.is_uuid(uuid):
        refuse('uuid', f'{words.short(uuid)} is not a UUID')
    for field, value in (('host', host), ('hypervisor_hostname', nodename)):
        if not words.is_name(value):
            refuse(field, f'{words.short(value)} is not a name')
    if name is not None and host != name:
        refuse('host', f'it says {words.short(host)}, but {words.short(name)} sent it')
    return uuid, host


def _facts(node, providers):
    """The nested facts as texts, by field of a Report."""
    pools = _get(node, 'pci_device_pools')
    return {
        'cpu_info': _get(node, 'cpu_info'),
        'numa_topology': _get(node, 'numa_topology'),
        'metrics': _get(node, 'metrics'),
        'pci_pools': None if pools is None else _sorted_json(objects.to_primitive(pools)),
        'providers': providers,
    }


def _check_hardware(facts, uuid, refuse):
    """Refuses hardware that the host state could not read, and so would not count."""
    for field, fact, read in (
        ('inventories', facts['providers'], lambda text: ProviderTree.from_json(text, uuid)),
        ('numa_topology', facts['numa_topology'], HostTopology.from_json),
        ('pci_device_pools', facts['pci_pools'], pools_from_json),
    ):
        try:
            if fact:
                read(fact)
        except errors.MalformedObject as error:
            refuse(field, f'{error.why:.200}')


def _get(node, field):
    return getattr(node, field) if field in node else None


def _check_size(texts, most, refuse):
    size = sum(len(text) for text in texts if text)
    if size > most:
        refuse('stats', f'its nested facts have {size} characters; at most {most} are accepted')


def _count(stats, key, refuse):
    text = stats.get(key)
    try:
        return 0 if text is None else words.whole(text, most=words.MAX_INTEGER)
    except ValueError as error:
        return refuse(f'stats[{key}]', str(error))


def _slack_gb(node):
    """Return the disk that is free in the node's record but not in fact."""
    least, free = _get(node, 'disk_available_least'), _get(node, 'free_disk_gb')
    if free is None:
        free = (_get(node, 'local_gb') or 0) - (_get(node, 'local_gb_used') or 0)
    return 0 if least is None else max(0, free - least)


def _inventories(node, of_root, refuse):
    """Return inventories and usage by resource class. Those of the root provider, if the node
    reports it, replace the ComputeNode's own."""
    inventories, used = {}, {}
    for resource_class, (total_field, used_field, ratio_field) in FIELDS.items():
        total, in_use, ratio = (
            _get(node, field) for field in (total_field, used_field, ratio_field)
        )
        for field, value in ((total_field, total), (used_field, in_use)):
            if value is None:
                refuse(field, 'it is not set')
            if value < 0:
                refuse(field, f'{words.short(value)} is negative')
        if ratio is not None and not (math.isfinite(ratio) and ratio >= 0):
            refuse(ratio_field, f'{ratio} is not a ratio')
        inventories[resource_class] = Inventory(total, 0, ratio or INITIAL_RATIOS[resource_class])
        used[resource_class] = in_use
    dedicated, pinned = _dedicated(_get(node, 'numa_topology'), refuse)
    # A node that reports its inventories includes there its CPUs for dedicated use: maybe none.
    if dedicated and (of_root is None or PCPU in of_root):
        inventories[PCPU], used[PCPU] = Inventory(dedicated), pinned
    return inventories | (of_root or {}), used


def _dedicated(numa, refuse):
    """CPUs that a node's NUMA topology keeps for dedicated use, and how many of them are in
    use."""
    if numa is None:
        return 0, 0
    try:
        cells = objects.NUMATopology.from_json(numa).cells
        return sum(len(cell.pcpuset) for cell in cells), sum(
            len(cell.pinned_cpus) for cell in cells
        )
    except (errors.Invalid, NotImplementedError) as error:
        return refuse('numa_topology', str(error))


class _Odd(Exception):
    """An inventory that cannot be counted."""


def countable(inventories):
    """Return those inventories of a provider that the host state can count, and why not the
    others: a text by resource class. Placement accepts classes of which nobody can get anything.
    """

    def refuse(field, why):
        raise _Odd(f'{field}: {why}')

    counted, odd = {}, {}
    for resource_class, given in inventories.items():
        try:
            if not words.is_symbol(resource_class):
                refuse('name', 'it is not the name of a resource class')
            known = {key: value for key, value in given.items() if key in INVENTORY_KEYS}
            check_inventory(resource_class, _inventory('inventory', known, refuse), refuse)
        except _Odd as error:
            odd[resource_class] = str(error)
        else:
            counted[resource_class] = known
    return counted, odd


def _inventory(where, given, refuse):
    if not isinstance(given, dict) or 'total' not in given:
        refuse(where, 'it must be a mapping with a total')
    unknown = sorted(map(str, given.keys() - INVENTORY_KEYS))
    if unknown:
        refuse(where, f'it has unknown keys: {words.short(", ".join(unknown))}')
    for key, value in given.items():
        whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_AMOUNT
        if not (
            whole
            or (key == 'allocation_ratio' and isinstance(value, float) and math.isfinite(value))
        ):
            refuse(f'{where}.{key}', f'{words.short(value)} is not a number that can be')
    if given['total'] < 0:
        refuse(f'{where}.total', f'{given["total"]} is negative')
    return Inventory(
        total=given['total'],
        reserved=given.get('reserved', 0),
        ratio=float(given.get('allocation_ratio', 1.0)),
        min_unit=given.get('min_unit', 1),
        max_unit=given.get('max_unit'),
        step_size=given.get('step_size', 1),
    )


def _read_tree(given, max_size, refuse):
    """A provider tree, its text, and the inventories of each provider by class; empty if there is
    no tree. Refuses one that is too large before each of a million things in it is checked."""
    if given is None:
        return {}, '', {}
    if not isinstance(given, dict):
        refuse('inventories', 'they must be a mapping of provider UUIDs')
    why = None
    try:
        text = _sorted_json(given)
    except RecursionError as error:
        refuse('inventories', str(error))
    except (TypeError, ValueError) as error:
        text, why = json.dumps(given, skipkeys=True, default=str), words.short(str(error))
    _check_size([text], max_size, refuse)
    by_provider = _inventories_of(given, refuse)  # says where in an inventory it is, if there
    if why:
        refuse('inventories', why)
    return given, text, by_provider


def _inventories_of(tree, refuse):
    """The inventories of each provider of a tree by class, after a check of the tree's form."""
    by_provider = {}
    for uuid, provider in tree.items():
        where = f'inventories[{words.short(uuid)}]'
        if not words.is_uuid(uuid) or not isinstance(provider, dict):
            refuse(where, 'it must map a UUID to a provider')
        parent = provider.get('parent_provider_uuid')
        if parent is not None and (not words.is_uuid(parent) or parent not in tree):
            refuse(f'{where}.parent_provider_uuid', f'there is no provider {words.short(parent)}')
        inventories, traits = provider.get('inventories', {}), provider.get('traits', [])
        if not isinstance(inventories, dict) or not all(map(words.is_symbol, inventories)):
            refuse(f'{where}.inventories', 'it must be a mapping of resource classes')
        if not isinstance(traits, list) or not all(map(words.is_symbol, traits)):
            refuse(f'{where}.traits', 'it must be a list of traits')
        by_provider[uuid] = {
            resource_class: _inventory(f'{where}.inventories[{resource_class}]', inventory, refuse)
            for resource_class, inventory in inventories.items()
        }
    for names, most, what in (
        ('inventories', MAX_CLASSES, 'resource classes'),
        ('traits', MAX_TRAITS, 'traits'),
    ):
        count = len(set().union(*(provider.get(names, ()) for provider in tree.values())))
        if count > most:
            refuse('inventories', f'they have {count} {what}; at most {most} are accepted')
    _check_parents(tree, refuse)
    return by_provider


def _check_parents(tree, refuse):
    """Refuses providers in a circle, or with more providers above them than any node has."""
    depths: dict[str | None, int] = {None: 0}
    for uuid in tree:
        path: list[str] = []
        above = uuid
        while above not in depths and len(path) <= words.MAX_DEPTH:
            path.append(above)
            above = tree[above].get('parent_provider_uuid')
        depth = depths.get(above, 0) + len(path)
        if depth > words.MAX_DEPTH:
            why = f'the provider is in a circle, or below more than {words.MAX_DEPTH} others'
            refuse(f'inventories[{uuid}].parent_provider_uuid', why)
        depths |= zip(reversed(path), range(depth - len(path) + 1, depth + 1), strict=True)


def _sorted_json(value):
    return json.dumps(value, sort_keys=True, allow_nan=False)
