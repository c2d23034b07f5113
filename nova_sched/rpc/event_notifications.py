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
"""Notifications of what the scheduler decided and of claims, beside those of Nova about calls.

doc/source/notifications.rst describes each field of the payloads; a test compares both. A new
field makes a new minor version. A field that ends or changes its meaning makes a new major one.
"""

import datetime
import functools
import logging
import threading

import oslo_messaging as messaging

from nova_sched.claim import PLANNED
from nova_sched.conf.telemetry import CLAIMS, GROUPS, REFUSALS
from nova_sched.engine.explain.decision_log import Outbox
from nova_sched.logs import Problems
from nova_sched.measures.catalogue import EVENTS_LOST
from nova_sched.objects.object_io import DATA, NAME, NAMESPACE, NOVA_SCHED, VERSION
from nova_sched.rpc.messages import PlainSerializer
from nova_sched.rpc.notifications import has_driver, transport, without_token

LOG = logging.getLogger(__name__)

REFUSED, GROUP, CLAIM = 'nova_sched.request.refused', 'nova_sched.group.', 'nova_sched.claims.'
MAX_WAITING = 1000  # events; further ones are dropped
MAX_WAITING_CLAIMS = 20000  # a further transaction is dropped
MAX_CLAIMS = 100  # in one notification
MAX_BATCH = 100
STOP_S = 5.0

OF_CLAIM = 'state project_id user_id request_id move group_uuid top_group member'.split()
OF_REFUSAL = 'request_id reason for_tenants hosts instances found attempts took_ms'.split()


class EventOutbox(Outbox):
    """An Outbox whose items are sent as events, each once. Those that the bus does not take are
    dropped and counted.

    ``notifier`` is a messaging.Notifier; ``what`` names the events in the log.
    """

    def __init__(self, name, notifier, waiting, what):
        super().__init__(name, 0.0, waiting, MAX_BATCH)
        self._notifier, self._what = notifier, what
        self._problems = Problems(LOG)

    def stop(self, timeout_s=STOP_S):
        """Send what waits, for a few seconds at most."""
        super().stop(timeout_s)

    def _drop(self, count=1):
        """Count events that did not fit into the queue."""
        EVENTS_LOST.add(by=count)
        self._problems.begin('queue', '%s are dropped: the bus does not take them', self._what)

    def _send(self, event, context, make, count=1):
        """Send the payload that ``make()`` returns; it has ``count`` events."""
        try:
            safe = {} if context is None else without_token(context)
            self._notifier.info(safe, event, make())
        except Exception as error:  # noqa: BLE001, the next one may be sent
            EVENTS_LOST.add(by=count)
            self._problems.begin('send', '%s cannot be sent: %s', self._what, error)
        else:
            for kind in ('send', 'queue'):
                self._problems.end(kind, '%s are sent again', self._what)


class ClaimNotifications(EventOutbox):
    """Sends the changes of claims, one notification for each kind of change in a transaction, so
    that their number follows that of transactions. Decisions never wait.

    ``notifier`` is a messaging.Notifier.
    """

    def __init__(self, notifier, waiting=MAX_WAITING_CLAIMS):
        super().__init__('nova-sched-claim-events', notifier, waiting, 'Events of claims')
        self._most, self._claims = waiting, 0
        self._lock = threading.Lock()

    def changed(self, changes):
        """Tell of ClaimChanges. Does not wait; may be called from any thread."""
        with self._lock:
            fits = not self._claims or self._claims + changes.size <= self._most
            fits = fits and self.put(changes)
            if fits:
                self._claims += changes.size
        if not fits:
            self._drop(changes.size)

    def _pass_on(self, batch):
        for changes in batch:
            for kind, claims in changes.by_kind().items():
                for start in range(0, len(claims), MAX_CLAIMS):
                    part = claims[start : start + MAX_CLAIMS]
                    make = functools.partial(claims_payload, changes, part)
                    self._send(CLAIM + kind, None, make, len(part))
            with self._lock:
                self._claims -= changes.size


