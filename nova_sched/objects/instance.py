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

"""Instances, as compute nodes report them, and their disks, devices, resources and moves."""

from nova_sched.objects import base, fields


@base.register
class Instance(base.PersistentMixin, base.NovaObject, base.DictCompat):
    """One server. Only its ``uuid`` is read here: callers pass it in lists of instances."""

    VERSION = '2.8'
    obj_extra_fields = ['name']
    ADDED_IN = {
        'services': '2.1',
        'keypairs': '2.2',
        'device_metadata': '2.3',
        'trusted_certs': '2.4',
        'hidden': '2.6',
        'resources': '2.7',
        'compute_id': '2.8',
    }

    fields = {
        'id': fields.IntegerField(),
        'user_id': fields.StringField(nullable=True),
        'project_id': fields.StringField(nullable=True),
        'image_ref': fields.StringField(nullable=True),
        'kernel_id': fields.StringField(nullable=True),
        'ramdisk_id': fields.StringField(nullable=True),
        'hostname': fields.StringField(nullable=True),
        'launch_index': fields.IntegerField(nullable=True),
        'key_name': fields.StringField(nullable=True),
        'key_data': fields.StringField(nullable=True),
        'power_state': fields.IntegerField(nullable=True),
        'vm_state': fields.StringField(nullable=True),
        'task_state': fields.StringField(nullable=True),
        'services': fields.ObjectField('ServiceList'),
        'memory_mb': fields.IntegerField(nullable=True),
        'vcpus': fields.IntegerField(nullable=True),
        'root_gb': fields.IntegerField(nullable=True),
        'ephemeral_gb': fields.IntegerField(nullable=True),
        'ephemeral_key_uuid': fields.UUIDField(nullable=True),
        'host': fields.StringField(nullable=True),
        'node': fields.StringField(nullable=True),
        'compute_id': fields.IntegerField(nullable=True),
        'instance_type_id': fields.IntegerField(nullable=True),
        'user_data': fields.StringField(nullable=True),
        'reservation_id': fields.StringField(nullable=True),
        'launched_at': fields.DateTimeField(nullable=True),
        'terminated_at': fields.DateTimeField(nullable=True),
        'availability_zone': fields.StringField(nullable=True),
        'display_name': fields.StringField(nullable=True),
        'display_description': fields.StringField(nullable=True),
        'launched_on': fields.StringField(nullable=True),
        'locked': fields.BooleanField(default=False),
        'locked_by': fields.StringField(nullable=True),
        'os_type': fields.StringField(nullable=True),
        'architecture': fields.StringField(nullable=True),
        'vm_mode': fields.StringField(nullable=True),
        'uuid': fields.UUIDField(),
        'root_device_name': fields.StringField(nullable=True),
        'default_ephemeral_device': fields.StringField(nullable=True),
        'default_swap_device': fields.StringField(nullable=True),
        'config_drive': fields.StringField(nullable=True),
        'access_ip_v4': fields.IPV4AddressField(nullable=True),
        'access_ip_v6': fields.IPV6AddressField(nullable=True),
        'auto_disk_config': fields.BooleanField(default=False),
        'progress': fields.IntegerField(nullable=True),
        'shutdown_terminate': fields.BooleanField(default=False),
        'disable_terminate': fields.BooleanField(default=False),
        'cell_name': fields.StringField(nullable=True),
        'metadata': fields.DictOfStringsField(),
        'system_metadata': fields.DictOfNullableStringsField(),
        'info_cache': fields.ObjectField('InstanceInfoCache', nullable=True),
        'security_groups': fields.ObjectField('SecurityGroupList'),
        'fault': fields.ObjectField('InstanceFault', nullable=True),
        'cleaned': fields.BooleanField(default=False),
        'pci_devices': fields.ObjectField('PciDeviceList', nullable=True),
        'numa_topology': fields.ObjectField('InstanceNUMATopology', nullable=True),
        'pci_requests': fields.ObjectField('InstancePCIRequests', nullable=True),
        'device_metadata': fields.ObjectField('InstanceDeviceMetadata', nullable=True),
        'tags': fields.ObjectField('TagList'),
        'flavor': fields.ObjectField('Flavor'),
        'old_flavor': fields.ObjectField('Flavor', nullable=True),
        'new_flavor': fields.ObjectField('Flavor', nullable=True),
        'vcpu_model': fields.ObjectField('VirtCPUModel', nullable=True),
        'ec2_ids': fields.ObjectField('EC2Ids'),
        'migration_context': fields.ObjectField('MigrationContext', nullable=True),
        'keypairs': fields.ObjectField('KeyPairList'),
        'trusted_certs': fields.ObjectField('TrustedCerts', nullable=True),
        'hidden': fields.BooleanField(default=False),
        'resources': fields.ObjectField('ResourceList', nullable=True),
    }

    @property
    def name(self):
        """Returns the instance name on hypervisors, in Nova's default form; None without an id."""
        return f'instance-{self.id:08x}' if 'id' in self else None


