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
"""The payloads of events, compared with the samples of the manual."""

import dataclasses
import json

import pytest
from oslo_context.context import RequestContext

from nova_sched import errors
from nova_sched.claim import CONFIRMED, PLANNED, RESIZE, Resizing
from nova_sched.claims import ClaimChanges, Placement
from nova_sched.engine.cycle import Order
from nova_sched.rpc.event_notifications import (
    ClaimNotifications,
    EventNotifications,
    claims_payload,
    refusal_payload,
)
from nova_sched.tests import manual
from nova_sched.tests.builders import NOW, claim, report, request, uuid_of
from nova_sched.tests.stores import MemoryClaimStore
from nova_sched.tests.unit.engine.groups.group_cloud import SMALL, Cloud, definition, members
from nova_sched.tests.unit.engine.world import World
from nova_sched.tests.unit.rpc.test_notifications import Notifier

SAMPLES = manual.MANUAL / 'examples' / 'notifications'
DATA = 'nova_object.data'
LISTS = 'filters', 'members', 'claims'
GROUP_EVENTS = 'planned', 'refused', 'deleted'
ASKED = {'instance_uuid': uuid_of('a'), 'vcpus': 9, 'flavor_name': 'large'}


def sent(**settings):
    """What a scheduler sends of a refusal, and the record that it keeps of it."""
    notifier, made = Notifier(), World(**settings)
    made.context.events = EventNotifications(notifier)
    made.report(*(report(f'host-{row}', vcpus=4) for row in range(2)))
    context = RequestContext(request_id='req-1', overwrite=False)
    made.turn_until(made.loop.send('place', Order([request(**ASKED)], context=context)))
    for outbox in (made.context.events, made.scheduler.decision_log):
        outbox.flush()
    (told,) = notifier.told
    return json.loads(json.dumps(told[-1])), made.scheduler.decision_log.show('req-1')


def test_the_sample():
    told, _ = sent()
    took_ms = told[DATA]['took_ms']
    assert took_ms >= 0
    sample = json.loads((SAMPLES / 'request-refused.json').read_text('utf-8'))
    assert told == {**sample, DATA: {**sample[DATA], 'took_ms': took_ms}}


def group_events():
    """What a scheduler sends of a group that is planned, refused and deleted."""
    notifier, cloud = Notifier(), Cloud(4)
    cloud.world.context.events = EventNotifications(notifier)
    try:
        view = cloud.create(definition(members('web-1', 'web-2')))
        cloud.create(definition(members('web-1')), dry_run=True)
        with pytest.raises(errors.GroupRefused):
            cloud.create(definition(members('big', flavor=dataclasses.replace(SMALL, vcpus=99))))
        cloud.groups.delete(view.uuid, dry_run=True)
        cloud.groups.delete(view.uuid)
    finally:
        cloud.scheduler.stop()
    cloud.world.context.events.flush()
    return {event: json.loads(json.dumps(payload)) for _, event, payload in notifier.told}


def test_the_samples_of_groups():
    """UUIDs of groups are random; so are hosts that are equally good."""
    told = group_events()
    assert list(told) == [f'nova_sched.group.{event}' for event in GROUP_EVENTS]
    for event, payload in told.items():
        sample = json.loads((SAMPLES / f'group-{event.rpartition(".")[2]}.json').read_text())
        payload[DATA]['uuid'] = sample[DATA]['uuid']
        pairs = zip(payload[DATA].get('members', []), sample[DATA].get('members', []), strict=True)
        for one, other in pairs:
            assert (one[DATA]['host'] is None) == (other[DATA]['host'] is None)
            one[DATA]['host'] = other[DATA]['host']
        assert payload == sample


def moved():
    """What is sent of a claim that moves, on nodes of two hosts."""
    notifier, store = Notifier(), MemoryClaimStore(lambda: NOW)
    store.report([report('host-0'), report('host-1')])
    source, destination = (uuid_of(f'node host-{row}') for row in range(2))
    names = {'project_id': 'p', 'user_id': 'u', 'request_id': 'req-1'}
    store.commit([Placement((claim(uuid_of('a'), source, uuid=uuid_of('there'), **names),))])
    store.confirm([uuid_of('a')], [source])
    sender = ClaimNotifications(notifier)
    store.on_changes = sender.changed
    names |= {'created_s': NOW, 'expires_s': NOW + 60.0, 'uuid': uuid_of('here')}
    made = claim(uuid_of('a'), destination, vcpus=2, move=RESIZE, **names)
    store.commit([Placement((made,))])
    store.finish(uuid_of('a'), [destination])
    sender.flush()
    return [(event, json.loads(json.dumps(payload))) for _, event, payload in notifier.told]


def test_the_sample_of_claims():
    told = moved()
    assert [event for event, _ in told] == [
        f'nova_sched.claims.{kind}' for kind in ('made', 'ended', 'settled')
    ]
    assert told[0][1] == json.loads((SAMPLES / 'claims-made.json').read_text('utf-8'))


def test_claims_of_a_resize_and_of_a_plan():
    resizing = claim(
        uuid_of('a'), uuid_of('n'), resizing=Resizing({'VCPU': 1}, {'VCPU': 4}), state=CONFIRMED
    )
    planned = claim(uuid_of('b'), uuid_of('n'), state=PLANNED, top_group='g', member='web')
    after = {one.key: one for one in (resizing, planned)}
    changes = ClaimChanges('request', {}, after, NOW, {uuid_of('n'): 'host-0'})
    payload = claims_payload(changes, list(after.values()))
    resize, plan = (claim_payload[DATA] for claim_payload in payload[DATA]['claims'])
    assert (resize['new_resources'], resize['instance_uuid']) == ({'VCPU': 4}, uuid_of('a'))
    assert (plan['instance_uuid'], plan['top_group'], plan['member']) == (None, 'g', 'web')


def test_every_field_of_the_sample_is_described():
    page = (manual.MANUAL / 'notifications.rst').read_text('utf-8')
    for path in SAMPLES.iterdir():
        assert path.name in page
        data = json.loads(path.read_text('utf-8'))[DATA]
        nested = [data['request']] if 'request' in data else []
        nested += (one for name in LISTS for one in data.get(name, []))
        objects = [data, *(one[DATA] for one in nested)]
        assert [name for one in objects for name in one if f'``{name}``' not in page] == []


def test_the_words_and_figures_of_explain():
    told, (kept,) = sent()
    assert told[DATA]['reason'] == kept['reason']
    assert [one[DATA] for one in told[DATA]['filters']] == kept['filters']
    assert told[DATA]['request'][DATA] == kept['asked']
    described = 'for_tenants hosts instances found attempts took_ms'.split()
    assert {name: told[DATA][name] for name in described} == {
        name: kept[name] for name in described
    }


def test_without_a_decision_log():
    told, kept = sent(explain_retention_s=0.0)
    assert told[DATA]['request_id'] == 'req-1'
    assert kept == []


def test_of_a_member_whose_group_could_not_be_planned():
    """Its record has fewer fields."""
    made = refusal_payload(
        {'request_id': 'req-1', 'time': NOW + 0.25, 'asked': {}, 'filters': [], 'reason': 'full'}
    )
    assert (made[DATA]['reason'], made[DATA]['attempts'], made[DATA]['for_tenants']) == (
        'full',
        None,
        None,
    )
    assert made[DATA]['refused_at'].endswith('.250000Z')
