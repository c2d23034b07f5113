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
"""The requests that write the allocations of one decision, and what each answer means.

::

    its claim was confirmed by what an earlier copy of the call wrote: read
    write ------ done ------------------------------------------------> won
      |  ^------ the providers change under it: four attempts --------> decided again
      |  ^------ no answer, 5xx: while the caller waits --------------> refused
      |-- no capacity ------------------------------------------------> decided again
      |-- 400, and a provider is gone --------------------------------> decided again
      |-- 400, 401, 403 ----------------------------------------------> refused
      `-- the consumer exists, or the outcome is not known: read
            its claim there is of another call by now -----------------> decided again
            has nothing ----------- write
            has nothing of a copy any more --------------------------> decided again
            has this, by whomever ---------- write it at its generation
            has a host by a copy of the call --------------------------> decided again, for it
            has a host, and Nova moves it now --- write the sum
            has another host ------------------------------------------> decided again, for it
            has a host to leave, or several -------------------------> refused
"""

import dataclasses
import functools
import json
import logging

from nova_sched import errors
from nova_sched.claim import Claim
from nova_sched.cloud.placement import ConsumerAllocations
from nova_sched.engine.writer import WriteOutcome

LOG = logging.getLogger(__name__)

ATTEMPTS = 4  # while other requests change the same providers, as in Nova
PAUSE_S = 2.0  # the longest pause before the second attempt; each later one has as much more
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0  # while Placement does not answer
# Reads, about 10 seconds, after which a consumer without allocations is what a failed request has
# left: Placement makes the consumer first, in a transaction of its own.
ABANDONED = 15
NOT_VALID = 400  # the status of a request that names a provider which is gone
WON = WriteOutcome(won=True)


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """What one instance is to have: ``allocations`` on the node of a ``claim``.

    ``stored`` is what the store has made of this claim: the same, or one that the instance had
    there before, and that the call has resized or taken over. ``avoided`` are the hosts that it
    has to leave, in lower case.
    """

    claim: Claim
    stored: Claim
    allocations: ConsumerAllocations
    avoided: frozenset[str] = frozenset()

    @property
    def uuid(self):
        return self.claim.consumer_uuid

    @property
    def node_uuid(self):
        return self.claim.node_uuid

    def is_earlier(self, claim):
        """Return whether a claim on the node was confirmed before this call came, and is neither
        being resized nor asked back: the server may run there."""
        is_settled = not (claim.is_provisional or claim.awaited)
        return claim.node_uuid == self.node_uuid and is_settled and claim.uuid != self.claim.uuid

    @property
    def is_written(self):
        """Whether an earlier copy of the call has written the allocations: a read has confirmed
        its claim by them. If they are gone, this copy is late: they were removed, or Nova has
        given them to a migration of the server."""
        return self.is_earlier(self.stored) and self.stored.is_of(self.claim.request_id)

    def is_of_another(self, claim):
        """Return whether a claim keeps allocations on the node: it is not that of this call, nor
        resized by it, nor still as this call has taken it over. A claim of this call that a read
        has confirmed was confirmed by the allocations that this call has written. One that a later
        call has taken over has another number."""
        is_own = (claim.name, claim.number) == (self.claim.uuid, self.stored.number) or (
            (claim.name, claim.changed_at) == (self.stored.name, self.stored.changed_at)
        )
        return claim.node_uuid == self.node_uuid and not is_own

    def is_by_a_copy(self, claim):
        """Return whether a claim on another node is that of an earlier copy of this call."""
        return claim.node_uuid != self.node_uuid and claim.is_of(self.claim.request_id)


@dataclasses.dataclass(frozen=True, slots=True)
class Sent:
    """A request for a server: the allocations that it has ``before`` and ``after``."""

    server: Server
    before: ConsumerAllocations
    after: ConsumerAllocations

    @property
    def generation(self):
        """The consumer's generation that the request leaves: each write raises it by one."""
        return (self.after.generation or 0) + 1

    def is_in(self, allocations):
        """Whether what Placement has of the server is as this request has written it.

        If it is not known whether that was done, another scheduler may have written the same for
        the same call: then only its claim tells.
        """
        return (
            allocations.generation == self.generation
            and allocations.providers == self.after.providers
        )

    def is_kept_by(self, claim):
        """Return whether a claim keeps what this request has written: it is of another call, or
        it is earlier. In that case the server may have these allocations by another request: a
        consumer that is made again, as after a move that has failed, gets the generations and
        amounts that it had. Where the request has added to others, it has made them.
        """
        is_earlier = not self.before.providers and self.server.is_earlier(claim)
        return is_earlier or self.server.is_of_another(claim)


