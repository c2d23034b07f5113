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

"""What all pages are made of: the rights of their callers, the clients of the bus, the database,
and the handlers of the REST API."""

import dataclasses
import functools
import json
from typing import Any

import flask

from nova_sched.api.policies import AccessPolicy
from nova_sched.claims.maintenance import ClaimMaintenance
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.conf.cluster import reads_nova
from nova_sched.db.decision_log import SqlDecisionLog
from nova_sched.db.ended_sessions import SqlEndedSessions
from nova_sched.db.jobs import SqlJobTable
from nova_sched.db.schedulers import SqlSchedulers
from nova_sched.extensions.dashboard.host_overview import HostOverview
from nova_sched.groups.topology import DomainTopology


@dataclasses.dataclass(frozen=True, slots=True)
class Clients:
    """Clients of the RPC namespaces `groups`, `queues` and `explain`, or objects with the same
    methods."""

    groups: Any
    queues: Any
    explain: Any


class Sources:
    """What the pages read from the database, which is opened when a page first needs it.

    ``database()`` returns an SQLAlchemy engine on the schema of this release. It may raise
    BadConfig or StoreUnavailable; then each property does, and the next one tries again."""

    def __init__(self, conf, database):
        self._conf, self._open = conf, database

    @functools.cached_property
    def _engine(self):
        return self._open()

    @functools.cached_property
    def overview(self):
        conf = self._conf
        return HostOverview(
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


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """The options, the rules of access, the clients, and the Sources of all pages. The caller of
    the present request is ``flask.g.context``, a RequestContext."""

    conf: Any
    policy: AccessPolicy
    clients: Clients
    sources: Any

    def may(self, rule):
        """Whether the caller has a right (such as `dashboard:hosts`) in its own project."""
        return self.policy.allows(flask.g.context, rule)

    def demand(self, rule):
        """Raise Forbidden if ``may`` returns False."""
        self.policy.demand(flask.g.context, rule)


@dataclasses.dataclass(frozen=True)
class PageCall:
    """What a handler reads of ``api.calls.ApiCall``. ``request`` has the UUID of the address."""

    context: Any
    request: Any
    query: dict[str, Any] = dataclasses.field(default_factory=dict)
    body: dict[str, Any] = dataclasses.field(default_factory=dict)
    dry_run: bool = False
    root: str = ''

    def has(self, tag):
        """Pages are always drawn from a whole answer."""
        return False

    def following(self, marker, limit):
        """Pages show no links of the API."""
        return {'marker': marker, 'limit': limit}


def answer(handler, **given):
    """What a handler of the API answers to the caller of this page: its document."""
    call = PageCall(flask.g.context, flask.request, **given)
    return json.loads(handler(call).get_data())
