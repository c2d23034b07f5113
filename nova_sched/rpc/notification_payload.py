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
"""The payloads of Nova's notifications about a request, from the primitive of its RequestSpec."""

from nova_sched import words
from nova_sched.objects.object_io import DATA, NAME, NAMESPACE, NOVA, VERSION

LEGACY_TIME = '%Y-%m-%dT%H:%M:%S.%f'
TIMES = frozenset(['created_at', 'updated_at', 'deleted_at'])

# Fields that a payload takes over from its object, under the same name; None where not set.
OF_REQUEST = 'ignore_hosts project_id user_id availability_zone scheduler_hints'.split()
OF_FLAVOR = (
    'flavorid memory_mb vcpus root_gb ephemeral_gb name swap rxtx_factor vcpu_weight disabled '
    'is_public extra_specs projects description'
).split()
OF_IMAGE = (
    'id name status visibility protected checksum owner size virtual_size container_format '
    'disk_format created_at updated_at tags direct_url min_ram min_disk'
).split()
OF_GROUP = 'uuid name user_id project_id members hosts policy'.split()
OF_CELL = (
    'id cpuset pcpuset cpuset_reserved memory pagesize cpu_pinning_raw cpu_policy '
    'cpu_thread_policy'
).split()
OF_PCI = 'count spec alias_name request_id numa_policy'.split()
OF_INSTANCE = 'numa_topology pci_requests project_id user_id availability_zone'.split()
OF_SIZE = 'root_gb ephemeral_gb memory_mb vcpus'.split()


# The versioned payload.


def versioned(spec):
    """Return the RequestSpecPayload of a RequestSpec's primitive."""
    data = spec[DATA]
    uuid = data['instance_uuid']
    groups = _data(data.get('security_groups')).get('objects') or ()
    return _payload(
        'RequestSpecPayload',
        '1.1',
        {
            **_taken(OF_REQUEST, data),
            'instance_uuid': uuid,
            'num_instances': data.get('num_instances', 1),
            'flavor': _made(_flavor, data.get('flavor')),
            'image': _made(_image, data.get('image')),
            'numa_topology': _made(_numa, data.get('numa_topology'), uuid),
            'pci_requests': _made(_pci, data.get('pci_requests'), uuid),
            'requested_destination': _made(_destination, data.get('requested_destination')),
            'retry': _made(_retry, data.get('retry')),
            'instance_group': _made(_group, data.get('instance_group')),
            'force_hosts': _first(data.get('force_hosts')),
            'force_nodes': _first(data.get('force_nodes')),
            'security_groups': [
                group[DATA].get('uuid') or group[DATA].get('name') for group in groups
            ],
        },
    )


def _payload(name, version, data):
    return {NAME: name, NAMESPACE: NOVA, VERSION: version, DATA: data}


def _made(make, value, *arguments):
    return None if value is None else make(value[DATA], *arguments)


def _data(value):
    return {} if value is None else value[DATA]


def _taken(names, data):
    return {name: data.get(name) for name in names}


def _first(values):
    return values[0] if values else None


def _flavor(data):
    return _payload('FlavorPayload', '1.4', _taken(OF_FLAVOR, data))


def _image(data):
    properties = dict(_data(data.get('properties')))
    payload = _payload('ImageMetaPropsPayload', '1.20', properties)
    return _payload('ImageMetaPayload', '1.0', {**_taken(OF_IMAGE, data), 'properties': payload})


def _numa(data, uuid):
    fields = {
        'instance_uuid': data.get('instance_uuid', uuid),
        'emulator_threads_policy': data.get('emulator_threads_policy'),
        'cells': [_made(_cell, cell) for cell in data.get('cells') or ()],
    }
    return _payload('InstanceNUMATopologyPayload', '1.0', fields)


def _cell(data):
    fields = {**_taken(OF_CELL, data), 'cpu_topology': _made(_cpus, data.get('cpu_topology'))}
    return _payload('InstanceNUMACellPayload', '1.2', fields)


def _cpus(data):
    fields = _taken(['sockets', 'cores', 'threads'], data)
    return _payload('VirtCPUTopologyPayload', '1.0', fields)


def _pci(data, uuid):
    requests = [
        _payload('InstancePCIRequestPayload', '1.1', _taken(OF_PCI, request[DATA]))
        for request in data.get('requests') or ()
    ]
    fields = {'instance_uuid': data.get('instance_uuid', uuid), 'requests': requests}
    return _payload('InstancePCIRequestsPayload', '1.0', fields)


def _destination(data):
    fields = {name: data[name] for name in ('host', 'node') if data.get(name) is not None}
    cell = data.get('cell')
    if cell is not None:
        known = {'disabled': False, **_taken(['uuid', 'name'], cell[DATA])}
        known |= {name: cell[DATA][name] for name in known if name in cell[DATA]}
        fields['cell'] = _payload('CellMappingPayload', '2.0', known)
    return _payload('DestinationPayload', '1.0', {**fields, 'aggregates': data.get('aggregates')})


def _retry(data):
    nodes = _data(data.get('hosts')).get('objects') or ()
    hosts = [node[DATA]['hypervisor_hostname'] for node in nodes]
    fields = {'num_attempts': data.get('num_attempts'), 'hosts': hosts}
    return _payload('SchedulerRetriesPayload', '1.0', fields)


def _group(data):
    policy = data.get('policy')
    fields = {
        **_taken(OF_GROUP, data),
        'policies': [policy] if policy else [],
        'rules': data.get('rules') or data.get('_rules') or {},
    }
    return _payload('ServerGroupPayload', '1.1', fields)


# The payload without versions.


def legacy(spec):
    """Return the payload without versions of a RequestSpec's primitive.

    Unlike Nova's, it has no request contexts, and so no tokens.
    """
    data = spec[DATA]
    flavor = _data(data.get('flavor'))
    instance = {
        name: _dump(data[name]) if name == 'pci_requests' else _plain(data[name])
        for name in OF_INSTANCE
        if name in data
    }
    instance |= {name: flavor[name] for name in OF_SIZE if name in flavor}
    if 'instance_uuid' in data:
        instance['uuid'] = data['instance_uuid']
    return {
        'request_spec': {
            'num_instances': data.get('num_instances', 1),
            'image': _plain(data.get('image')) or {},
            'instance_properties': instance,
            'instance_type': _plain(data.get('flavor')) or {},
        }
    }


def _plain(value, name=None):
    """The primitive of an object as a mapping of its set fields; other values as they are."""
    if isinstance(value, dict):
        return {name: _plain(field, name) for name, field in value.get(DATA, value).items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if name in TIMES and value is not None:
        return words.moment(value).strftime(LEGACY_TIME)
    return value


def _dump(value):
    """The same for an object that Nova sends by its attributes."""
    if isinstance(value, dict) and DATA in value:
        own = {f'_obj_{name}': _dump(field) for name, field in value[DATA].items()}
        return {'VERSION': value[VERSION], **own}
    return [_dump(item) for item in value] if isinstance(value, (list, tuple)) else value
