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
"""Plans of groups: read from the host state, claimed and committed as one. Runs in the loop
only."""

import collections
import contextlib
import dataclasses
import functools
import logging
from collections.abc import Mapping

import numpy as np
from oslo_utils import uuidutils

from nova_sched import errors
from nova_sched.claim import PLANNED
from nova_sched.claims import ClosedDomain, GroupGuard, plan_quota
from nova_sched.engine.calls import MAX_RUNS, pausable
from nova_sched.engine.groups.member_state import LoadedGroup, LoadedMember, member_states, rules
from nova_sched.engine.groups.problem_builder import (
    GroupProblem,
    Outdated,
    build_problem,
    problem_steps,
    unsettled,
)

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(slots=True)
class Draft:
    """A group as it was read for a plan: ``known``, its ``member_states``, and the
    ``group_problem``.

    ``left`` has planned claims of former members. ``changed`` has members (paths) whose
    description differs from the previous definition. ``limits`` are those of the group's project
    on plans (see GroupGuard).
    """

    known: LoadedGroup
    member_states: list[LoadedMember]
    group_problem: GroupProblem
    left: tuple = ()
    changed: frozenset[str] = frozenset()
    limits: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def kept(self, state, claim):
        """Return the claim of the member, if a plan on its host keeps it: not one that is planned
        for another request."""
        if claim is None or claim.state != PLANNED:
            return claim
        return None if state.member in self.changed or asked_for(state) else claim


@dataclasses.dataclass(frozen=True, slots=True)
class PlanOutcome:
    """The outcome of committing a plan.

    If not ``won``: ``short`` maps (kind, node UUID) to the number of members of the kind that the
    node took. It is empty if claims of other requests were committed first. ``record`` is the
    stored record of the group, if it has changed in the meantime. ``exceeded``: the quota that the
    plan would exceed.
    """

    won: bool
    short: dict = dataclasses.field(default_factory=dict)
    record: object = None
    gone: bool = False
    exceeded: errors.QuotaExceeded | None = None


class _Short(Exception):
    """A node does not take the members that were planned for it."""


