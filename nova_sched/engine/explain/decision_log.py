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
"""Records of decisions for operators, and the bounded queue by which a thread passes them on: the
loop never waits for it."""

import collections
import logging
import math
import queue
import random
import threading
import time

from nova_sched import errors
from nova_sched.measures.catalogue import RECORDS_LOST

LOG = logging.getLogger(__name__)

PLACED, REFUSED = 'placed', 'refused'
BURST_S = 10.0  # see ``sampled``
GATHER_S = 0.2  # records within this time are written together
BATCH = 100  # records written in one transaction
MAX_WAITING = 2000  # records that wait to be written, at most
MAX_REMEMBERED = 1000  # records that a process without a database keeps
MAX_INSTANCES = 10  # instances that a record names


class Outbox:
    """Items that a thread passes on, so that the loop never waits for it.

    The thread, called ``name``, waits ``gather_s`` seconds after an item, and passes on all that
    are queued by then, oldest first, in batches of at most ``most``. At most ``waiting`` items are
    queued. A subclass has ``_pass_on``, and ``_lose`` if it counts what does not fit. The methods
    may be called from any thread.
    """

    def __init__(self, name, gather_s, waiting, most):
        self._gather_s, self._waiting, self._most = gather_s, waiting, most
        self._queue: queue.SimpleQueue = queue.SimpleQueue()
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _pass_on(self, batch):
        """Pass on a list of items. Raises nothing: an item that cannot be passed on is lost."""
        raise NotImplementedError

    def _lose(self, count):
        """So many items cannot be passed on."""

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
            self._lose(1)
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


def record(order, outcome, now_s, details):
    """The record of a decision, as plain values: the request, the time in seconds since the epoch,
    and the outcome."""
    return {
        'request_id': order.request_id,
        'time': now_s,
        'outcome': outcome,
        'asked': asked(order.requests),
        **details,
    }


def asked(requests):
    """The request of the caller; of many instances the first ones."""
    first = requests[0]
    return {
        'instances': [request.instance_uuid for request in requests[:MAX_INSTANCES]],
        'flavor': first.flavor_name,
        'resources': dict(first.resources),
        'extra_specs': dict(first.extra_specs),
        'image': first.image_id,
        'zone': first.availability_zone,
        'policy': first.group.policy if first.group else None,
        'project_id': first.project_id,
        'user_id': first.user_id,
    }


class MemoryDecisionLog:
    """The latest records, in this process only."""

    def __init__(self, size=MAX_REMEMBERED):
        self._lock = threading.Lock()
        self._kept: collections.deque = collections.deque(maxlen=size)

    def write(self, records):
        with self._lock:
            self._kept.extend(records)

    def read(self, request_id):
        """The records of a request, oldest first."""
        with self._lock:
            return [kept for kept in self._kept if kept['request_id'] == request_id]

    def forget(self, before_s, most_placed=None):
        """Drop the records from before that time."""
        with self._lock:
            while self._kept and self._kept[0]['time'] < before_s:
                self._kept.popleft()


def pass_on(context, settings, order, outcome, details):
    """Pass on the record of an order. ``details()`` returns what it has of the outcome; it is
    called later, in another thread, and may use only what does not change any more.

    The log keeps only records with a request id, by which they are queried.
    """
    now_s = context.clock()

    def make():
        return record(order, outcome, now_s, details())

    if settings.explain_retention_s and order.request_id:
        context.decision_log.put(make)
    if outcome == REFUSED and context.events is not None:
        context.events.refused(order.context, make)


class DecisionLog(Outbox):
    """Writes records to the store, in a separate thread.

    Its items are functions that return the record of a decision with a request id, by which
    records are queried. They are called in that thread, and may use only what does not change any
    more.

    When more than ``waiting`` are queued, or the store is down, records are ``lost``: counted and
    logged, without a wait. Up to ``batch`` of them are written in one transaction. ``chance``
    returns numbers from 0 to 1.
    """

    def __init__(
        self,
        store=None,
        chance=random.random,
        waiting=MAX_WAITING,
        batch=BATCH,
        monotonic=time.monotonic,
    ):
        super().__init__('nova-sched-decision-log', GATHER_S, waiting, batch)
        self._store = MemoryDecisionLog() if store is None else store
        self._chance, self._monotonic = chance, monotonic
        self._allowed, self._asked_s = 0.0, -math.inf  # records, seconds
        self.lost = 0
        self._told = 0  # how many of the lost ones were logged
        self._away = False

    def sampled(self, share, per_second=math.inf):
        """Whether the next decision is recorded if it finds its hosts: it is among the given share
        (0 to 1), and there are no more than ``per_second`` in the average of BURST_S."""
        if share <= 0 or (share < 1 and self._chance() >= share):
            return False
        now_s = self._monotonic()
        since_s, self._asked_s = now_s - self._asked_s, now_s
        self._allowed = min(per_second * BURST_S, self._allowed + per_second * since_s)
        if self._allowed < 1:
            return False
        self._allowed -= 1
        return True

    def show(self, request_id):
        """The stored records of a request, oldest first. Raises StoreUnavailable."""
        return self._store.read(request_id)

    def forget(self, before_s, most_placed=None):
        """Drop the records from before that time, and the oldest of placed requests beyond
        ``most_placed``. Raises StoreUnavailable."""
        self._store.forget(before_s, most_placed)

    def _pass_on(self, batch):
        try:
            self._store.write([make() for make in batch])
            self._away = False
            if self.lost > self._told:
                LOG.warning('%d decision records were lost', self.lost - self._told)
                self._told = self.lost
        except errors.StoreUnavailable as error:
            self._lose(len(batch))
            if not self._away:
                LOG.warning('%s; decision records are lost until it does', error)
            self._away = True
        except Exception:
            self._lose(len(batch))
            LOG.exception('%d decision records cannot be kept', len(batch))

    def _lose(self, count):
        self.lost += count
        RECORDS_LOST.add(by=count)
