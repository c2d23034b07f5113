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
"""Flavors and queues: handlers of the operations of the queue model, from a call to a response."""

from nova_sched import errors
from nova_sched.api import views
from nova_sched.api.handlers import reply

# Path segments that clients resolve before they send a request.
STEPS = ('.', '..')


class Queues:
    """Each method checks the policy, calls a manager of queues and returns its answer as JSON.

    ``max_limit``: queues in a page.
    """

    def __init__(self, manager, policy, max_limit):
        self._manager = manager
        self._policy = policy
        self._max_limit = max_limit

    def list_flavors(self, call):
        self._allow(call, 'flavors:list')
        found = self._manager.flavor_list(context=call.context)
        shown = [views.flavor(one, call.root) for one in found['flavors']]
        return reply({'version': found['version'], 'flavors': shown})

    def create_flavor(self, call):
        self._allow(call, 'flavors:create')
        if call.body['name'] in STEPS:
            raise errors.InvalidRequest(
                'name', f"'{call.body['name']}' cannot stand in an address"
            )
        made = self._manager.flavor_create(call.body, context=call.context)
        answer = reply(views.flavor(made, call.root), status=201)
        answer.headers['Location'] = views.flavor_address(made['name'], call.root)
        return answer

    def show_flavor(self, call):
        self._allow(call, 'flavors:show')
        name = call.request.view_args['name']
        for one in self._manager.flavor_list(context=call.context)['flavors']:
            if one['name'] == name:
                return reply(views.flavor(one, call.root))
        raise errors.FlavorNotFound(name)

    def delete_flavor(self, call):
        self._allow(call, 'flavors:delete')
        name = call.request.view_args['name']
        try:
            self._manager.flavor_delete(name, context=call.context)
        except errors.InvalidRequest:  # an invalid name belongs to no flavor
            raise errors.FlavorNotFound(name) from None
        return reply(None, status=204)

    def list_queues(self, call):
        self._allow(call, 'queues:list')
        marker = call.query.get('marker')
        limit = min(call.query.get('limit', self._max_limit), self._max_limit)
        try:
            found = self._manager.facts(marker, limit + 1, context=call.context)
        except errors.NotFound:
            raise errors.InvalidRequest('marker', f'there is no queue {marker}') from None
        links = [call.following(found[limit - 1]['queue'], limit)] if len(found) > limit else []
        return reply({'queues': found[:limit], 'links': links})

    def _allow(self, call, name):
        """Raises Forbidden."""
        self._policy.demand(call.context, name, call.context.project_id, call.context.user_id)
