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

"""Images as the image service describes them, with their typed properties."""

from nova_sched import errors, words
from nova_sched.objects import base, fields, object_io

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


def current_properties(properties, known):
    """Return the properties with ``known`` names; a current name takes precedence over its old
    one. Nulls are left out."""
    properties = {
        name: value
        for name, value in properties.items()
        if isinstance(name, str) and value is not None
    }
    data = {}
    # VMware's adapter type names the disk bus, and for SCSI its model.
    adapter = properties.get('vmware_adaptertype')
    if adapter == 'ide':
        data['hw_disk_bus'] = 'ide'
    elif adapter:
        data |= {'hw_disk_bus': 'scsi', 'hw_scsi_model': adapter}
    data |= {new: properties[old] for old, new in OLD_NAMES.items() if old in properties}
    data |= {name: value for name, value in properties.items() if name in known}
    if cpus := _numbered(properties, 'hw_numa_cpus'):
        try:
            data['hw_numa_cpus'] = [set(words.cpu_ids(text)) for text in cpus]
        except ValueError as error:
            raise errors.MalformedObject('ImageMetaProps.hw_numa_cpus', str(error)) from None
    if memory := _numbered(properties, 'hw_numa_mem'):
        data['hw_numa_mem'] = memory
    traits = [
        name.partition(':')[2]
        for name, value in properties.items()
        if name.startswith('trait:') and value == 'required'
    ]
    if traits:
        data['traits_required'] = traits
    return data


def _numbered(properties, name):
    """Return the values of ``name.0``, ``name.1`` and so on, up to the first missing number."""
    values = []
    while f'{name}.{len(values)}' in properties:
        values.append(properties[f'{name}.{len(values)}'])
    return values


