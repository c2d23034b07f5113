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
"""The scheduler's REST API for a stack, and the flavors and images that a request describes.

Uses the stack's token, and the endpoint from the Keystone catalog.
"""

from heat.common import exception
from heat.engine.plugins import top_group_answers
from keystoneauth1 import adapter
from keystoneauth1 import exceptions as keystone_errors
from oslo_config import cfg

GROUP = 'clients_nova_sched'
OPTS = [
    cfg.StrOpt(
        'service_type',
        default='server-scheduling',
        help='Service type of the scheduler in the Keystone catalog.',
    ),
    cfg.StrOpt(
        'endpoint_type',
        default='public',
        choices=['public', 'internal', 'admin', 'publicURL', 'internalURL', 'adminURL'],
        help='Endpoint interface to use.',
    ),
    cfg.StrOpt('endpoint_override', help='URL to use instead of the one from the catalog.'),
    cfg.IntOpt('timeout', default=60, min=1, help='Seconds to wait for an answer.'),
]
cfg.CONF.register_opts(OPTS, group=GROUP)


class SchedulerError(exception.Error):
    """The scheduler refuses the request, with the reason in the message, or does not answer: then
    the HTTP ``status`` is None."""

    def __init__(self, message, status=None):
        super().__init__(message)
        self.status = status


class Busy(Exception):
    """The scheduler could not process the request; the same request may be sent again."""


class SchedulerApi:
    """Groups are mappings in the form of the API; bodies have ``template``, ``flavors`` and
    ``images``.

    All methods raise SchedulerError, and Busy if a retry is harmless.
    """

    def __init__(self, context):
        conf = cfg.CONF[GROUP]
        self._http = adapter.Adapter(
            context.keystone_session,
            service_type=conf.service_type,
            interface=conf.endpoint_type,
            region_name=context.region_name or cfg.CONF.region_name_for_services,
            endpoint_override=conf.endpoint_override,
            raise_exc=False,
            connect_retries=cfg.CONF.client_retry_limit,
        )
        self._timeout_s = conf.timeout

    def create(self, body, name, ttl):
        """Return a new group, held for ``ttl`` seconds."""
        answer = self._asked('POST', '/v1/groups', json={**body, 'name': name, 'ttl': ttl})
        # Retries only if the request certainly had no effect: otherwise there could be two groups.
        code = top_group_answers.fault(answer).get('code', '')
        if answer.status_code == 503 and code.endswith('.busy'):
            raise Busy(top_group_answers.words(answer))
        return _good(answer).json()

    def show(self, uuid):
        return self._good('GET', f'/v1/groups/{uuid}').json()

    def plan(self, uuid):
        """Return the group with the domains of its members."""
        return self._good('GET', f'/v1/groups/{uuid}/plan').json()

    def replace(self, uuid, body):
        """Replace the group's definition, unless another client does so at the same time."""
        seen = self._good('GET', f'/v1/groups/{uuid}').headers.get('ETag', '*')
        return self._good(
            'PUT', f'/v1/groups/{uuid}', json=body, headers={'If-Match': seen}
        ).json()

    def renew(self, uuid, ttl):
        """Hold the planned claims for ``ttl`` seconds from now."""
        self._good('POST', f'/v1/groups/{uuid}/renew', json={'ttl': ttl})

    def delete(self, uuid):
        """Delete the group, if it still exists."""
        answer = self._again('DELETE', f'/v1/groups/{uuid}', headers={'If-Match': '*'})
        if answer.status_code != 404:
            _good(answer)

    def _good(self, method, path, **more):
        return _good(self._again(method, path, **more))

    def _again(self, method, path, **more):
        """Send a request that may be sent twice."""
        answer = self._asked(method, path, **more)
        if answer.status_code == 503:
            raise Busy(top_group_answers.words(answer))
        return answer

    def _asked(self, method, path, **more):
        try:
            return self._http.request(path, method, timeout=self._timeout_s, **more)
        except keystone_errors.ClientException as error:
            raise SchedulerError(f'The scheduler cannot be asked: {error}') from error


def _good(answer):
    if answer.status_code >= 400:
        raise SchedulerError(top_group_answers.words(answer), answer.status_code)
    return answer


# The attributes that Glance sets on every image; all others are properties.
OF_EVERY_IMAGE = frozenset(
    'checksum container_format created_at direct_url disk_format file id locations min_disk '
    'min_ram name os_hash_algo os_hash_value os_hidden owner protected schema self size status '
    'stores tags updated_at virtual_size visibility'.split()
)


def flavors(nova, names):
    """Return flavors by the names or IDs that servers ask for; ``nova`` is Heat's client plug-in
    for Nova."""
    described = {}
    for name in sorted(names):
        flavor = nova.get_flavor(name)
        described[name] = {
            'name': flavor.name,
            'vcpus': flavor.vcpus,
            'ram': flavor.ram,
            'disk': flavor.disk,
            'ephemeral': getattr(flavor, 'OS-FLV-EXT-DATA:ephemeral', 0),
            'swap': flavor.swap or 0,  # empty text if there is none
            'extra_specs': flavor.get_keys(),
        }
    return described


def images(glance, names):
    """Return images in the same way."""
    described = {}
    for name in sorted(names):
        image = glance.get_image(name)
        keys = [key for key in ('id', 'name', 'disk_format') if image.get(key) is not None]
        properties = {
            key: value
            for key, value in image.items()
            if key not in OF_EVERY_IMAGE and isinstance(value, str | int | float)
        }
        described[name] = {**{key: image[key] for key in keys}, 'properties': properties}
    return described
