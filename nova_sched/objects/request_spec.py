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

"""A request to the scheduler."""

from nova_sched.objects import (
    base,
    fields,
    legacy_request,
    network,
    object_io,
    request_group,
    security_group,
)


@base.register
class RequestSpec(base.NovaObject):
    """One request for hosts: flavor, image, hints, and all other requirements."""

    VERSION = '1.15'
    ADDED_IN = {
        'requested_destination': '1.6',
        'security_groups': '1.8',
        'user_id': '1.9',
        'network_metadata': '1.10',
        'is_bfv': '1.11',
        'requested_resources': '1.12',
        'request_level_params': '1.13',
        'requested_networks': '1.14',
    }

    fields = {
        'id': fields.IntegerField(),
        'image': fields.ObjectField('ImageMeta', nullable=True),
        'numa_topology': fields.ObjectField('InstanceNUMATopology', nullable=True),
        'pci_requests': fields.ObjectField('InstancePCIRequests', nullable=True),
        'project_id': fields.StringField(nullable=True),
        'user_id': fields.StringField(nullable=True),
        'availability_zone': fields.StringField(nullable=True),
        'flavor': fields.ObjectField('Flavor'),
        'num_instances': fields.IntegerField(default=1),
        'ignore_hosts': fields.ListOfStringsField(nullable=True),
        'force_hosts': fields.ListOfStringsField(nullable=True),
        'force_nodes': fields.ListOfStringsField(nullable=True),
        'requested_destination': fields.ObjectField('Destination', nullable=True, default=None),
        'retry': fields.ObjectField('SchedulerRetries', nullable=True),
        'limits': fields.ObjectField('SchedulerLimits', nullable=True),
        'instance_group': fields.ObjectField('InstanceGroup', nullable=True),
        'scheduler_hints': fields.DictOfListOfStringsField(nullable=True),
        'instance_uuid': fields.UUIDField(),
        'security_groups': fields.ObjectField('SecurityGroupList'),
        'network_metadata': fields.ObjectField('NetworkMetadata'),
        'is_bfv': fields.BooleanField(),
        'requested_resources': fields.ListOfObjectsField(
            'RequestGroup', nullable=True, default=None
        ),
        'request_level_params': fields.ObjectField('RequestLevelParams'),
        'requested_networks': fields.ObjectField('NetworkRequestList'),
    }

    @property
    def vcpus(self):
        return self.flavor.vcpus

    @property
    def memory_mb(self):
        return self.flavor.memory_mb

    @property
    def root_gb(self):
        return self.flavor.root_gb

    @property
    def ephemeral_gb(self):
        return self.flavor.ephemeral_gb

    @property
    def swap(self):
        """Returns MiB, unlike the other disks."""
        return self.flavor.swap

    def get_scheduler_hint(self, hint_name, default=None):
        """Returns one hint: its only value, the list of its values, or the default if it is
        absent."""
        hints = self.scheduler_hints if 'scheduler_hints' in self else None
        values = (hints or {}).get(hint_name, default)
        return values[0] if isinstance(values, list) and len(values) == 1 else values

    def obj_load_attr(self, attrname):
        """Reads fields that an older sender does not have as no requirement, as in Nova."""
        make = NOTHING_ASKED.get(attrname)
        return make() if make else super().obj_load_attr(attrname)

    @classmethod
    def from_primitives(cls, request_spec, filter_properties):
        """Returns the request in the two dicts that callers of RPC 4.0 send.

        Objects in the dicts may be objects, their primitives or plain dicts of their fields.
        Raises MalformedObject or IncompatibleObject.
        """
        data = legacy_request.spec_data(request_spec, filter_properties)
        spec = object_io.read(object_io.primitive('RequestSpec', data))
        spec.obj_set_defaults()
        return spec


# Fields that were added late, and their values when they are not set.
NOTHING_ASKED = {
    'requested_destination': lambda: None,
    'requested_resources': lambda: None,
    'security_groups': security_group.SecurityGroupList,
    'network_metadata': lambda: network.NetworkMetadata(physnets=set(), tunneled=False),
    'request_level_params': request_group.RequestLevelParams,
    'requested_networks': network.NetworkRequestList,
}