def servers(decision, stored, answer, context):
    """Return a Server for each instance of a decision that has claims; ``stored`` are these as the
    store has them."""
    of_instances = zip(decision.requests, decision.claims, stored, answer, strict=True)
    return [
        Server(
            claim,
            row,
            _allocations(json.loads(chosen[0].allocation_request), request, context),
            request.ignore_hosts,
        )
        for request, claim, row, chosen in of_instances
        if chosen[0].allocation_version is not None
    ]


def _allocations(document, request, context):
    return ConsumerAllocations(
        {
            uuid: from_provider['resources']
            for uuid, from_provider in document['allocations'].items()
        },
        None,
        request.project_id or getattr(context, 'project_id', None),
        request.user_id or getattr(context, 'user_id', None),
        document.get('mappings', {}),
    )


class AllocationWrite:
    """One decision's way into Placement. ``run`` returns its WriteOutcome.

    ``claims`` returns the claims that the store has of a server. ``host_of`` returns the host of a
    compute node by its UUID; None if it is not a compute node. ``is_moving`` returns whether Nova
    moves a server now. ``limits`` says how long it may take. ``is_repeat``: an earlier attempt for
    the same call has failed. ``full`` has the nodes that Placement has refused, ``sent`` the last
    request by server, and with ``is_doubtful`` it is not known whether it was done.
    """

    def __init__(
        self, client, claims, host_of, is_moving, random, servers, limits, is_repeat=False
    ):
        self._client, self._claims = client, claims
        self._host_of, self._is_moving = host_of, is_moving
        self._random, self._servers, self._limits = random, servers, limits
        self._conflicts = self._reads = self._failures = 0
        # A request that Placement has refused may have left a consumer without allocations.
        self._reads_before_reuse = 1 if is_repeat else ABANDONED
        self._why = 'the call waited too long for its turn'
        self.full, self.is_doubtful = (), False
        self.sent = {
            server.uuid: Sent(server, ConsumerAllocations(), server.allocations)
            for server in servers
        }
        self._left = list(self.sent)  # servers that the next request writes

    @property
    def nodes(self):
        """UUIDs of the chosen compute nodes."""
        return tuple({server.node_uuid for server in self._servers})

    def run(self):
        step = self._read if any(server.is_written for server in self._servers) else self._write
        while True:
            try:
                done = step()
            except errors.PlacementConflict as error:
                done = self._conflict(error)
            except errors.PlacementUnavailable as error:
                self.is_doubtful |= step == self._write
                done = self._no_answer(error)
            except errors.PlacementRefused as error:
                if step == self._write and error.status == NOT_VALID:
                    done = functools.partial(self._check_providers, error)
                else:
                    done = _refused(str(error))
            except errors.StoreUnavailable as error:
                done = _refused(str(error))
            if isinstance(done, WriteOutcome):
                return done
            step = done

    def _write(self):
        if self._limits.is_over():
            return self._give_up()
        wanted = {uuid: self.sent[uuid].after for uuid in self._left}
        self._client.write(wanted, self._limits.left_s())
        self.is_doubtful = False
        return WON

    # Errors: each returns the next step, or the outcome.

    def _conflict(self, error):
        if error.is_about_consumer:
            self._reads += 1
            self._why = 'other requests change those of the instance'
            # A request that has just made the consumer is about to give it allocations.
            return self._after(self._read, FIRST_PAUSE_S * (self._reads - 1))
        if error.is_concurrent and self._conflicts < ATTEMPTS - 1:
            self._conflicts += 1
            self._why = 'other requests change those of the hosts'
            return self._after(self._write, self._random.uniform(0, PAUSE_S * self._conflicts))
        LOG.info('Placement does not take the allocations: %s', error)
        self.full = self.nodes
        return WriteOutcome(won=False)

    def _no_answer(self, error):
        LOG.debug('%s', error)
        self._limits.report(error)
        pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**self._failures)
        self._failures += 1
        self._why = 'Placement does not answer'
        return self._after(self._read, self._random.uniform(pause_s / 2, pause_s))

    def _after(self, step, pause_s):
        return step if self._limits.wait(pause_s) else self._give_up()

    def _give_up(self):
        return _refused(f'The allocations could not be written in Placement: {self._why}.')

    def _check_providers(self, error):
        """Placement does not allow the request: find out whether a provider is gone."""
        self.full = tuple(
            {server.node_uuid for server in self._servers if self._lacks_provider(server)}
        )
        if not self.full:
            return _refused(str(error))
        LOG.info('Placement does not take the allocations: %s', error)
        return WriteOutcome(won=False)

    def _lacks_provider(self, server):
        return any(self._client.root_of(uuid) is None for uuid in server.allocations.providers)

    # What the servers have.

    def _read(self):
        """Read what the servers have, and prepare what is left to be written."""
        sent, elsewhere = {}, {}
        for uuid in self._left:
            server = self.sent[uuid].server
            allocations = self._client.allocations_of(uuid)
            claims = self._claims(uuid)
            if any(map(server.is_of_another, claims)):
                # What was read may be of before: a consumer that is made again gets the
                # generations that it had.
                LOG.info('Another call has taken over the claim of instance %s', uuid)
                return WriteOutcome(won=False)
            if server.is_written and not allocations.providers:
                LOG.info('Instance %s no longer has the allocations of this call', uuid)
                return WriteOutcome(won=False)
            wanted, nodes = self._wanted(server, allocations, claims)
            if wanted is not None:
                last = self.sent[uuid]
                is_done = self.is_doubtful and last.is_in(allocations)
                sent[uuid] = Sent(server, last.before if is_done else allocations, wanted)
            elif len(nodes) == 1 and server.node_uuid not in nodes:
                (elsewhere[uuid],) = nodes
            else:
                return _refused(f'Instance {uuid} has other allocations: {allocations.providers}.')
        if elsewhere:
            LOG.warning('Instances are on other nodes by an earlier call: %s', elsewhere)
            return WriteOutcome(won=False, elsewhere=elsewhere)
        self.sent |= sent
        self._left = list(sent)
        return self._write

    def _wanted(self, server, allocations, claims):
        """Return what has to be written for a server that has these allocations and claims; None
        if it cannot have the wanted ones, and the nodes that it may be on by an earlier call.
        """
        if not allocations.providers:
            generation = 0 if self._reads >= self._reads_before_reuse else None
            return dataclasses.replace(server.allocations, generation=generation), ()
        if all(
            allocations.providers.get(uuid) == amounts
            for uuid, amounts in server.allocations.providers.items()
        ):
            # At a new generation, the call before cannot take them back any more.
            return _with(server, allocations, allocations.providers), ()
        nodes = self._nodes(allocations)
        left = [uuid for uuid, host in nodes.items() if host.lower() not in server.avoided]
        copies = {claim.node_uuid for claim in filter(server.is_by_a_copy, claims)}
        if told := copies.intersection(left):
            return None, told
        # As Nova does: an evacuation leaves what the server has on the lost host, and a move whose
        # conductor died what it was given on its destination. After the end of a move, a late copy
        # of its request finds the server on one of both hosts.
        if self._is_moving(server.uuid):
            both = _sum(allocations.providers, server.allocations.providers)
            return _with(server, allocations, both), ()
        return None, left

    def _nodes(self, allocations):
        """UUID of each compute node that allocations are on -> its host. A sharing provider is on
        none."""
        hosts = {}
        for uuid in allocations.providers:
            node = uuid if self._host_of(uuid) else self._client.root_of(uuid)
            if node is not None and self._host_of(node):
                hosts[node] = self._host_of(node)
        return hosts


def _refused(text):
    return WriteOutcome(won=False, refusal=text)


def _with(server, allocations, providers):
    return dataclasses.replace(
        server.allocations, providers=providers, generation=allocations.generation
    )


def _sum(before, wanted):
    """The allocations of both nodes; those of a sharing provider count once."""
    providers = {uuid: dict(amounts) for uuid, amounts in before.items()}
    for uuid, amounts in wanted.items():
        sums = providers.setdefault(uuid, {})
        for name, amount in amounts.items():
            sums[name] = max(amount, sums.get(name, 0))
    return providers
