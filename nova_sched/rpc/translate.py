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
"""Translates between objects of the wire and the plain values of the engine.

RequestSpecs that are alike are read and translated once. Most calls ask for one of a few flavors
and images, and differ in the instance, its owner and its hints. The fields that calls of one kind
share (``KIND_FIELDS``) are recognised by their serialized form. Equal bytes are equal values of
equal types, so that what was checked once needs no check again. All other fields are read and
checked in each message.
"""

import collections
import copy
import dataclasses
import datetime
import json
import marshal
import threading

from oslo_utils import uuidutils

from nova_sched import errors, objects, words
from nova_sched.conf import CONF
from nova_sched.engine.answer import allocation_request
from nova_sched.hardware.machine import HardwareAllocation
from nova_sched.objects.object_io import (
    CHANGES,
    DATA,
    NAME,
    NAMESPACE,
    REFUSALS,
    UNKNOWN,
    VERSION,
    primitive,
)
from nova_sched.rpc.messages import ServerSerializer
from nova_sched.state.host_aggregate import HostAggregate
from nova_sched.state.report import MAX_AMOUNT
from nova_sched.state.request import CHECK_TYPE, Request, is_rebuild
from nova_sched.state.spec import CALL_READERS, KIND_FIELDS, KIND_READERS

MAX_INSTANCES = 10_000  # of one node
MAX_CLASSES = 100  # resource classes of the instances of one node

# Selection.cell_uuid must be a UUID; this one is used in a single-cell cloud that names no cell.
UNKNOWN_CELL = '00000000-0000-0000-0000-000000000001'
MAX_KINDS = 1024  # kinds that are kept; the one that was not used for the longest time goes first
MAX_KIND_BYTES = 2**14  # bytes of the fields of a kind; a larger one is not kept
# Without references to values that occur twice: these depend on which of them are the same object.
FORMAT = 2
# Objects that a sender makes for each instance, even if nothing else in them differs.
OF_INSTANCE = ('pci_requests', 'numa_topology')
UUID = 'instance_uuid'

# What a message that cannot be read raises; it is read in full then, for the exact error.
UNUSUAL = (*REFUSALS, AttributeError, KeyError, RecursionError, errors.SchedError)


# RequestSpecs that arrive.


class SpecKind:
    """What calls of one kind share: ``facts`` are properties of requests (``KIND_READERS``) by
    name, None until they are read for the first time."""

    __slots__ = ('facts',)

    def __init__(self):
        self.facts = None


class ReceivedSpec:
    """A RequestSpec of a message: the set fields of the call are attributes, and those of its
    ``kind`` are not read again."""

    def __init__(self, primitive, fields, kind):
        self.__dict__.update(fields)
        self._primitive, self.kind, self._whole = primitive, kind, None

    def __contains__(self, name):
        return name in self.__dict__

    @staticmethod
    def obj_name():
        """The name of its class for the sender, as of any versioned object."""
        return objects.RequestSpec.obj_name()

    def whole(self):
        """The RequestSpec; it is shared with no other message."""
        if self._whole is None:
            self._whole = objects.from_primitive(self._primitive)
        return self._whole


class SpecKinds:
    """The kinds of RequestSpecs that were received lately. Its methods may be called from any
    thread."""

    def __init__(self, most=MAX_KINDS):
        self._kinds = collections.OrderedDict()
        self._most, self._lock = most, threading.Lock()

    def __len__(self):
        return len(self._kinds)

    def find(self, value):
        """The ReceivedSpec of a primitive. None: it must be read in full, because its kind is not
        known, or because it is not a sound RequestSpec of the current version."""
        try:
            key, call = _split(value)
            with self._lock:
                kind = self._kinds.get(key)
                if kind is None:
                    return None
                self._kinds.move_to_end(key)
            fields, known = {}, objects.RequestSpec.wire_fields
            for name in call.keys() & known.keys():
                _, exact, read, nullable = known[name]
                field_value = call[name]
                if not (type(field_value) is exact or (field_value is None and nullable)):
                    field_value = read(field_value)
                if field_value is not UNKNOWN:
                    fields[name] = field_value
        except UNUSUAL:
            return None
        return ReceivedSpec(value, fields, kind)

    def keep(self, value, spec):
        """Keep the kind of a primitive that was read in full as ``spec``. Returns its
        ReceivedSpec, or ``spec`` itself if its kind cannot be kept."""
        if 'flavor' not in spec:
            return spec
        try:
            key, _ = _split(value)
        except UNUSUAL:
            return spec
        with self._lock:
            self._kinds.setdefault(key, SpecKind())
            if len(self._kinds) > self._most:
                self._kinds.popitem(last=False)
        received = self.find(value)
        if received is None:
            return spec
        received._whole = spec
        return received


