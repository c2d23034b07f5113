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
"""Views of groups for their owners: where members are or would be, and which instances have to
move."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from nova_sched.claim import PENDING, PLANNED
from nova_sched.engine.groups import outsiders
from nova_sched.engine.groups.member_state import member_states
from nova_sched.filters.reasons import count
from nova_sched.groups.arrays import policies
from nova_sched.state.host_aggregate import zones

UNPLACED = 'unplaced'
COMPLETE = 'planned'
BUILDING = 'building'
BUILT = 'built'
INCOMPLETE = 'incomplete'
DELETING = 'deleting'


@dataclasses.dataclass(frozen=True, slots=True)
class MemberView:
    """Where a member is: ``state`` of its claim or `unplaced`; ``domains`` are names by level."""

    path: str
    state: str
    member_uuid: str
    instance_uuid: str | None = None
    host: str | None = None
    nodename: str | None = None
    node_uuid: str | None = None
    zone: str | None = None
    domains: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class RequiredMove:
    """A move that an instance has to make to satisfy its group. ``source`` and ``target`` are
    hosts."""

    path: str
    source: str
    target: str
    instance_uuid: str
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class GroupView:
    """A group as its owner gets it; times in seconds since the epoch. In a list it has no
    members."""

    uuid: str
    name: str | None
    project_id: str | None
    user_id: str | None
    status: str
    generation: int
    serial: int
    source: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    members: tuple[MemberView, ...] = ()
    moves: tuple[RequiredMove, ...] = ()
    warnings: tuple[str, ...] = ()
    created_s: float = 0.0
    updated_s: float = 0.0
    expires_s: float | None = None
    dry_run: bool = False


class GroupViews:
    """Makes GroupViews from the host state. Runs in the loop."""

    def __init__(self, context, plans):
        self._cluster, self._plans, self._settings = context.cluster, plans, context.settings

    def foresee(self, draft, hosts):
        """Return the GroupView of the group after a plan. It is not stored."""
        member_view, members = self._member_views(draft.known), []
        for member, host in zip(draft.member_states, hosts.tolist(), strict=True):
            node = self._cluster.node(draft.group_problem.nodes[host])
            here = member.on(node.uuid)
            state = here.state if here else PLANNED
            members.append(member_view(member, state, node))
        known = draft.known
        view = view_of(known.record, COMPLETE, known, tuple(members))
        return self.with_changes(dataclasses.replace(view, dry_run=True), draft, hosts)

    def with_changes(self, view, draft, hosts):
        """Return the GroupView with the changes that a plan requires of its owner.

        Instances have to move, or to be resized.
        """
        moves = _moves(draft, hosts, self._cluster)
        warnings = [
            f'Member {state.member} is already built with its previous description: resize it'
            for state in draft.member_states
            if state.held and state.member in draft.changed
        ]
        # They name no host, because owners read them.
        warnings += [
            f'Member {state.member} is moving to another host than its planned one: '
            'revert its move'
            for state, host in zip(draft.member_states, hosts.tolist(), strict=True)
            if state.bound is not None and state.bound.node_uuid != draft.group_problem.nodes[host]
        ]
        return dataclasses.replace(view, moves=moves, warnings=(*view.warnings, *warnings))

    def see(self, known, claims, dry_run=False):
        """Return the GroupView of a group with these claims."""
        member_view, members, states = self._member_views(known), [], member_states(known, claims)
        for state in states:
            # An instance is shown where it is, even if it is bound for another host.
            claim = next(iter(state.held), state.planned)
            node = claim and self._cluster.node(claim.node_uuid)
            members.append(member_view(state, claim.state if node else UNPLACED, node))
        view = view_of(known.record, status_of(known.record, known, claims), known, tuple(members))
        moving = tuple(
            _required_move(
                self._cluster, state, state.planned.node_uuid, 'its group was replanned'
            )
            for state in states
            if state.held and state.planned
        )
        shared = self._shared({token for claim in claims for token in claim.fences})
        return dataclasses.replace(
            view, dry_run=dry_run, moves=moving, warnings=(*view.warnings, *shared)
        )

    def _shared(self, tokens):
        """Return a warning if hosts of the group's exclusive domains have instances from outside
        the group. It has no names: owners may read it, and the log has them for operators."""
        if not tokens:
            return []
        counts = [
            max(outsiders.of(node, token)[1] for token in tokens & node.fences)
            for node in self._cluster
            if not tokens.isdisjoint(node.fences)
        ]
        if not any(counts):
            return []
        hosts = count(sum(map(bool, counts)), 'host')
        had = 'with instances from outside the group'
        return [f'{hosts} joined an exclusive domain of the group {had}']

    def _member_views(self, known):
        """Return a function of a member's state, its state as a word and its node (or None), that
        returns its MemberView."""
        levels, default_zone = self._plans.levels(), self._settings().default_zone
        aggregates = self._cluster.hosts.aggregates

        def view_of_member(member, state, node):
            view = MemberView(
                path=member.member,
                state=state,
                member_uuid=known.consumers[member.member],
                instance_uuid=member.held[0].consumer_uuid if member.held else None,
            )
            if node is None:
                return view
            return dataclasses.replace(
                view,
                host=node.host,
                nodename=node.nodename,
                node_uuid=node.uuid,
                zone=','.join(sorted(zones(aggregates.of(node.host)) or {default_zone})),
                domains={name: level.names[level.ids[node.row]] for name, level in levels.items()},
            )

        return view_of_member


def view_of(record, status, known=None, members=()):
    """Return a GroupView; without ``known``, one for a list."""
    return GroupView(
        uuid=record.uuid,
        name=record.name,
        project_id=record.project_id,
        user_id=record.user_id,
        status=status,
        generation=record.generation,
        serial=record.serial,
        source=known.source if known else {},
        members=members,
        warnings=known.definition.warnings if known else (),
        created_s=record.created_s,
        updated_s=record.updated_s,
        expires_s=record.expires_s,
    )


def status_of(record, known, claims):
    """Return the status of a group. In a list (``known`` None) members are not counted: a group
    with claims counts as complete."""
    if record.deleted:
        return DELETING
    members = {claim.member for claim in claims}
    if not members or (known is not None and not members >= known.definition.members.keys()):
        return INCOMPLETE
    states = {claim.state for claim in claims}
    if states <= {PLANNED}:
        return COMPLETE
    return BUILDING if states & {PLANNED, PENDING} else BUILT


def _required_move(cluster, state, target_uuid, reason):
    source, target = (cluster.node(uuid) for uuid in (state.built.node_uuid, target_uuid))
    return RequiredMove(
        path=state.member,
        source=source.host if source else '',
        target=target.host if target else '',
        instance_uuid=state.built.consumer_uuid,
        reason=reason,
    )


def _moves(draft, hosts, cluster):
    """Return the moves of instances that a plan needs, without those in progress."""
    sites, nodes, moves = draft.group_problem.sites, draft.group_problem.nodes, []
    if not sites.is_built.any():
        return ()
    problem = draft.group_problem.problem
    now = np.where(sites.is_built, sites.built, hosts)
    broken = [
        (problem.rules[number].policy, words)
        for number, words in policies.broken(problem, now)
        if not isinstance(number, str)
    ]
    for state, host in zip(draft.member_states, hosts.tolist(), strict=True):
        claim = state.on(nodes[host])
        if state.held and (claim is None or claim.state == PLANNED):
            own = [words for policy, words in broken if state.member in (*policy.a, *policy.b)]
            why_so = '; '.join(own) or 'the policies of its group'
            moves.append(_required_move(cluster, state, nodes[host], why_so))
    return tuple(moves)
