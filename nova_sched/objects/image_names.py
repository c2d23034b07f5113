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

"""Maps the free properties of an image to the names of their typed form."""

from nova_sched import errors

# Old names -> current names.
OLD_NAMES = {
    'architecture': 'hw_architecture',
    'auto_disk_config': 'hw_auto_disk_config',
    'bdm_v2': 'img_bdm_v2',
    'bittorrent': 'img_bittorrent',
    'block_device_mapping': 'img_block_device_mapping',
    'cache_in_nova': 'img_cache_in_nova',
    'hypervisor_type': 'img_hv_type',
    'hypervisor_version_requires': 'img_hv_requested_version',
    'ipxe_boot': 'hw_ipxe_boot',
    'mappings': 'img_mappings',
    'owner_id': 'img_owner_id',
    'root_device_name': 'img_root_device_name',
    'vm_mode': 'hw_vm_mode',
    'vmware_disktype': 'hw_disk_type',
    'vmware_image_version': 'img_version',
    'vmware_linked_clone': 'img_linked_clone',
    'vmware_ostype': 'os_distro',
    'xenapi_device_id': 'hw_device_id',
    'xenapi_image_compression_level': 'img_compression_level',
    'xenapi_skip_agent_inject_files_at_boot': 'os_skip_agent_inject_files_at_boot',
    'xenapi_skip_agent_inject_ssh': 'os_skip_agent_inject_ssh',
    'xenapi_use_agent': 'img_use_agent',
}

# Limits: a range like 0-999999999 must not exhaust the memory. The CPUs of one guest, as many as
# KVM supports; and the CPUs that one text names, including repetitions.
MOST_CPUS = 4096
MOST_IDS = 4 * MOST_CPUS


def todays_names(properties, known):
    """Returns the properties with ``known`` names; a current name takes precedence over its old
    one. Nulls are left out."""
    properties = {
        name: value
        for name, value in properties.items()
        if isinstance(name, str) and value is not None
    }
    data = _disk_of_vmware(properties)
    data |= {new: properties[old] for old, new in OLD_NAMES.items() if old in properties}
    data |= {name: value for name, value in properties.items() if name in known}
    data |= _numa_cells(properties)
    traits = _required_traits(properties)
    if traits:
        data['traits_required'] = traits
    return data


def _disk_of_vmware(properties):
    """Returns the disk bus, and for SCSI its model, from VMware's adapter type."""
    adapter = properties.get('vmware_adaptertype')
    if adapter == 'ide':
        return {'hw_disk_bus': 'ide'}
    return {'hw_disk_bus': 'scsi', 'hw_scsi_model': adapter} if adapter else {}


def _numa_cells(properties):
    """Returns ``hw_numa_cpus.N`` and ``hw_numa_mem.N``, counted from 0 to the first missing
    number."""
    cells = {}
    cpus = _numbered(properties, 'hw_numa_cpus')
    if cpus:
        cells['hw_numa_cpus'] = [_cpu_ids(text) for text in cpus]
    memory = _numbered(properties, 'hw_numa_mem')
    if memory:
        cells['hw_numa_mem'] = memory
    return cells


def _numbered(properties, name):
    values = []
    while f'{name}.{len(values)}' in properties:
        values.append(properties[f'{name}.{len(values)}'])
    return values


def _required_traits(properties):
    return [
        name.partition(':')[2]
        for name, value in properties.items()
        if name.startswith('trait:') and value == 'required'
    ]


def _cpu_ids(text):
    """Returns the ids in a text like ``0-3,^2,8``."""
    wanted, unwanted, left = set(), set(), MOST_IDS
    try:
        for part in filter(None, (part.strip() for part in text.split(','))):
            target = unwanted if part.startswith('^') else wanted
            first, _, last = part.removeprefix('^').partition('-')
            ids = range(int(first), int(last or first) + 1)
            left -= ids.stop - ids.start
            if not 0 < ids.stop - ids.start <= MOST_CPUS or left < 0:
                raise ValueError(part)
            target.update(ids)
    except (AttributeError, ValueError):
        raise errors.MalformedObject(
            'ImageMetaProps.hw_numa_cpus', 'a list of CPU ids is required'
        ) from None
    return wanted - unwanted