def _split(value):
    """The serialized fields of the kind, and the other fields. Raises one of ``UNUSUAL`` for
    anything but a RequestSpec of the current version with text that can be stored."""
    if type(value) is not dict or value.get(NAME) != 'RequestSpec':
        raise TypeError
    data, cls = value[DATA], objects.RequestSpec
    if value.get(VERSION) != cls.VERSION or value.get(NAMESPACE) != cls.OBJ_PROJECT_NAMESPACE:
        raise ValueError
    kind = {name: data[name] for name in data.keys() & KIND_FIELDS}
    call = {name: field_value for name, field_value in data.items() if name not in kind}
    if words.ESCAPED.search(repr([{**value, DATA: None}, call])):
        raise ValueError
    for change in value.get(CHANGES) or ():
        if type(change) is not str:
            raise TypeError
    for name in OF_INSTANCE:
        if kind.get(name) is not None:
            data = kind[name][DATA]
            if not words.is_uuid(data[UUID]):
                raise ValueError
            kind[name] = {**kind[name], DATA: {**data, UUID: None}}
    key = marshal.dumps(sorted(kind.items()), FORMAT)
    if len(key) > MAX_KIND_BYTES:
        raise ValueError
    return key, call


class SchedulerSerializer(ServerSerializer):
    """The serializer of a scheduler: a RequestSpec becomes a ReceivedSpec if its kind is known."""

    def __init__(self):
        super().__init__()
        self._kinds = SpecKinds()

    def deserialize_entity(self, ctxt, entity):
        value = self._kinds.find(entity)
        if value is not None:
            return value
        value = super().deserialize_entity(ctxt, entity)
        return self._kinds.keep(entity, value) if isinstance(value, objects.RequestSpec) else value


# Calls and their answers.


def spec(given, request_spec=None, filter_properties=None):
    """The RequestSpec or ReceivedSpec of a call: given as such, or as the dicts of RPC 4.0."""
    if isinstance(given, (ReceivedSpec, objects.RequestSpec)):
        return given
    if given is None and request_spec is not None:
        return objects.RequestSpec.from_primitives(request_spec, filter_properties or {})
    raise errors.InvalidRequest('spec_obj', f'it must be a RequestSpec, not {words.kind(given)}')


def kept_text(spec_obj):
    """A RequestSpec as text that may be kept. Of its cell only the UUID is kept, because the other
    fields hold credentials."""
    if isinstance(spec_obj, ReceivedSpec):
        spec_obj = spec_obj.whole()
    wanted = spec_obj.requested_destination
    cell = None if wanted is None else _set(wanted, 'cell')
    if cell is not None:
        spec_obj = copy.deepcopy(spec_obj)
        known = {'uuid': cell.uuid} if 'uuid' in cell else {}
        spec_obj.requested_destination.cell = objects.CellMapping(**known)
    return json.dumps(objects.to_primitive(spec_obj))


def kept_spec(text):
    """The RequestSpec of such a text."""
    return objects.from_primitive(json.loads(text))


