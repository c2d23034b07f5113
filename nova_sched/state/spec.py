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
"""How each fact of a request is read from a RequestSpec, or from anything with its attribute names.

The door reads all of them at once into a Request; the scalar face of a rule reads only those that
the rule asks for. One table serves both.
"""

import math
import types

from nova_sched.hardware.machine import Pieces
from nova_sched.hardware.numa import Guest
from nova_sched.hardware.numa.guest import DEDICATED, MIXED, REQUIRE
from nova_sched.hardware.pci import requests_of
from nova_sched.objects.claiming import DISK_GB, MEMORY_MB, PCPU, VCPU
from nova_sched.state.request import Destination, Group, check_type, hint, is_rebuild

TRAIT_PREFIX, RESOURCES_PREFIX = 'trait:', 'resources:'


def read(thing, name, default=None):
    """An attribute, or the default if it is unset (objects raise for that) or missing."""
    if thing is None:
        return default
    if hasattr(type(thing), 'obj_attr_is_set') and name in thing.fields and not thing.obj_attr_is_set(name):
        return default
    return getattr(thing, name, default)


def flavor(spec, name, default=0):
    return read(read(spec, 'flavor'), name, default) or default


def extra_specs(spec):
    return flavor(spec, 'extra_specs', None) or {}


def image_properties(spec):
    """The properties that are set, by name; nothing for a request without an image."""
    properties = read(read(spec, 'image'), 'properties')
    if properties is None:
        return {}
    if hasattr(properties, 'set_fields'):
        found = properties.set_fields()
    elif hasattr(properties, 'fields'):
        found = {name: read(properties, name) for name in properties.fields if name in properties}
    else:
        found = dict(properties) if hasattr(properties, 'keys') else dict(vars(properties))
    return {name: value for name, value in found.items() if value is not None}


def swap_mb(spec):
    return int(flavor(spec, 'swap'))


def is_bfv(spec):
    return bool(read(spec, 'is_bfv', False))


def disk_gb(spec):
    """Local disk asked for, whole GiB: no root disk if that is a volume; swap rounded up."""
    root = 0 if is_bfv(spec) else flavor(spec, 'root_gb')
    return root + flavor(spec, 'ephemeral_gb') + math.ceil(swap_mb(spec) / 1024)


def resources(spec):
    """Amount by resource class: from the flavor, replaced by `resources:CLASS` extra specs."""
    vcpus = flavor(spec, 'vcpus')
    dedicated = dedicated_cpus(spec, vcpus)
    amounts = {VCPU: vcpus - dedicated, MEMORY_MB: flavor(spec, 'memory_mb'), DISK_GB: disk_gb(spec)}
    if dedicated:
        # Emulator threads that are kept off the guest's CPUs get one of their own.
        isolated = extra_specs(spec).get('hw:emulator_threads_policy') == 'isolate'
        amounts[PCPU] = dedicated + isolated
    for key, value in extra_specs(spec).items():
        if key.startswith(RESOURCES_PREFIX):
            amounts[key.removeprefix(RESOURCES_PREFIX)] = int(value)
    return {name: amount for name, amount in amounts.items() if amount}


def dedicated_cpus(spec, vcpus):
    """How many of the guest's CPUs it wants for itself alone."""
    policy = cpu_policy(spec)
    if policy == DEDICATED:
        return vcpus
    if policy == MIXED:
        cells = read(read(spec, 'numa_topology'), 'cells', ()) or ()
        return sum(len(read(cell, 'pcpuset', ()) or ()) for cell in cells)
    return 0


def unsupported(spec):
    """Parts of the request that no rule here understands, and that must not be ignored."""
    words = [
        key
        for key in extra_specs(spec)
        if key.startswith(('accel:', 'group_policy'))
        or (key.startswith(('resources', 'trait')) and not key.startswith((RESOURCES_PREFIX, TRAIT_PREFIX)))
    ]
    for group in read(spec, 'requested_resources') or ():
        words += [f'requested_resources {name}' for name in sorted(read(group, 'resources') or {})]
    return tuple(words)


def _traits(spec, verdict):
    return {
        key.removeprefix(TRAIT_PREFIX)
        for key, value in extra_specs(spec).items()
        if key.startswith(TRAIT_PREFIX) and value == verdict
    }


def required_traits(spec):
    return frozenset(_traits(spec, 'required') | set(image_properties(spec).get('traits_required') or ()))


