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
"""Flavors and queues in the REST API."""

import math
import urllib.parse

from nova_sched import errors
from nova_sched.api.handlers import reply
from nova_sched.api.views import moment
from nova_sched.rpc.client import QueuesClient

WAIT_S = 15  # to wait for a manager of queues, which plans nothing
SILENCE_S = 5  # without a heartbeat after which one is away
FLAVOR = (
    'name',
    'flavorid',
    'vcpus',
    'memory_mb',
    'root_gb',
    'ephemeral_gb',
    'swap',
    'extra_specs',
)


def handlers(api):
    """Return the handlers of the tag `queues`."""
    return {'queues': QueueHandlers(client(api), api.policy, api.conf.api.max_limit)}


def client(api):
    """Return a client of the managers of queues, or an object whose calls fail without a wait if
    there cannot be one."""
    conf = api.conf
    if api.is_alone and not has_queues(conf):
        return NoQueueManager()
    wait_s = min(conf.api.rpc_timeout, WAIT_S)
    service = api.limits.queue_managers
    return api.client_of(QueuesClient, wait_s, SILENCE_S, service, patience_s=math.inf)


def has_queues(conf):
    """Return whether a process without a bus manages queues: flavors are kept in the database
    only."""
    return conf.claims.store == 'sql'


class NoQueueManager:
    """Replaces the client of managers of queues if none can be reached."""

    def __getattr__(self, method):
        why = 'over fake:// and with [claims] store = memory there is no manager of queues'
        raise errors.NoAnswer(method, why)


def policies(rule):
    """Return the rights, made with api.policies.rule."""
    return [
        rule(
            'flavors:list',
            'rule:anybody',
            'List the flavors that are queues.',
            'list_flavors',
        ),
        rule('flavors:show', 'rule:anybody', 'See such a flavor.', 'show_flavor'),
        rule(
            'flavors:create',
            'rule:admin',
            'Add a flavor and its queues.',
            'create_flavor',
        ),
        rule(
            'flavors:delete',
            'rule:admin',
            'Remove a flavor and its queues.',
            'delete_flavor',
        ),
        rule(
            'queues:list',
            'rule:operator',
            'See the queues and their waiting jobs.',
            'list_queues',
        ),
    ]


# Path segments that clients resolve before they send a request.
STEPS = ('.', '..')


class QueueHandlers:
    """Each method checks the policy, calls a manager of queues and returns its answer as JSON.

    ``max_limit``: queues in a page.
    """

    def __init__(self, manager, policy, max_limit):
        self._manager = manager
        self._policy = policy
        self._max_limit = max_limit

    def list_flavors(self, call):
        self._policy.demand(call.context, 'flavors:list')
        answer = self._manager.flavor_list(context=call.context)
        shown = [_shown(flavor, call.root) for flavor in answer['flavors']]
        return reply({'version': answer['version'], 'flavors': shown})

    def create_flavor(self, call):
        self._policy.demand(call.context, 'flavors:create')
        if call.body['name'] in STEPS:
            raise errors.InvalidRequest(
                'name', f"'{call.body['name']}' cannot stand in an address"
            )
        flavor = self._manager.flavor_create(call.body, context=call.context)
        answer = reply(_shown(flavor, call.root), status=201)
        answer.headers['Location'] = _address(flavor['name'], call.root)
        return answer

    def show_flavor(self, call):
        self._policy.demand(call.context, 'flavors:show')
        name = call.request.view_args['name']
        for flavor in self._manager.flavor_list(context=call.context)['flavors']:
            if flavor['name'] == name:
                return reply(_shown(flavor, call.root))
        raise errors.FlavorNotFound(name)

    def delete_flavor(self, call):
        self._policy.demand(call.context, 'flavors:delete')
        name = call.request.view_args['name']
        try:
            self._manager.flavor_delete(name, context=call.context)
        except errors.InvalidRequest:  # an invalid name belongs to no flavor
            raise errors.FlavorNotFound(name) from None
        return reply(None, status=204)

    def list_queues(self, call):
        self._policy.demand(call.context, 'queues:list')
        marker = call.query.get('marker')
        limit = min(call.query.get('limit', self._max_limit), self._max_limit)
        try:
            queues = self._manager.facts(marker, limit + 1, context=call.context)
        except errors.NotFound:
            raise errors.InvalidRequest('marker', f'there is no queue {marker}') from None
        links = [call.following(queues[limit - 1]['queue'], limit)] if len(queues) > limit else []
        return reply({'queues': queues[:limit], 'links': links})


def _shown(row, root):
    """A flavor, from the mapping that a manager of queues returns."""
    created_at = moment(row['created_s'])
    links = [{'rel': 'self', 'href': _address(row['name'], root)}]
    return {**{name: row[name] for name in FLAVOR}, 'created_at': created_at, 'links': links}


def _address(name, root):
    return f'{root}/v1/flavors/{urllib.parse.quote(name, safe="")}'