def requests(spec_obj, instance_uuids=None):
    """One Request for each instance that a call asks for. Raises InvalidRequest.

    Without UUIDs (old callers), the number of instances is that of the spec. The first has the
    UUID of the spec, and UUIDs are generated for the others.
    """
    uuids = _uuids(spec_obj, instance_uuids)
    if isinstance(spec_obj, ReceivedSpec):
        kind, spec = spec_obj.kind, spec_obj.whole
        if kind.facts is None:
            kind.facts = _kind_facts(spec())
        facts = dict(kind.facts)
    else:
        facts, spec = _kind_facts(spec_obj), spec_obj
    for name, (field, reader) in CALL_READERS.items():
        if field in spec_obj and getattr(spec_obj, field) is not None:
            facts[name] = _read(name, reader, spec_obj)
    hints = facts.get('hints', {})
    if is_rebuild(hints) and not (facts.get('force_hosts') and facts.get('force_nodes')):
        # An API of Nova before the fix of CVE-2026-46448 passes on this hint of a tenant, and
        # stores it for later moves. Nova itself always forces a rebuild to the host and the node
        # of the server, which no tenant can. Without both, the hint is not Nova's.
        del hints[CHECK_TYPE]
    size = sum(len(text) for name, values in hints.items() for text in (name, *map(str, values)))
    if size > CONF.scheduler.max_hints_size:
        why = f'they have {size} characters; at most {CONF.scheduler.max_hints_size} are accepted'
        raise errors.InvalidRequest('scheduler_hints', why)
    for name in ('project_id', 'user_id'):
        if name in facts:
            words.name(facts[name], name)
    group = facts.get('group')
    if group is not None and group.uuid is not None:
        words.uuid(group.uuid, 'instance_group.uuid')
    facts['instance_uuid'] = uuids[0]
    first = Request(**facts, spec=spec)
    return [first, *(dataclasses.replace(first, instance_uuid=uuid) for uuid in uuids[1:])]


def _kind_facts(spec_obj):
    """The properties that requests of one kind share, by name."""
    facts = {name: _read(name, reader, spec_obj) for name, reader in KIND_READERS.items()}
    for name in ('vcpus', 'memory_mb', 'root_gb', 'ephemeral_gb', 'swap_mb'):
        _check_amount(f'flavor.{name}', facts[name])
    for name, amount in facts['resources'].items():
        _check_amount(f'resources:{name}', amount)
    return facts


def _read(name, reader, spec_obj):
    try:
        return reader(spec_obj)
    except (ValueError, TypeError, AttributeError) as error:
        raise errors.InvalidRequest(name, str(error)) from None


def _check_amount(where, amount):
    if not 0 <= amount <= MAX_AMOUNT:
        raise errors.InvalidRequest(where, f'{words.short(amount)} is negative or too large')


def _uuids(spec_obj, given):
    is_whole = isinstance(spec_obj, objects.RequestSpec)
    if is_whole and ('flavor' not in spec_obj or spec_obj.flavor is None):
        raise errors.InvalidRequest('spec_obj.flavor', 'it is not set')
    if not isinstance(given or (), (list, tuple)):
        raise errors.InvalidRequest(
            'instance_uuids', f'{words.short(given)} is not a list of UUIDs'
        )
    if given:
        where, count = 'instance_uuids', len(given)
    else:
        where = 'num_instances'
        count = spec_obj.num_instances if 'num_instances' in spec_obj else 1
    most = CONF.scheduler.max_instances_per_request
    if not 1 <= count <= most:
        why = f'{words.short(count)} instances in one request; 1 to {most} are accepted'
        raise errors.InvalidRequest(where, why)
    if given:
        uuids = list(given)
    else:
        own = spec_obj.instance_uuid if 'instance_uuid' in spec_obj else None
        uuids = [
            own or uuidutils.generate_uuid(),
            *(uuidutils.generate_uuid() for _ in range(count - 1)),
        ]
    seen = set()
    for uuid in uuids:
        if words.uuid(uuid, 'instance_uuids') in seen:
            raise errors.InvalidRequest('instance_uuids', f'{uuid} is given twice')
        seen.add(uuid)
    return uuids


def selections(placed, as_objects):
    """The result of a call: lists of Selections as primitives, or for old callers one dict for
    each instance."""
    if as_objects:
        # Without the objects: the values were checked when the nodes reported them.
        return objects.Primitives(
            [
                primitive(
                    'Selection',
                    {
                        'compute_node_uuid': selection.node_uuid,
                        'service_host': selection.host,
                        'nodename': selection.nodename,
                        'cell_uuid': selection.cell_uuid or UNKNOWN_CELL,
                        'limits': _limits(selection.limits) if selection.limits else NO_LIMITS,
                        'allocation_request': selection.allocation_request,
                        'allocation_request_version': selection.allocation_version,
                        'availability_zone': selection.availability_zone,
                    },
                )
                for selection in chosen
            ]
            for chosen in placed
        )
    return [
        {
            'host': selection.host,
            'nodename': selection.nodename,
            'limits': _limits_by_name(selection.limits),
        }
        for selection, *_ in placed
    ]


