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
"""The engine's answer for one instance: plain values, made before rows can change."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from nova_sched.state.aggregates import zones

# The version of Placement's API whose form an allocation request has.
ALLOCATION_VERSION = '1.36'


@dataclasses.dataclass(frozen=True, slots=True)
class Selected:
    """One host for one instance, with the data for its claim; ``allocation_request`` is JSON
    text."""

    node_uuid: str
    host: str
    nodename: str
    cell_uuid: str | None
    availability_zone: str | None
    allocation_request: str
    allocation_version: str | None
    limits: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def select(hosts, row, request, default_zone, resources=None, limits=None, allotted=()):
    """Describe a row as the answer to a request. Returns a Selected.

    ``resources`` are the amounts claimed of the node itself, as JSON text; None for a request that
    only checks. ``allotted`` are the allocations of its providers, by request group.
    """
    node = hosts.nodes[row]
    wanted = request.destination.cell_uuid if request.destination else None
    return Selected(
        node_uuid=node.uuid,
        host=node.host,
        nodename=node.nodename,
        cell_uuid=node.cell_uuid or wanted,
        availability_zone=','.join(sorted(zones(hosts.aggregates.of(node.host)))) or default_zone,
        allocation_request='null'
        if resources is None
        else allocation_request(node.uuid, resources, allotted),
        allocation_version=None if resources is None else ALLOCATION_VERSION,
        limits=limits or {},
    )


def allocation_request(node_uuid, resources, allotted=()):
    """An allocation request of Placement, as JSON text.

    Plain requests, thousands in a second, take everything from the node's own provider.
    """
    root = json.dumps(node_uuid)
    if not allotted:
        return (
            f'{{"allocations": {{{root}: {{"resources": {resources}}}}}, '
            f'"mappings": {{"": [{root}]}}}}'
        )
    amounts = {node_uuid: json.loads(resources)}
    mappings = {'': [node_uuid]}
    for one in allotted:
        # ``resources`` includes the amounts that groups get from the node itself.
        if one.provider_uuid != node_uuid:
            sums = amounts.setdefault(one.provider_uuid, {})
            for name, units in one.resources.items():
                sums[name] = sums.get(name, 0) + units
        of_group = mappings.setdefault(one.suffix, [])
        if one.provider_uuid not in of_group:
            of_group.append(one.provider_uuid)
    allocations = {uuid: {'resources': some} for uuid, some in amounts.items() if some}
    return json.dumps({'allocations': allocations, 'mappings': mappings})