class Plans:
    """Makes and ends plans. ``placer`` has the rules."""

    def __init__(self, context, state_sync, placer):
        self._cluster, self._store = context.cluster, context.store
        self._topology, self._settings = context.topology, context.settings
        self._clock = context.clock
        self._state_sync, self._placer = state_sync, placer

    def levels(self):
        """All levels over all rows, as from ``DomainTopology.levels_of``."""
        return self._topology.levels_of(self._cluster.hosts, self._settings().default_zone)

    # Read.

    def claims(self, uuid):
        """Return the claims of a group in the store. Updates the host state of nodes where it
        differs."""
        claims = self._store.group_claims(uuid)
        ours = {claim.uuid: claim for claim in self._cluster.claims_of_group(uuid)}
        differ = {claim.node_uuid for claim in claims if ours.pop(claim.uuid, None) != claim}
        differ |= {claim.node_uuid for claim in ours.values()}
        if differ:
            self._state_sync.catch_up(sorted(differ), {})
        return [claim for claim in claims if self._cluster.node(claim.node_uuid) is not None]

    @pausable
    def draft(
        self, known, requests, caps=None, replacement=None, changed=frozenset(), limits=None
    ):
        """Read the host state for a plan of the whole group. Return a Draft; yields where it may
        pause.

        ``requests``: those of ``known``, which a thread other than the loop's has made.
        ``replacement``: a Request that replaces that of its member. Its instance is being built,
        and its own placement elsewhere has failed. Raises GroupRefused if a policy is on an
        unknown level.
        """
        draft = functools.partial(self._draft, known, requests, caps, replacement, changed, limits)
        for _ in range(MAX_RUNS):
            with contextlib.suppress(Outdated):
                return (yield from draft())
        self._cluster.hosts.pause = None
        return (yield from draft())

    def _draft(self, known, requests, caps, replacement, changed, limits):
        self.end_domains()  # they would refuse members
        levels = self.levels()
        if gone := known.unknown_level(levels):
            raise errors.GroupRefused(gone[0].upper() + gone[1:])
        claims = self.claims(known.uuid)
        levels = self.levels()  # the rows may have changed
        states = member_states(known, claims, requests)
        if replacement is not None:
            # Its instance is being built: claims of earlier, failed attempts do not bind it.
            request = dataclasses.replace(replacement, member_placement=None)
            states = [
                dataclasses.replace(state, kind=ASKED + state.member, request=request, held=())
                if state.member == replacement.member_placement.member
                else state
                for state in states
            ]
        if self._cluster.hosts.is_owned:  # as the members' own requests, see Placer.grouped
            states = [
                dataclasses.replace(state, request=state.request.from_nova()) for state in states
            ]
        states = self._within_domains(known, states, claims, levels)
        left = tuple(
            claim
            for claim in claims
            if claim.member not in known.definition.members and claim.state == PLANNED
        )
        hosts = self._cluster.hosts
        hosts.now_s = self._clock()
        planned = [state.planned for state in states if state.planned]
        index = {state.member: place for place, state in enumerate(states)}
        lifted = functools.partial(self._lifted, [*planned, *left])
        with lifted():
            kept = rules(self._cluster, known, known.definition.policies, index, claims, levels)
        steps = problem_steps(
            self._cluster, self._placer.rules, levels, states, kept, self._settings(), caps, claims
        )
        seen = yield from build_problem(hosts, steps, lifted)
        return Draft(known, states, seen, left, changed, limits or {})

    def _within_domains(self, known, states, claims, levels):
        """Return the states with requests that may enter the group's exclusive domains. Domains
        that servers of other members keep until they leave are excluded."""
        tokens = frozenset(fence for claim in claims for fence in claim.fences)
        lasting: dict = {}
        for claim in claims:
            if claim.state != PLANNED:
                row = self._cluster.node(claim.node_uuid).row
                lasting |= known.insiders(known.kept_tokens(claim, row, levels), row, levels)
        allowed = []
        for state in states:
            if state.request.fences == tokens and not lasting:
                allowed.append(state)
                continue
            closed = {fence for fence, members in lasting.items() if state.member not in members}
            kind = f'{state.kind} outside of {",".join(sorted(closed))}' if closed else state.kind
            request = dataclasses.replace(state.request, fences=tokens - closed)
            allowed.append(dataclasses.replace(state, kind=kind, request=request))
        return allowed

    @contextlib.contextmanager
    def _lifted(self, claims):
        """Remove these claims from the host state for the duration of the context, as far as they
        are there."""
        lifted = self._drop(claims)
        try:
            yield
        finally:
            self._cluster.add(*lifted)

    def _drop(self, claims):
        """Remove these claims from the host state. Return those that were there: others may have
        ended since they were read."""
        dropped = []
        for claim in claims:
            node = self._cluster.node(claim.node_uuid)
            held = None if node is None else node.claims.get(claim.consumer_uuid)
            if held is not None and held.uuid == claim.uuid:
                dropped.append(held)
        self._cluster.drop(*dropped)
        return dropped

    # Take.

    def check_quota(self, draft, record, hosts=None):
        """Raise QuotaExceeded if the plan would exceed the limits of its project, as far as that
        is known; ``record`` as in ``take``.

        Without ``hosts``, before they are chosen, moves of servers and exclusive domains do not
        count. The store makes the final check of the claims. This one refuses a plan without a
        search for hosts, and refuses a dry run like the plan itself.
        """
        nodes = None
        if hosts is not None:
            nodes = [self._cluster.node(draft.group_problem.nodes[host]) for host in hosts]
            if any(node is None for node in nodes):
                return
        more = _planned(draft, nodes)
        more.update(plan_quota.of_record(record))
        more.subtract(plan_quota.of_record(self._store.top_group(record.uuid)))
        if nodes is not None:
            levels = self.levels()
            tokens = {
                token
                for state, node in zip(draft.member_states, nodes, strict=True)
                for token in draft.known.tokens(state.member, node.row, levels)
            }
            domains = self._store.domains().values()
            own = sum(domain.top_group == record.uuid for domain in domains)
            more[plan_quota.DOMAINS] = len(tokens) - own
        used = self._store.plan_usage(record.project_id)
        plan_quota.check(record.project_id, used, more, draft.limits)

    def take(self, draft, hosts, record, lifetime_s):
        """Claim a plan. ``hosts`` has for each member the number of its host in the group_problem.

        ``record`` is the new record of the group. Its serial is the one that the draft was read
        at. Claims all members or none. Return PlanOutcome. Raises StoreUnavailable.
        """
        targets = [self._cluster.node(draft.group_problem.nodes[host]) for host in hosts]
        if any(node is None for node in targets):
            return PlanOutcome(False)
        levels, known = self.levels(), draft.known
        ended, kept, new = list(draft.left), [], []
        closed_domains: dict[str, ClosedDomain] = {}
        for state, node in zip(draft.member_states, targets, strict=True):
            tokens = known.tokens(state.member, node.row, levels)
            closed_domains |= known.closed_domains(
                state.member, node.row, levels, self._cluster.hosts.nodes
            )
            here = draft.kept(state, state.on(node.uuid))
            if here is not None and here.state != PLANNED and state.planned:
                ended.append(state.planned)
            if here is not None:
                kept += [] if here.fences == tokens else [dataclasses.replace(here, fences=tokens)]
            else:
                ended += [state.planned] if state.planned else []
                new.append((state, node, tokens))
        kept += self._lingering(draft, targets, levels, closed_domains)
        kept += _on_their_way(draft, kept)
        consume = functools.partial(self._consume, draft, new, record, lifetime_s)
        return self._commit(ended, record, consume, kept, closed_domains, draft.limits)

    def _lingering(self, draft, targets, levels, closed_domains):
        """Return claims of servers on hosts where the plan does not place them, if their exclusive
        domains change. The servers keep these claims until they leave."""
        lingering = []
        for state, node in zip(draft.member_states, targets, strict=True):
            for claim in state.held:
                if claim is not state.on(node.uuid):
                    row = self._cluster.node(claim.node_uuid).row
                    kept_tokens = draft.known.kept_tokens(claim, row, levels, closed_domains)
                    if set(kept_tokens) != set(claim.fences):
                        lingering.append(dataclasses.replace(claim, fences=kept_tokens))
        return lingering

    def _commit(self, ended, record, consume=None, kept=(), closed_domains=None, limits=None):
        """End these claims, make those that ``consume`` adds to a list of consumptions, change
        those ``kept``, close the domains, and replace the group's record, in one transaction
        within the limits of its project. Return PlanOutcome."""
        consumptions: list = []
        dropped, closed_domains = self._drop(ended), closed_domains or {}
        try:
            if consume is not None:
                consume(consumptions)
            claims = [*(consumption.claim for consumption in consumptions), *kept]
            placement = self._state_sync.placement(claims, [], ended, kept)
            guard = dataclasses.replace(
                placement.guard or GroupGuard(),
                record=record,
                serial=record.serial,
                closed_domains=tuple(closed for _, closed in sorted(closed_domains.items())),
                limits=limits or {},
            )
            (outcome,) = self._store.commit([dataclasses.replace(placement, guard=guard)])
        except _Short as short:
            self._undo(consumptions, dropped)
            return PlanOutcome(False, short.args[0])
        except Exception:
            self._undo(consumptions, dropped)
            raise
        if not outcome.won:
            self._undo(consumptions, dropped)
            self._state_sync.committed([], [outcome])
            if closed_domains:
                # Aggregates may define which hosts are in a domain.
                self._state_sync.catch_up([], {})
            return PlanOutcome(
                False, {}, outcome.record, outcome.record_gone, exceeded=outcome.exceeded
            )
        self._cluster.drop(*kept)
        self._cluster.add(*kept)
        self._state_sync.committed([outcome])
        return PlanOutcome(True)

    def _consume(self, draft, new, record, lifetime_s, consumptions):
        """Claim all, on each host the largest first, and add to the ``consumptions``. Raises
        _Short with all hosts that do not take their members."""
        short: dict = {}
        now_s = self._clock()
        marks = {'state': PLANNED, 'created_s': now_s, 'top_group': record.uuid}

        def by_size(target):
            state, node, _ = target
            amounts = sorted(state.request.resources.items(), reverse=True)
            return node.row, [-amount for _, amount in amounts]

        taken: dict = {}
        for state, node, tokens in sorted(new, key=by_size):
            key = state.kind, node.uuid
            consumer, request = draft.known.consumers[state.member], state.request
            if asked_for(state):  # its instance may have a claim there
                request = dataclasses.replace(request, instance_uuid=consumer)
            try:
                own = {
                    'consumer_uuid': consumer,
                    'member': state.member,
                    'fences': tokens,
                    'group_uuid': _server_group(request),
                }
                consumption = self._placer.consume(node, request, lifetime_s, marks | own)
            except errors.ComputeResourcesUnavailable:
                short[key] = taken.get(key, 0)
            else:
                taken[key] = taken.get(key, 0) + 1
                consumptions.append(consumption)
        if not short:
            short = self._refused(new, consumptions, taken)
        if short:
            raise _Short(short)

    def _refused(self, new, consumptions, taken):
        """Nodes that a rule refuses after all members are claimed, as ``short`` of _consume."""
        refused: dict = {}
        by_member = {consumption.claim.member: consumption for consumption in consumptions}
        hosts, by_kind = self._cluster.hosts, {}
        for state, node, _ in new:
            if state.kind not in by_kind:
                by_kind[state.kind] = unsettled(self._placer.rules, state.request)
            rules, key = by_kind[state.kind], (state.kind, node.uuid)
            if not rules or key in refused:
                continue
            consumption = by_member[state.member]
            self._cluster.drop(consumption.held)
            rows = np.array([node.row])
            verdicts = (rule.judge(hosts, state.request, rows) for rule in rules)
            if not all(verdict is True or bool(verdict[0]) for verdict in verdicts):
                refused[key] = taken[key] - 1
            self._cluster.add(consumption.held)
        return refused

    def _undo(self, consumptions, dropped):
        self._cluster.release(*consumptions)
        self._cluster.add(*dropped)

    # End.

    def release(self, known, record):
        """End the planned claims of a group and write its record in one transaction. Return
        PlanOutcome."""
        planned = [claim for claim in self.claims(known.uuid) if claim.state == PLANNED]
        return self._commit(planned, record)

    def renew(self, known, expires_s):
        """Set the expiry of the planned claims of a group, in seconds since the epoch (None:
        never)."""
        renewed = self._store.renew(known.uuid, expires_s)
        self._cluster.drop(*renewed)
        self._cluster.add(*renewed)

    # Later.

    def groups_with_domains(self):
        """Return UUIDs of the groups that have an exclusive domain."""
        return [uuid for uuid in self._cluster.top_groups()
                if any(claim.fences for claim in self._cluster.claims_of_group(uuid))]  # fmt: skip

    def end_domains(self):
        """End the exclusive domains of all groups that no claim is in, if the host state has
        any."""
        if not self._cluster.hosts.has_exclusive_domains:
            return
        closed = [node for node in self._cluster if node.fences]
        borne = {
            fence for node in closed for claim in node.claims.values() for fence in claim.fences
        }
        if not all(node.fences <= borne for node in closed):
            self._state_sync.reread_nodes(self._store.end_domains())

    def mend_domains(self, known):
        """Add nodes to the exclusive domains that they joined, and remove nodes that have left.

        Reports and aggregate updates do this when they arrive. This method covers the other cases:
        a change of the configuration, and the end of the last claim on a node that left its domain
        before.
        """
        if not known.exclusive:
            return
        levels, hosts = self.levels(), self._cluster.hosts
        closed_domains: dict[str, ClosedDomain] = {}
        for claim in self.claims(known.uuid):
            row = self._cluster.node(claim.node_uuid).row
            of_member = known.closed_domains(claim.member, row, levels, hosts.nodes)
            closed_domains |= {
                token: closed for token, closed in of_member.items() if token in claim.fences
            }
        recorded = self._store.domains() if closed_domains else {}
        for token, closed in closed_domains.items():
            if (self._is_amiss(closed) or token not in recorded) and (
                changed := self._store.spread_domain(token, closed.nodes, closed.domain)
            ):
                LOG.info(
                    '%d nodes joined or left an exclusive domain of group %s',
                    len(changed),
                    known.uuid,
                )
                self._state_sync.reread_nodes(changed)

    def _is_amiss(self, closed):
        """Return whether a node of a ClosedDomain lacks its token, or a node outside has the token
        without a claim."""
        token = closed.token
        carry = {node.uuid: node for node in self._cluster if token in node.fences}
        return not closed.nodes <= carry.keys() or any(
            all(token not in claim.fences for claim in carry[uuid].claims.values())
            for uuid in carry.keys() - closed.nodes
        )