# Every field of SchedulerLimits is set, because a conductor reads all of them.
UNLIMITED = dict.fromkeys(objects.SchedulerLimits.fields)
NO_LIMITS = primitive('SchedulerLimits', UNLIMITED)


def _limits(limits):
    values = objects.to_primitive(_limits_by_name(limits))
    return primitive('SchedulerLimits', {**UNLIMITED, **values})


def _limits_by_name(limits):
    """The limits that are set, by name."""
    return {
        name: _numa_limits(limit) if name == 'numa_topology' else limit
        for name, limit in limits.items()
        if limit is not None
    }


def _numa_limits(limits):
    numa_limits = objects.NUMATopologyLimits(
        cpu_allocation_ratio=limits.cpu_ratio, ram_allocation_ratio=limits.ram_ratio
    )
    if limits.physnets or limits.tunneled:
        numa_limits.network_metadata = objects.NetworkMetadata(
            physnets=set(limits.physnets), tunneled=limits.tunneled
        )
    return numa_limits


def aggregates(given):
    """Aggregates from one object, a list of them, or a list object. Raises InvalidRequest."""
    items = [given] if isinstance(given, objects.Aggregate) else given
    if not isinstance(items, (list, tuple, objects.AggregateList)):
        raise errors.InvalidRequest(
            'aggregates', f'they must be Aggregate objects, not {words.kind(given)}'
        )
    return [_aggregate(item) for item in items]


def _aggregate(item):
    number, uuid = aggregate_id(item), _set(item, 'uuid')
    return HostAggregate(
        id=number,
        name=words.name(item.name if 'name' in item else str(number), 'aggregate.name'),
        hosts=frozenset(_set(item, 'hosts') or ()),
        metadata=dict(_set(item, 'metadata') or {}),
        uuid=uuid if uuid is None else words.uuid(uuid, 'aggregate.uuid'),
    )


def _set(item, field):
    return getattr(item, field) if field in item else None


def aggregate_id(given):
    """The id of an Aggregate object. Raises InvalidRequest."""
    if not isinstance(given, objects.Aggregate):
        raise errors.InvalidRequest(
            'aggregate', f'it must be an Aggregate, not {words.kind(given)}'
        )
    if 'id' not in given or not 0 <= given.id <= words.MAX_INTEGER:
        raise errors.InvalidRequest(
            'aggregate.id', f'it must be set, and between 0 and {words.MAX_INTEGER}'
        )
    return given.id


def instance_uuids(given, where='instances'):
    """The UUIDs in a list of them, an Instance or an InstanceList; None stays None. Raises
    InvalidRequest."""
    if given is None:
        return None
    items = [given] if isinstance(given, objects.Instance) else given
    if not isinstance(items, (list, tuple, set, frozenset, objects.InstanceList)):
        raise errors.InvalidRequest(where, f'{words.short(given)} is not a list of UUIDs')
    if len(items) > MAX_INSTANCES:
        why = f'{len(items)} of them; at most {MAX_INSTANCES} are accepted'
        raise errors.InvalidRequest(where, why)
    uuids = (_set(item, 'uuid') if isinstance(item, objects.Instance) else item for item in items)
    return frozenset(words.uuid(uuid, where) for uuid in uuids)


