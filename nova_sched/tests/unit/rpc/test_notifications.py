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
"""Notifications about calls."""

import threading

import pytest
from oslo_config import cfg
from oslo_context.context import RequestContext

from nova_sched import errors
from nova_sched.conf.telemetry import NOTIFICATIONS_OPTS
from nova_sched.rpc import notification_payload, notifications
from nova_sched.rpc.notifications import (
    END,
    START,
    CallSerializer,
    Notifications,
    of_options,
    without_token,
)
from nova_sched.tests.reference import scenario

CONTEXT = RequestContext(auth_token='secret', request_id='req-1', project_id='p')
BOOT = {'spec_obj': scenario('boot-1'), 'instance_uuids': ['x']}


class Notifier:
    """Keeps what it is told, or raises ``problem``; ``hold`` makes it wait."""

    def __init__(self):
        self.told, self.problem, self.hold = [], None, threading.Event()
        self.hold.set()

    def info(self, context, event, payload):
        self.hold.wait(60)
        if self.problem:
            raise self.problem
        self.told.append((context, event, payload))


@pytest.fixture
def notifier():
    return Notifier()


@pytest.fixture
def sender(notifier):
    made = Notifications([(notifier, lambda primitive: primitive['nova_object.name'])])
    made.start()
    yield made
    notifier.hold.set()
    made.stop()


def test_they_are_sent_in_order(sender, notifier):
    for phase in (START, END):
        sender.tell(phase, CONTEXT, BOOT)
    sender.stop()
    assert [(event, payload) for _, event, payload in notifier.told] == [
        ('scheduler.select_destinations.start', 'RequestSpec'),
        ('scheduler.select_destinations.end', 'RequestSpec'),
    ]


def test_they_have_the_context_without_its_token(sender, notifier):
    sender.tell(START, CONTEXT, BOOT)
    sender.stop()
    ((context, *_),) = notifier.told
    assert (context.request_id, context.project_id) == ('req-1', 'p')
    assert 'secret' not in str(context.to_dict())


def test_a_context_has_the_names_that_nova_sends():
    context = RequestContext(
        auth_token='secret', user_id='u', user_name='ada', project_id='p', project_name='red'
    )
    told = CallSerializer().serialize_context(without_token(context))
    sent = {name: told[name] for name in ('user_id', 'user_name', 'project_name', 'auth_token')}
    assert sent == {
        'user_id': 'u',
        'user_name': 'ada',
        'project_name': 'red',
        'auth_token': None,
    }


def test_a_bus_that_is_stuck_delays_nobody(notifier, caplog):
    notifier.hold.clear()
    made = Notifications([(notifier, lambda primitive: None)])
    made.start()
    for _ in range(notifications.MAX_WAITING + 10):
        made.tell(START, CONTEXT, BOOT)
    assert caplog.text.count('Notifications are dropped') == 1
    notifier.hold.set()


def test_a_failure_is_told_once_and_ends(sender, notifier, caplog):
    caplog.set_level('INFO')
    notifier.problem = RuntimeError('no such exchange')
    for _ in range(3):
        sender.tell(START, CONTEXT, BOOT)
    while sender._waiting.qsize():
        pass
    sender.tell(START, CONTEXT, {'spec_obj': None})
    sender.stop()
    assert caplog.text.count('cannot be sent') == 1
    assert notifier.told == []


def configured(**values):
    conf = cfg.ConfigOpts()
    conf.register_opts([cfg.StrOpt('host', default='sched-1')])
    conf.register_opts(NOTIFICATIONS_OPTS, group='notifications')
    conf([])
    import oslo_messaging

    oslo_messaging.get_notification_transport(conf, url='fake://')
    conf.set_override('transport_url', 'fake://', 'oslo_messaging_notifications')
    for name, value in values.items():
        is_novas = name.startswith('notification_format')
        conf.set_override(
            name, value, 'notifications' if is_novas else 'oslo_messaging_notifications'
        )
    return conf


@pytest.mark.parametrize('driver', [[], ['noop']], ids=['none', 'noop'])
def test_none_are_sent_without_a_driver(driver):
    assert of_options(configured(driver=driver)) is None


@pytest.mark.parametrize('url', ['rabbit://[', 'unknown://x'])
def test_a_bus_that_cannot_be(url):
    conf = configured(driver=['messagingv2'])
    conf.set_override('transport_url', url, 'oslo_messaging_notifications')
    with pytest.raises(errors.BadConfig, match='oslo_messaging_notifications'):
        of_options(conf)


@pytest.mark.parametrize(
    'wanted, sent',
    [
        pytest.param(
            'unversioned',
            [('scheduler.sched-1', ['notifications'], notification_payload.legacy)],
            id='unversioned',
        ),
        pytest.param(
            'versioned',
            [
                (
                    'nova-scheduler:sched-1',
                    ['versioned_notifications'],
                    notification_payload.versioned,
                )
            ],
            id='versioned',
        ),
        pytest.param(
            'both',
            [
                ('scheduler.sched-1', ['notifications'], notification_payload.legacy),
                (
                    'nova-scheduler:sched-1',
                    ['versioned_notifications'],
                    notification_payload.versioned,
                ),
            ],
            id='both',
        ),
    ],
)
def test_formats(wanted, sent):
    """Publishers and topics as in the recorded notifications of Nova."""
    made = of_options(configured(driver=['messagingv2'], notification_format=wanted))
    assert [(one.publisher_id, one._topics, payload) for one, payload in made._notifiers] == sent
