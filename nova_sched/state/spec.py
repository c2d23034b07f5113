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
"""Reads each property of a request from a RequestSpec, or from any object with its attribute
names.

The RPC layer reads all of them at once into a Request; a rule for one host reads only those that
it needs. One table serves both.
"""

import math
import types

from nova_sched import errors, words
from nova_sched.hardware.machine import HardwareRequest
from nova_sched.hardware.numa import GuestTopology
from nova_sched.hardware.numa.topology import DEDICATED, REQUIRE
from nova_sched.hardware.pci import requests_of
from nova_sched.state import groups, traits
from nova_sched.state.fields import (
    cpu_policy,
    extra_specs,
    flavor,
    image_properties,
    is_bfv,
    read,
    swap_mb,
    thread_policy,
)
from nova_sched.state.request import (
    ANTI_AFFINITY,
    RequestedDestination,
    ServerGroup,
    check_type,
    hint,
    is_rebuild,
)

# A hint without a value is unset; only of the size of a network an empty text means something to
# Nova: that of one address.
MAY_BE_EMPTY = 'cidr'


def hints(spec):
    """Return the hints that have a value by name, each a list."""
    given = read(spec, 'scheduler_hints') or {}
    lists = {name: value if isinstance(value, list) else [value] for name, value in given.items()}
    return {
        name: values
        for name, values in lists.items()
        if values not in ([], [None], ['']) or (name == MAY_BE_EMPTY and values == [''])
    }


def group(spec):
    server_group = read(spec, 'instance_group')
    if server_group is None:
        return None
    policies = read(server_group, 'policies') or []
    policy = read(server_group, 'policy') or (policies[0] if policies else '')
    return ServerGroup(
        uuid=read(server_group, 'uuid'),
        policy=policy,
        members=frozenset(read(server_group, 'members') or ()),
        hosts=frozenset(read(server_group, 'hosts') or ()),
        max_server_per_host=_most_per_host(server_group) if policy == ANTI_AFFINITY else 1,
    )


def _most_per_host(group):
    try:
        # Nova's own object converts the number at once, and raises as int does.
        rules = read(group, 'rules') or read(group, '_rules') or {}
        most = rules.get('max_server_per_host')
        if most in (None, ''):
            return 1
        # Nova's API has no upper bound; the databases of the schedulers have.
        return min(words.whole(most, most=math.inf), words.MAX_INTEGER)
    except ValueError as error:
        raise errors.InvalidRequest('max_server_per_host', str(error)) from None


def destination(spec):
    requested = read(spec, 'requested_destination')
    if requested is None:
        return None
    return RequestedDestination(
        host=read(requested, 'host') or None,
        node=read(requested, 'node') or None,
        cell_uuid=read(read(requested, 'cell'), 'uuid'),
        allow_cross_cell_move=bool(read(requested, 'allow_cross_cell_move', False)),
        aggregates=tuple(
            frozenset(either.split(',')) for either in read(requested, 'aggregates') or ()
        ),
        forbidden_aggregates=frozenset(read(requested, 'forbidden_aggregates') or ()),
    )


def retry_hosts(spec):
    nodes = read(read(spec, 'retry'), 'hosts') or ()
    return frozenset((read(node, 'host'), read(node, 'hypervisor_hostname')) for node in nodes)


def pieces(spec):
    """Return the hardware request. Raises InvalidRequest."""
    topology, networks = read(spec, 'numa_topology'), read(spec, 'network_metadata')
    return HardwareRequest(
        guest=None if topology is None else GuestTopology.of(topology),
        requests=requests_of(read(spec, 'pci_requests')),
        physnets=frozenset(read(networks, 'physnets', ()) or ()),
        tunneled=bool(read(networks, 'tunneled', False)),
        needs_siblings=cpu_policy(spec) == DEDICATED and thread_policy(spec) == REQUIRE,
    )


def _lower(spec, name):
    return frozenset(host.lower() for host in read(spec, name) or ())


# The fields of a RequestSpec that calls for the same flavor and image share. The others are about
# one call.
KIND_FIELDS = frozenset(
    'flavor image is_bfv limits network_metadata numa_topology pci_requests request_level_params '
    'requested_resources security_groups'.split()
)
MAX_PARTS = 1024  # extra specs, groups or traits of one request: rules ask about each of them
CAPABILITY_SCOPE = 'capabilities'
MAX_CAPABILITIES = 32  # of one request: each is compared with what every host reports
VERSIONS = 'img_hv_requested_version'
MAX_VERSIONS = 255  # characters of that property, as Nova stores it


