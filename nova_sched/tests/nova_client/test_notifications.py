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
"""Notifications of Nova's scheduler and of ours about the same requests, field by field.

Nova's own manager sends the one side. Both read the same configuration. The manual has the result
as a table.
"""

import csv
import io
import pathlib
import types

import oslo_messaging as messaging
import pytest
from nova import exception, objects, rpc
from nova.conf import CONF
from nova.scheduler import manager
from oslo_messaging.notify import _impl_test

from nova_sched.rpc import notifications
from nova_sched.rpc.messages import ServerSerializer
from nova_sched.tests.nova_client import specs
from nova_sched.tests.nova_client.settings import options

TABLE = pathlib.Path(__file__).resolve().parents[3] / 'doc/source/select-destinations.csv'
HEAD = 'Format', 'Field', 'Nova 34', 'nova-sched'
SAME, NOT_SENT = 'the same', 'not sent'
PCI = {'extra_specs': {'pci_passthrough:alias': 'gpu:2'}}
NUMA = {
    'hw:numa_nodes': '2',
    'hw:cpu_policy': 'dedicated',
    'hw:mem_page_size': 'large',
    'hw:emulator_threads_policy': 'share',
}
# With the format ``both``, Nova's versioned notification sets these in the request, so that the
# unversioned one about the end has them.
OF_INSTANCE = 'payload.request_spec.instance_properties'
SET_BY_THE_OTHER = (
    f'{OF_INSTANCE}.numa_topology.instance_uuid',
    f'{OF_INSTANCE}.pci_requests._obj_instance_uuid',
)
OF_MESSAGE = 'publisher_id', 'event_type'


def group(context, uuids):
    made = specs.group(context, 'anti-affinity', uuids, hosts=['a'], max_server_per_host=2)
    return {'group': made}


CALLS = {
    'plain': {},
    'three servers': {'count': 3},
    'zone and hints': {'zone': 'az-1', 'hints': {'query': '[">", "$free_ram_mb", 1]'}},
    'image properties': {
        'image': {'hw_architecture': 'x86_64', 'hw_cpu_cores': '2', 'os_secure_boot': 'required'}
    },
    'NUMA cells': {'flavor': {'vcpus': 4, 'memory_mb': 4096, 'extra_specs': NUMA}},
    'forced': {'force_hosts': ['host-a'], 'force_nodes': ['node-a'], 'ignore_hosts': ['host-b']},
    'a group': {'of_group': True},
    'a PCI device': {'of_pci': True},
    'a description': {'flavor': {'description': 'small', 'disabled': True, 'projects': ['p']}},
    'tried before': {'retry': {'num_attempts': 2, 'hosts': [['host-a', 'node-a']]}},
    'a destination': {'cell': '1b2c3d4e-0000-4000-8000-000000000001'},
    'security groups': {'security': ['web', 'db']},
    'a volume': {'is_bfv': True},
}


def spec_of(context, uuids, words):
    """The RequestSpec of one of CALLS."""
    words = {name: value for name, value in words.items() if name != 'count'}
    if words.pop('of_group', False):
        words |= group(context, uuids)
    if cell := words.pop('cell', None):
        words['requested_destination'] = specs.destination(
            host='host-a', node='node-a', cell=cell, aggregates=['x,y']
        )
    of_pci, security = words.pop('of_pci', False), words.pop('security', ())
    made = specs.spec(context, uuids, **words)
    if of_pci:
        one = objects.InstancePCIRequest(
            count=2,
            spec=[{'vendor_id': '8086', 'product_id': '154d'}],
            alias_name='gpu',
            request_id=specs.uuids(1)[0],
            numa_policy='legacy',
        )
        made.pci_requests = objects.InstancePCIRequests(instance_uuid=uuids[0], requests=[one])
    made.security_groups = objects.SecurityGroupList(
        objects=[objects.SecurityGroup(name=name) for name in security]
    )
    return made


@pytest.fixture(params=['unversioned', 'versioned', 'both'])
def form(request, bus, monkeypatch):
    """A value of notification_format, which both sides heed."""
    # What changes the request for Placement reads Nova's database, and sends nothing.
    asked = types.SimpleNamespace(cpu_pinning_requested=False)
    monkeypatch.setattr(manager.request_filter, 'process_reqspec', lambda *_: None)
    monkeypatch.setattr(manager.utils, 'resources_from_request_spec', lambda *_, **__: asked)
    kept = {name: getattr(rpc, name) for name in dir(rpc) if name.isupper()}
    _impl_test.NOTIFICATIONS.clear()
    with (
        options('notifications', notification_format=request.param),
        options('oslo_messaging_notifications', driver=['test']),
        options(host='sched-1'),
    ):
        rpc.init(CONF)
        yield request.param
        for name in ('TRANSPORT', 'NOTIFICATION_TRANSPORT'):
            getattr(rpc, name).cleanup()
    for name, value in kept.items():
        setattr(rpc, name, value)
    _impl_test.NOTIFICATIONS.clear()