@base.register
class InstanceList(base.NovaList):
    """Instances."""

    VERSION = '2.6'

    fields = {
        'objects': fields.ListOfObjectsField('Instance'),
    }


@base.register
class EC2Ids(base.NovaObject):
    """Names of an instance and its images in the EC2 form."""

    VERSION = '1.0'

    fields = {
        'instance_id': fields.StringField(read_only=True),
        'ami_id': fields.StringField(nullable=True, read_only=True),
        'kernel_id': fields.StringField(nullable=True, read_only=True),
        'ramdisk_id': fields.StringField(nullable=True, read_only=True),
    }


@base.register
class InstanceFault(base.PersistentMixin, base.NovaObject, base.DictCompat):
    """The last fault of an instance."""

    VERSION = '1.2'

    fields = {
        'id': fields.IntegerField(),
        'instance_uuid': fields.UUIDField(),
        'code': fields.IntegerField(),
        'message': fields.StringField(nullable=True),
        'details': fields.StringField(nullable=True),
        'host': fields.StringField(nullable=True),
    }


@base.register
class InstanceInfoCache(base.PersistentMixin, base.NovaObject):
    """Cached network information of an instance."""

    VERSION = '1.5'

    fields = {
        'instance_uuid': fields.UUIDField(),
        'network_info': fields.NetworkModelField(nullable=True),
    }


@base.register
class BlockDeviceMapping(base.PersistentMixin, base.NovaObject, base.DictCompat):
    """One disk of an instance, and where its content comes from."""

    VERSION = '1.21'

    fields = {
        'id': fields.IntegerField(),
        'uuid': fields.UUIDField(),
        'instance_uuid': fields.UUIDField(),
        'instance': fields.ObjectField('Instance', nullable=True),
        'source_type': fields.BlockDeviceSourceTypeField(nullable=True),
        'destination_type': fields.BlockDeviceDestinationTypeField(nullable=True),
        'guest_format': fields.StringField(nullable=True),
        'device_type': fields.BlockDeviceTypeField(nullable=True),
        'disk_bus': fields.StringField(nullable=True),
        'boot_index': fields.IntegerField(nullable=True),
        'device_name': fields.StringField(nullable=True),
        'delete_on_termination': fields.BooleanField(default=False),
        'snapshot_id': fields.StringField(nullable=True),
        'volume_id': fields.StringField(nullable=True),
        'volume_size': fields.IntegerField(nullable=True),
        'image_id': fields.StringField(nullable=True),
        'no_device': fields.BooleanField(default=False),
        'connection_info': fields.SensitiveStringField(nullable=True),
        'tag': fields.StringField(nullable=True),
        'attachment_id': fields.UUIDField(nullable=True),
        'volume_type': fields.StringField(nullable=True),
        'encrypted': fields.BooleanField(default=False),
        'encryption_secret_uuid': fields.UUIDField(nullable=True),
        'encryption_format': fields.BlockDeviceEncryptionFormatTypeField(nullable=True),
        'encryption_options': fields.StringField(nullable=True),
    }


@base.register
class BlockDeviceMappingList(base.NovaList):
    """Block device mappings."""

    VERSION = '1.18'

    fields = {
        'objects': fields.ListOfObjectsField('BlockDeviceMapping'),
    }


@base.register
class DeviceBus(base.NovaObject):
    """The bus address of a device; the kinds of bus are not known here."""

    VERSION = '1.0'

    fields = {}


@base.register
class DeviceMetadata(base.NovaObject):
    """The tags of one device."""

    VERSION = '1.0'

    fields = {
        'bus': fields.ObjectField('DeviceBus', subclasses=True),
        'tags': fields.ListOfStringsField(),
    }


@base.register
class InstanceDeviceMetadata(base.NovaObject):
    """The tagged devices of an instance."""

    VERSION = '1.0'

    fields = {
        'devices': fields.ListOfObjectsField('DeviceMetadata', subclasses=True),
    }


@base.register
class KeyPair(base.PersistentMixin, base.NovaObject, base.DictCompat):
    """One SSH key pair."""

    VERSION = '1.4'

    fields = {
        'id': fields.IntegerField(),
        'name': fields.StringField(),
        'user_id': fields.StringField(nullable=True),
        'fingerprint': fields.StringField(nullable=True),
        'public_key': fields.StringField(nullable=True),
        'type': fields.StringField(),
    }


@base.register
class KeyPairList(base.NovaList):
    """Key pairs."""

    VERSION = '1.3'

    fields = {
        'objects': fields.ListOfObjectsField('KeyPair'),
    }


