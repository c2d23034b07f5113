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
"""The second phase of a group: which member a request is for, and where its policies allow it."""

import dataclasses
import logging

import numpy as np

from nova_sched import errors
from nova_sched.engine.groups.member_state import member_states, rules
from nova_sched.engine.loop import WorkRequired
from nova_sched.groups.arrays import policies
from nova_sched.groups.arrays.problem import Problem
from nova_sched.groups.members import member_spec
from nova_sched.state.request import TOP_GROUP, MemberPlacement

LOG = logging.getLogger(__name__)

MEMBER, REPLAN, REPLACE = 'member', 'replan', 'replace'  # scheduler hints


class ReplanRequired(WorkRequired):
    """A member cannot be placed as planned: the members that are not built must be replanned.

    ``request`` has its placement.
    """

    def __init__(self, request):
        super().__init__(request.member_placement.member)
        self.request = request


def group_of(request):
    """Return the group that a member's request names, and the project that the group must belong
    to."""
    return str(request.hint(TOP_GROUP)), request.project_id


def member_of(request):
    """Return the member that a request is for: the group's UUID and the path."""
    return str(request.hint(TOP_GROUP)), str(request.hint(MEMBER) or '')


def _says(request, hint):
    """Return whether the caller has set a hint. ``replan``: the plan follows the request if they
    differ. ``replace``: the server replaces an existing one that will be deleted."""
    return str(request.hint(hint, '')).lower() == 'true'


class MemberResolver:
    """Finds the placement of a request. Runs in the loop only."""

    def __init__(self, cluster, plans, library, until_done):
        self._cluster, self._plans, self._library = cluster, plans, library
        self._until_done = until_done

    def resolve_batch(self, messages):
        """(message, requests) of the messages that can be decided; requests for members have their
        placement. Fails the other messages.

        All groups are read before anything is claimed: reading one may update nodes from the
        store, and change rows.
        """
        loaded_groups: dict = {}
        for work in (self._load_groups, self._resolve_order):
            resolved = [
                (message, done)
                for message in messages
                if (done := self._try(message, work, loaded_groups)) is not None
            ]
            messages = [message for message, _ in resolved]
        return resolved

    def _try(self, message, work, loaded_groups):
        """Return the result of the work on the message's order; None if the message has failed."""
        try:
            return work(message.work, loaded_groups)
        except (ReplanRequired, errors.SchedError) as error:
            message.fail(error)
        except Exception as error:
            LOG.exception('Request %s failed while its group was read', message.work.request_id)
            message.fail(error)
        return None

    def _load_groups(self, order, loaded_groups):
        """Read the groups of the order's members, in ``loaded_groups`` by group."""
        members = [request for request in order.requests if request.is_member]
        if members and len(order.requests) > 1:
            raise errors.MemberRefused(
                str(members[0].hint(MEMBER)), 'several servers cannot be one member'
            )
        for request in members:
            if group_of(request) not in loaded_groups:
                loaded_groups[group_of(request)] = self._until_done(self.load, request)
        return True

    def _resolve_order(self, order, loaded_groups):
        """Return the order's requests; those for members have their placement."""
        return [
            self.resolve_request(request, order.replanned, loaded_groups[group_of(request)])
            if request.is_member
            else request
            for request in order.requests
        ]

    def load(self, request):
        """Return the LoadedGroup of a request's group, and its claims. Updates the host state of
        their nodes.

        The order matters: a move of members raises the serial, which must not be newer than the
        claims. Raises MemberRefused.
        """
        uuid, path = member_of(request)
        try:
            known = self._library.find(uuid)
            # A group without a project belongs to an operator, and takes servers of any project.
            if known.record.project_id is not None and request.project_id not in (
                None,
                known.record.project_id,
            ):
                raise errors.GroupNotFound(uuid)
        except (errors.GroupNotFound, errors.IncompatibleObject) as error:
            raise errors.MemberRefused(path or '?', str(error)) from None
        return known, self._plans.claims(known.uuid)

    def resolve_request(self, request, replanned=False, loaded=None):
        """Return the request with its placement, and with the tokens of its exclusive domains.

        ``replanned``: its group was replanned for this request. ``loaded``: the result of ``load``
        in this turn. Raises MemberRefused if the request differs from the plan, and ReplanRequired
        if its group must be replanned.
        """
        known, claims = loaded or self.load(request)
        path = str(request.hint(MEMBER) or '')
        if known.record.deleted:
            raise errors.MemberRefused(path or '?', f'group {known.uuid} is being deleted')
        if path not in known.definition.members:
            raise errors.MemberRefused(path or '?', f'group {known.uuid} has no such member')
        if gone := known.unknown_level(self._plans.levels()):
            raise errors.MemberRefused(path, gone)
        here = member_states(known, claims)
        state = next(state for state in here if state.member == path)
        own = [claim for claim in state.held if claim.consumer_uuid == request.instance_uuid]
        others = [claim for claim in state.held if claim.consumer_uuid != request.instance_uuid]
        if others and not _says(request, REPLACE):
            what = 'already' if others[0].is_confirmed else 'already, which is being built'
            raise errors.MemberRefused(path, f'it is instance {others[0].consumer_uuid} {what}')
        if not own and not _says(request, REPLAN):
            difference = member_spec.differs(known.definition.members[path], request.read_spec())
            if difference is not None:
                field, planned, requested = difference
                raise errors.MemberRefused(
                    path, f'{field} was planned to be {planned}, but {requested} is asked for'
                )
        node = state.planned and self._cluster.node(state.planned.node_uuid)

        def closed_domains(row):
            levels, nodes = self._plans.levels(), self._cluster.hosts.nodes
            return known.closed_domains(path, row, levels, nodes)

        placement = MemberPlacement(
            top_group=known.uuid,
            member=path,
            consumer=known.consumers[path],
            serial=known.record.serial,
            allowed=self._allowed(known, claims, here, path),
            closed_domains=closed_domains,
            row=node.row if node else None,
            is_built=any(claim.is_confirmed for claim in own),
        )
        # Of the exclusive domains that it may be in: those of its exclusive policies.
        sharing = {claim.member for claim in claims if known.shares(path, claim.member)} | {path}
        tokens = frozenset(
            token for claim in claims if claim.member in sharing for token in claim.fences
        )
        request = dataclasses.replace(request, member_placement=placement, fences=tokens)
        if not own and (
            node is None or (not replanned and self._is_outdated(known, state, node, request))
        ):
            raise ReplanRequired(request)
        return request

    def _is_outdated(self, known, state, node, request):
        """Return whether the member must be replanned although it has a host: the caller asks for
        it, or its exclusive domains there have changed."""
        tokens = known.tokens(state.member, node.row, self._plans.levels())
        return _says(request, REPLAN) or set(tokens) != set(state.planned.fences)

    def _allowed(self, known, claims, here, path):
        """Return rows, bool [H], where the member satisfies all required policies, with the other
        members on their current hosts."""
        levels = self._plans.levels()
        index = {state.member: place for place, state in enumerate(here)}
        names = list(levels)
        rows = np.full(len(here), -1, dtype=np.int32)
        for place, state in enumerate(here):
            if state.position is not None:
                rows[place] = self._cluster.node(state.node_uuid).row
        required = [policy for policy in known.definition.policies if policy.is_required]
        fixed = rows.copy()
        fixed[index[path]] = -1
        problem = Problem.of_policies(
            list(index),
            [levels[name].ids for name in names],
            names,
            [list(levels[name].names) for name in names],
            rules(self._cluster, known, required, index, claims, levels),
            fixed,
        )
        return policies.allowed(problem, rows, index[path])
