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
"""Notifications of events by a scheduler whose hosts report."""

import oslo_messaging as messaging
import pytest
from oslo_context.context import RequestContext
from oslo_messaging.notify import _impl_test

from nova_sched import errors
from nova_sched.conf import CONF
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import HOST, running, spec
from nova_sched.tests.options import settings


@pytest.fixture
def notified():
    messaging.get_notification_transport(CONF, url='fake://')
    _impl_test.NOTIFICATIONS.clear()
    yield _impl_test.NOTIFICATIONS
    _impl_test.NOTIFICATIONS.clear()


def chosen(kind):
    return settings(
        {
            'oslo_messaging_notifications.driver': ['test'],
            'oslo_messaging_notifications.transport_url': 'fake://',
            'notifications.scheduler_events': [kind],
        }
    )


def test_claims(bus_url, tmp_path, notified):
    with chosen('claims'), running(bus_url, tmp_path) as daemon:
        daemon.add('a', vcpus=4)
        daemon.boot('one', vcpus=1)
        with pytest.raises(errors.NoValidHost):
            daemon.boot('two', vcpus=9)
    ((_, told, priority, *_),) = notified
    assert (told['publisher_id'], told['event_type'], priority) == (
        f'nova-sched-scheduler:{HOST}',
        'nova_sched.claims.made',
        'INFO',
    )
    (claim,) = told['payload']['nova_object.data']['claims']
    data = claim['nova_object.data']
    assert (data['instance_uuid'], data['host'], data['state']) == (
        uuid_of('one'),
        'a',
        'pending',
    )


def test_a_refusal(bus_url, tmp_path, notified):
    with chosen('refusals'), running(bus_url, tmp_path) as daemon:
        daemon.add('a', 'b', vcpus=4)
        context = RequestContext(request_id='req-big', auth_token='secret', overwrite=False)
        with pytest.raises(errors.NoValidHost):
            daemon.scheduler.select_destinations(spec(vcpus=9), [uuid_of('one')], context=context)
        daemon.boot('two', vcpus=1)
        (kept,) = daemon.decisions('req-big')
    ((plain, told, priority, *_),) = notified
    assert (told['publisher_id'], told['event_type'], priority) == (
        f'nova-sched-scheduler:{HOST}',
        'nova_sched.request.refused',
        'INFO',
    )
    assert (plain['request_id'], plain['auth_token']) == ('req-big', None)
    data = told['payload']['nova_object.data']
    assert (data['reason'], data['took_ms']) == (kept['reason'], kept['took_ms'])
