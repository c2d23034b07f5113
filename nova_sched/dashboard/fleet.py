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

"""All hosts as the database has them, read by increments and shared by all pages."""

import threading
import time
import uuid

from nova_sched.claims.cloud_facts import CloudFacts
from nova_sched.claims.values import Changes
from nova_sched.dashboard import board

REFRESH_S = 1.0  # seconds between two looks at the database, however many pages ask
HEADS_S = 10.0  # seconds between two looks at the last sign of life of all nodes


class Fleet:
    """The cloud, at most REFRESH_S seconds old. Its methods may be called from any thread, and
    raise StoreUnavailable.

    ``store`` is a claim store of its own; ``clock`` counts seconds.
    """

    def __init__(self, store, topology, down_time_s, default_zone, clock=time.monotonic):
        self._store, self._topology, self._clock = store, topology, clock
        self._down_time_s, self._default_zone = down_time_s, default_zone
        self._lock = threading.Lock()
        self._due_s = self._heads_due_s = clock()
        self._digest = None
        self._nodes, self._seen = {}, {}
        self._tables = Changes()
        self._facts = None
        # Another process counts versions of its own.
        self._name, self._version = uuid.uuid4().hex[:12], 0
        self._board, self._cells, self._changed = None, [], []

    def facts(self):
        """All facts about hosts: CloudFacts."""
        with self._lock:
            self._refresh()
            return self._facts

    def board(self):
        """All hosts for the map, as plain values: what lasts (see board.lasting), with ``cells``
        and the ``version`` of all."""
        with self._lock:
            self._refresh()
            return {**self._board, 'cells': self._cells, 'version': self._at()}

    def changes(self, version):
        """The version now and the cells that have changed since another one, by row; None in place
        of the cells if the whole board has to be read again."""
        with self._lock:
            self._refresh()
            name, _, number = (version or '').partition('-')
            if name != self._name or not number.isdecimal():
                return self._at(), None
            since = int(number)
            if since < self._board_version:
                return self._at(), None
            rows = [row for row, at in enumerate(self._changed) if at > since]
            return self._at(), [[row, *self._cells[row]] for row in rows]

    def look_again(self):
        """Have the next question look at the database."""
        with self._lock:
            self._due_s = self._clock()

    def _at(self):
        return f'{self._name}-{self._version}'

    def _refresh(self):
        now_s = self._clock()
        if self._facts is not None and now_s < self._due_s:
            return
        self._merge(self._read(now_s))
        self._facts = self._made()
        self._redraw()
        self._due_s = self._clock() + REFRESH_S

    def _read(self, now_s):
        """What has changed. All generations are read only if their sum has changed, or to learn
        which nodes are silent."""
        digest = self._store.digest()
        if digest == self._digest and now_s < self._heads_due_s:
            return self._store.look([])
        self._digest, self._heads_due_s = digest, now_s + HEADS_S
        return self._store.changes({uuid: one.generation for uuid, one in self._nodes.items()})

    def _merge(self, found):
        self._nodes.update((one.report.node_uuid, one) for one in found.nodes)
        for gone in found.gone:
            self._nodes.pop(gone, None)
        self._seen.update(found.seen)
        known = self._tables
        self._tables = Changes(
            services=known.services if found.services is None else found.services,
            aggregates=known.aggregates if found.aggregates is None else found.aggregates,
            instances=known.instances if found.instances is None else found.instances,
        )

    def _made(self):
        known = self._tables
        changes = Changes(
            nodes=tuple(self._nodes.values()),
            services=known.services,
            aggregates=known.aggregates,
            instances=known.instances,
        )
        return CloudFacts(
            changes, self._store.now_s(), self._down_time_s, self._default_zone, self._seen
        )

    def _redraw(self):
        lasting = board.lasting(self._facts, self._topology, self._default_zone)
        cells = board.cells(self._facts, lasting['resources'])
        version = self._version + 1
        if lasting != self._board:
            self._board, self._board_version = lasting, version
            self._changed = [version] * len(cells)
            self._version = version
        else:
            for row, (old, new) in enumerate(zip(self._cells, cells, strict=True)):
                if old != new:
                    self._changed[row] = self._version = version
        self._cells = cells
