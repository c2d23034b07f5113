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
"""Claims a second of schedulers that share one database, against its bare driver in as many
processes."""

import statistics
import time

from nova_sched.claims.sql import SqlClaimStore
from nova_sched.db import engine as db_engine
from nova_sched.db import schema
from nova_sched.tests.bench import fleet
from nova_sched.tests.bench.crowd import RESOURCES, Crowd, Room
from nova_sched.tests.bench.timing import row
from nova_sched.tests.fixtures import mariadb, postgresql

SCHEDULERS = (1, 2, 4)
BATCH = 32
MANY, FEW = 1_000, 50  # nodes that take all that comes, and nodes that are nearly full
ENDLESS, LEFT = 10**7, 64  # claims that each of them takes
TURN_S = 0.2
# Batches that a scheduler makes before it looks what became of them: meanwhile others pick the
# same places.
TURN_OF_FEW = 2


def by_turns(crowd, size, room, budget_s, least=5):
    """Turns of ours and of the bare database, by name: equal work, one after the other."""
    first = crowd.turn('bare', size, 10, room)
    crowd.turn('ours', size, 10, room)
    batches = max(10, round(TURN_S / statistics.median(first[0].samples)))
    made, end = {'ours': [], 'bare': []}, time.perf_counter() + budget_s
    while time.perf_counter() < end or len(made['ours']) < least:
        for side, turns in made.items():
            turns.append(crowd.turn(side, size, batches))
    return made


class Scarce:
    """A few nodes that are filled to the last place again and again; the bare driver fills
    others."""

    def __init__(self, store, ours, others):
        self._store, self._reports, self._others = store, ours, others
        self._total = 0

    def by_turns(self, crowd, budget_s, least=2):
        """Turns by name, as above. Raises RuntimeError if places were left over or given twice."""
        made, end, rounds = {'ours': [], 'bare': []}, time.perf_counter() + budget_s, 0
        while time.perf_counter() < end or rounds < least:
            rounds += 1
            self._total += LEFT
            self._store.report(
                [_sized(report, self._total) for report in self._reports], time.time()
            )
            ours, others = Room(names(self._reports), LEFT), Room(names(self._others), ENDLESS)
            placed, turns = 0, crowd.turn('ours', BATCH, TURN_OF_FEW, ours)
            made['bare'].append(crowd.turn('bare', BATCH, TURN_OF_FEW, others))
            while any(turn.samples for turn in turns):
                made['ours'].append(turns)
                placed += sum(turn.placed for turn in turns)
                made['bare'].append(crowd.turn('bare', BATCH, TURN_OF_FEW))
                turns = crowd.turn('ours', BATCH, TURN_OF_FEW)
            if placed != LEFT * FEW:
                raise RuntimeError(f'{placed} claims on {LEFT * FEW} places')
        return made


class Shared:
    """The benchmark on one kind of database; ``server`` runs a private one, and ``analyze`` makes
    the statistics of claims, without which PostgreSQL reads all of them for a batch."""

    def __init__(self, name, server, analyze):
        self._name, self._server, self._analyze = name, server, analyze

    def rows(self, budget_s=3.0):
        with self._server() as database:
            yield from self._rows(database.fresh(), budget_s)

    def _rows(self, url, budget_s):
        engine = db_engine.create(url)
        schema.upgrade(engine)
        store, reports = SqlClaimStore(engine), list(fleet.reports(MANY + 2 * FEW))
        store.report([_sized(report, ENDLESS) for report in reports], time.time())
        many = Room(names(reports[:MANY]), ENDLESS)
        scarce = Scarce(store, reports[MANY : MANY + FEW], reports[MANY + FEW :])
        for count in SCHEDULERS:
            with Crowd(url, count) as crowd:
                if count == 1:
                    yield self._single(by_turns(crowd, 1, many, budget_s))
                with engine.begin() as connection:  # as the database itself does, once a minute
                    connection.exec_driver_sql(self._analyze)
                batches = by_turns(crowd, BATCH, many, budget_s)
                yield self._row(
                    f'claims on {self._name}, {BATCH} in a transaction', count, batches
                )
                last = f'the last {LEFT * FEW:,} places of {FEW} nodes, {self._name}'
                yield self._row(last, count, scarce.by_turns(crowd, budget_s))

    def _single(self, made):
        ours, floor = (
            [sample for (turn,) in made[side] for sample in turn.samples]
            for side in ('ours', 'bare')
        )
        what = f'claim on {self._name}, 1 in a transaction'
        return row(what, ours, f'bare {self._name}', floor)

    def _row(self, what, count, made):
        ours, floor = (rate(made[side]) for side in ('ours', 'bare'))
        turns = [turn for together in made['ours'] for turn in together]
        lost, placed = sum(turn.lost for turn in turns), sum(turn.placed for turn in turns)
        busy, commits = sum(turn.busy for turn in turns), sum(len(turn.samples) for turn in turns)
        return {
            'what': f'{what}, {count} scheduler{"s" if count > 1 else ""}',
            'a second': f'{ours:,.0f}',
            'floor': f'bare {self._name} {floor:,.0f} a second',
            'ratio': f'{ours / floor:.2f}',
            'conflicts': f'{lost / (lost + placed):.1%} lost, {busy / commits:.1%} busy',
        }


def names(reports):
    return [report.node_uuid for report in reports]


def rate(turns):
    """Claims placed a second, while any of the processes was at work."""
    seconds = sum(
        max(one.end for one in together) - min(one.start for one in together) for together in turns
    )
    return sum(one.placed for together in turns for one in together) / seconds


def _sized(report, total):
    """The node with room for ``total`` claims, and nothing but claims in use."""
    return fleet.changed(
        report, inventories=dict.fromkeys(RESOURCES, fleet.Inventory(total)), used={}
    )


POSTGRESQL = Shared('PostgreSQL', postgresql.server, 'ANALYZE claims')
MARIADB = Shared('MariaDB', mariadb.server, 'ANALYZE TABLE claims')
