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

"""A request to the scheduler, and the objects that it consists of."""

import math
import uuid

from nova_sched import words
from nova_sched.objects import base, fields, legacy_request, object_io
from nova_sched.objects.hardware import InstancePCIRequests
from nova_sched.objects.image_meta import ImageMeta
from nova_sched.objects.selection import SchedulerLimits


@base.register
class Flavor(base.PersistentMixin, base.NovaObject, base.DictCompat):
    """The resources of an instance: memory and swap in MiB, disks in GiB, whole vCPUs."""

    VERSION = '1.2'

    fields = {
        'id': fields.IntegerField(),
        'name': fields.StringField(nullable=True),
        'memory_mb': fields.IntegerField(),
        'vcpus': fields.IntegerField(),
        'root_gb': fields.IntegerField(),
        'ephemeral_gb': fields.IntegerField(),
        'flavorid': fields.StringField(),
        'swap': fields.IntegerField(),
        'rxtx_factor': fields.FloatField(nullable=True, default=1.0),
        'vcpu_weight': fields.IntegerField(nullable=True),
        'disabled': fields.BooleanField(),
        'is_public': fields.BooleanField(),
        'extra_specs': fields.DictOfStringsField(),
        'projects': fields.ListOfStringsField(),
        'description': fields.StringField(nullable=True),
    }


@base.register
class InstanceGroup(base.PersistentMixin, base.NovaObject, base.DictCompat):
    """Instances that are placed together or apart."""

    VERSION = '1.11'

    fields = {
        'id': fields.IntegerField(),
        'user_id': fields.StringField(nullable=True),
        'project_id': fields.StringField(nullable=True),
        'uuid': fields.UUIDField(),
        'name': fields.StringField(nullable=True),
        'policies': fields.ListOfStringsField(nullable=True, read_only=True),
        'members': fields.ListOfStringsField(nullable=True),
        'hosts': fields.ListOfStringsField(nullable=True),
        'policy': fields.StringField(nullable=True),
        '_rules': fields.DictOfStringsField(),
    }

    def __init__(self, *args, rules=None, **kwargs):
        if rules is not None:
            kwargs['_rules'] = rules
        super().__init__(*args, **kwargs)

    @property
    def rules(self):
        """Return the rules of the policy, by name; values that are whole numbers are integers."""
        if '_rules' not in self:
            return {}
        return {name: _rule(value) for name, value in self._rules.items()}

    def obj_load_attr(self, attrname):
        """Derive ``policy`` from ``policies`` or the reverse: version 1.11 replaced the list with
        ``policy``."""
        if attrname == 'policies' and 'policy' in self:
            return [self.policy] if self.policy is not None else []
        if attrname == 'policy' and 'policies' in self:
            return self.policies[0] if self.policies else None
        return super().obj_load_attr(attrname)

    def obj_complete_older(self):
        if 'policy' not in self and 'policies' in self:
            self.policy = self.policies[0] if self.policies else None


def _rule(text):
    try:
        return words.whole(text, most=math.inf)
    except ValueError:
        return text


@base.register
class Destination(base.NovaObject):
    """A host, node, cell or aggregates that the request is limited to."""

    VERSION = '1.4'

    fields = {
        'host': fields.StringField(),
        'node': fields.StringField(nullable=True),
        'cell': fields.ObjectField('CellMapping', nullable=True),
        'aggregates': fields.ListOfStringsField(nullable=True, default=None),
        'allow_cross_cell_move': fields.BooleanField(default=False),
        'forbidden_aggregates': fields.SetOfStringsField(nullable=True, default=None),
    }


@base.register
class RequestGroup(base.EphemeralObject):
    """Resources and traits that one provider must give."""

    VERSION = '1.3'

    fields = {
        'use_same_provider': fields.BooleanField(default=True),
        'resources': fields.DictOfIntegersField(default={}),
        'required_traits': fields.SetOfStringsField(default=set()),
        'forbidden_traits': fields.SetOfStringsField(default=set()),
        'aggregates': fields.ListOfListsOfStringsField(default=[]),
        'forbidden_aggregates': fields.SetOfStringsField(default=set()),
        'requester_id': fields.StringField(nullable=True, default=None),
        'provider_uuids': fields.ListOfUUIDField(default=[]),
        'in_tree': fields.UUIDField(nullable=True, default=None),
    }


