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
"""Plans of moves and rebalances in the REST API."""

import uuid

from nova_sched import errors
from nova_sched.api.handlers import reply
from nova_sched.api.views import moment
from nova_sched.extensions.optimize.rebalance import MAX_SEARCH_S, SEARCH_S
from nova_sched.rpc.client import ExplainClient, RebalancesClient

MOVE = ('uuid', 'server', 'source', 'destination', 'state', 'why')


def handlers(api):
    """Return the handlers of the tag `rebalances`."""
    search_s = api.conf.api.rpc_timeout + MAX_SEARCH_S
    plan = api.client_of(ExplainClient, search_s).plan_moves
    rebalances = api.client_of(RebalancesClient)
    return {'rebalances': RebalanceHandlers(plan, rebalances, api.policy, api.conf.api.max_limit)}


def policies(rule):
    """Return the rights, made with api.policies.rule."""
    return [
        rule(
            'rebalance:plan',
            'rule:operator',
            'See which moves of servers would empty hosts, drain them, make places, or even out.',
            'plan_moves',
        ),
        rule(
            'rebalance:list',
            'rule:operator',
            'List the rebalances.',
            'list_rebalances',
        ),
        rule(
            'rebalance:show',
            'rule:operator',
            'See a rebalance and its moves.',
            'show_rebalance',
        ),
        rule('rebalance:run', 'rule:admin', 'Move servers.', 'run_rebalance'),
        rule(
            'rebalance:stop',
            'rule:admin',
            'Stop a rebalance: start no more of its moves.',
            'stop_rebalance',
        ),
    ]


class RebalanceHandlers:
    """``plan`` is `plan_moves` of a client of the RPC namespace `explain`, ``rebalances`` a client
    of the namespace `rebalances`. ``max_limit``: rebalances in a page."""

    def __init__(self, plan, rebalances, policy, max_limit):
        self._plan, self._rebalances = plan, rebalances
        self._policy, self._max_limit = policy, max_limit

    def plan_moves(self, call):
        self._policy.demand(call.context, 'rebalance:plan')
        body = call.body
        wanted = {name: body.get(name) for name in ('goal', 'moves', 'zone', 'aggregate')}
        if body.get('thorough'):
            wanted['thorough_s'] = body.get('time_limit') or SEARCH_S
        return reply({'goal': body['goal'], **self._plan(**wanted, context=call.context)})

    def list_rebalances(self, call):
        self._policy.demand(call.context, 'rebalance:list')
        marker = call.query.get('marker')
        marker = marker and marker.lower()
        limit = min(call.query.get('limit', self._max_limit), self._max_limit)
        try:
            rebalances = self._rebalances.list(marker, limit + 1, context=call.context)
        except errors.NotFound:
            raise errors.InvalidRequest('marker', f'there is no rebalance {marker}') from None
        links = (
            [call.following(rebalances[limit - 1]['uuid'], limit)]
            if len(rebalances) > limit
            else []
        )
        shown = [_view(rebalance, call.root) for rebalance in rebalances[:limit]]
        return reply({'rebalances': shown, 'links': links})

    def run_rebalance(self, call):
        self._policy.demand(call.context, 'rebalance:run')
        named = str(uuid.uuid4())
        rebalance = self._rebalances.create(
            named, call.body['moves'], call.body.get('close'), context=call.context
        )
        answer = reply(_view(rebalance, call.root), status=201)
        answer.headers['Location'] = _address(named, call.root)
        return answer

    def show_rebalance(self, call):
        self._policy.demand(call.context, 'rebalance:show')
        return self._shown(call, self._rebalances.show)

    def stop_rebalance(self, call):
        self._policy.demand(call.context, 'rebalance:stop')
        return self._shown(call, self._rebalances.stop)

    def _shown(self, call, method):
        named = str(call.request.view_args['uuid'])
        return reply(_view(method(named, context=call.context), call.root))


def _view(row, root):
    """A rebalance, from the mapping of the RPC namespace `rebalances`: with its moves, if it has
    them there."""
    view = {name: row[name] for name in ('uuid', 'goal', 'periodic', 'state', 'moves')}
    view |= {f'{name}_at': moment(row[f'{name}_s']) for name in ('created', 'stopped')}
    if 'plan' in row:
        view['plan'] = [
            {name: move[name] for name in MOVE}
            | {f'{name}_at': moment(move[f'{name}_s']) for name in ('started', 'changed')}
            for move in row['plan']
        ]
    view['links'] = [{'rel': 'self', 'href': _address(row['uuid'], root)}]
    return view


def _address(uuid, root):
    return f'{root}/v1/rebalances/{uuid}'