@base.register
class ImageMetaProps(base.NovaObject):
    """Image properties with a meaning to compute nodes or to scheduling; each is optional."""

    VERSION = '1.44'

    fields = {
        'hw_architecture': fields.ArchitectureField(),
        'hw_emulation_architecture': fields.ArchitectureField(),
        'hw_auto_disk_config': fields.StringField(),
        'hw_boot_menu': fields.FlexibleBooleanField(),
        'hw_cdrom_bus': fields.DiskBusField(),
        'hw_cpu_cores': fields.IntegerField(),
        'hw_cpu_sockets': fields.IntegerField(),
        'hw_cpu_max_cores': fields.IntegerField(),
        'hw_cpu_max_sockets': fields.IntegerField(),
        'hw_cpu_max_threads': fields.IntegerField(),
        'hw_cpu_policy': fields.CPUAllocationPolicyField(),
        'hw_cpu_thread_policy': fields.CPUThreadAllocationPolicyField(),
        'hw_cpu_realtime_mask': fields.StringField(),
        'hw_cpu_threads': fields.IntegerField(),
        'hw_device_id': fields.IntegerField(),
        'hw_disk_bus': fields.DiskBusField(),
        'hw_disk_type': fields.StringField(),
        'hw_floppy_bus': fields.DiskBusField(),
        'hw_firmware_type': fields.FirmwareTypeField(),
        'hw_firmware_stateless': fields.FlexibleBooleanField(),
        'hw_input_bus': fields.InputBusField(),
        'hw_ipxe_boot': fields.FlexibleBooleanField(),
        'hw_locked_memory': fields.FlexibleBooleanField(),
        'hw_machine_type': fields.StringField(),
        'hw_mem_encryption': fields.FlexibleBooleanField(),
        'hw_mem_encryption_model': fields.MemEncryptionModelField(),
        'hw_mem_page_size': fields.StringField(),
        'hw_numa_nodes': fields.IntegerField(),
        'hw_numa_cpus': fields.ListOfSetsOfIntegersField(),
        'hw_numa_mem': fields.ListOfIntegersField(),
        'hw_pci_numa_affinity_policy': fields.PCINUMAAffinityPolicyField(),
        'hw_pointer_model': fields.PointerModelField(),
        'hw_pmu': fields.FlexibleBooleanField(),
        'hw_qemu_guest_agent': fields.FlexibleBooleanField(),
        'hw_rescue_bus': fields.DiskBusField(),
        'hw_rescue_device': fields.BlockDeviceTypeField(),
        'hw_rng_model': fields.RNGModelField(),
        'hw_time_hpet': fields.FlexibleBooleanField(),
        'hw_serial_port_count': fields.IntegerField(),
        'hw_scsi_model': fields.SCSIModelField(),
        'hw_video_model': fields.VideoModelField(),
        'hw_video_ram': fields.IntegerField(),
        'hw_vif_model': fields.VIFModelField(),
        'hw_viommu_model': fields.VIOMMUModelField(),
        'hw_vm_mode': fields.VMModeField(),
        'hw_watchdog_action': fields.WatchdogActionField(),
        'hw_vif_multiqueue_enabled': fields.FlexibleBooleanField(),
        'hw_tpm_model': fields.TPMModelField(),
        'hw_tpm_version': fields.TPMVersionField(),
        'hw_ephemeral_encryption': fields.FlexibleBooleanField(),
        'hw_ephemeral_encryption_format': fields.BlockDeviceEncryptionFormatTypeField(),
        'hw_ephemeral_encryption_secret_uuid': fields.UUIDField(),
        'hw_virtio_packed_ring': fields.FlexibleBooleanField(),
        'hw_maxphysaddr_mode': fields.MaxPhysAddrModeField(),
        'hw_maxphysaddr_bits': fields.IntegerField(),
        'hw_sound_model': fields.SoundModelField(),
        'hw_usb_model': fields.USBControllerModelField(),
        'hw_redirected_usb_ports': fields.IntegerField(),
        'img_bittorrent': fields.FlexibleBooleanField(),
        'img_bdm_v2': fields.FlexibleBooleanField(),
        'img_block_device_mapping': fields.ListOfDictOfNullableStringsField(),
        'img_cache_in_nova': fields.FlexibleBooleanField(),
        'img_compression_level': fields.IntegerField(),
        'img_hv_requested_version': fields.VersionPredicateField(),
        'img_hv_type': fields.HVTypeField(),
        'img_config_drive': fields.ConfigDrivePolicyField(),
        'img_linked_clone': fields.FlexibleBooleanField(),
        'img_mappings': fields.ListOfDictOfNullableStringsField(),
        'img_owner_id': fields.StringField(),
        'img_root_device_name': fields.StringField(),
        'img_use_agent': fields.FlexibleBooleanField(),
        'img_version': fields.IntegerField(),
        'img_signature': fields.StringField(),
        'img_signature_hash_method': fields.ImageSignatureHashTypeField(),
        'img_signature_certificate_uuid': fields.UUIDField(),
        'img_signature_key_type': fields.ImageSignatureKeyTypeField(),
        'img_hide_hypervisor_id': fields.FlexibleBooleanField(),
        'os_admin_user': fields.StringField(),
        'os_command_line': fields.StringField(),
        'os_distro': fields.StringField(),
        'os_require_quiesce': fields.FlexibleBooleanField(),
        'os_secure_boot': fields.SecureBootField(),
        'os_skip_agent_inject_files_at_boot': fields.FlexibleBooleanField(),
        'os_skip_agent_inject_ssh': fields.FlexibleBooleanField(),
        'os_type': fields.OSTypeField(),
        'traits_required': fields.ListOfStringsField(),
    }

    @classmethod
    def from_dict(cls, properties):
        """Return the known ones of an image's free properties, under their current names.

        Raises MalformedObject for a value that is invalid for its property.
        """
        data = current_properties(properties, cls.fields)
        return object_io.read(object_io.primitive('ImageMetaProps', data))

    def get(self, name, default=None):
        """Return a property, or the default if it is not set."""
        if name not in self.fields:
            raise AttributeError(f'there is no image property {name}')
        return getattr(self, name) if name in self else default


@base.register
class ImageMeta(base.NovaObject):
    """One image: sizes in bytes, min_ram MiB, min_disk GiB."""

    VERSION = '1.8'

    fields = {
        'id': fields.UUIDField(),
        'name': fields.StringField(),
        'status': fields.StringField(),
        'visibility': fields.StringField(),
        'protected': fields.FlexibleBooleanField(),
        'checksum': fields.StringField(),
        'owner': fields.StringField(),
        'size': fields.IntegerField(),
        'virtual_size': fields.IntegerField(),
        'container_format': fields.StringField(),
        'disk_format': fields.StringField(),
        'created_at': fields.DateTimeField(nullable=True),
        'updated_at': fields.DateTimeField(nullable=True),
        'tags': fields.ListOfStringsField(),
        'direct_url': fields.StringField(),
        'min_ram': fields.IntegerField(),
        'min_disk': fields.IntegerField(),
        'properties': fields.ObjectField('ImageMetaProps'),
    }

    @classmethod
    def from_dict(cls, image):
        """Return the image for a plain dict in the image service's form; unknown keys are left
        out.

        Raises MalformedObject for an invalid value.
        """
        data = {
            name: image[name]
            for name, field in cls.fields.items()
            if name in image and (field.nullable or image[name] is not None)
        }
        properties = image.get('properties') or {}
        if not isinstance(properties, dict):
            raise errors.MalformedObject('ImageMeta.properties', 'a dict is required')
        data['properties'] = ImageMetaProps.from_dict(properties)
        return object_io.read(object_io.primitive('ImageMeta', data))