def forbidden_traits(spec):
    return frozenset(_traits(spec, 'forbidden'))


def hints(spec):
    """The hints by name, each a list."""
    found = read(spec, 'scheduler_hints') or {}
    return {name: value if isinstance(value, list) else [value] for name, value in found.items()}


def group(spec):
    found = read(spec, 'instance_group')
    if found is None:
        return None
    policies = read(found, 'policies') or []
    policy = read(found, 'policy') or (policies[0] if policies else '')
    rules = read(found, 'rules') or read(found, '_rules') or {}
    return Group(
        uuid=read(found, 'uuid'),
        policy=policy,
        members=frozenset(read(found, 'members') or ()),
        hosts=frozenset(read(found, 'hosts') or ()),
        max_server_per_host=int(rules.get('max_server_per_host') or 1),
    )


def destination(spec):
    found = read(spec, 'requested_destination')
    if found is None:
        return None
    return Destination(
        host=read(found, 'host'),
        node=read(found, 'node'),
        cell_uuid=read(read(found, 'cell'), 'uuid'),
        allow_cross_cell_move=bool(read(found, 'allow_cross_cell_move', False)),
    )


def retry_hosts(spec):
    nodes = read(read(spec, 'retry'), 'hosts') or ()
    return frozenset((read(node, 'host'), read(node, 'hypervisor_hostname')) for node in nodes)


def cpu_policy(spec):
    """How the guest's CPUs are given: by the flavor, else by the image; None: it does not say."""
    return extra_specs(spec).get('hw:cpu_policy') or image_properties(spec).get('hw_cpu_policy')


def thread_policy(spec):
    return extra_specs(spec).get('hw:cpu_thread_policy') or image_properties(spec).get('hw_cpu_thread_policy')


def pieces(spec):
    """What is wanted piece by piece. Raises InvalidRequest."""
    topology, networks = read(spec, 'numa_topology'), read(spec, 'network_metadata')
    return Pieces(
        guest=None if topology is None else Guest.of(topology),
        requests=requests_of(read(spec, 'pci_requests')),
        physnets=None if networks is None else frozenset(read(networks, 'physnets', ()) or ()),
        tunneled=bool(read(networks, 'tunneled', False)),
        needs_siblings=cpu_policy(spec) == DEDICATED and thread_policy(spec) == REQUIRE,
    )


def _lower(spec, name):
    return frozenset(host.lower() for host in read(spec, name) or ())


READERS = types.MappingProxyType(
    {
        'instance_uuid': lambda spec: read(spec, 'instance_uuid'),
        'vcpus': lambda spec: flavor(spec, 'vcpus'),
        'memory_mb': lambda spec: flavor(spec, 'memory_mb'),
        'root_gb': lambda spec: flavor(spec, 'root_gb'),
        'ephemeral_gb': lambda spec: flavor(spec, 'ephemeral_gb'),
        'swap_mb': swap_mb,
        'is_bfv': is_bfv,
        'resources': resources,
        'unsupported': unsupported,
        'required_traits': required_traits,
        'forbidden_traits': forbidden_traits,
        'project_id': lambda spec: read(spec, 'project_id'),
        'user_id': lambda spec: read(spec, 'user_id'),
        'flavor_name': lambda spec: flavor(spec, 'name', None),
        'extra_specs': extra_specs,
        'image_id': lambda spec: read(read(spec, 'image'), 'id'),
        'image_properties': image_properties,
        'availability_zone': lambda spec: read(spec, 'availability_zone'),
        'hints': hints,
        'group': group,
        'ignore_hosts': lambda spec: _lower(spec, 'ignore_hosts'),
        'force_hosts': lambda spec: _lower(spec, 'force_hosts'),
        'force_nodes': lambda spec: frozenset(read(spec, 'force_nodes') or ()),
        'destination': destination,
        'retry_hosts': retry_hosts,
        'pieces': pieces,
    }
)


class SpecRequest:
    """A request that is read from its spec only as far as a rule asks."""

    def __init__(self, spec):
        self.spec = spec

    def __getattr__(self, name):
        if name not in READERS:
            raise AttributeError(name)
        value = READERS[name](self.spec)
        setattr(self, name, value)
        return value

    @property
    def check_type(self):
        return check_type(self.hints)

    @property
    def is_rebuild(self):
        return is_rebuild(self.hints)

    def hint(self, name, default=None):
        return hint(self.hints, name, default)
