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
"""Nova's REST API, as far as it is needed to move servers and to close hosts."""

import contextlib
import dataclasses

from nova_sched import errors
from nova_sched.cloud import keystone
from nova_sched.conf.services import register_keystone_opts

MICROVERSION = '2.84'  # events of actions with details; migrations with UUIDs since 2.59
CONNECTIONS = 4
LIVE_MIGRATION = 'live-migration'
UNKNOWN = 'UNKNOWN'  # the status of a service whose cell does not answer
HOST, TASK_STATE = 'OS-EXT-SRV-ATTR:host', 'OS-EXT-STS:task_state'


@dataclasses.dataclass(frozen=True, slots=True)
class MovedServer:
    """Where a server is, and what Nova does with it now (None: nothing)."""

    host: str | None
    task_state: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class LiveMigration:
    """One live migration; a later one of the same server has a higher ``id``.

    ``destination`` is None until a scheduler has chosen the host.
    """

    id: int
    uuid: str
    status: str
    source: str | None
    destination: str | None


class ComputeApi(keystone.Client):
    """Requests to Nova's API.

    Raises NovaUnavailable if the outcome is not known; NovaRefused, NovaForbidden, NovaConflict
    and NotFound if nothing was done.
    """

    GROUP = 'nova_api'
    UNAVAILABLE, REFUSED = errors.NovaUnavailable, errors.NovaRefused

    def check(self):
        """Check the microversion, and the right to see the migrations of all servers."""
        self._get('/os-migrations', limit=1)

    # Servers.

    def server(self, uuid):
        """The MovedServer."""
        path = f'/servers/{uuid}'
        with _readable(path):
            server = self._get(path, what=f'Server {uuid}')['server']
            # Nova leaves them out if the cell does not answer, or if the policy hides them.
            return MovedServer(server[HOST], server[TASK_STATE])

    def live_migrations(self, uuid):
        """The LiveMigrations of a server, newest first, those that have ended too."""
        path = '/os-migrations'
        with _readable(path):
            answer = self._get(path, instance_uuid=uuid, migration_type=LIVE_MIGRATION)
            migrations = [
                LiveMigration(
                    int(row['id']),
                    row['uuid'],
                    row['status'],
                    row['source_compute'],
                    row['dest_compute'],
                )
                for row in answer['migrations']
            ]
        # Nova sorts them by the clocks of its conductors.
        return sorted(migrations, key=lambda migration: migration.id, reverse=True)

    def live_migrate(self, uuid, host):
        """Have a server live-migrated to a host, if Nova's scheduler allows the host. Does not
        wait for the end."""
        body = {'os-migrateLive': {'host': host, 'block_migration': 'auto'}}
        self._send('POST', f'/servers/{uuid}/action', body, f'Server {uuid}')

    def failure(self, uuid):
        """Why the newest live migration of a server has failed, in Nova's words; None: Nova does
        not say."""
        path = f'/servers/{uuid}/os-instance-actions'
        what = f'Server {uuid}'
        with _readable(path):
            actions = self._get(path, what=what)['instanceActions']  # newest first
            request_ids = (
                action['request_id'] for action in actions if action['action'] == LIVE_MIGRATION
            )
            request_id = next(request_ids, None)
            if request_id is None:
                return None
            path = f'{path}/{request_id}'
            events = self._get(path, what=what)['instanceAction'].get('events') or ()
            details = [
                event.get('details')
                for event in sorted(events, key=lambda event: event['start_time'])
                if event['result'] == 'Error'
            ]
        return '; '.join(dict.fromkeys(filter(None, details)))[: keystone.SHOWN] or None

    # Compute services.

    def service(self, host):
        """(UUID, whether it is disabled, the reason) of the compute service of a host. Raises
        NotFound; NovaUnavailable also if only the cell of the host does not answer."""
        path = '/os-services'
        with _readable(path):
            services = self._get(path, host=host, binary='nova-compute')['services']
            if not services:
                raise errors.NotFound(f'The compute service of host {host}')
            service = services[0]
            if service['status'] == UNKNOWN:  # without the rest
                raise errors.NovaUnavailable(f'the cell of host {host} is down')
            return service['id'], service['status'] == 'disabled', service['disabled_reason']

    def set_service(self, uuid, disabled_reason):
        """Disable a compute service with this reason; None enables it."""
        body = {'status': 'enabled'}
        if disabled_reason is not None:
            body = {'status': 'disabled', 'disabled_reason': disabled_reason}
        self._send('PUT', f'/os-services/{uuid}', body, f'Service {uuid}')

    # Errors.

    @staticmethod
    def _words(document):
        (fault,) = document.values()
        return fault['message']

    def _refusal(self, why, response, what):
        status = response.status_code
        if status == 404 and what is not None:
            return errors.NotFound(what)
        if status == 403:
            return errors.NovaForbidden(why)
        return errors.NovaConflict(why) if status == 409 else errors.NovaRefused(why, status)


@contextlib.contextmanager
def _readable(path):
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise errors.NovaUnavailable(
            f'its answer about {path} cannot be read: {type(error).__name__} {error}'
        ) from error


def client(conf):
    """The ComputeApi of the options in [nova_api]. Raises BadConfig; sends no request."""
    register_keystone_opts(conf, 'nova_api')
    timeouts_s = keystone.timeouts_s(conf.nova_api)
    return ComputeApi.of_options(conf, CONNECTIONS, timeouts_s, default_microversion=MICROVERSION)
