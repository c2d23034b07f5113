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

"""The request of RPC 4.0: two plain dicts, ``request_spec`` and ``filter_properties``."""

from nova_sched import errors
from nova_sched.objects import fields, image_meta, object_io

# Keys of instance_properties and the fields of RequestSpec that they become.
_OF_INSTANCE = {
    'uuid': 'instance_uuid',
    'project_id': 'project_id',
    'user_id': 'user_id',
    'availability_zone': 'availability_zone',
}
_HOST_LISTS = ('ignore_hosts', 'force_hosts', 'force_nodes')


def spec_data(request_spec, filter_properties):
    """Return the data of a RequestSpec primitive; a field that the dicts lack is left out or
    null.

    Raises MalformedObject.
    """
    request_spec = _dict(request_spec, 'request_spec')
    properties = _dict(filter_properties, 'filter_properties')
    instance = _dict(request_spec.get('instance_properties'), 'request_spec.instance_properties')
    data = {field: instance[key] for key, field in _OF_INSTANCE.items() if key in instance}
    if data.get('instance_uuid') is None:
        data.pop('instance_uuid', None)
    data |= {
        'numa_topology': lift('InstanceNUMATopology', instance.get('numa_topology')),
        'pci_requests': lift('InstancePCIRequests', instance.get('pci_requests')),
        'image': _image(request_spec.get('image')),
        'retry': _retry(properties.get('retry')),
        'limits': _limits(properties.get('limits')),
        'instance_group': _group(properties),
        'scheduler_hints': _hints(properties.get('scheduler_hints', {})),
        'requested_destination': lift('Destination', properties.get('requested_destination')),
    }
    data |= {name: properties.get(name) for name in _HOST_LISTS}
    if request_spec.get('instance_type') is not None:
        data['flavor'] = lift('Flavor', request_spec['instance_type'])
    if request_spec.get('num_instances') is not None:
        data['num_instances'] = request_spec['num_instances']
    return data


def _dict(value, where):
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise errors.MalformedObject(where, 'a dict is required')
    return value


def _image(image):
    if isinstance(image, dict) and not object_io.is_primitive(image):
        return image_meta.ImageMeta.from_dict(image)
    return image


def _retry(retry):
    """Convert ``{num_attempts, hosts: [[host, node], ...]}``; an empty dict means none."""
    if not isinstance(retry, dict) or object_io.is_primitive(retry):
        return retry
    if not retry:
        return None
    try:
        nodes = [
            object_io.primitive('ComputeNode', {'host': host, 'hypervisor_hostname': node})
            for host, node in retry.get('hosts') or []
        ]
    except (TypeError, ValueError):
        raise errors.MalformedObject(
            'filter_properties.retry.hosts', 'a list of pairs of host and node is required'
        ) from None
    hosts = object_io.primitive('ComputeNodeList', {'objects': nodes})
    return object_io.primitive(
        'SchedulerRetries', {'num_attempts': retry.get('num_attempts', 0), 'hosts': hosts}
    )


def _limits(limits):
    """Convert limits by name; old compute nodes wrote fractions, whose integer part counts."""
    if limits is None:
        limits = {}
    if not isinstance(limits, dict) or object_io.is_primitive(limits):
        return limits
    data = dict.fromkeys(('vcpu', 'disk_gb', 'memory_mb', 'numa_topology'))
    data |= {
        name: value // 1 if isinstance(value, float) else value
        for name, value in limits.items()
        if name in data
    }
    return object_io.primitive('SchedulerLimits', data)


def _group(properties):
    """Return the server group, from an object or from the ``group_*`` keys of old conductors."""
    if properties.get('instance_group') is not None:
        return lift('InstanceGroup', properties['instance_group'])
    if not properties.get('group_updated'):
        return None
    policies = properties.get('group_policies')
    data = {
        'policies': policies,
        'policy': next(iter(policies), None) if isinstance(policies, (list, tuple, set)) else None,
        'hosts': properties.get('group_hosts'),
        'members': properties.get('group_members'),
    }
    if properties.get('group_uuid') is not None:
        data['uuid'] = properties['group_uuid']
    return object_io.primitive('InstanceGroup', data)


def _hints(hints):
    if not isinstance(hints, dict):
        return hints
    return {
        name: value if isinstance(value, list) else [] if value is None else [value]
        for name, value in hints.items()
    }


def lift(name, value):
    """Return the primitive of object ``name``; an object or a primitive is returned unchanged.

    Unknown keys are left out.
    """
    if not isinstance(value, dict) or object_io.is_primitive(value):
        return value
    known = object_io.CLASSES[name].fields
    return object_io.primitive(
        name, {key: _lift_field(known[key], item) for key, item in value.items() if key in known}
    )


def _lift_field(field, value):
    if isinstance(field, fields.ObjectField):
        return lift(field.objname, value)
    if isinstance(field, fields.ListOfObjectsField) and isinstance(value, list):
        return [lift(field.objname, item) for item in value]
    return value