@base.register
class Tag(base.NovaObject):
    """One tag of one resource."""

    VERSION = '1.1'

    fields = {
        'resource_id': fields.StringField(),
        'tag': fields.StringField(),
    }


@base.register
class TagList(base.NovaList):
    """Tags."""

    VERSION = '1.1'

    fields = {
        'objects': fields.ListOfObjectsField('Tag'),
    }


@base.register
class TrustedCerts(base.NovaObject):
    """Ids of trusted certificates."""

    VERSION = '1.0'

    fields = {
        'ids': fields.ListOfStringsField(),
    }


@base.register
class ResourceMetadata(base.NovaObject):
    """A driver's data about a resource; the base of all kinds."""

    VERSION = '1.0'

    fields = {}


@base.register
class LibvirtVPMEMDevice(ResourceMetadata):
    """A persistent memory namespace."""

    VERSION = '1.0'

    fields = {
        'label': fields.StringField(),
        'name': fields.StringField(),
        'size': fields.IntegerField(),
        'devpath': fields.StringField(),
        'align': fields.IntegerField(),
    }


@base.register
class Resource(base.NovaObject):
    """One named resource of a provider."""

    VERSION = '1.0'

    fields = {
        'provider_uuid': fields.UUIDField(),
        'resource_class': fields.ResourceClassField(),
        'identifier': fields.StringField(),
        'metadata': fields.ObjectField('ResourceMetadata', subclasses=True),
    }


@base.register
class ResourceList(base.NovaList):
    """Resources."""

    VERSION = '1.0'

    fields = {
        'objects': fields.ListOfObjectsField('Resource'),
    }


@base.register
class Migration(base.PersistentMixin, base.NovaObject):
    """One move of an instance."""

    VERSION = '1.8'
    ADDED_IN = {
        'migration_type': '1.2',
        'hidden': '1.2',
        'memory_total': '1.4',
        'memory_processed': '1.4',
        'memory_remaining': '1.4',
        'disk_total': '1.4',
        'disk_processed': '1.4',
        'disk_remaining': '1.4',
        'uuid': '1.5',
        'cross_cell_move': '1.6',
        'user_id': '1.7',
        'project_id': '1.7',
        'dest_compute_id': '1.8',
    }

    fields = {
        'id': fields.IntegerField(),
        'uuid': fields.UUIDField(),
        'source_compute': fields.StringField(nullable=True),
        'dest_compute': fields.StringField(nullable=True),
        'source_node': fields.StringField(nullable=True),
        'dest_node': fields.StringField(nullable=True),
        'dest_compute_id': fields.IntegerField(nullable=True),
        'dest_host': fields.StringField(nullable=True),
        'old_instance_type_id': fields.IntegerField(nullable=True),
        'new_instance_type_id': fields.IntegerField(nullable=True),
        'instance_uuid': fields.StringField(nullable=True),
        'status': fields.StringField(nullable=True),
        'migration_type': fields.MigrationTypeField(),
        'hidden': fields.BooleanField(default=False),
        'memory_total': fields.IntegerField(nullable=True),
        'memory_processed': fields.IntegerField(nullable=True),
        'memory_remaining': fields.IntegerField(nullable=True),
        'disk_total': fields.IntegerField(nullable=True),
        'disk_processed': fields.IntegerField(nullable=True),
        'disk_remaining': fields.IntegerField(nullable=True),
        'cross_cell_move': fields.BooleanField(default=False),
        'user_id': fields.StringField(nullable=True),
        'project_id': fields.StringField(nullable=True),
    }


@base.register
class MigrationContext(base.PersistentMixin, base.NovaObject):
    """The claims of an instance on both sides of a move."""

    VERSION = '1.2'

    fields = {
        'instance_uuid': fields.UUIDField(),
        'migration_id': fields.IntegerField(),
        'new_numa_topology': fields.ObjectField('InstanceNUMATopology', nullable=True),
        'old_numa_topology': fields.ObjectField('InstanceNUMATopology', nullable=True),
        'new_pci_devices': fields.ObjectField('PciDeviceList', nullable=True),
        'old_pci_devices': fields.ObjectField('PciDeviceList', nullable=True),
        'new_pci_requests': fields.ObjectField('InstancePCIRequests', nullable=True),
        'old_pci_requests': fields.ObjectField('InstancePCIRequests', nullable=True),
        'new_resources': fields.ObjectField('ResourceList', nullable=True),
        'old_resources': fields.ObjectField('ResourceList', nullable=True),
    }


@base.register
class MigrationList(base.NovaList):
    """Migrations."""

    VERSION = '1.5'

    fields = {
        'objects': fields.ListOfObjectsField('Migration'),
    }
