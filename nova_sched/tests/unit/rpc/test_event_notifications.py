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
"""Notifications of refusals: what is sent, and what is dropped rather than waited for."""

import threading

import pytest
from oslo_context.context import RequestContext

from nova_sched import errors
from nova_sched.claims import ClaimChanges
from nova_sched.measures.catalogue import EVENTS_LOST
from nova_sched.rpc.event_notifications import (
    MAX_CLAIMS,
    REFUSED,
    ClaimNotifications,
    EventNotifications,
    of_options,
)
from nova_sched.tests.builders import NOW, claim, uuid_of
from nova_sched.tests.unit.rpc.test_notifications import Notifier, configured

CONTEXT = RequestContext(auth_token='secret', request_id='req-1', project_id='p')


def refused(number=1):
    return {'request_id': f'req-{number}', 'time': NOW, 'asked': {}, 'filters': []}


@pytest.fixture
def notifier():
    return Notifier()


@pytest.fixture
def sender(notifier):
    EVENTS_LOST.clear()
    yield EventNotifications(notifier, waiting=2)
    EVENTS_LOST.clear()


def lost():
    return EVENTS_LOST.values.get((), 0)


def test_they_are_sent_in_order_before_it_stops(sender, notifier):
    sender.start()
    sender.refused(CONTEXT, lambda: refused(1))
    sender.refused(None, lambda: refused(2))
    sender.stop()
    assert [
        (event, payload['nova_object.data']['request_id']) for _, event, payload in notifier.told
    ] == [(REFUSED, 'req-1'), (REFUSED, 'req-2')]
    assert lost() == 0


def test_they_have_the_context_without_its_token(sender, notifier):
    sender.refused(CONTEXT, refused)
    sender.flush()
    ((context, *_),) = notifier.told
    assert (context.request_id, context.project_id) == ('req-1', 'p')
    assert 'secret' not in str(context.to_dict())


def test_a_full_queue_drops_and_counts(sender, notifier, caplog):
    for number in range(5):
        sender.refused(None, lambda number=number: refused(number))
    assert lost() == 3
    assert caplog.text.count('Events are dropped') == 1
    sender.flush()
    assert [payload['nova_object.data']['request_id'] for *_, payload in notifier.told] == [
        'req-0',
        'req-1',
    ]


def test_a_bus_that_is_stuck_delays_no_decision(sender, notifier):
    notifier.hold.clear()
    begun = threading.Event()

    def first():
        begun.set()
        return refused()

    sender.start()
    sender.refused(None, first)
    begun.wait(60)
    for _ in range(9):
        sender.refused(None, refused)
    assert lost() == 7  # two wait
    notifier.hold.set()
    sender.stop()
    assert len(notifier.told) == 3


def test_a_failure_is_told_once_and_ends(sender, notifier, caplog):
    caplog.set_level('INFO')
    notifier.problem = RuntimeError('no such exchange')
    for _ in range(2):
        sender.refused(None, refused)
    sender.flush()
    assert (lost(), caplog.text.count('Events cannot be sent: no such exchange')) == (2, 1)
    notifier.problem = None
    sender.refused(None, refused)
    sender.flush()
    assert 'Events are sent again' in caplog.text
    assert len(notifier.told) == 1


def test_a_record_that_cannot_be_made_is_lost_alone(sender, notifier):
    sender.refused(None, lambda: {}['time'])
    sender.refused(None, refused)
    sender.flush()
    assert (lost(), len(notifier.told)) == (1, 1)


@pytest.mark.parametrize(
    'wanted, events',
    [
        pytest.param(['refusals'], [REFUSED], id='refusals'),
        pytest.param(['groups'], ['nova_sched.group.refused'], id='groups'),
        pytest.param(['groups', 'refusals'], [REFUSED, 'nova_sched.group.refused'], id='both'),
    ],
)
def test_only_the_wanted_kinds(notifier, wanted, events):
    sender = EventNotifications(notifier, wanted)
    sender.refused(None, refused)
    sender.group('refused', lambda: {'time': NOW})
    sender.flush()
    assert [event for _, event, _ in notifier.told] == events


@pytest.mark.parametrize(
    'driver, wanted',
    [
        pytest.param(['messagingv2'], [], id='off'),
        pytest.param([], ['refusals'], id='no driver'),
        pytest.param(['noop'], ['refusals'], id='noop'),
    ],
)
def test_none_are_sent(driver, wanted):
    conf = configured(driver=driver)
    conf.set_override('scheduler_events', wanted, 'notifications')
    assert of_options(conf) is None