def instance_amounts(given, where='instances'):
    """Return the amounts by resource class of each UUID, from a mapping of instances to amounts.
    Amounts of 0 are left out. Raises InvalidRequest."""
    instance_uuids(list(given), where)
    sums = collections.Counter()
    by_instance = {}
    for uuid, amounts in given.items():
        if not isinstance(amounts, dict):
            why = f'{words.short(amounts)} is not a mapping of resource classes'
            raise errors.InvalidRequest(f'{where}.{uuid}', why)
        for name, amount in amounts.items():
            if not words.is_symbol(name):
                why = f'{words.short(name)} is not a resource class'
                raise errors.InvalidRequest(f'{where}.{uuid}', why)
            if type(amount) is not int or not 0 <= amount <= MAX_AMOUNT:
                why = f'{words.short(amount)} is not an amount between 0 and {MAX_AMOUNT}'
                raise errors.InvalidRequest(f'{where}.{uuid}.{name}', why)
        by_instance[uuid] = {name: amount for name, amount in amounts.items() if amount}
        sums.update(by_instance[uuid])
        if len(sums) > MAX_CLASSES:
            why = f'there are more than {MAX_CLASSES} resource classes'
            raise errors.InvalidRequest(where, why)
    for name, amount in sums.items():
        if amount > MAX_AMOUNT:
            raise errors.InvalidRequest(f'{where}: {name}', f'{amount} is more than {MAX_AMOUNT}')
    return by_instance


def offered_hosts(hosts, weights=None):
    """Return the weight of each offered host, by host and name of its node (or None), from pairs
    of names and weights by host. Raises InvalidRequest."""
    if not isinstance(hosts, (list, tuple)):
        raise errors.InvalidRequest('hosts', f'{words.short(hosts)} is not a list')
    if not isinstance(weights or {}, dict):
        raise errors.InvalidRequest('weights', f'{words.short(weights)} is not a mapping')
    offered = {}
    for pair in hosts:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise errors.InvalidRequest('hosts', f'{words.short(pair)} is not a pair of names')
        host, node = words.name(pair[0], 'hosts'), pair[1]
        try:
            weight = words.finite((weights or {}).get(host, 0.0))
        except ValueError as error:
            raise errors.InvalidRequest(f'weights.{host}', str(error)) from None
        offered[host, None if node is None else words.name(node, 'hosts')] = weight
    return offered


def claim_info(claim, node):
    """A claim as the caller receives it; ``node`` is the (host, nodename) of the claim."""
    parts = claim.parts or HardwareAllocation()
    resources = json.dumps(dict(claim.resources))
    cells = json.loads(parts.cells.to_json()) if parts.cells else None
    pools = [objects.PciDevicePool(**dataclasses.asdict(device.pool)) for device in parts.devices]
    return objects.ClaimInfo(
        uuid=claim.uuid,
        instance_uuid=claim.consumer_uuid,
        compute_node_uuid=claim.node_uuid,
        host=node[0],
        nodename=node[1],
        state=claim.state,
        move=claim.move,
        resize_uuid=claim.resizing and claim.resizing.uuid,
        request_id=claim.request_id,
        resources=dict(claim.resources),
        numa_topology=objects.from_primitive(cells),
        pci_device_pools=objects.PciDevicePoolList(objects=pools) if pools else None,
        project_id=claim.project_id,
        user_id=claim.user_id,
        allocation_request=allocation_request(claim.node_uuid, resources, parts.providers),
        created_at=moment(claim.created_s),
        updated_at=None,
        expires_at=moment(claim.expires_s),
    )


def candidate(offer):
    """An offered host, as the caller receives it."""
    return objects.Candidate(
        uuid=offer.uuid,
        instance_uuid=offer.instance_uuid,
        compute_node_uuid=offer.node_uuid,
        host=offer.host,
        nodename=offer.nodename,
        rank=offer.rank,
        expires_at=moment(offer.expires_s),
    )


def moment(seconds):
    return None if seconds is None else datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def service(given):
    """Return disabled, disabled_reason, forced_down and seen_s of a Service object; None for a
    field that is not set. Raises InvalidRequest."""
    if not isinstance(given, objects.Service):
        raise errors.InvalidRequest('service', f'it must be a Service, not {words.kind(given)}')
    reason = _set(given, 'disabled_reason')
    if reason is not None and not words.is_text(reason):
        raise errors.InvalidRequest(
            'service.disabled_reason', 'it holds characters that are not text'
        )
    return (
        _set(given, 'disabled'),
        reason,
        _set(given, 'forced_down'),
        seconds(_set(given, 'last_seen_up')),
    )


def seconds(moment):
    """Seconds since the epoch of a date, 0 for none."""
    return moment.timestamp() if moment is not None else 0.0