@base.register
class RequestLevelParams(base.NovaObject):
    """Demands on the request as a whole."""

    VERSION = '1.1'

    fields = {
        'root_required': fields.SetOfStringsField(default=set()),
        'root_forbidden': fields.SetOfStringsField(default=set()),
        'same_subtree': fields.ListOfListsOfStringsField(default=[]),
    }


@base.register
class NetworkMetadata(base.NovaObject):
    """Physical networks, and whether tunnels are used."""

    VERSION = '1.0'

    fields = {
        'physnets': fields.SetOfStringsField(),
        'tunneled': fields.BooleanField(),
    }


@base.register
class NetworkRequest(base.NovaObject):
    """One requested network or port of a server."""

    VERSION = '1.3'

    fields = {
        'network_id': fields.StringField(nullable=True),
        'address': fields.IPAddressField(nullable=True),
        'port_id': fields.UUIDField(nullable=True),
        'pci_request_id': fields.UUIDField(nullable=True),
        'tag': fields.StringField(nullable=True),
        'arq_uuid': fields.UUIDField(nullable=True),
        'device_profile': fields.StringField(nullable=True),
    }


@base.register
class NetworkRequestList(base.NovaList):
    """Network requests."""

    VERSION = '1.1'

    fields = {
        'objects': fields.ListOfObjectsField('NetworkRequest'),
    }


@base.register
class SecurityGroup(base.PersistentMixin, base.NovaObject):
    """One security group."""

    VERSION = '1.2'

    fields = {
        'id': fields.IntegerField(),
        'name': fields.StringField(),
        'description': fields.StringField(),
        'user_id': fields.StringField(),
        'project_id': fields.StringField(),
        'uuid': fields.UUIDField(),
    }


@base.register
class SecurityGroupList(base.NovaList):
    """Security groups."""

    VERSION = '1.1'

    fields = {
        'objects': fields.ListOfObjectsField('SecurityGroup'),
    }


@base.register
class RequestSpec(base.NovaObject):
    """One request for hosts: flavor, image, hints, and all other requirements."""

    VERSION = '1.15'

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
        """Return MiB, unlike the other disks."""
        return self.flavor.swap

    def get_scheduler_hint(self, hint_name, default=None):
        """Return one hint: its only value, the list of its values, or the default if it is
        absent."""
        hints = self.scheduler_hints if 'scheduler_hints' in self else None
        values = (hints or {}).get(hint_name, default)
        return values[0] if isinstance(values, list) and len(values) == 1 else values

    def obj_load_attr(self, attrname):
        """Read fields that an older sender does not have as no requirement, as in Nova."""
        make = NOTHING_ASKED.get(attrname)
        return make() if make else super().obj_load_attr(attrname)

    @classmethod
    def from_primitives(cls, request_spec, filter_properties):
        """Return the request in the two dicts that callers of RPC 4.0 send.

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
    'security_groups': SecurityGroupList,
    'network_metadata': lambda: NetworkMetadata(physnets=set(), tunneled=False),
    'request_level_params': RequestLevelParams,
    'requested_networks': NetworkRequestList,
}


def simple_request(
    flavor,
    count=1,
    project_id=None,
    zone=None,
    image=None,
    image_properties=(),
    hints=(),
    ignore_hosts=None,
    force_hosts=None,
):
    """A RequestSpec for ``count`` new servers of a Flavor. ``image_properties`` and ``hints`` are
    pairs; a hint may be repeated.

    It has no NUMA cells and no PCI devices: Nova's API computes them.
    """
    server, gathered = str(uuid.uuid4()), {}
    for key, value in hints:
        gathered.setdefault(key, []).append(value)
    return RequestSpec(
        instance_uuid=server,
        num_instances=count,
        project_id=project_id,
        user_id=None,
        availability_zone=zone,
        flavor=flavor,
        image=ImageMeta.from_dict({'id': image, 'properties': dict(image_properties)}),
        numa_topology=None,
        pci_requests=InstancePCIRequests(instance_uuid=server, requests=[]),
        ignore_hosts=ignore_hosts,
        force_hosts=force_hosts,
        force_nodes=None,
        requested_destination=None,
        retry=None,
        limits=SchedulerLimits(),
        instance_group=None,
        scheduler_hints=gathered,
        is_bfv=False,
    )
