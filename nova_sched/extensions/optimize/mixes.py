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
"""The mix of requests in the database: a row for each scheduler, with its own counts.

A row states the number of the last batch that was added to it. A batch that is written twice, or
late, changes nothing. Only if its scheduler stood still for so long that its row has moved, after
QUIET_S, does it count twice.
"""

import logging

import sqlalchemy as sa

from nova_sched.db import clock
from nova_sched.db.tables import MIXES
from nova_sched.db.transactions import transaction
from nova_sched.extensions.optimize.packing.mix import Mix

LOG = logging.getLogger(__name__)

QUIET_S = 3600.0  # the counts of a scheduler that wrote nothing for so long move to another row


class SqlMixes:
    """The Mix of each scheduler.

    Each method raises StoreUnavailable if the database does not answer; ``add`` also raises
    StoreBusy and StoreFull.
    """

    def __init__(self, engine):
        self._engine = engine
        self._is_own = MIXES.c.scheduler == sa.bindparam('own')
        # Locked in one order, so that two schedulers never wait for each other.
        self._own_and_quiet = (
            sa.select(MIXES)
            .where(sa.or_(self._is_own, MIXES.c.written_s < clock.NOW - sa.bindparam('quiet_s')))
            .order_by(MIXES.c.scheduler)
            .with_for_update()
        )

    def add(self, scheduler, serial, mix):
        """Add the batch ``serial`` to the row of a scheduler (UUID), unless it was added before.
        Serials rise from 1."""
        with transaction(self._engine) as connection:
            named = {'own': scheduler}
            rows = connection.execute(self._own_and_quiet, {**named, 'quiet_s': QUIET_S}).all()
            own = next((row for row in rows if row.scheduler == scheduler), None)
            quiet = [row for row in rows if row.scheduler != scheduler]
            if own is not None and own.serial >= serial:
                return
            total = Mix() if own is None else self._read(own)
            total.merge(mix)
            drop = sa.delete(MIXES).where(self._is_own)
            for row in quiet:
                if connection.execute(drop, {'own': row.scheduler}).rowcount:
                    total.merge(self._read(row))
            words = {'serial': serial, 'written_s': clock.NOW, 'counts': total.to_json()}
            if own is not None:
                connection.execute(sa.update(MIXES).where(self._is_own).values(**words), named)
            else:
                connection.execute(sa.insert(MIXES).values(scheduler=scheduler, **words))

    def total(self):
        """The sum of all rows."""
        with transaction(self._engine) as connection:
            query = sa.select(MIXES).order_by(MIXES.c.scheduler)
            rows = connection.execute(query).all()
        total = Mix()
        for row in rows:
            total.merge(self._read(row))
        return total

    def _read(self, row):
        """The counts of a row; none if it cannot be read."""
        try:
            return Mix.from_json(row.counts)
        except (ValueError, TypeError, KeyError) as error:
            LOG.warning(
                'The mix of requests of scheduler %s cannot be read, and starts again: %s',
                row.scheduler,
                error,
            )
            return Mix()
