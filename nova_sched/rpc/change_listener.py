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
"""The listener for change events: the server of a separate topic, on which each process receives
the events of all processes."""

import itertools
import logging
import threading

import oslo_messaging as messaging

from nova_sched import rpc
from nova_sched.rpc.endpoints.news import News
from nova_sched.rpc.news import TOPIC

LOG = logging.getLogger(__name__)

PATIENCE_S = 1.0  # seconds that a starting server may take, before it is left alone
RETRY_S = 10.0  # seconds after which a refused topic is tried again

# The servers of one process need different names. Processes on one host may use the same names.
_numbers = itertools.count()


class ChangeListener:
    """Receives the change events of other schedulers in a separate thread. The scheduler works
    without them while the bus refuses the topic."""

    def __init__(self, bus, host, scheduler):
        number = next(_numbers)
        name, plain = f'{host}-{number}' if number else host, messaging.NoOpSerializer()
        self._make = lambda: rpc.server(bus, name, [News(scheduler)], TOPIC, plain)
        self._leaving, self._listening = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name='nova-sched-changes', daemon=True)

    def start(self):
        self._thread.start()

    def leave(self):
        """Receive no more events; does not wait."""
        self._leaving.set()

    def stop(self):
        """Receive no more events. A server that is still connecting to its bus cannot be stopped,
        and is left alone."""
        self.leave()
        if self._thread.is_alive():
            self._thread.join(None if self._listening.is_set() else PATIENCE_S)

    def _run(self):
        server = self._listen()
        if server is not None:
            self._leaving.wait()
            server.stop()
            server.finish()

    def _listen(self):
        """Returns the server once it listens; None if this ends before."""
        told = False
        while not self._leaving.is_set():
            server = self._make()
            try:
                # One event after the other: after reordered events the nodes would be read from
                # the database.
                server.start(override_pool_size=1)
            except Exception as error:  # noqa: BLE001, each driver of the bus has other errors
                if not told:
                    LOG.warning(
                        'Change events of other schedulers are not received, and their '
                        'changes are seen late: %s',
                        error,
                    )
                told = True
                self._leaving.wait(RETRY_S)
            else:
                self._listening.set()
                return server
        return None
