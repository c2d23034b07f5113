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
"""A bounded queue whose thread passes items on in batches, in parallel with the loop."""

import queue
import threading


class Outbox:
    """Items that a thread passes on, so that the loop never waits for it.

    The thread, called ``name``, waits ``gather_s`` seconds after an item, and passes on all that
    are queued by then, oldest first, in batches of at most ``most``. At most ``waiting`` items are
    queued. A subclass has ``_pass_on``. The methods may be called from any thread.
    """

    def __init__(self, name, gather_s, waiting, most):
        self._gather_s, self._waiting, self._most = gather_s, waiting, most
        self._queue: queue.SimpleQueue = queue.SimpleQueue()
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _pass_on(self, batch):
        """Pass on a list of items. Raises nothing: an item that cannot be passed on is lost."""
        raise NotImplementedError

    def start(self):
        self._thread.start()

    def stop(self, timeout_s=None):
        """Pass on the queued items, and take no more. Waits ``timeout_s`` seconds at most; None:
        without a limit."""
        self._leaving.set()
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def put(self, item):
        """Queue an item. Returns False if the queue is full; the item is dropped then."""
        if self._queue.qsize() >= self._waiting:
            return False
        self._queue.put(item)
        return True

    def flush(self, first=()):
        """Pass on the queued items now, after the ``first`` ones."""
        items = list(first)
        while not self._queue.empty():
            item = self._queue.get()
            if item is not None:
                items.append(item)
        for start in range(0, len(items), self._most):
            self._pass_on(items[start : start + self._most])

    def _run(self):
        while not self._leaving.is_set():
            first = self._queue.get()
            if first is not None:
                self._leaving.wait(self._gather_s)
                self.flush([first])
        self.flush()
