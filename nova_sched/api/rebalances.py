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
"""The operations for operators that move servers: plans, and rebalances that carry them out."""

import uuid

from nova_sched import errors
from nova_sched.api import views
from nova_sched.api.handlers import reply
from nova_sched.rebalance import SEARCH_S


class RebalanceHandlers:
    """``plan`` is `plan_moves` of a client of the RPC namespace `explain`, ``rebalances`` a client
    of the namespace `rebalances`. ``max_limit``: rebalances in a page."""

    def __init__(self, plan, rebalances, policy, max_limit):
        self._plan, self._rebalances = plan, rebalances
        self._policy, self._max_limit = policy, max_limit

    def plan_moves(self, call):
        self._allow(call, 'plan')
        body = call.body
        asked = {name: body.get(name) for name in ('goal', 'moves', 'zone', 'aggregate')}
        if body.get('thorough'):
            asked['thorough_s'] = body.get('time_limit') or SEARCH_S
        return reply({'goal': body['goal'], **self._plan(**asked, context=call.context)})

    def list_rebalances(self, call):
        self._allow(call, 'list')
        marker = call.query.get('marker')
        marker = marker and marker.lower()
        limit = min(call.query.get('limit', self._max_limit), self._max_limit)
        try:
            found = self._rebalances.list(marker, limit + 1, context=call.context)
        except errors.NotFound:
            raise errors.InvalidRequest('marker', f'there is no rebalance {marker}') from None
        links = [call.following(found[limit - 1]['uuid'], limit)] if len(found) > limit else []
        shown = [views.rebalance(one, call.root) for one in found[:limit]]
        return reply({'rebalances': shown, 'links': links})

    def run_rebalance(self, call):
        self._allow(call, 'run')
        named = str(uuid.uuid4())
        made = self._rebalances.create(
            named, call.body['moves'], call.body.get('close'), context=call.context
        )
        answer = reply(views.rebalance(made, call.root), status=201)
        answer.headers['Location'] = views.rebalance_address(named, call.root)
        return answer

    def show_rebalance(self, call):
        self._allow(call, 'show')
        return self._shown(call, self._rebalances.show)

    def stop_rebalance(self, call):
        self._allow(call, 'stop')
        return self._shown(call, self._rebalances.stop)

    def _shown(self, call, method):
        named = str(call.request.view_args['uuid'])
        return reply(views.rebalance(method(named, context=call.context), call.root))

    def _allow(self, call, name):
        """Raises Forbidden."""
        context = call.context
        self._policy.demand(context, f'rebalance:{name}', context.project_id, context.user_id)
