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
"""Turns a compute node of Nova's database, with its providers in Placement, into a Report."""

import dataclasses
import json

from nova_sched import errors, objects, words
from nova_sched.claims import nova_node
from nova_sched.claims.values import NAMELESS
from nova_sched.conf import CONF
from nova_sched.objects.object_io import primitive
from nova_sched.state import compute_node

# Columns that are a field of a ComputeNode with the same name and value.
SAME = (
    'uuid host hypervisor_hostname hypervisor_type hypervisor_version host_ip cpu_info '
    'free_disk_gb disk_available_least running_vms current_workload metrics'
).split()


def report(row, providers, migrations, cell_uuid, order):
    """The Report of a NodeRow. Raises BadReport, with the reason why the node gets no servers.

    ``providers`` is its NodeProviders in Placement, ``migrations`` maps the UUIDs of migrations to
    those of their instances, ``cell_uuid`` is None if the host is not mapped to a cell, ``order``
    is the ReportOrder.
    """
    _check_complete(row, providers, cell_uuid)
    # The provider tree, with what is used of the classes that each child provider has.
    tree = dict(providers.providers)
    for uuid in tree.keys() - {row.uuid}:
        has = tree[uuid].get('inventories', ())
        used = {name: units for name, units in providers.used(uuid).items() if name in has}
        tree[uuid] = {**tree[uuid], 'used': used}
    facts = compute_node.report(
        _object(row),
        CONF.stats.max_report_size,
        inventories=tree,
        cell_uuid=cell_uuid,
        allocated=providers.used(row.uuid),
    )
    uses = nova_node.uses(providers.held, migrations, row.instances.keys(), row.tracked)
    instances = frozenset(uses.keys() - {NAMELESS})
    return dataclasses.replace(facts, instances=instances, order=order, nova=uses)


def countable(providers):
    """Return the NodeProviders without what the host state cannot count, and why: a text by
    provider and by name of the resource class or trait."""
    counted, odd = {}, {}
    for uuid, provider in providers.providers.items():
        inventories, whys = compute_node.countable(provider['inventories'])
        traits = [trait for trait in provider['traits'] if words.is_symbol(trait)]
        odd |= {(uuid, name): why for name, why in whys.items()}
        odd |= {
            (uuid, str(trait)): 'it is not the name of a trait'
            for trait in provider['traits']
            if trait not in traits
        }
        counted[uuid] = {**provider, 'inventories': inventories, 'traits': traits}
    return dataclasses.replace(providers, providers=counted), odd


def _check_complete(row, providers, cell_uuid):
    """Raise BadReport for a row that names no host or no compute node, and for a compute node
    that Nova, too, gives no servers."""
    for is_there, field, why in (
        (
            words.is_name(row.host),
            'host',
            'it is NULL, or no name: nova-compute has not written it',
        ),
        (words.is_uuid(row.uuid), 'uuid', f'{words.short(row.uuid)} is not a UUID'),
        (
            row.has_service,
            'services',
            f'the cell has no nova-compute service of host {row.host}: restart nova-compute there',
        ),
        (
            cell_uuid is not None,
            'host_mappings',
            f'host {row.host} is mapped to no cell: run nova-manage cell_v2 discover_hosts',
        ),
        (
            row.uuid in providers.providers,
            'resource provider',
            f'Placement has no resource provider {row.uuid}: nova-compute makes it at its start',
        ),
        (
            row.free_disk_gb is not None,
            'free_disk_gb',
            'it is NULL: nova-compute has not reported its resources since its first start',
        ),
    ):
        if not is_there:
            raise _refused(row, field, why)


def _refused(row, field, why):
    return errors.BadReport(row.hypervisor_hostname or row.uuid, field, why)


def _object(row):
    """The ComputeNode of a NodeRow, without the amounts that Placement has."""
    facts = {name: getattr(row, name) for name in SAME}
    for column, field, read in (
        ('stats', 'stats', _stats),
        ('supported_instances', 'supported_hv_specs', _specs),
        ('pci_stats', 'pci_device_pools', lambda pools: pools),
    ):
        text = getattr(row, column)
        try:
            if text and (value := json.loads(text)) is not None:
                facts[field] = read(value)
        except (ValueError, RecursionError) as error:
            raise _refused(row, column, f'{words.short(text)}: {error}') from error
    try:
        return objects.from_primitive(
            primitive('ComputeNode', {**facts, 'numa_topology': row.numa_topology or None})
        )
    except errors.MalformedObject as error:
        raise _refused(row, error.path.removeprefix('ComputeNode.'), error.why) from error
    except errors.IncompatibleObject as error:
        raise _refused(row, 'nested facts', str(error)) from error


def _stats(value):
    if not isinstance(value, dict):
        raise ValueError('it is not a mapping')
    return value


def _specs(triples):
    if not isinstance(triples, list) or not all(
        isinstance(triple, list) and len(triple) == 3 for triple in triples
    ):
        raise ValueError('it is not a list of architecture, hypervisor and mode')
    return [
        primitive('HVSpec', {'arch': arch, 'hv_type': hv_type, 'vm_mode': vm_mode})
        for arch, hv_type, vm_mode in triples
    ]
