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
"""Moves in a stock Nova cloud: live migrations, which Nova's API starts and tells of, and services
that it disables and enables.

Nova knows nothing of moves. Its work for a move is found among the migrations of the server::

    not asked yet --- the newest migration is noted in the row, then Nova is asked
      |  a migration that is newer than the noted one, from the source to the destination:
      |-- accepted, queued, running ... --> running
      |-- completed ----------------------> done
      |-- error, failed, cancelled -------> failed, or done if the server is on the destination
      |  no such migration:
      |-- the server is gone -------------> failed
      |-- it is on the destination -------> done
      |-- it is on another host ----------> failed
      |-- its task is to migrate ---------> running: the conductor has not got to it yet
      `-- it is on the source ------------> Nova is asked once more

No time is compared, because clocks are wrong.
"""

import logging

from nova_sched import errors
from nova_sched.cloud import compute_api
from nova_sched.cloud.stored_specs import StoredSpecs
from nova_sched.conf import CONF
from nova_sched.extensions.optimize.moves import DONE, FAILED, RUNNING
from nova_sched.extensions.optimize.moves.host_closings import is_ours, may_open
from nova_sched.logs import Problems
from nova_sched.rpc import translate

LOG = logging.getLogger(__name__)

COMPLETED, FAILURES = 'completed', ('error', 'failed', 'cancelled')
MIGRATING = 'migrating'  # the task of a server that is live-migrated
NOTHING = RUNNING, None


def of(nova, rebalances):
    """Return what a MoveRunner needs to have Nova move servers: its conductors and its services.
    ``nova`` is a nova_service.NovaSource, and [nova_api] is set."""
    api, specs = compute_api.client(CONF), StoredSpecs(nova.api, nova.cells)

    def request(server):
        (server_request,) = translate.requests(specs.spec(server), [server])
        return server_request

    return NovaMoves(api, rebalances, request, nova.mirror.host_changed), ServiceSwitch(api)


class NovaMoves:
    """The conductors of a MoveRunner, for Nova's API. Its methods are called by one thread.

    ``api`` is a ComputeApi, ``rebalances`` a db.rebalances.SqlRebalances. ``request(server)`` is
    the state.request.Request of a server as Nova has stored it. ``changed(host)`` is called with
    both hosts of a move that has ended: what Placement has of them has changed.
    """

    def __init__(self, api, rebalances, request, changed):
        self._api, self._rebalances = api, rebalances
        self._request, self._changed = request, changed

    def request(self, server):
        """The request of a server. Raises NotFound; MoveRefused if Nova does not let the account
        see the server and its migrations, as it must to tell of the end of a move."""
        try:
            self._api.server(server)
            self._api.live_migrations(server)
        except errors.NovaRefused as error:
            raise errors.MoveRefused(str(error)) from error
        return self._request(server)

    def start(self, entry, source, destination):
        """Have Nova move a server, unless it does already; ``source`` and ``destination`` are
        (host, nodename). Returns the outcome until now, and why it failed.

        Nova is asked only by the scheduler that has just changed the row. So of two that have the
        same move, as after a pause, one only reads. Raises MoveRefused and NotFound.
        """
        hosts = source[0], destination[0]
        outcome, migrations = self._outcome_until_now(entry, *hosts)
        if outcome is None:
            newest = migrations[0].uuid if migrations else entry.uuid
            noted = self._rebalances.hand_over(entry, entry.claim_uuid or newest)
            outcome = NOTHING if noted is None else self._ask(noted, *hosts)
        if outcome[0] != RUNNING:
            for host in hosts:
                self._changed(host)
        return outcome

    def _ask(self, entry, source, destination):
        try:
            self._api.live_migrate(entry.server, destination)
        except errors.NovaConflict as error:
            # A request whose answer was lost may be why.
            outcome, _ = self._outcome_until_now(entry, source, destination)
            return outcome or (FAILED, error.why)
        except errors.NovaRefused as error:
            raise errors.MoveRefused(str(error)) from error
        return NOTHING

    def _outcome_until_now(self, entry, source, destination):
        """The outcome until now, None if Nova has to be asked; and the server's LiveMigrations.

        If Nova refuses to tell, the outcome is not known: a move that was started goes on. Raises
        NovaUnavailable.
        """
        try:
            server = self._api.server(entry.server)
            migrations = self._api.live_migrations(entry.server)
            noted = next(
                (migration.id for migration in migrations if migration.uuid == entry.claim_uuid), 0
            )
            # A user may have started one between the same hosts: its outcome is the same.
            for migration in migrations if entry.claim_uuid is not None else ():
                if (
                    migration.id > noted
                    and migration.source == source
                    and migration.destination in (None, destination)
                ):
                    return self._outcome(entry, migration, destination), migrations
        except errors.NotFound as error:
            return (FAILED, f'{error}: it was deleted'), []
        except errors.NovaRefused as error:
            raise errors.NovaUnavailable(error.why) from error
        if server.host == destination:
            return (DONE, None), migrations
        if server.task_state == MIGRATING:
            return NOTHING, migrations
        if server.host != source:
            where = f'on host {server.host}' if server.host else 'on no host'
            why = f'the server is {where}, and not on the source of the move'
            return (FAILED, why), migrations
        return None, migrations

    def _outcome(self, entry, migration, destination):
        if migration.status == COMPLETED:
            return DONE, None
        if migration.status not in FAILURES:
            return NOTHING
        # Read after the status: a server may arrive, and its migration fail then.
        if self._api.server(entry.server).host == destination:
            LOG.warning(
                'Migration %s of server %s is %s in Nova, but the server is on host %s',
                migration.uuid,
                entry.server,
                migration.status,
                destination,
            )
            return DONE, None
        why = self._api.failure(entry.server)
        named = f'migration {migration.uuid} is {migration.status}'
        return FAILED, f'{why or "Nova gives no reason"} ({named})'


class ServiceSwitch:
    """The services of HostClosings. ``api`` is a ComputeApi.

    A request that Nova refuses is logged and given up; one that it cannot carry out now is logged
    and left for the next pass. Neither must keep other hosts or moves from their turn: the cell of
    one host may be down for long.
    """

    def __init__(self, api):
        self._api, self._problems = api, Problems(LOG)

    def close(self, name, reason):
        """See HostClosings. Returns True also if Nova refuses it."""
        # With this reason: a scheduler that is about to enable it knows another one.
        return self._set(name, reason, lambda disabled, now: not disabled or is_ours(now))

    def open(self, name, reason):
        """See HostClosings. Returns True also if Nova refuses it."""
        return self._set(name, None, lambda disabled, now: disabled and may_open(now, reason))

    def _set(self, name, reason, may):
        """Disable a service for a reason, or enable it with None, if ``may`` allows that by
        whether it is disabled and the reason now. Returns False if it has to be tried again."""
        try:
            uuid, is_disabled, reason_now = self._api.service(name)
            if may(is_disabled, reason_now):
                self._api.set_service(uuid, reason)
        except (errors.NotFound, errors.NovaRefused, errors.NovaUnavailable) as error:
            self._problems.begin(
                name,
                'Host %s cannot be closed or opened by a rebalance: %s',
                name,
                error,
                reason=type(error).__name__,
            )
            return not isinstance(error, errors.NovaUnavailable)
        self._problems.end(name, 'Host %s can be closed or opened again', name)
        return True
