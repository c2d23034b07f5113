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
import functools

from nova_sched import errors
from nova_sched.cloud import keystone
from nova_sched.conf import nova_api as conf_nova_api

MICROVERSION = '2.84'  # events of actions with details; migrations with UUIDs since 2.59
CONNECTIONS = 4
SHOWN = 500  # characters of an answer that an error repeats
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


class ComputeApi:
    """Requests to Nova's API. Its methods may be called from any thread, and each is one or a few
    requests, without retries.

    Raises NovaUnavailable if the outcome is not known; NovaRefused, NovaForbidden, NovaConflict
    and NotFound if nothing was done. ``timeouts_s`` are those of a connection and of an answer.
    """

    def __init__(self, adapter, timeouts_s):
        self._adapter, self._timeouts_s = adapter, timeouts_s

    def check(self):
        """Check the microversion, and the right to see the migrations of all servers."""
        self._get('/os-migrations', limit=1)

    # Servers.

    def server(self, uuid):
        """The MovedServer."""
        path = f'/servers/{uuid}'
        with _readable(path):
            found = self._get(path, what=f'Server {uuid}')['server']
            # Nova leaves them out if the cell does not answer, or if the policy hides them.
            return MovedServer(found[HOST], found[TASK_STATE])

    def live_migrations(self, uuid):
        """The LiveMigrations of a server, newest first, those that have ended too."""
        path = '/os-migrations'
        with _readable(path):
            found = self._get(path, instance_uuid=uuid, migration_type=LIVE_MIGRATION)
            made = [
                LiveMigration(
                    int(one['id']),
                    one['uuid'],
                    one['status'],
                    one['source_compute'],
                    one['dest_compute'],
                )
                for one in found['migrations']
            ]
        # Nova sorts them by the clocks of its conductors.
        return sorted(made, key=lambda one: one.id, reverse=True)

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
            asked = (one['request_id'] for one in actions if one['action'] == LIVE_MIGRATION)
            request_id = next(asked, None)
            if request_id is None:
                return None
            path = f'{path}/{request_id}'
            events = self._get(path, what=what)['instanceAction'].get('events') or ()
            told = [
                one.get('details')
                for one in sorted(events, key=lambda one: one['start_time'])
                if one['result'] == 'Error'
            ]
        return '; '.join(dict.fromkeys(filter(None, told)))[:SHOWN] or None

    # Compute services.

    def service(self, host):
        """(UUID, whether it is disabled, the reason) of the compute service of a host. Raises
        NotFound; NovaUnavailable also if only the cell of the host does not answer."""
        path = '/os-services'
        with _readable(path):
            found = self._get(path, host=host, binary='nova-compute')['services']
            if not found:
                raise errors.NotFound(f'The compute service of host {host}')
            one = found[0]
            if one['status'] == UNKNOWN:  # without the rest
                raise errors.NovaUnavailable(f'the cell of host {host} is down')
            return one['id'], one['status'] == 'disabled', one['disabled_reason']

    def set_service(self, uuid, disabled_reason):
        """Disable a compute service with this reason; None enables it."""
        body = {'status': 'enabled'}
        if disabled_reason is not None:
            body = {'status': 'disabled', 'disabled_reason': disabled_reason}
        self._send('PUT', f'/os-services/{uuid}', body, f'Service {uuid}')

    # Requests.

    def _get(self, path, what=None, **query):
        response = self._request('GET', path, what, params=query)
        try:
            return response.json()
        except ValueError:
            raise errors.NovaUnavailable(f'its answer to GET {path} is no JSON') from None

    def _send(self, method, path, body, what):
        # A repeat is the caller's: it knows what the first request may have done.
        never = {'connect_retries': 0, 'status_code_retries': 0}
        self._request(method, path, what, json=body, **never)

    def _request(self, method, path, what, **words):
        with _translated(f'{method} {path}'):
            response = self._adapter.request(
                path, method, raise_exc=False, timeout=self._timeouts_s, **words
            )
            if response.status_code >= 400:
                raise _error(method, path, what, response)
        return response


@contextlib.contextmanager
def _readable(path):
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise errors.NovaUnavailable(
            f'its answer about {path} cannot be read: {type(error).__name__} {error}'
        ) from error


_translated = functools.partial(
    keystone.translated,
    group=conf_nova_api.GROUP,
    unavailable=errors.NovaUnavailable,
    refused=errors.NovaRefused,
)


def _error(method, path, what, response):
    """The error of an answer with an error status."""
    status = response.status_code
    if status == 404 and what is not None:
        return errors.NotFound(what)
    why = f'{method} {path}: {status}: {_told(response)}'
    if keystone.may_pass(status):
        return errors.NovaUnavailable(why)
    if status == 403:
        return errors.NovaForbidden(why)
    return errors.NovaConflict(why) if status == 409 else errors.NovaRefused(why, status)


def _told(response):
    """Nova's words: the message in its document, or else the text."""
    try:
        (fault,) = response.json().values()
        text = str(fault['message'])
    except (ValueError, LookupError, TypeError, AttributeError):
        text = response.text
    return ' '.join(text.split())[:SHOWN]


def client(conf):
    """The ComputeApi of the options in [nova_api]. Raises BadConfig; sends no request."""
    conf_nova_api.register_keystone_opts(conf)
    timeouts_s = keystone.timeouts_s(conf.nova_api)
    made = keystone.adapter(
        conf, conf_nova_api.GROUP, CONNECTIONS, timeouts_s, default_microversion=MICROVERSION
    )
    return ComputeApi(made, timeouts_s)
