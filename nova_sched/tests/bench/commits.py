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
"""The floor of a claim: the same rows written by the bare database, and claims a second through
our store."""

import json
import pathlib
import sqlite3
import tempfile
import time
import uuid

from nova_sched.claim import Claim
from nova_sched.claims import Placement
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.db import engine as db_engine
from nova_sched.db import schema
from nova_sched.tests.bench import fleet
from nova_sched.tests.bench.timing import by_turns, p50_ms, row

RESOURCES = {'VCPU': 1, 'MEMORY_MB': 1, 'DISK_GB': 0}
BATCH = 32


class BareClaim:
    """One durable claim by SQLite's own driver: read, update and insert in one transaction."""

    def __init__(self, path, nodes):
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute('PRAGMA journal_mode=WAL')
        self._connection.execute('PRAGMA synchronous=FULL')
        self._connection.execute(
            'CREATE TABLE node (uuid TEXT PRIMARY KEY, used TEXT, generation INTEGER)'
        )
        self._connection.execute(
            'CREATE TABLE claim (uuid TEXT PRIMARY KEY, consumer TEXT UNIQUE, node TEXT, '
            'resources TEXT)'
        )
        self._connection.executemany(
            'INSERT INTO node VALUES (?, ?, 0)', [(node, '{}') for node in nodes]
        )
        self._nodes, self._turn = nodes, 0

    def __call__(self, count=1):
        run = self._connection.execute
        run('BEGIN IMMEDIATE')
        for _ in range(count):
            self._turn += 1
            node = self._nodes[self._turn * 7919 % len(self._nodes)]
            (used,) = run('SELECT used FROM node WHERE uuid = ?', (node,)).fetchone()
            used = json.dumps({name: json.loads(used).get(name, 0) + 1 for name in RESOURCES})
            run(
                'UPDATE node SET used = ?, generation = generation + 1 WHERE uuid = ?',
                (used, node),
            )
            row = (str(uuid.uuid4()), str(uuid.uuid4()), node, json.dumps(RESOURCES))
            run('INSERT INTO claim VALUES (?, ?, ?, ?)', row)
        run('COMMIT')


class StoreClaim:
    """The same through our store."""

    def __init__(self, store, nodes):
        self._store, self._nodes, self._turn = store, nodes, 0

    def __call__(self, count=1):
        outcomes = self._store.commit([self._placement() for _ in range(count)])
        if not all(outcome.won for outcome in outcomes):
            raise RuntimeError('a claim was lost on an empty cluster')

    def _placement(self):
        self._turn += 1
        node = self._nodes[self._turn * 7919 % len(self._nodes)]
        return Placement(
            (Claim(str(uuid.uuid4()), node, RESOURCES, created_s=time.time(), expires_s=2e9),),
            runs={},
        )


def sqlite_store(folder, nodes):
    """A store on a SQLite file in which that many nodes have reported."""
    engine = db_engine.create(f'sqlite:///{folder}/claims.sqlite')
    schema.upgrade(engine)
    store, reports = SqlClaimStore(engine), list(fleet.reports(nodes))
    for start in range(0, nodes, 500):
        store.report(reports[start : start + 500], time.time())
    return store, [report.node_uuid for report in reports]


def rows(budget_s=2.0, nodes=1_000):
    with tempfile.TemporaryDirectory() as folder:
        store, names = sqlite_store(pathlib.Path(folder), nodes)
        ours, bare = StoreClaim(store, names), BareClaim(f'{folder}/bare.sqlite', names)
        for count in (1, BATCH):
            functions = {'ours': lambda n=count: ours(n), 'bare': lambda n=count: bare(n)}
            samples = by_turns(functions, budget_s)
            what = f'claim on SQLite, {count} in a transaction'
            rate = {'a second': f'{count * 1000 / p50_ms(samples["ours"]):,.0f}'}
            yield row(what, samples['ours'], 'bare SQLite', samples['bare']) | rate