@pytest.mark.parametrize('wanted', [['claims'], ['claims', 'refusals']])
def test_claims_have_a_thread_of_their_own(notifier, wanted):
    sender = EventNotifications(notifier, wanted)
    sender.start()
    key = uuid_of('one'), uuid_of('node')
    made = ClaimChanges('request', {}, {key: claim(*key)}, NOW, {})
    sender.claims.changed(made)
    sender.stop()
    assert [event for _, event, _ in notifier.told] == ['nova_sched.claims.made']


def test_no_claims_without_the_option(notifier):
    assert EventNotifications(notifier).claims is None


def wanted(**values):
    conf = configured(driver=['messagingv2'], **values)
    conf.set_override('scheduler_events', ['refusals'], 'notifications')
    return conf


def test_publisher_and_topics():
    notifier = of_options(wanted())._notifier
    assert notifier.publisher_id == 'nova-sched-scheduler:sched-1'
    assert notifier._topics == ['versioned_notifications']


def test_an_unknown_kind():
    with pytest.raises(ValueError, match='refusal'):
        configured().set_override('scheduler_events', ['refusal'], 'notifications')


def test_a_bus_that_cannot_be():
    with pytest.raises(errors.BadConfig, match='oslo_messaging_notifications'):
        of_options(wanted(transport_url='unknown://x'))


# Claims.

NODE = uuid_of('node')


def changes(first, count, cause='request'):
    """A transaction that made so many claims."""
    made = [claim(uuid_of(f'one {first + number}'), NODE) for number in range(count)]
    return ClaimChanges(cause, {}, {one.key: one for one in made}, NOW, {NODE: 'host-0'})


@pytest.fixture
def claim_sender(notifier):
    EVENTS_LOST.clear()
    yield ClaimNotifications(notifier, waiting=10)
    EVENTS_LOST.clear()


def sizes(notifier):
    return [len(payload['nova_object.data']['claims']) for *_, payload in notifier.told]


def test_a_notification_for_each_transaction_in_order(claim_sender, notifier):
    claim_sender.start()
    for cause in ('request', 'report'):
        claim_sender.changed(changes(0, 3, cause))
    claim_sender.stop()
    assert sizes(notifier) == [3, 3]
    causes = [payload['nova_object.data']['cause'] for *_, payload in notifier.told]
    assert causes == ['request', 'report']


def test_a_large_transaction_is_sent_in_pieces(claim_sender, notifier):
    claim_sender.changed(changes(0, 2 * MAX_CLAIMS + 1))
    claim_sender.flush()
    assert sizes(notifier) == [MAX_CLAIMS, MAX_CLAIMS, 1]
    assert lost() == 0


def test_a_notification_for_each_kind_of_change(claim_sender, notifier):
    before, after = changes(0, 1).after, changes(1, 2).after
    claim_sender.changed(ClaimChanges('request', before, after, NOW, {}))
    claim_sender.flush()
    assert [event for _, event, _ in notifier.told] == [
        'nova_sched.claims.ended',
        'nova_sched.claims.made',
    ]


def test_claims_that_do_not_fit_are_dropped_and_counted(claim_sender, notifier, caplog):
    claim_sender.changed(changes(0, 8))
    for first in (10, 20):
        claim_sender.changed(changes(first, 3))
    claim_sender.changed(changes(30, 2))
    assert lost() == 6
    assert caplog.text.count('Events of claims are dropped') == 1
    caplog.set_level('INFO')
    claim_sender.flush()
    assert sizes(notifier) == [8, 2]
    assert 'Events of claims are sent again' in caplog.text
    claim_sender.changed(changes(40, 10))
    claim_sender.flush()
    assert (sizes(notifier), lost()) == ([8, 2, 10], 6)


def test_a_failure_loses_its_claims_only(claim_sender, notifier, caplog):
    notifier.problem = RuntimeError('no such exchange')
    claim_sender.changed(changes(0, 4))
    claim_sender.flush()
    assert (lost(), notifier.told) == (4, [])
    assert 'Events of claims cannot be sent: no such exchange' in caplog.text
    notifier.problem = None
    claim_sender.changed(changes(10, 10))
    claim_sender.flush()
    assert sizes(notifier) == [10]


def test_a_transaction_without_an_event_sends_nothing(claim_sender, notifier):
    same = changes(0, 1).after
    claim_sender.changed(ClaimChanges('renewal', same, same, NOW, {}))
    claim_sender.flush()
    assert (notifier.told, lost()) == ([], 0)
