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
"""Between objects of the wire and the plain values of the engine: wire objects stop here."""

import dataclasses
import datetime
import json

from oslo_utils import uuidutils

from nova_sched import errors, objects
from nova_sched.conf import CONF
from nova_sched.engine.selection import allocation_request
from nova_sched.state.aggregates import Aggregate
from nova_sched.state.request import Request
from nova_sched.state.spec import READERS

# Selection.cell_uuid must be one; a single-cell cloud that names no cell answers this.
UNKNOWN_CELL = '00000000-0000-0000-0000-000000000001'


def spec(given, request_spec=None, filter_properties=None):
    """The RequestSpec of a call: given as an object, or as the dicts of RPC 4.0."""
    if isinstance(given, objects.RequestSpec):
        return given
    if given is None and request_spec is not None:
        return objects.RequestSpec.from_primitives(request_spec, filter_properties or {})
    raise errors.InvalidRequest('spec_obj', f'it must be a RequestSpec, not {type(given).__name__}')


def requests(spec_obj, instance_uuids=None):
    """One Request for each instance that a call asks for. Raises InvalidRequest.

    Without UUIDs (old callers), the number is the spec's own and the UUIDs of all but the first are made up.
    """
    uuids = _uuids(spec_obj, instance_uuids)
    hints = READERS['hints'](spec_obj)
    size = sum(len(str(name)) + len(str(value)) for name, value in hints.items())
    if size > CONF.scheduler.max_hints_size:
        why = f'they have {size} characters; at most {CONF.scheduler.max_hints_size} are accepted'
        raise errors.InvalidRequest('scheduler_hints', why)
    facts = {name: _read(name, reader, spec_obj) for name, reader in READERS.items()}
    for name in ('vcpus', 'memory_mb', 'root_gb', 'ephemeral_gb', 'swap_mb'):
        if facts[name] < 0:
            raise errors.InvalidRequest(f'flavor.{name}', f'{facts[name]} is negative')
    for name, amount in facts['resources'].items():
        if amount < 0:
            raise errors.InvalidRequest(f'resources:{name}', f'{amount} is negative')
    facts['instance_uuid'] = uuids[0]
    first = Request(**facts, spec=spec_obj)
    return [first, *(dataclasses.replace(first, instance_uuid=uuid) for uuid in uuids[1:])]


def _read(name, reader, spec_obj):
    try:
        return reader(spec_obj)
    except (ValueError, TypeError, AttributeError) as error:
        raise errors.InvalidRequest(name, str(error)) from None


def _uuids(spec_obj, given):
    if 'flavor' not in spec_obj or spec_obj.flavor is None:
        raise errors.InvalidRequest('spec_obj.flavor', 'it is not set')
    if given:
        uuids = list(given)
    else:
        count = (spec_obj.num_instances if 'num_instances' in spec_obj else 1) or 1
        own = spec_obj.instance_uuid if 'instance_uuid' in spec_obj else None
        _check_count(count)
        uuids = [own or uuidutils.generate_uuid(), *(uuidutils.generate_uuid() for _ in range(count - 1))]
    _check_count(len(uuids))
    seen = set()
    for uuid in uuids:
        if not uuidutils.is_uuid_like(uuid):
            raise errors.InvalidRequest('instance_uuids', f'{str(uuid)[:64]!r} is no UUID')
        if uuid in seen:
            raise errors.InvalidRequest('instance_uuids', f'{uuid} is given twice')
        seen.add(uuid)
    return uuids


def _check_count(count):
    most = CONF.scheduler.max_instances_per_request
    if count > most:
        raise errors.InvalidRequest(
            'instance_uuids', f'{count} instances in one request; at most {most} are accepted'
        )


def selections(placed, as_objects):
    """The answer of a call: lists of Selection objects, or for old callers one dict for each instance."""
    if as_objects:
        return [[selection(one) for one in chosen] for chosen in placed]
    return [selection(chosen[0]).to_dict() for chosen in placed]


def selection(one):
    return objects.Selection(
        compute_node_uuid=one.node_uuid,
        service_host=one.host,
        nodename=one.nodename,
        cell_uuid=one.cell_uuid or UNKNOWN_CELL,
        limits=None,
        allocation_request=one.allocation_request,
        allocation_request_version=one.allocation_version,
        availability_zone=one.availability_zone,
    )


def aggregates(given):
    """Aggregates from one object, a list of them, or a list object."""
    items = [given] if isinstance(given, objects.Aggregate) else given
    return [_aggregate(item) for item in items]


def _aggregate(item):
    if not isinstance(item, objects.Aggregate):
        raise errors.InvalidRequest(
            'aggregates', f'it must hold Aggregate objects, not {type(item).__name__}'
        )
    return Aggregate(
        id=item.id,
        name=item.name if 'name' in item else str(item.id),
        hosts=frozenset(item.hosts or ()) if 'hosts' in item else frozenset(),
        metadata=dict(item.metadata or {}) if 'metadata' in item else {},
        uuid=item.uuid if 'uuid' in item else None,
    )


def instance_uuids(given):
    """The UUIDs in a list of UUIDs, an Instance or an InstanceList; None stays None."""
    if given is None:
        return None
    items = [given] if isinstance(given, objects.Instance) else given
    return frozenset(item if isinstance(item, str) else item.uuid for item in items)


def claim_info(claim, node):
    """A claim as its caller is told of it; ``node`` is the (host, nodename) that it is on."""
    return objects.ClaimInfo(
        uuid=claim.uuid,
        instance_uuid=claim.consumer_uuid,
        compute_node_uuid=claim.node_uuid,
        host=node[0],
        nodename=node[1],
        state=claim.state,
        resources=dict(claim.resources),
        project_id=claim.project_id,
        user_id=claim.user_id,
        allocation_request=allocation_request(claim.node_uuid, claim.resources),
        created_at=_time(claim.created_s),
        updated_at=None,
        expires_at=_time(claim.expires_s),
    )


def _time(seconds):
    return None if seconds is None else datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def seconds(moment):
    """Seconds since the epoch of a date, 0 for none."""
    return moment.timestamp() if moment is not None else 0.0


def text(value):
    """Nested facts as JSON text; text stays as it is."""
    return (
        value
        if value is None or isinstance(value, str)
        else json.dumps(objects.to_primitive(value), sort_keys=True)
    )
