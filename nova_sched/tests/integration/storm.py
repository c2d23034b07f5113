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
"""A storm: schedulers are killed and started again, the database and the broker go down once each."""

import random
import threading


class Storm:
    """Goes on for as long as the block runs.

    Every ``pause_s`` seconds one daemon is killed and started again. The ``outages`` are servers, each with
    the number of answers after which it is killed and started again: ``[(server, 100), …]``.
    """

    def __init__(self, daemons, outages, answers, pause_s=5.0, seed=0, tell=print):
        self._daemons, self._outages, self._answers = daemons, list(outages), answers
        self._pause_s, self._dice, self._tell = pause_s, random.Random(seed), tell
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._blow)
        self.kills, self.failure = 0, None

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    @property
    def is_over(self):
        """Every server has been down."""
        return not self._outages

    def _blow(self):
        try:
            while not self._over.wait(self._pause_s):
                victim = self._dice.choice(self._daemons)
                victim.kill()
                victim.start(wait=False)
                self.kills += 1
                if self._outages and len(self._answers) >= self._outages[0][1]:
                    server, _ = self._outages.pop(0)
                    self._tell(f'{type(server).__name__} is killed, and started again')
                    server.kill()
                    server.start()
        except Exception as error:  # noqa: BLE001, who runs the storm is told
            self.failure = error
