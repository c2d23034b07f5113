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
"""The signs of life of the REST API: it answers on its own socket, and the bus accepts it."""

import contextlib
import http.client
import threading
import time

from nova_sched import errors

FIRST_S, PROBE_S = 0.2, 5.0  # between two probes: until it is ready, and after that
TIMEOUT_S = 5.0


class ApiSigns:
    """What a monitor asks of the workers of a daemon (``cmd.signs``), for one web server.

    ``address`` is where it listens. ``reach()`` raises BrokerUnavailable while the bus does not
    answer.
    """

    is_reloaded = True

    def __init__(self, address, reach, clock=time.monotonic):
        self._host, self._port = address
        self._reach, self._clock = reach, clock
        self._is_reached, self._alive_s = False, None

    @property
    def ready(self):
        """The number of servers that are ready: 0 or 1."""
        return int(self._is_reached and self._alive_s is not None)

    @property
    def silence_s(self):
        """Seconds since the server has answered."""
        return 0.0 if self._alive_s is None else self._clock() - self._alive_s

    def start(self):
        threading.Thread(target=self._run, name='nova-sched-signs', daemon=True).start()

    def _run(self):
        while True:
            self.look()
            time.sleep(PROBE_S if self.ready else FIRST_S)

    def look(self):
        """One probe."""
        if not self._is_reached:
            with contextlib.suppress(errors.BrokerUnavailable):
                self._reach()
                self._is_reached = True
        asked_s = self._clock()
        if self._answers():
            self._alive_s = asked_s

    def _answers(self):
        connection = http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT_S)
        try:
            connection.request('GET', '/healthcheck/live')
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
