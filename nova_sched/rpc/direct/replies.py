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
"""The answers of the direct server on their way to their callers, until RabbitMQ has confirmed
them."""

import collections
import logging
import math
import time

from nova_sched.rpc.direct import wire

LOG = logging.getLogger(__name__)

RESEND_S = 0.25  # between attempts to send an answer to a queue that does not exist
MAX_GONE, GONE_S = 200, 60.0  # reply queues that are known to be missing, and for how long


class ReplySender:
    """Sends answers and heartbeats. For the thread of the server.

    ``rabbit`` are the options of oslo_messaging_rabbit. ``forget`` is called with each Call for
    which nothing is left to send.
    """

    def __init__(self, rabbit, forget):
        self._rabbit, self._forget = rabbit, forget
        self._waiting = collections.deque()  # calls with an answer to send
        self._missing = []  # (time, call): calls to answer again
        self._gone = collections.OrderedDict()  # reply queue: until when it counts as missing
        self._beats = []  # calls that need heartbeats

    @property
    def due_s(self):
        """When the next answer or heartbeat is due, by the monotonic clock."""
        due = [at_s for at_s, _ in self._missing]
        due += [call.beat_due_s for call in self._beats]
        return min(due, default=math.inf)

    def start_heartbeats(self, call):
        """Send heartbeats to the caller until ``add`` or ``drop``."""
        call.beat_due_s = time.monotonic() + call.beat_s
        self._beats.append(call)

    def add(self, call):
        """Send the answer of the call."""
        self._stop_heartbeats(call)
        self._waiting.append(call)

    def drop(self, call):
        """The call has no answer."""
        self._stop_heartbeats(call)
        self._forget(call)

    def _stop_heartbeats(self, call):
        if call.beat_due_s is not None:
            self._beats.remove(call)
            call.beat_due_s = None

    def send(self, session):
        """Send what waits and what is due."""
        now_s = time.monotonic()
        self._waiting.extend(call for at_s, call in self._missing if at_s <= now_s)
        self._missing = [entry for entry in self._missing if entry[0] > now_s]
        due = [call for call in self._beats if call.beat_due_s <= now_s]
        for call in due:
            call.beat_due_s = now_s + call.beat_s
        if session.is_blocked:
            return
        for call in due:
            text = wire.answer(call.msg_id, ending=False)
            session.send(call.reply_q, self._message(text), None)
        while self._waiting:
            call = self._waiting.popleft()
            if self._is_gone(call):
                self._forget(call)
            else:
                session.send(call.reply_q, self._message(call.text), call)

    def _message(self, text):
        return wire.to_amqp(text, self._rabbit.kombu_compression)

    def take_confirms(self, session):
        """Read what RabbitMQ said of the answers that were sent."""
        for call in session.confirmed:
            if call is not None:
                self._forget(call)
        session.confirmed.clear()
        for call in session.returned:
            if call is not None:
                self._send_later(call)
        session.returned.clear()
        now_s = time.monotonic()
        self._missing += [(now_s + RESEND_S, call) for call in session.refused if call is not None]
        session.refused.clear()

    def take_back(self, session):
        """Send again the answers of a lost session that RabbitMQ has not confirmed."""
        unsent = [*session.unconfirmed, *session.confirmed, *session.returned, *session.refused]
        self._waiting.extend(call for call in unsent if call is not None)

    def _send_later(self, call):
        """The reply queue is not there: after a restart of the broker, the caller creates it
        again."""
        now_s, wait_s = time.monotonic(), self._rabbit.kombu_missing_consumer_retry_timeout
        if call.missing_until_s is None:
            call.missing_until_s = now_s + wait_s
        if now_s < call.missing_until_s:
            self._missing.append((now_s + RESEND_S, call))
            return
        LOG.error(
            'The reply %s failed to send after %d seconds due to a missing queue (%s). Abandoning',
            call.msg_id,
            wait_s,
            call.reply_q,
        )
        self._gone[call.reply_q] = now_s + GONE_S
        if len(self._gone) > MAX_GONE:
            self._gone.popitem(last=False)
        self._forget(call)

    def _is_gone(self, call):
        until_s = self._gone.get(call.reply_q)
        if until_s is None:
            return False
        if time.monotonic() >= until_s:
            del self._gone[call.reply_q]
            return False
        LOG.warning("%s doesn't exist, drop reply to %s", call.reply_q, call.msg_id)
        return True
