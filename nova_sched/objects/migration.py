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

"""Moves of instances between nodes."""

from nova_sched.objects import base, enums, fields


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
        'migration_type': enums.MigrationTypeField(),
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
