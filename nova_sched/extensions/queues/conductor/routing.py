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
"""Routes a request to the queue with the same requirements, or to the scheduler.

A worker does not see the request before it has its job, and does not compare nodes. Therefore
requests that concern other servers, hosts by their names, or parts of a node go to the scheduler.
"""

import collections
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from nova_sched.extensions.queues.catalogue import (
    PCI,
    RESOURCE,
    TRAIT,
    ZONE,
    Catalogue,
    Queue,
    Special,
)
from nova_sched.extensions.queues.requests import fact
from nova_sched.filters.image_traits import OF_PROPERTIES
from nova_sched.groups.members.member_spec import DECISIVE, IDLE
from nova_sched.hardware.machine import HardwareRequest
from nova_sched.state import groups
from nova_sched.state.fields import read
from nova_sched.state.request import Request

# Prefixes of extra specs that are covered by other facts of a request, or do not concern hosts.
SAID_ELSEWHERE = ('pci_passthrough:', *IDLE)
# Image properties that the host must support; traits of the image are facts of the request.
OF_IMAGE = DECISIVE - {'traits_required'}
# Facts that must equal the flavor's, with their descriptions.
ALIKE = {
    'fallback_vcpus': 'dedicated CPUs',
    'group_policy': 'the policy of its groups of resources',
    'same_subtree': 'providers that are to be near each other',
    'forbidden_traits': 'forbidden traits',
    'root_required': 'traits of the node itself',
    'root_forbidden': 'forbidden traits of the node itself',
    'sibling_threads': 'a policy of CPU threads',
    'unsupported': 'unsupported extra specs',
}


@dataclasses.dataclass(frozen=True, slots=True)
class Way:
    """``queue`` None: the scheduler decides. ``reason`` is for operators."""

    queue: Queue | None
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Concerns:
    """The scheduler options on which placement depends in addition.

    ``properties``: prefixes of image properties that matter; the empty text stands for all of
    them.
    """

    projects: bool = False
    image_formats: bool = False
    properties: tuple[str, ...] = ()
    isolated_images: frozenset[str] = frozenset()

    @classmethod
    def of(cls, conf: Any) -> 'Concerns':
        """From the options."""
        options, enabled = conf.filter_scheduler, conf.filter_scheduler.enabled_filters
        properties = [*OF_PROPERTIES] if conf.scheduler.image_metadata_prefilter else []
        if 'AggregateImagePropertiesIsolation' in enabled:
            namespace = options.aggregate_image_properties_isolation_namespace
            separator = options.aggregate_image_properties_isolation_separator
            properties.append(namespace + separator if namespace else '')
        return cls(
            projects=conf.scheduler.limit_tenants_to_placement_aggregate
            or 'AggregateMultiTenancyIsolation' in enabled,
            image_formats=conf.scheduler.query_placement_for_image_type_support,
            properties=tuple(properties),
            isolated_images=frozenset(
                options.isolated_images if 'IsolatedHostsFilter' in enabled else ()
            ),
        )


NOTHING = Concerns()


def route(request: Request, spec: Any, catalogue: Catalogue, concerns: Concerns = NOTHING) -> Way:
    """Return the queue whose Request is equal in all facts for placement; else the scheduler."""
    if ruled_out := [*_ruled_out(request, spec, concerns)]:
        return Way(None, '; '.join(ruled_out))
    bare = catalogue.bare.get(request.flavor_name or '')
    if bare is None:
        return Way(None, f'flavor {request.flavor_name} is not in the catalogue')
    if unlike := [*_unlike(request, bare)]:
        return Way(None, '; '.join(unlike))
    things = [*_things(request, bare)]
    if len(things) > 1:
        return Way(None, f'{len(things)} special things: {", ".join(map(str, things))}')
    thing = things[0] if things else None
    if isinstance(thing, str):
        return Way(None, f'{thing}: a job may have one special thing, by its name')
    queue = catalogue.queue(request.flavor_name, thing)
    if queue is None:
        about = f' with {thing}' if thing else ''
        return Way(None, f'flavor {request.flavor_name}{about} has no queue')
    # The devices alone, without networks, which only add NUMA cells.
    devices = HardwareRequest(requests=request.pieces.requests)
    if devices.key != fact(catalogue, queue.flavor, queue.special, 'pieces').key:
        return Way(None, f'{queue} has other PCI devices in the catalogue')
    return Way(queue, str(queue))


