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
"""Nova's notifications about calls: one when a call begins, one when its hosts are chosen."""

import logging
import queue
import threading

import oslo_messaging as messaging
from oslo_context.context import RequestContext

from nova_sched import objects, rpc
from nova_sched.conf.telemetry import BOTH, UNVERSIONED, VERSIONED
from nova_sched.logs import Problems
from nova_sched.rpc import notification_payload, translate
from nova_sched.rpc.messages import Serializer

LOG = logging.getLogger(__name__)

# Fields of Nova's contexts that are not in the dict of an oslo.context.
OF_NOVA = 'user_id', 'user_name', 'project_name'
START, END = 'start', 'end'
EVENT = 'scheduler.select_destinations.'
MAX_WAITING = 1000  # further ones are dropped
STOP_S = 5.0
NOOP = 'noop'


class Notifications:
    """Sends notifications in a thread of its own, in order. Without a bus that takes them, they
    are dropped: calls never wait.

    ``notifiers`` are pairs of a messaging.Notifier and a function that makes its payload from the
    primitive of a RequestSpec.
    """

    def __init__(self, notifiers):
        self._notifiers = notifiers
        self._waiting: queue.Queue = queue.Queue(MAX_WAITING)
        self._problems = Problems(LOG)
        self._thread = threading.Thread(target=self._run, name='nova-sched-notify', daemon=True)

    def start(self):
        self._thread.start()

    def stop(self):
        """Send what waits, for a few seconds at most."""
        try:
            self._waiting.put(None, timeout=STOP_S)
            self._thread.join(STOP_S)
        except queue.Full:
            pass

    def tell(self, phase, context, arguments):
        """Notify of a phase of a call with these arguments. Does not wait."""
        try:
            self._waiting.put_nowait((phase, context, arguments))
        except queue.Full:
            self._problems.begin('queue', 'Notifications are dropped: the bus does not take them')

    def _run(self):
        while (notification := self._waiting.get()) is not None:
            try:
                self._send(*notification)
            except Exception as error:  # noqa: BLE001, the next one may be sent
                self._problems.begin('send', 'A notification cannot be sent: %s', error)
            else:
                for kind in ('send', 'queue'):
                    self._problems.end(kind, 'Notifications are sent again')

    def _send(self, phase, context, arguments):
        names = 'spec_obj', 'request_spec', 'filter_properties'
        spec = translate.spec(*(arguments.get(name) for name in names))
        primitive = objects.to_primitive(spec.whole() if hasattr(spec, 'whole') else spec)
        context = without_token(context)
        for notifier, payload in self._notifiers:
            notifier.info(context, EVENT + phase, payload(primitive))


class CallSerializer(Serializer):
    """The serializer of these notifications: contexts have more of what Nova's have."""

    def serialize_context(self, ctxt):
        return {**super().serialize_context(ctxt), **_names(ctxt)}


def without_token(context):
    """A copy of an oslo.context. A Notifier sends nothing of a context that is a plain dict."""
    plain = {**context.to_dict(), **_names(context), 'auth_token': None}
    return RequestContext.from_dict(plain, overwrite=False)


def _names(context):
    return {name: getattr(context, name, None) for name in OF_NOVA}


def transport(conf):
    """The bus of notifications. Raises BadConfig."""
    return rpc.checked_transport(
        '[oslo_messaging_notifications] transport_url',
        lambda: messaging.get_notification_transport(conf),
        lambda: conf.oslo_messaging_notifications.transport_url or conf.transport_url,
    )


def has_driver(conf):
    """Whether any driver sends notifications. Their options are known once there is a
    ``transport``."""
    return bool(set(conf.oslo_messaging_notifications.driver) - {NOOP})


def of_options(conf):
    """The Notifications of these options; None: no driver is set, so none are wanted. Connects to
    nothing. Raises BadConfig."""
    bus = transport(conf)
    if not has_driver(conf):
        return None
    wanted, host = conf.notifications.notification_format, conf.host
    notifiers = []
    if wanted in (UNVERSIONED, BOTH):
        publisher = f'scheduler.{host}'
        notifier = messaging.Notifier(bus, publisher, serializer=CallSerializer())
        notifiers.append((notifier, notification_payload.legacy))
    if wanted in (VERSIONED, BOTH):
        topics = conf.notifications.versioned_notifications_topics
        publisher = f'nova-scheduler:{host}'
        notifier = messaging.Notifier(bus, publisher, serializer=CallSerializer(), topics=topics)
        notifiers.append((notifier, notification_payload.versioned))
    return Notifications(notifiers)
