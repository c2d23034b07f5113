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
"""Does a scheduler that runs for long need more memory, or more rows, than one that runs for a
while?

    python -m nova_sched.tests.integration.endurance --decisions 30000 --rounds 10000

One engine decides, some of it in vain, and each host reports once in each round. After each of ten
parts, once upkeep has run, it tells the memory of the engine's process and the rows of each table.
Ends with status 1 if either grows after the third part.
"""

import collections
import queue
import sys
import time

import psutil
import sqlalchemy as sa

from nova_sched.cmd import backend

# Before the rest, which goes by it.
# ruff: noqa: E402
backend.choose([])

from nova_sched.db import tables
from nova_sched.engine.sync.store_poller import EXPIRE_INTERVAL_S
from nova_sched.tests.fixtures.process import ServerFailed
from nova_sched.tests.integration import audit, stage
from nova_sched.tests.integration.engine_process import Engine
from nova_sched.tests.integration.million import OPTIONS, REPORT_S, Fleet

HOSTS = 20
PARTS = 10
WARM = 3  # parts after which nothing grows any more
MOST_MB = 4.0  # that memory differs by from part to part
RETENTION_S = 5
LIMIT_S = 3600.0


def counts(database):
    """Rows of each table."""
    engine = sa.create_engine(database, poolclass=sa.NullPool)
    with engine.connect() as session:
        return {
            table.name: session.execute(sa.select(sa.func.count()).select_from(table)).scalar()
            for table in tables.METADATA.sorted_tables
        }


def part(fleet, decisions, rounds):
    """So many decisions, so many reports of each host, then nothing but upkeep."""
    until = fleet.told + fleet.refused + decisions
    fleet.run(lambda fleet: fleet.told + fleet.refused >= until, LIMIT_S)
    fleet.report_s = 0.0
    fleet.until_reported(rounds, LIMIT_S)
    fleet.report_s = REPORT_S
    fleet.end_all()
    fleet.rest()
    time.sleep(EXPIRE_INTERVAL_S + RETENTION_S)


def run(home, url, chosen, tell=stage.tell):
    """Return the faults."""
    events = queue.SimpleQueue()
    options = {**OPTIONS, 'explain.retention': RETENTION_S, 'explain.sample': 1.0}
    engine = Engine(url, home / 'engine.log', events, **options)
    fleet = Fleet([engine], events, HOSTS, chosen.seed, full=1.0)
    found, faults = [], {'answers': fleet.faults, 'audit': [], 'growth': []}
    engine.start()
    try:
        fleet.report_all()
        fleet.rest()
        for number in range(PARTS):
            part(fleet, chosen.decisions // PARTS, chosen.rounds // PARTS)
            memory = psutil.Process(engine.pid).memory_info().rss / 2**20
            rows = collections.Counter(counts(url))
            found.append((memory, rows))
            tell(
                f'{number + 1}: {fleet.told:,} placed, {fleet.refused:,} refused, '
                f'{memory:.1f} MiB, {+rows}'
            )
            faults['audit'] += audit.faults(url)
            faults['answers'] += fleet.compare(url)
    finally:
        engine.kill()
    (warm_mb, warm_rows), (last_mb, last_rows) = found[WARM - 1], found[-1]
    if last_mb > warm_mb + MOST_MB:
        faults['growth'].append(f'memory grew from {warm_mb:.1f} to {last_mb:.1f} MiB')
    faults['growth'] += [
        f'{count} rows in {name}' for name, count in (last_rows - warm_rows).items()
    ]
    return faults


def main():
    parser = stage.arguments(__doc__.splitlines()[0], decisions=30_000, rounds=10_000, seed=0)
    chosen = parser.parse_args()
    stage.prepare()
    try:
        with (
            stage.folder(chosen.keep) as home,
            stage.DATABASES[chosen.database].server() as server,
        ):
            faults = run(home, stage.upgraded(server), chosen)
    except (KeyboardInterrupt, ServerFailed) as error:
        sys.exit(f'ended: {str(error) or "interrupted"}')
    sys.exit(stage.finish({}, faults))


if __name__ == '__main__':
    main()
