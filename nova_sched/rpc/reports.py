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
"""A ComputeNode and its inventories as the Report that the cluster takes, checked field by field."""

import json
import math

from oslo_utils import uuidutils

from nova_sched import errors, objects
from nova_sched.conf import CONF
from nova_sched.objects.claiming import DISK_GB, MEMORY_MB, PCPU, VCPU
from nova_sched.rpc import translate
from nova_sched.state.report import INITIAL_RATIOS, Inventory, Report, check

# Resource class: fields of total, use and ratio.
FIELDS = {
    VCPU: ('vcpus', 'vcpus_used', 'cpu_allocation_ratio'),
    MEMORY_MB: ('memory_mb', 'memory_mb_used', 'ram_allocation_ratio'),
    DISK_GB: ('local_gb', 'local_gb_used', 'disk_allocation_ratio'),
}
INVENTORY_KEYS = frozenset(['total', 'reserved', 'min_unit', 'max_unit', 'step_size', 'allocation_ratio'])


def report(node, name=None, instances=None, inventories=None, cell_uuid=None):
    """The Report of a ComputeNode. Raises BadReport with node and field.

    ``name`` is the host that sent it; ``inventories`` a provider tree in Placement's form, whose root is
    the node itself and replaces the ComputeNode's own totals, reserves and ratios.
    """
    if not isinstance(node, objects.ComputeNode):
        raise errors.BadReport(name, 'stats', f'it must be a ComputeNode, not {type(node).__name__}')
    label = _get(node, 'hypervisor_hostname') or name

    def refuse(field, why):
        raise errors.BadReport(label, field, why)

    uuid, host = _get(node, 'uuid'), _get(node, 'host') or name
    if not uuidutils.is_uuid_like(uuid):
        refuse('uuid', f'{uuid!r} is no UUID')
    if name is not None and host != name:
        refuse('host', f'it says {host!r}, but {name!r} sent it')
    if cell_uuid is not None and not uuidutils.is_uuid_like(cell_uuid):
        refuse('cell_uuid', f'{cell_uuid!r} is no UUID')
    tree = _tree(inventories, refuse)
    root = tree.get(uuid, {})
    if tree and not root:
        refuse('inventories', f'they have no provider {uuid}, the node itself')
    numa = _get(node, 'numa_topology')
    found, used = _inventories(node, root, numa, refuse)
    stats = {str(key): str(value) for key, value in (_get(node, 'stats') or {}).items()}
    facts = {
        'numa_topology': numa,
        'metrics': _get(node, 'metrics'),
        'pci_pools': translate.text(_get(node, 'pci_device_pools')),
        'providers': json.dumps(tree, sort_keys=True) if len(tree) > 1 else None,
    }
    size = sum(len(value) for value in facts.values() if value)
    if size > CONF.stats.max_report_size:
        refuse(
            'stats',
            f'its nested facts have {size} characters; at most {CONF.stats.max_report_size} are accepted',
        )
    return check(
        Report(
            node_uuid=uuid,
            host=host,
            nodename=_get(node, 'hypervisor_hostname'),
            inventories=found,
            used=used,
            cell_uuid=cell_uuid,
            instances=_instances(instances, refuse),
            traits=frozenset(root.get('traits', ())),
            disk_slack_gb=_slack_gb(node),
            num_instances=_count(stats, 'num_instances', refuse),
            io_workload=_count(stats, 'io_workload', refuse),
            failed_builds=_count(stats, 'failed_builds', refuse),
            hypervisor_type=_get(node, 'hypervisor_type'),
            hypervisor_version=_get(node, 'hypervisor_version'),
            host_ip=None if _get(node, 'host_ip') is None else str(node.host_ip),
            cpu_info=_get(node, 'cpu_info'),
            supported_instances=tuple(
                tuple(spec.to_list()) for spec in _get(node, 'supported_hv_specs') or ()
            ),
            stats=stats,
            running_vms=_get(node, 'running_vms'),
            current_workload=_get(node, 'current_workload'),
            **facts,
        )
    )


def _get(node, field):
    return getattr(node, field) if field in node else None


def _instances(given, refuse):
    uuids = translate.instance_uuids(given)
    for uuid in uuids or ():
        if not uuidutils.is_uuid_like(uuid):
            refuse('instances', f'{str(uuid)[:64]!r} is no UUID')
    return uuids


