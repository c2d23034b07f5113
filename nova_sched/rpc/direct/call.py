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
"""A message that the direct server handles: a call, or a cast, which has no answer."""

import time

from nova_sched.rpc.direct import envelope
from nova_sched.rpc.serving import LONGEST_S


class Call:
    """One message, as the dispatcher takes it.

    ``message`` is the mapping of method, namespace, version and args; ``ctxt`` the context with
    the driver's words, as oslo.messaging's driver makes it. ``client_timeout`` is how many seconds
    its caller waits for a sign of life. ``received``: see engine.clock.

    ``tags`` are the deliveries of it that are not acknowledged: (session, tag). ``text`` is the
    answer as soon as there is one. ``beat_s`` is how many seconds there are between signs of life
    for its caller; None: it expects none.
    """

    __slots__ = (
        'beat_due_s',
        'beat_s',
        'client_timeout',
        'ctxt',
        'deferred',
        'message',
        'missing_until_s',
        'msg_id',
        'received',
        'reply_q',
        'since_s',
        'tags',
        'text',
        'unique_id',
    )

    def __init__(self, message):
        self.ctxt, self.msg_id, self.reply_q, self.unique_id = envelope.split(message)
        self.message = message
        self.client_timeout = self.ctxt['client_timeout']
        self.received = None
        self.deferred = None
        self.tags = []
        self.text = None
        self.since_s = time.monotonic()
        self.beat_s = _interval_s(self.client_timeout)
        self.beat_due_s = None
        self.missing_until_s = None

    def settle(self, session):
        """Acknowledge its deliveries with the session's next acknowledgements."""
        for one, tag in self.tags:
            if one is session:
                session.settle(tag)
        self.tags.clear()


def _interval_s(client_timeout):
    """The interval at which oslo.messaging's server sends signs of life, if it sends any."""
    if type(client_timeout) not in (int, float) or not 2 <= client_timeout <= LONGEST_S:
        return None
    return int(client_timeout) / 2
