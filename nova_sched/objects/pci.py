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

"""PCI devices of hosts, and the devices that instances ask for."""

from nova_sched.objects import base, fields


@base.register
class PciDevice(base.PersistentMixin, base.NovaObject):
    """One device and its owner."""

    VERSION = '1.7'

    fields = {
        'id': fields.IntegerField(),
        'uuid': fields.UUIDField(),
        'compute_node_id': fields.IntegerField(nullable=True),
        'address': fields.StringField(),
        'vendor_id': fields.StringField(),
        'product_id': fields.StringField(),
        'dev_type': fields.PciDeviceTypeField(),
        'status': fields.PciDeviceStatusField(),
        'dev_id': fields.StringField(nullable=True),
        'label': fields.StringField(nullable=True),
        'instance_uuid': fields.StringField(nullable=True),
        'request_id': fields.StringField(nullable=True),
        'extra_info': fields.DictOfStringsField(default={}),
        'numa_node': fields.IntegerField(nullable=True),
        'parent_addr': fields.StringField(nullable=True),
    }


@base.register
class PciDeviceList(base.NovaList):
    """PCI devices."""

    VERSION = '1.3'

    fields = {
        'objects': fields.ListOfObjectsField('PciDevice'),
    }


@base.register
class PciDevicePool(base.NovaObject):
    """A count of equal free devices."""

    VERSION = '1.1'

    fields = {
        'product_id': fields.StringField(),
        'vendor_id': fields.StringField(),
        'numa_node': fields.IntegerField(nullable=True),
        'tags': fields.DictOfNullableStringsField(),
        'count': fields.IntegerField(),
    }


@base.register
class PciDevicePoolList(base.NovaList):
    """The pools of free devices of one node."""

    VERSION = '1.1'

    fields = {
        'objects': fields.ListOfObjectsField('PciDevicePool'),
    }


@base.register
class InstancePCIRequest(base.NovaObject):
    """A count of devices that match one of the specs."""

    VERSION = '1.4'
    ADDED_IN = {'request_id': '1.1', 'numa_policy': '1.2', 'requester_id': '1.3'}

    fields = {
        'count': fields.IntegerField(),
        'spec': fields.ListOfDictOfNullableStringsField(),
        'alias_name': fields.StringField(nullable=True),
        'is_new': fields.BooleanField(default=False),
        'request_id': fields.UUIDField(nullable=True),
        'requester_id': fields.StringField(nullable=True),
        'numa_policy': fields.PCINUMAAffinityPolicyField(nullable=True),
    }


@base.register
class InstancePCIRequests(base.NovaObject):
    """The PCI requests of one instance."""

    VERSION = '1.1'

    fields = {
        'instance_uuid': fields.UUIDField(),
        'requests': fields.ListOfObjectsField('InstancePCIRequest'),
    }
