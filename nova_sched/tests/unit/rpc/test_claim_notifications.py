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
"""Notifications of claims: how many are sent, and what is dropped rather than waited for."""

import pytest

from nova_sched.claims import ClaimChanges
from nova_sched.measures.catalogue import EVENTS_LOST
from nova_sched.rpc.event_notifications import MAX_CLAIMS, ClaimNotifications
from nova_sched.tests.builders import NOW, claim, uuid_of
from nova_sched.tests.unit.rpc.test_notifications import Notifier

NODE = uuid_of('node')


def changes(first, count, cause='request'):
    """A transaction that made so many claims."""
    made = [claim(uuid_of(f'one {first + number}'), NODE) for number in range(count)]
    return ClaimChanges(cause, {}, {one.key: one for one in made}, NOW, {NODE: 'host-0'})


@pytest.fixture
def notifier():
    return Notifier()


@pytest.fixture
def sender(notifier):
    EVENTS_LOST.clear()
    yield ClaimNotifications(notifier, waiting=10)
    EVENTS_LOST.clear()


def lost():
    return EVENTS_LOST.values.get((), 0)


def sizes(notifier):
    return [len(payload['nova_object.data']['claims']) for *_, payload in notifier.told]


def test_one_for_each_transaction_in_order(sender, notifier):
    sender.start()
    for cause in ('request', 'report'):
        sender.changed(changes(0, 3, cause))
    sender.stop()
    assert sizes(notifier) == [3, 3]
    causes = [payload['nova_object.data']['cause'] for *_, payload in notifier.told]
    assert causes == ['request', 'report']


def test_a_large_transaction_is_sent_in_pieces(sender, notifier):
    sender.changed(changes(0, 2 * MAX_CLAIMS + 1))
    sender.flush()
    assert sizes(notifier) == [MAX_CLAIMS, MAX_CLAIMS, 1]
    assert lost() == 0


def test_one_for_each_kind(sender, notifier):
    there, here = changes(0, 1).after, changes(1, 2).after
    sender.changed(ClaimChanges('request', there, here, NOW, {}))
    sender.flush()
    assert [event for _, event, _ in notifier.told] == [
        'nova_sched.claims.ended',
        'nova_sched.claims.made',
    ]


def test_claims_that_do_not_fit_are_dropped_and_counted(sender, notifier, caplog):
    sender.changed(changes(0, 8))
    for first in (10, 20):
        sender.changed(changes(first, 3))
    sender.changed(changes(30, 2))
    assert lost() == 6
    assert caplog.text.count('Events of claims are dropped') == 1
    caplog.set_level('INFO')
    sender.flush()
    assert sizes(notifier) == [8, 2]
    assert 'Events of claims are sent again' in caplog.text
    sender.changed(changes(40, 10))
    sender.flush()
    assert (sizes(notifier), lost()) == ([8, 2, 10], 6)


def test_a_failure_loses_its_claims_only(sender, notifier, caplog):
    notifier.problem = RuntimeError('no such exchange')
    sender.changed(changes(0, 4))
    sender.flush()
    assert (lost(), notifier.told) == (4, [])
    assert 'Events of claims cannot be sent: no such exchange' in caplog.text
    notifier.problem = None
    sender.changed(changes(10, 10))
    sender.flush()
    assert sizes(notifier) == [10]


def test_a_transaction_without_an_event_sends_nothing(sender, notifier):
    same = changes(0, 1).after
    sender.changed(ClaimChanges('renewal', same, same, NOW, {}))
    sender.flush()
    assert (notifier.told, lost()) == ([], 0)
