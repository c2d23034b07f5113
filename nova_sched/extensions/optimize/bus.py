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
"""Moves of servers over the bus: what a conductor serves, and what it tells the schedulers.

A scheduler calls the namespace `moves` 1.0 of a conductor, which answers at once, moves the
server, and tells a scheduler the outcome with `finished` of the namespace `rebalance` 1.0. The
conductors keep the outcome by the move's UUID, as long as the server exists: a second ``start`` of
a move asks for the outcome, whichever conductor gets it.
"""

import oslo_messaging as messaging

from nova_sched import errors, words
from nova_sched.extensions.optimize.moves import OUTCOMES, RUNNING
from nova_sched.rpc import servers, translate
from nova_sched.rpc.client import NamespaceClient
from nova_sched.rpc.messages import expected

TOPIC = 'nova_sched_conductor'
TIMEOUT_S = 10.0  # a conductor answers from its database
TELL_TIMEOUT_S = 10.0


class MovesEndpoint:
    """Calls the methods of ``mover``, which takes the same arguments: ``request_spec`` and
    ``start``."""

    target = messaging.Target(namespace='moves', version='1.0')

    def __init__(self, mover):
        self._mover = mover

    @expected
    def request_spec(self, context, server):
        """The RequestSpec of a server. Raises NotFound."""
        return self._mover.request_spec(words.uuid(server, 'server'))

    @expected
    def start(self, context, move, server, claim, source, host, nodename):
        """Live-migrate a server from host ``source`` to a node, without waiting for the end.

        Returns a mapping: ``outcome`` until now, `running`, `done` or `failed`, and ``why`` it
        failed, or null. A move is started only once, by its UUID ``move``, and only while the
        server has the ``claim`` on the node. Raises MoveRefused, or NotFound for an unknown
        server; then it stays on its host.
        """
        outcome, why = self._mover.start(
            words.uuid(move, 'move'),
            words.uuid(server, 'server'),
            words.uuid(claim, 'claim'),
            words.name(source, 'source'),
            words.name(host, 'host'),
            words.name(nodename, 'nodename'),
        )
        return {'outcome': outcome, 'why': why}


def conductor_server(bus, host, mover):
    """The RPC server of a conductor that moves servers."""
    return servers.server(bus, host, [MovesEndpoint(mover)], TOPIC)


class MovesClient(NamespaceClient):
    """Any of the conductors, as the engine's MoveRunner needs it."""

    NAMESPACE = 'moves'
    TOPIC = TOPIC

    def __init__(self, bus, timeout_s=TIMEOUT_S):
        super().__init__(bus, timeout_s, monitor_s=None)

    def request(self, server):
        """The state.request.Request of a server. Raises NotFound."""
        spec_obj = self.call(None, 'request_spec', server=server)
        (request,) = translate.requests(translate.spec(spec_obj), [server])
        return request

    def start(self, entry, source, destination):
        """Hand a db.rebalances.MoveEntry over; ``source`` and ``destination`` are (host,
        nodename). Returns the outcome until now, and why it failed. Raises MoveRefused and
        NotFound."""
        host, nodename = destination
        answer = self.call(
            None,
            'start',
            move=entry.uuid,
            server=entry.server,
            claim=entry.claim_uuid,
            source=source[0],
            host=host,
            nodename=nodename,
        )
        # An answer that cannot be read says nothing: the conductor is asked again.
        if not isinstance(answer, dict) or answer.get('outcome') not in OUTCOMES:
            return RUNNING, None
        why = answer.get('why')
        return answer['outcome'], why if words.is_text(why) else None


class RebalanceEndpoint:
    """``runner`` is the MoveRunner of this scheduler."""

    target = messaging.Target(namespace='rebalance', version='1.0')

    def __init__(self, runner):
        self._runner = runner

    @expected
    def finished(self, context, move, outcome, why=None):
        """A conductor tells the outcome of a move, `done` or `failed`. A late or doubled message
        changes nothing. Raises MoveNotFound."""
        if outcome not in OUTCOMES:
            raise errors.InvalidRequest(
                'outcome', f'{words.short(outcome)} is not one of {", ".join(OUTCOMES)}'
            )
        if why is not None and not words.is_text(why):
            raise errors.InvalidRequest('why', f'{words.short(why)} is not text')
        self._runner.tell(words.uuid(move, 'move'), outcome, why)


class RebalanceClient(NamespaceClient):
    """The scheduler, as a conductor tells it of moves."""

    NAMESPACE = 'rebalance'

    def __init__(self, bus, timeout_s=TELL_TIMEOUT_S):
        super().__init__(bus, timeout_s)

    def finished(self, move, outcome, why=None, context=None):
        """Raise MoveNotFound."""
        self.call(context, 'finished', move=move, outcome=outcome, why=why)
