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
"""A storm: schedulers are killed or stand still, servers go down, the link to the database is slow
or cut."""

import math
import random
import threading
import time

# How long a daemon stands still: it does not find out, or it does (engine.clock.STILL_S).
STILL_S = (0.1, 3.0), (4.0, 25.0)
SLOW_S = 0.2  # how much longer each message to the database and back takes


class Storm:
    """Goes on for as long as the block runs.

    Every ``pause_s`` seconds one daemon is killed and started again. The ``outages`` are servers,
    each with the number of answers after which it is killed and started again: ``[(server, 100),
    …]``. With a ``link``, the proxy that some daemons reach their database by, every second time a
    daemon stands still instead, or the link is slow for a while, or is cut.
    """

    def __init__(self, daemons, outages, answers, pause_s=5.0, seed=0, tell=print, link=None):
        self._link, self._still = link, []  # (daemon, when it goes on)
        self._daemons, self._outages, self._answers = daemons, list(outages), answers
        self._pause_s, self._dice, self._tell = pause_s, random.Random(seed), tell
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._blow)
        self.kills, self.pauses, self.cuts, self.failure = 0, 0, 0, None

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
        self._go_on(math.inf)
        if self._link is not None:
            self._link.restore()

    @property
    def is_over(self):
        """Every server has been down."""
        return not self._outages

    def _blow(self):
        try:
            next_s = time.monotonic() + self._pause_s
            while not self._over.wait(self._wait_s(next_s)):
                now_s = time.monotonic()
                self._go_on(now_s)
                if now_s < next_s:
                    continue
                next_s = now_s + self._pause_s
                if self._link is not None and self._dice.random() < 0.5:
                    self._hold_up()
                else:
                    self._kill()
                if self._outages and len(self._answers) >= self._outages[0][1]:
                    server, _ = self._outages.pop(0)
                    self._tell(f'{type(server).__name__} goes away, and comes back')
                    server.kill()
                    server.start()
        except Exception as error:  # noqa: BLE001, who runs the storm is told
            self.failure = error

    def _wait_s(self, next_s):
        """Seconds until something is to happen: the next blow, or the end of a standstill."""
        due_s = min([next_s, *(until for _, until in self._still)])
        return max(0.0, due_s - time.monotonic())

    def _kill(self):
        still = [daemon for daemon, _ in self._still]
        victim = self._dice.choice([daemon for daemon in self._daemons if daemon not in still])
        victim.kill()
        victim.start(wait=False)
        self.kills += 1

    def _hold_up(self):
        """Let a daemon stand still, or its link be slow or cut; what was slow is as fast as
        before."""
        self._link.restore()
        what = self._dice.choice(['still', 'still', 'slow', 'cut'])
        if what == 'slow':
            self._link.delay(SLOW_S)
        elif what == 'cut':
            self._link.reset()
            self.cuts += 1
        elif len(self._still) < len(self._daemons) // 2:
            still = [daemon for daemon, _ in self._still]
            victim = self._dice.choice([daemon for daemon in self._daemons if daemon not in still])
            victim.pause()
            still_s = self._dice.uniform(*self._dice.choice(STILL_S))
            self._still.append((victim, time.monotonic() + still_s))
            self.pauses += 1

    def _go_on(self, now):
        """Let those go on that stood still for long enough."""
        for daemon, until in self._still:
            if until <= now:
                daemon.resume()
        self._still = [one for one in self._still if one[1] > now]