def _few(reader):
    """Return the reader, which raises ValueError for more things than a request may have."""

    def read_few(spec):
        parts = reader(spec)
        if len(parts) > MAX_PARTS:
            raise ValueError(f'{len(parts)} of them; at most {MAX_PARTS} are accepted')
        return parts

    return read_few


# Properties that are read from these fields only. The extra specs are first, because others take
# long for too many of them.
@_few
def _extra_specs(spec):
    specs = extra_specs(spec)
    number = sum(key.startswith(f'{CAPABILITY_SCOPE}:') for key in specs)
    if number > MAX_CAPABILITIES:
        raise ValueError(
            f'{number} of the scope {CAPABILITY_SCOPE}; at most {MAX_CAPABILITIES} are accepted'
        )
    return specs


def _image_properties(spec):
    properties = image_properties(spec)
    length = len(str(properties.get(VERSIONS, '')))
    if length > MAX_VERSIONS:
        raise ValueError(
            f'{VERSIONS} has {length} characters; at most {MAX_VERSIONS} are accepted'
        )
    return properties


KIND_READERS = types.MappingProxyType(
    {
        'extra_specs': _extra_specs,
        'vcpus': lambda spec: flavor(spec, 'vcpus'),
        'memory_mb': lambda spec: flavor(spec, 'memory_mb'),
        'root_gb': lambda spec: flavor(spec, 'root_gb'),
        'ephemeral_gb': lambda spec: flavor(spec, 'ephemeral_gb'),
        'swap_mb': swap_mb,
        'is_bfv': is_bfv,
        'resources': groups.resources,
        'fallback_vcpus': groups.fallback_vcpus,
        'groups': _few(groups.groups),
        'group_policy': groups.group_policy,
        'same_subtree': groups.same_subtree,
        'unsupported': groups.unsupported,
        'required_traits': _few(traits.required_traits),
        'forbidden_traits': traits.forbidden_traits,
        'root_required': _few(traits.root_required),
        'root_forbidden': traits.root_forbidden,
        'sibling_threads': traits.sibling_threads,
        'flavor_name': lambda spec: flavor(spec, 'name', None),
        'image_id': lambda spec: read(read(spec, 'image'), 'id'),
        'image_format': lambda spec: read(read(spec, 'image'), 'disk_format'),
        'image_properties': _image_properties,
        'pieces': pieces,
    }
)
# Property: the field that it is read from, and its reader. Request has the values for None.
CALL_READERS = types.MappingProxyType(
    {
        'instance_uuid': ('instance_uuid', lambda spec: read(spec, 'instance_uuid')),
        'project_id': ('project_id', lambda spec: read(spec, 'project_id')),
        'user_id': ('user_id', lambda spec: read(spec, 'user_id')),
        'availability_zone': (
            'availability_zone',
            lambda spec: read(spec, 'availability_zone') or None,
        ),
        'hints': ('scheduler_hints', hints),
        'group': ('instance_group', group),
        'ignore_hosts': ('ignore_hosts', lambda spec: _lower(spec, 'ignore_hosts')),
        'force_hosts': ('force_hosts', lambda spec: _lower(spec, 'force_hosts')),
        'force_nodes': (
            'force_nodes',
            lambda spec: frozenset(read(spec, 'force_nodes') or ()),
        ),
        'destination': ('requested_destination', destination),
        'retry_hosts': ('retry', retry_hosts),
    }
)
READERS = types.MappingProxyType(
    {**KIND_READERS, **{name: reader for name, (_, reader) in CALL_READERS.items()}}
)


class SpecRequest:
    """A request that is read from its spec only as far as a rule reads it."""

    fences: frozenset[str] = frozenset()  # a spec does not contain them

    def __init__(self, spec):
        self.spec = spec

    def __getattr__(self, name):
        if name not in READERS:
            raise AttributeError(name)
        value = READERS[name](self.spec)
        setattr(self, name, value)
        return value

    @property
    def resource_classes(self):
        return frozenset(self.resources)

    @property
    def check_type(self):
        return check_type(self.hints)

    @property
    def is_rebuild(self):
        return is_rebuild(self.hints)

    def hint(self, name, default=None):
        return hint(self.hints, name, default)
