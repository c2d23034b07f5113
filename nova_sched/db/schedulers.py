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
"""Scheduler processes in the database: each has a row, with its last sign of life and its
metrics."""

import dataclasses
import json
from collections.abc import Mapping

import sqlalchemy as sa

from nova_sched.db import clock
from nova_sched.db.tables import SCHEDULERS
from nova_sched.db.transactions import transaction

ALIVE = (
    sa.select(SCHEDULERS)
    .where(SCHEDULERS.c.seen_s >= sa.bindparam('since_s'))
    .order_by(SCHEDULERS.c.host, SCHEDULERS.c.started_s, SCHEDULERS.c.uuid)
)
MINE = SCHEDULERS.c.uuid == sa.bindparam('mine')
SIGN = (
    sa.update(SCHEDULERS)
    .where(MINE)
    .values(seen_s=sa.bindparam('now_seen_s'), figures=sa.bindparam('now_figures'))
)


@dataclasses.dataclass(frozen=True, slots=True)
class SchedulerFacts:
    """One scheduler process; times are seconds since the epoch, by the database's clock."""

    uuid: str
    host: str
    pid: int
    started_s: float
    seen_s: float
    figures: Mapping[str, float | str | None]


class SqlSchedulers:
    """The rows of the scheduler processes. Each method raises StoreUnavailable if the database
    does not answer."""

    def __init__(self, engine):
        self._engine = engine

    def now_s(self):
        """The time by the database's clock, in seconds since the epoch."""
        with transaction(self._engine) as connection:
            return clock.read(connection)

    def write(self, facts):
        """Store these SchedulerFacts in place of the earlier ones of the same process."""
        row = {
            **dataclasses.asdict(facts),
            'figures': json.dumps(dict(facts.figures), sort_keys=True),
        }
        now = {'mine': facts.uuid, 'now_seen_s': row['seen_s'], 'now_figures': row['figures']}
        with transaction(self._engine) as connection:
            if connection.execute(SIGN, now).rowcount == 0:
                connection.execute(sa.insert(SCHEDULERS), row)

    def alive(self, since_s):
        """The processes that gave a sign of life since that time: by host, oldest first."""
        with transaction(self._engine) as connection:
            rows = connection.execute(ALIVE, {'since_s': since_s}).mappings().all()
        return [SchedulerFacts(**{**row, 'figures': json.loads(row['figures'])}) for row in rows]

    def remove(self, uuid):
        """Delete a process that ends."""
        with transaction(self._engine) as connection:
            connection.execute(sa.delete(SCHEDULERS).where(MINE), {'mine': uuid})

    def forget(self, before_s):
        """Delete the processes that gave no sign of life since that time."""
        with transaction(self._engine) as connection:
            connection.execute(sa.delete(SCHEDULERS).where(SCHEDULERS.c.seen_s < before_s))
