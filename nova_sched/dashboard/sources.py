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

"""What the pages read from the database. It is opened when a page first needs it."""

import functools

from nova_sched.claims.maintenance import ClaimMaintenance
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.conf.cluster import reads_nova
from nova_sched.dashboard.fleet import Fleet
from nova_sched.db.decision_log import SqlDecisionLog
from nova_sched.db.ended_sessions import SqlEndedSessions
from nova_sched.db.jobs import SqlJobTable
from nova_sched.db.schedulers import SqlSchedulers
from nova_sched.groups.topology import DomainTopology


class Sources:
    """``database()`` returns an SQLAlchemy engine on the schema of this release. It may raise
    BadConfig or StoreUnavailable; then each property does, and the next one tries again."""

    def __init__(self, conf, database):
        self._conf, self._open = conf, database

    @functools.cached_property
    def _engine(self):
        return self._open()

    @functools.cached_property
    def fleet(self):
        conf = self._conf
        return Fleet(
            SqlClaimStore(self._engine),
            DomainTopology(conf.topology.levels, conf.topology.orders),
            conf.service_down_time,
            conf.default_availability_zone,
            reads_nova=reads_nova(conf),
        )

    @property
    def decisions(self):
        return SqlDecisionLog(self._engine)

    @property
    def ended_sessions(self):
        return SqlEndedSessions(self._engine)

    @property
    def jobs(self):
        return SqlJobTable(self._engine)

    @property
    def schedulers(self):
        return SqlSchedulers(self._engine)

    @property
    def maintenance(self):
        return ClaimMaintenance(self._engine)

    @property
    def store(self):
        """A claim store for one change."""
        return SqlClaimStore(self._engine)