def _count(stats, key, refuse):
    value = stats.get(key, '0')
    try:
        return int(value)
    except ValueError:
        return refuse(f'stats[{key}]', f'{value!r} is no number')


def _slack_gb(node):
    """Disk that is free by the node's books, but not really."""
    least, free = _get(node, 'disk_available_least'), _get(node, 'free_disk_gb')
    if free is None:
        free = (_get(node, 'local_gb') or 0) - (_get(node, 'local_gb_used') or 0)
    return 0 if least is None else max(0, free - least)


def _inventories(node, root, numa, refuse):
    """Inventories and use by resource class: the ComputeNode's own, under those that it reports apart."""
    found, used = {}, {}
    for resource_class, (total_field, used_field, ratio_field) in FIELDS.items():
        total, in_use = _get(node, total_field), _get(node, used_field)
        for field, value in ((total_field, total), (used_field, in_use)):
            if value is None:
                refuse(field, 'it is not set')
            if value < 0:
                refuse(field, f'{value} is negative')
        ratio = _get(node, ratio_field)
        if ratio is not None and not math.isfinite(ratio):
            refuse(ratio_field, f'{ratio} is no number')
        found[resource_class] = Inventory(total, 0, ratio or INITIAL_RATIOS[resource_class])
        used[resource_class] = in_use
    dedicated, pinned = _dedicated(numa, refuse)
    if dedicated:
        found[PCPU], used[PCPU] = Inventory(dedicated), pinned
    for resource_class, inventory in root.get('inventories', {}).items():
        found[resource_class] = _inventory(resource_class, inventory, refuse)
    return found, used


def _dedicated(numa, refuse):
    """CPUs that a node's NUMA topology keeps for dedicated use, and how many of them are taken."""
    if numa is None:
        return 0, 0
    try:
        cells = objects.NUMATopology.from_json(numa).cells
    except (errors.Invalid, ValueError, TypeError, KeyError) as error:
        return refuse('numa_topology', str(error))
    return sum(len(cell.pcpuset) for cell in cells), sum(len(cell.pinned_cpus) for cell in cells)


def _inventory(resource_class, given, refuse):
    where = f'inventories[{resource_class}]'
    if not isinstance(given, dict) or 'total' not in given:
        refuse(where, 'it must be a mapping with a total')
    unknown = sorted(set(given) - INVENTORY_KEYS)
    if unknown:
        refuse(where, f'it has unknown keys: {", ".join(unknown)}')
    for key, value in given.items():
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not (whole or (key == 'allocation_ratio' and isinstance(value, float) and math.isfinite(value))):
            refuse(f'{where}.{key}', f'{value!r} is no number')
    return Inventory(
        total=given['total'],
        reserved=given.get('reserved', 0),
        ratio=float(given.get('allocation_ratio', 1.0)),
        min_unit=given.get('min_unit', 1),
        max_unit=given.get('max_unit'),
        step_size=given.get('step_size', 1),
    )


def _tree(given, refuse):
    """The provider tree by UUID, its form checked."""
    if given is None:
        return {}
    if not isinstance(given, dict):
        refuse('inventories', 'they must be a mapping of provider UUIDs')
    for uuid, provider in given.items():
        where = f'inventories[{str(uuid)[:64]}]'
        if not uuidutils.is_uuid_like(uuid) or not isinstance(provider, dict):
            refuse(where, 'it must map a UUID to a provider')
        parent = provider.get('parent_provider_uuid')
        if parent is not None and parent not in given:
            refuse(f'{where}.parent_provider_uuid', f'there is no provider {parent}')
        if not isinstance(provider.get('inventories', {}), dict):
            refuse(f'{where}.inventories', 'it must be a mapping of resource classes')
        traits = provider.get('traits', [])
        if not isinstance(traits, list) or not all(isinstance(trait, str) for trait in traits):
            refuse(f'{where}.traits', 'it must be a list of words')
        for resource_class, inventory in provider.get('inventories', {}).items():
            check_one = _inventory(resource_class, inventory, refuse)
            if check_one.total < 0:
                refuse(f'{where}.inventories[{resource_class}]', f'the total {check_one.total} is negative')
    return given
