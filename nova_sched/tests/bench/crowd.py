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
"""Scheduler processes that commit to one database at the same time, by turns with its bare
driver."""

import itertools
import multiprocessing
import random
import time
import uuid
from typing import NamedTuple

from nova_sched import errors
from nova_sched.claims import Placement
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.db import engine as db_engine
from nova_sched.objects.claiming import Claim
from nova_sched.tests.bench import bare

RESOURCES = {'VCPU': 1, 'MEMORY_MB': 1, 'DISK_GB': 1}


class Turn(NamedTuple):
    """What one process did: its first and last moment (seconds of one clock), and seconds of each
    commit.

    ``placed`` and ``lost`` count claims, ``busy`` commits that were made again.
    """

    start: float
    end: float
    samples: list[float]
    placed: int
    lost: int
    busy: int


class Room:
    """Nodes that take one more claim, as far as one scheduler knows: it hears of the others by its
    losses."""

    def __init__(self, nodes, left):
        self._nodes, self._left = list(nodes), dict.fromkeys(nodes, left)

    def batch(self, size):
        """As many new claims, or fewer when there is no more room."""
        return [_claim(self._pick()) for _ in range(size) if self._nodes]

    def _pick(self):
        node = random.choice(self._nodes)
        self._left[node] -= 1
        if not self._left[node]:
            self.close(node)
        return node

    def close(self, node):
        if node in self._nodes:
            self._nodes.remove(node)


def _claim(node):
    return Claim(
        consumer_uuid=str(uuid.uuid4()),
        node_uuid=node,
        resources=RESOURCES,
        project_id=uuid.uuid4().hex,
        user_id=uuid.uuid4().hex,
        request_id=f'req-{uuid.uuid4()}',
        created_s=time.time(),
        expires_s=2e9,
    )


class Ours:
    """Batches through our store."""

    def __init__(self, url):
        self._store = SqlClaimStore(db_engine.create(url))

    def prepare(self, claims):
        return [Placement((claim,), runs={}) for claim in claims]

    def commit(self, placements):
        """The node of each claim that was lost, and how often the database was busy."""
        outcomes, busy = None, 0
        while outcomes is None:
            try:
                outcomes = self._store.commit(placements)
            except errors.StoreUnavailable:
                busy += 1
        pairs = zip(placements, outcomes, strict=True)
        return [
            placement.claims[0].node_uuid for placement, outcome in pairs if not outcome.won
        ], busy


def _work(url, pipe, gate):
    """One process: turns as they are asked for, each begun together with the other processes."""
    sides, rooms = {'ours': Ours(url), 'bare': bare.client(url)}, {}
    while True:
        name, size, batches, fresh = pipe.recv()
        rooms[name] = room = fresh or rooms[name]
        side = sides[name]
        claims = [batch for _ in range(batches) if (batch := room.batch(size))]
        made = [side.prepare(batch) for batch in claims]
        gate.wait()
        lost, busy, moments = [], 0, [time.perf_counter()]
        for batch in made:
            full, again = side.commit(batch)
            moments.append(time.perf_counter())
            lost, busy = lost + full, busy + again
        for node in lost:
            room.close(node)
        samples = [end - start for start, end in itertools.pairwise(moments)]
        pipe.send(
            Turn(
                moments[0],
                moments[-1],
                samples,
                sum(map(len, claims)) - len(lost),
                len(lost),
                busy,
            )
        )


class Crowd:
    """That many processes, each with a connection of ours and a bare one."""

    def __init__(self, url, count):
        context = multiprocessing.get_context('spawn')
        self._gate = context.Barrier(count)
        self._pipes, self._running = [], []
        for _ in range(count):
            here, there = context.Pipe()
            process = context.Process(target=_work, args=(url, there, self._gate), daemon=True)
            process.start()
            there.close()  # so that the end of the process is heard
            self._pipes.append(here)
            self._running.append(process)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self._running:
            process.terminate()
            process.join(30)

    def turn(self, side, size, batches, room=None):
        """Each process makes batches of that size; ``room`` is what each begins to fill, None:
        goes on to."""
        for pipe in self._pipes:
            pipe.send((side, size, batches, room))
        return [pipe.recv() for pipe in self._pipes]