def _on_their_way(draft, kept):
    """Pending claims of servers whose other claims change. They are written too, or the store
    would take the changed claims for newer ones."""
    consumers, known = {claim.consumer_uuid for claim in kept}, {claim.uuid for claim in kept}
    pending = [
        state.bound
        for state in draft.member_states
        if state.bound and state.bound.consumer_uuid in consumers
    ]
    return [claim for claim in pending if claim.uuid not in known]


ASKED = 'asked for '


def asked_for(state):
    """Return whether the member is planned for an instance's request, and not for its
    definition."""
    return state.kind.startswith(ASKED)


def _server_group(request):
    """Return the server group that the server will be in. Its policy applies to the planned claim
    already."""
    uuid = request.hint('group')
    return uuid if uuidutils.is_uuid_like(uuid) else request.group_uuid


def _planned(draft, nodes):
    """Return what the planned claims of the group would use, less what they use now."""
    more: collections.Counter[str] = collections.Counter()
    for claim in draft.left:
        more.subtract(plan_quota.of_claim(claim))
    for place, state in enumerate(draft.member_states):
        if state.planned:
            more.subtract(plan_quota.of_claim(state.planned))
        here = (state.built or state.planned) if nodes is None else state.on(nodes[place].uuid)
        if draft.kept(state, here) is None:
            requested = collections.Counter(state.request.resources)
            for group in state.request.groups:
                requested.update(dict(group.resources))
            more.update(plan_quota.amounts(requested))
        elif here.state == PLANNED:
            more.update(plan_quota.of_claim(here))
    return more