def _ruled_out(request: Request, spec: Any, concerns: Concerns) -> Iterator[str]:
    """Yield the reasons why it has no queue, whatever the catalogue is."""
    # Other servers, or hosts by their names.
    if request.member_placement is not None or request.fences or 'top_group' in request.hints:
        yield 'it is a member of a placement group'
    if request.group is not None or 'group' in request.hints:
        yield 'it is in a server group'
    if hints := sorted(request.hints.keys() - {'top_group', 'member', 'group'}):
        yield f'it has scheduler hints: {", ".join(hints)}'
    if request.force_hosts or request.force_nodes:
        yield 'an operator names its host'
    wanted = request.destination
    if wanted is not None and (wanted.host or wanted.node):
        yield 'its host is requested'
    if wanted is not None and wanted.cell_uuid:
        yield 'its cell is requested'
    if wanted is not None and (wanted.aggregates or wanted.forbidden_aggregates):
        yield 'it names aggregates'
    if request.ignore_hosts:
        yield 'hosts are to be ignored'
    if request.retry_hosts:
        yield 'it was sent to hosts before'
    # Parts of a node.
    guest = request.pieces.guest
    if guest is not None:
        cpus = any(cell.pcpuset for cell in guest.cells)
        yield (
            'NUMA: its dedicated CPUs are picked from cells'
            if cpus
            else 'NUMA: its cells are picked'
        )
    if read(spec, 'requested_resources'):
        yield 'its ports or devices ask for groups of resources'
    # Its image and its project.
    names = {name for name, value in request.image_properties.items() if value not in (False, [])}
    if properties := sorted(
        name for name in names if name in OF_IMAGE or name.startswith(concerns.properties)
    ):
        yield f'hosts must suit its image: {", ".join(properties)}'
    if concerns.image_formats and not request.is_bfv and request.image_format:
        yield f'hosts must suit the format of its image, {request.image_format}'
    if request.image_id in concerns.isolated_images:
        yield 'its image is limited to isolated hosts'
    if concerns.projects:
        yield 'hosts are limited to projects'


def _unlike(request: Request, bare: Request) -> Iterator[str]:
    """Yield the differences from the flavor of the catalogue, except special things."""
    name = request.flavor_name
    yield from (sizes := [*_sizes(request, bare)])
    asked_specs, known_specs = _extra_specs(request), _extra_specs(bare)
    for key in sorted(asked_specs.keys() | known_specs.keys()):
        if asked_specs.get(key) != known_specs.get(key):
            yield (
                f'extra spec {key} is {asked_specs.get(key)!r}, '
                f'flavor {name} has {known_specs.get(key)!r}'
            )
    if set(request.groups) != set(bare.groups):
        yield f'it asks for other groups of resources than flavor {name}'
    for field, words in ALIKE.items():
        if getattr(request, field) != getattr(bare, field):
            yield f'it differs from flavor {name} in {words}'
    for trait in sorted(bare.required_traits - request.required_traits):
        yield f'flavor {name} requires trait {trait}'
    for what, known in () if sizes else bare.resources.items():
        amount = request.resources.get(what, 0)
        if amount != known:
            yield f'{what} is {amount}, flavor {name} has {known}'


def _sizes(request: Request, bare: Request) -> Iterator[str]:
    name = request.flavor_name
    if request.is_bfv and bare.root_gb:
        yield f'its root disk is a volume, flavor {name} has one of {bare.root_gb} GiB'
    elif not request.is_bfv and request.root_gb != bare.root_gb:
        yield f'root_gb is {request.root_gb}, flavor {name} has {bare.root_gb}'
    for field in ('vcpus', 'memory_mb', 'ephemeral_gb', 'swap_mb'):
        size, known = getattr(request, field), getattr(bare, field)
        if size != known:
            yield f'{field} is {size}, flavor {name} has {known}'


def _extra_specs(request: Request) -> Mapping[str, str]:
    return {
        key: text
        for key, text in request.extra_specs.items()
        if not key.startswith(SAID_ELSEWHERE) and not groups.KEY.fullmatch(key)
    }


def _things(request: Request, bare: Request) -> Iterator[Special | str]:
    """Yield the special things that it requests in addition to its flavor.

    A text describes a device or resource that cannot be a special thing.
    """
    for alias, count in _aliases(request.pieces).items():
        more = count - _aliases(bare.pieces)[alias]
        if alias is None:
            yield 'PCI devices of a port'
        elif more == 1:
            yield Special(PCI, alias)
        elif more > 1:
            yield f'{more} of pci:{alias}'
    for name, units in request.resources.items():
        if name not in bare.resources:
            yield Special(RESOURCE, name) if units == 1 else f'{units} of resource:{name}'
    for trait in sorted(request.required_traits - bare.required_traits):
        yield Special(TRAIT, trait)
    if request.availability_zone:
        yield Special(ZONE, request.availability_zone)


def _aliases(pieces: HardwareRequest) -> collections.Counter[str | None]:
    """Return the number of devices by alias; devices of ports have None."""
    counts = collections.Counter[str | None]()
    for pci_request in pieces.requests:
        counts[pci_request.alias_name] += pci_request.count
    return counts