class Nova(manager.SchedulerManager):
    """Nova's manager: everything but Placement and the choice of hosts is its own."""

    def __init__(self, candidates=True, refuses=False):
        self.notifier, self._refuses = rpc.get_notifier('scheduler'), refuses
        self.host_manager = self
        self._candidates = [{'allocations': {}}] if candidates else []

    @property
    def placement_client(self):
        return self

    def get_allocation_candidates(self, context, resources):
        return self._candidates, {}, '1.36'

    def _schedule(self, *arguments):
        if self._refuses:
            raise exception.NoValidHost(reason='')
        return []


def sent():
    """What was sent since the last call: (context, message, priority) of each."""
    found = [told[:3] for told in _impl_test.NOTIFICATIONS]
    _impl_test.NOTIFICATIONS.clear()
    return found


def by_nova(context, spec, uuids, **outcome):
    """What Nova's manager sends of a call, after its way over the bus."""
    read = objects.RequestSpec.obj_from_primitive(spec.obj_to_primitive(), context)
    call = {'spec_obj': read, 'instance_uuids': uuids, 'return_objects': True}
    if not outcome:
        Nova().select_destinations(context, **call)
    else:
        with pytest.raises(messaging.ExpectedException):
            Nova(**outcome).select_destinations(context, **call)
    return sent()


def by_ours(context, spec, uuids):
    """What ours sends of the same call, after its way over the bus, if a host is found. That
    refused calls have no end shows functional/test_nova_source.py."""
    serializer, made = ServerSerializer(), notifications.of_options(CONF)
    read = serializer.deserialize_context(context.to_dict())
    arguments = {
        'spec_obj': serializer.deserialize_entity(read, spec.obj_to_primitive()),
        'instance_uuids': uuids,
    }
    made.start()
    for phase in (notifications.START, notifications.END):
        made.tell(phase, read, arguments)
    made.stop()
    return sent()


def fields(value, path=''):
    """Path -> values of each field of a message; items of a list under one path, in order."""
    found = {}
    if isinstance(value, dict) and value:
        for name, one in value.items():
            one = bool(one) if name == '_context' else one  # a whole request context
            for where, values in fields(one, f'{path}.{name}' if path else name).items():
                found.setdefault(where, []).extend(values)
    elif isinstance(value, list) and value and isinstance(value[0], (dict, list)):
        for one in value:
            for where, values in fields(one, f'{path}[]').items():
                found.setdefault(where, []).extend(values)
    else:
        found[path] = [sorted(value, key=str) if isinstance(value, list) else value]
    return found


def message(told):
    """The fields of a notification, as a receiver reads it."""
    context, body, priority = told
    kept = {name: body[name] for name in OF_MESSAGE}
    return {'priority': [priority], **fields({'context': context}), **fields(kept)} | fields(
        {'payload': body['payload']}
    )


def compare(calls, before=()):
    """(format, field) -> (of Nova, of ours) for pairs of notifications about the same calls, and
    for those ``before``."""
    rows = dict(before)
    for theirs, mine in calls:
        one, other = message(theirs), message(mine)
        name = 'versioned' if 'nova_object.name' in theirs[1]['payload'] else 'unversioned'
        for path in {*one, *other}:
            now = (
                (SAME, SAME)
                if path in one and path in other and one[path] == other[path]
                else (shown(one, path), shown(other, path))
            )
            key = name, path
            if rows.get(key, (SAME, SAME)) == (SAME, SAME):
                rows[key] = now
    return rows


def shown(found, path):
    """What a table says of a field that differs."""
    if path not in found:
        return NOT_SENT
    return 'null' if all(value is None for value in found[path]) else 'sent'


def table(rows):
    out = io.StringIO()
    writer = csv.writer(out, lineterminator='\n')
    writer.writerow(HEAD)
    writer.writerows((*key, *values) for key, values in sorted(rows.items()))
    return out.getvalue()


def test_every_field(form, context):
    found = {}
    for name, words in CALLS.items():
        uuids = specs.uuids(words.get('count', 1))
        spec = spec_of(context, uuids, words)
        theirs, mine = by_nova(context, spec, uuids), by_ours(context, spec, uuids)
        assert len(theirs) == (4 if form == 'both' else 2), name
        found |= compare(zip(theirs, mine, strict=True), found)
    for path in SET_BY_THE_OTHER:
        found.pop(('unversioned', path), None)
    kept = list(csv.reader(TABLE.open(encoding='utf-8')))
    wanted = [row for row in kept[1:] if form in ('both', row[0])]
    made = list(csv.reader(io.StringIO(table(found))))[1:]
    assert made == wanted, table(found)


@pytest.mark.parametrize(
    'outcome, phases',
    [
        pytest.param({'refuses': True}, ['start'], id='no host passes'),
        pytest.param({'candidates': False}, [], id='no candidates in Placement'),
    ],
)
def test_what_nova_sends_of_refusals(form, context, outcome, phases):
    (uuid,) = specs.uuids(1)
    told = by_nova(context, spec_of(context, [uuid], {}), [uuid], **outcome)
    each = 2 if form == 'both' else 1
    assert [one['event_type'] for _, one, _ in told] == [
        f'scheduler.select_destinations.{phase}' for phase in phases for _ in range(each)
    ]


def test_the_topics_of_both(form):
    ours = [one._topics for one, _ in notifications.of_options(CONF)._notifiers]
    theirs = [one._topics for one in (rpc.LEGACY_NOTIFIER, rpc.NOTIFIER) if one.is_enabled()]
    assert ours == theirs