class EventNotifications(EventOutbox):
    """Sends events in a thread of its own, in the order in which they were told. Without a bus
    that takes them, they are dropped and counted: decisions never wait. None is sent again.

    ``notifier`` is a messaging.Notifier. ``wanted`` are kinds of events, as in the option.
    ``claims``, a ClaimNotifications with another thread, is None if those are not wanted.
    """

    def __init__(self, notifier, wanted=(REFUSALS, GROUPS), waiting=MAX_WAITING):
        super().__init__('nova-sched-events', notifier, waiting, 'Events')
        self._wanted = frozenset(wanted)
        self.claims = ClaimNotifications(notifier) if CLAIMS in self._wanted else None

    def start(self):
        super().start()
        if self.claims is not None:
            self.claims.start()

    def stop(self, timeout_s=STOP_S):
        """Send what waits, for a few seconds at most."""
        super().stop(timeout_s)
        if self.claims is not None:
            self.claims.stop(timeout_s)

    def refused(self, context, make):
        """Tell of a refused request. ``make()`` returns its decision record, in the thread of this
        outbox; ``context`` is the oslo.context of the call, or None. Does not wait."""
        if REFUSALS in self._wanted:
            self._tell(REFUSED, context, lambda: refusal_payload(make()))

    def group(self, event, make):
        """Tell of an event of a group. ``make()`` returns its facts as plain values, in the thread
        of this outbox. Does not wait."""
        if GROUPS in self._wanted:
            self._tell(GROUP + event, None, lambda: group_payload(event, make()))

    def _tell(self, *event):
        if not self.put(event):
            self._drop()

    def _pass_on(self, batch):
        for event in batch:
            self._send(*event)


def of_options(conf):
    """The EventNotifications of these options; None: none are wanted. Connects to nothing. Raises
    BadConfig."""
    wanted = conf.notifications.scheduler_events
    if not wanted:
        return None
    bus = transport(conf)
    if not has_driver(conf):
        return None
    notifier = messaging.Notifier(
        bus,
        f'nova-sched-scheduler:{conf.host}',
        serializer=PlainSerializer(),
        topics=conf.notifications.versioned_notifications_topics,
    )
    return EventNotifications(notifier, wanted)


# Payloads.


def refusal_payload(record):
    """Return the RequestRefusedPayload of the decision record of a refused request; None where
    the record has no such field."""
    return _payload(
        'RequestRefusedPayload',
        {
            **{name: record.get(name) for name in OF_REFUSAL},
            'refused_at': _moment(record['time']),
            'request': _payload('RefusedRequestPayload', record['asked']),
            'filters': [
                _payload('FilterPayload', filter_record) for filter_record in record['filters']
            ],
        },
    )


def group_payload(event, facts):
    """Return the payload of an event of a group, one of engine.groups.group_events."""
    data = {name: value for name, value in facts.items() if name not in ('time', 'expires')}
    data[f'{event}_at'] = _moment(facts['time'])
    if 'expires' in facts:
        data['expires_at'] = facts['expires'] and _moment(facts['expires'])
    if 'members' in facts:
        data['members'] = [_payload('GroupMemberPayload', member) for member in facts['members']]
    return _payload(f'Group{event.capitalize()}Payload', data)


def claims_payload(changes, claims):
    """Return the ClaimsPayload of these claims among ClaimChanges, all of one kind."""
    hosts = changes.hosts
    data = {
        'changed_at': _moment(changes.now_s),
        'cause': changes.cause,
        'claims': [
            _payload('ClaimPayload', _claim(claim, hosts.get(claim.node_uuid))) for claim in claims
        ],
    }
    return _payload('ClaimsPayload', data)


def _claim(claim, host):
    resizing = claim.resizing
    return {
        'uuid': claim.uuid,
        'instance_uuid': None if claim.state == PLANNED else claim.consumer_uuid,
        'host': host,
        'node_uuid': claim.node_uuid,
        'resources': dict(claim.resources),
        'new_resources': resizing and dict(resizing.new),
        **{name: getattr(claim, name) for name in OF_CLAIM},
        'expires_at': claim.expires_s and _moment(claim.expires_s),
    }


def _payload(name, data, version='1.0'):
    return {NAME: name, NAMESPACE: NOVA_SCHED, VERSION: version, DATA: dict(data)}


def _moment(seconds):
    """Seconds since the epoch, in the form of ISO 8601."""
    instant = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return instant.isoformat(timespec='microseconds').replace('+00:00', 'Z')
