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
"""One instance to place, as plain frozen values."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from nova_sched.hardware import providers
from nova_sched.hardware.machine import HardwareRequest
from nova_sched.state.traits import OWNER

AFFINITY, ANTI_AFFINITY = 'affinity', 'anti-affinity'
HARD = frozenset([AFFINITY, ANTI_AFFINITY])
NO_HARDWARE = HardwareRequest()
CHECK_TYPE = '_nova_check_type'  # a scheduler hint that Nova itself sends
TOP_GROUP = 'top_group'  # a scheduler hint with the UUID of a placement group
SOFT_AFFINITY, SOFT_ANTI_AFFINITY = 'soft-affinity', 'soft-anti-affinity'


@dataclasses.dataclass(frozen=True, slots=True)
class ServerGroup:
    """A server group, as its policy rules need it. ``hosts`` are those of the current members.

    ``in_transit``: the hosts of members are not certain, because one moves from one host to
    another.
    """

    uuid: str | None
    policy: str
    members: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    max_server_per_host: int = 1
    in_transit: bool = False

    @property
    def is_hard(self):
        """Whether the policy must and can be enforced: a group without a UUID is not known
        to other components."""
        return self.policy in HARD and self.uuid is not None


@dataclasses.dataclass(frozen=True, slots=True)
class RequestedDestination:
    """The destination that the caller requests: a host, one of its nodes, a cell; each may be
    None.

    ``aggregates`` are sets of aggregate UUIDs: of each set, the host must be in one.
    """

    host: str | None = None
    node: str | None = None
    cell_uuid: str | None = None
    allow_cross_cell_move: bool = False
    aggregates: tuple[frozenset[str], ...] = ()
    forbidden_aggregates: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class MemberPlacement:
    """The member of a group that a request is for, and where it may be placed.

    Rows are valid during the current iteration of the loop. ``consumer`` is the consumer of its
    planned claim, ``row`` is the row of that claim. None: it has no planned claim, and may be
    placed on any row that the group's policies allow while all other members stay in place
    (``allowed``, a bool for each row). ``serial`` is that of the group. It must not change before
    the member is placed on another row than the planned one. ``closed_domains``: a function from a
    row to the member's exclusive domains there: a ClosedDomain by token. ``is_built``: the member
    is built, and moves.
    """

    top_group: str
    member: str
    consumer: str
    serial: int
    allowed: Any
    closed_domains: Callable[[int], Mapping[str, Any]]
    row: int | None = None
    is_built: bool = False

    def marks(self, row):
        """Return the fields of a claim on a row that identify the member."""
        return {
            'top_group': self.top_group,
            'member': self.member,
            'fences': tuple(self.closed_domains(row)),
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """The resources and constraints of one instance. Memory and swap in MiB, disk in GiB.

    ``resources`` is keyed by Placement's resource class. ``groups`` must each be served by one
    provider. Traits apply to the providers of ``resources``, the ``root`` traits to the node
    itself. ``fallback_vcpus`` replace dedicated CPUs where a node reports none separately.
    ``hints`` holds lists, as in messages; ``hint`` unwraps a single item. ``spec`` is the message
    that the request was read from, or a function that reads it; it is kept only for plug-ins that
    were written for Nova. ``preferred_provider`` is the child provider (UUID) that a weigher chose
    for the request on its host. ``together``: so many instances were asked for in one call.
    ``unheard_hosts`` have yet to report whether they still have the instance.

    ``allocation_requests`` are those of Placement's candidates, as JSON text by node UUID. With
    them, only these nodes may be chosen, and ``resources`` are what they take from the node.
    """

    instance_uuid: str
    vcpus: int = 0
    memory_mb: int = 0
    root_gb: int = 0
    ephemeral_gb: int = 0
    swap_mb: int = 0
    is_bfv: bool = False
    resources: Mapping[str, int] = dataclasses.field(default_factory=dict)
    fallback_vcpus: int = 0
    groups: tuple[providers.ResourceGroup, ...] = ()
    group_policy: str | None = None
    same_subtree: tuple[frozenset[str], ...] = ()
    unsupported: tuple[str, ...] = ()
    required_traits: frozenset[str] = frozenset()
    forbidden_traits: frozenset[str] = frozenset()
    root_required: frozenset[str] = frozenset()
    root_forbidden: frozenset[str] = frozenset()
    sibling_threads: bool | None = None
    project_id: str | None = None
    user_id: str | None = None
    flavor_name: str | None = None
    extra_specs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    image_id: str | None = None
    image_format: str | None = None
    image_properties: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    availability_zone: str | None = None
    hints: Mapping[str, list] = dataclasses.field(default_factory=dict)
    group: ServerGroup | None = None
    ignore_hosts: frozenset[str] = frozenset()
    force_hosts: frozenset[str] = frozenset()
    force_nodes: frozenset[str] = frozenset()
    destination: RequestedDestination | None = None
    retry_hosts: frozenset[tuple[str, str]] = frozenset()
    unheard_hosts: frozenset[str] = frozenset()
    pieces: HardwareRequest = NO_HARDWARE
    fences: frozenset[str] = frozenset()
    member_placement: MemberPlacement | None = None
    allocation_requests: Mapping[str, str] = dataclasses.field(default_factory=dict)
    preferred_provider: str | None = None
    spec: Any = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def resource_classes(self):
        return frozenset(self.resources)

    @property
    def group_uuid(self):
        return self.group.uuid if self.group else None

    @property
    def check_type(self):
        """Whether this is only a check, and of which kind: `rebuild`, or None."""
        return check_type(self.hints)

    @property
    def is_rebuild(self):
        return is_rebuild(self.hints)

    @property
    def is_member(self):
        """Whether it is for a member of a placement group. The check of a rebuild is not: its
        server keeps its host."""
        return TOP_GROUP in self.hints and not self.is_rebuild

    @property
    def forced(self):
        """An operator named the host: filters are skipped, but capacity is checked."""
        return bool(self.force_hosts or self.force_nodes) and self.check_type is None

    def hint(self, name, default=None):
        return hint(self.hints, name, default)

    def from_nova(self):
        """The request with its groups for PCI devices limited to devices of Nova, as other
        services may have providers of such classes below a node."""
        ids = {
            device_request.request_id
            for device_request in self.pieces.requests
            if device_request.alias_name is not None and device_request.request_id
        }
        if not ids or not self.groups:
            return self
        groups = tuple(
            dataclasses.replace(group, required=group.required | {OWNER})
            if group.suffix.rpartition('-')[0] in ids
            else group
            for group in self.groups
        )
        return dataclasses.replace(self, groups=groups)

    def read_spec(self):
        """Return the RequestSpec that the request was read from."""
        return self.spec() if callable(self.spec) else self.spec


def hint(hints, name, default=None):
    """Return a scheduler hint; for a list of one item, that item."""
    value = hints.get(name, default)
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def check_type(hints):
    return hint(hints, CHECK_TYPE)


def is_rebuild(hints):
    return hints.get(CHECK_TYPE) == ['rebuild']
