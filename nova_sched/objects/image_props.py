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

"""The typed properties of an image."""

from nova_sched.objects import base, enums, fields, image_names, object_io


@base.register
class ImageMetaProps(base.NovaObject):
    """Image properties with a meaning to compute nodes or to scheduling; each is optional."""

    VERSION = '1.44'

    fields = {
        'hw_architecture': enums.ArchitectureField(),
        'hw_emulation_architecture': enums.ArchitectureField(),
        'hw_auto_disk_config': fields.StringField(),
        'hw_boot_menu': fields.FlexibleBooleanField(),
        'hw_cdrom_bus': enums.DiskBusField(),
        'hw_cpu_cores': fields.IntegerField(),
        'hw_cpu_sockets': fields.IntegerField(),
        'hw_cpu_max_cores': fields.IntegerField(),
        'hw_cpu_max_sockets': fields.IntegerField(),
        'hw_cpu_max_threads': fields.IntegerField(),
        'hw_cpu_policy': enums.CPUAllocationPolicyField(),
        'hw_cpu_thread_policy': enums.CPUThreadAllocationPolicyField(),
        'hw_cpu_realtime_mask': fields.StringField(),
        'hw_cpu_threads': fields.IntegerField(),
        'hw_device_id': fields.IntegerField(),
        'hw_disk_bus': enums.DiskBusField(),
        'hw_disk_type': fields.StringField(),
        'hw_floppy_bus': enums.DiskBusField(),
        'hw_firmware_type': enums.FirmwareTypeField(),
        'hw_firmware_stateless': fields.FlexibleBooleanField(),
        'hw_input_bus': enums.InputBusField(),
        'hw_ipxe_boot': fields.FlexibleBooleanField(),
        'hw_locked_memory': fields.FlexibleBooleanField(),
        'hw_machine_type': fields.StringField(),
        'hw_mem_encryption': fields.FlexibleBooleanField(),
        'hw_mem_encryption_model': enums.MemEncryptionModelField(),
        'hw_mem_page_size': fields.StringField(),
        'hw_numa_nodes': fields.IntegerField(),
        'hw_numa_cpus': fields.ListOfSetsOfIntegersField(),
        'hw_numa_mem': fields.ListOfIntegersField(),
        'hw_pci_numa_affinity_policy': enums.PCINUMAAffinityPolicyField(),
        'hw_pointer_model': enums.PointerModelField(),
        'hw_pmu': fields.FlexibleBooleanField(),
        'hw_qemu_guest_agent': fields.FlexibleBooleanField(),
        'hw_rescue_bus': enums.DiskBusField(),
        'hw_rescue_device': enums.BlockDeviceTypeField(),
        'hw_rng_model': enums.RNGModelField(),
        'hw_time_hpet': fields.FlexibleBooleanField(),
        'hw_serial_port_count': fields.IntegerField(),
        'hw_scsi_model': enums.SCSIModelField(),
        'hw_video_model': enums.VideoModelField(),
        'hw_video_ram': fields.IntegerField(),
        'hw_vif_model': enums.VIFModelField(),
        'hw_viommu_model': enums.VIOMMUModelField(),
        'hw_vm_mode': enums.VMModeField(),
        'hw_watchdog_action': enums.WatchdogActionField(),
        'hw_vif_multiqueue_enabled': fields.FlexibleBooleanField(),
        'hw_tpm_model': enums.TPMModelField(),
        'hw_tpm_version': enums.TPMVersionField(),
        'hw_ephemeral_encryption': fields.FlexibleBooleanField(),
        'hw_ephemeral_encryption_format': enums.BlockDeviceEncryptionFormatTypeField(),
        'hw_ephemeral_encryption_secret_uuid': fields.UUIDField(),
        'hw_virtio_packed_ring': fields.FlexibleBooleanField(),
        'hw_maxphysaddr_mode': enums.MaxPhysAddrModeField(),
        'hw_maxphysaddr_bits': fields.IntegerField(),
        'hw_sound_model': enums.SoundModelField(),
        'hw_usb_model': enums.USBControllerModelField(),
        'hw_redirected_usb_ports': fields.IntegerField(),
        'img_bittorrent': fields.FlexibleBooleanField(),
        'img_bdm_v2': fields.FlexibleBooleanField(),
        'img_block_device_mapping': fields.ListOfDictOfNullableStringsField(),
        'img_cache_in_nova': fields.FlexibleBooleanField(),
        'img_compression_level': fields.IntegerField(),
        'img_hv_requested_version': fields.VersionPredicateField(),
        'img_hv_type': enums.HVTypeField(),
        'img_config_drive': enums.ConfigDrivePolicyField(),
        'img_linked_clone': fields.FlexibleBooleanField(),
        'img_mappings': fields.ListOfDictOfNullableStringsField(),
        'img_owner_id': fields.StringField(),
        'img_root_device_name': fields.StringField(),
        'img_use_agent': fields.FlexibleBooleanField(),
        'img_version': fields.IntegerField(),
        'img_signature': fields.StringField(),
        'img_signature_hash_method': enums.ImageSignatureHashTypeField(),
        'img_signature_certificate_uuid': fields.UUIDField(),
        'img_signature_key_type': enums.ImageSignatureKeyTypeField(),
        'img_hide_hypervisor_id': fields.FlexibleBooleanField(),
        'os_admin_user': fields.StringField(),
        'os_command_line': fields.StringField(),
        'os_distro': fields.StringField(),
        'os_require_quiesce': fields.FlexibleBooleanField(),
        'os_secure_boot': enums.SecureBootField(),
        'os_skip_agent_inject_files_at_boot': fields.FlexibleBooleanField(),
        'os_skip_agent_inject_ssh': fields.FlexibleBooleanField(),
        'os_type': enums.OSTypeField(),
        'traits_required': fields.ListOfStringsField(),
    }

    @classmethod
    def from_dict(cls, properties):
        """Returns the known ones of an image's free properties, under their current names.

        Raises MalformedObject for a value that is invalid for its property.
        """
        data = image_names.todays_names(properties, cls.fields)
        return object_io.read(object_io.primitive('ImageMetaProps', data))

    def get(self, name, default=None):
        """Returns a property, or the default if it is not set."""
        if name not in self.fields:
            raise AttributeError(f'there is no image property {name}')
        return getattr(self, name) if name in self else default
