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
"""Decides one request for one or several instances: a host for each, all or nothing."""

import contextlib
import dataclasses
import functools
import itertools

import numpy as np

from nova_sched import errors
from nova_sched.claim import PENDING
from nova_sched.engine.decide import (
    CandidateSet,
    WinnerWeights,
    best,
    narrow,
    own_slice,
    places_in_slice,
    survivors,
    weigh,
)
from nova_sched.engine.explain import reasons
from nova_sched.engine.groups.member_resolver import ReplanRequired
from nova_sched.engine.kinds import KindState, RequestKinds
from nova_sched.engine.measuring import RuleTimes
from nova_sched.hardware import Overdrawn
from nova_sched.measures.catalogue import MEASURES
from nova_sched.state.cluster import Consumption
from nova_sched.state.membership import group_now
from nova_sched.state.request import AFFINITY, NO_HARDWARE

MAX_NOTED = 10  # instances of one request whose winners' weights are recorded


@dataclasses.dataclass(slots=True)
class Decision:
    """The decision of one call: a host (row) and a claim for each of the ``asked`` instances.

    A request that only checks makes no claims. ``marks`` are fields of the claims. With ``noted``,
    ``winners`` has a WinnerWeights for each instance: of its host and its alternates.
    ``claiming``: the request asks to keep its claims. ``repeatable``: a pending claim that is what
    the request asks for is its answer. ``kept``: it may be decided by a kind of request; ``kind``
    is the state of that kind, if it was. ``is_measured``: the times of its rules are measured.
    """

    asked: int = 1
    claiming: bool = True
    repeatable: bool = True
    noted: bool = False
    kept: bool = False
    is_measured: bool = False
    kind: KindState | None = None
    marks: dict = dataclasses.field(default_factory=dict)
    rows: list = dataclasses.field(default_factory=list)
    requests: list = dataclasses.field(default_factory=list)
    consumptions: list = dataclasses.field(default_factory=list)
    replaced: list = dataclasses.field(default_factory=list)
    first: tuple = ()  # steps of the first instance, where all rules ran
    steps: tuple = ()
    # The alternates or ranked rows of each instance, if they were requested up front.
    ranked: list = dataclasses.field(default_factory=list)
    winners: list = dataclasses.field(default_factory=list)

    @property
    def instances(self):
        """UUIDs of the instances that have a host so far."""
        return [request.instance_uuid for request in self.requests]

    @property
    def claims(self):
        """The claims that the store has to commit."""
        return tuple(consumption.claim for consumption in self.consumptions)

    @property
    def repeated(self):
        """Those of its claims that earlier requests have made."""
        before = {claim.uuid for claim in self.replaced}
        return [claim for claim in self.claims if claim.uuid in before]

    @property
    def superseded(self):
        """The pending claims of other requests that end with it: nothing tells which of them is
        the later one."""
        own_id = self.marks.get('request_id')
        kept = {claim.uuid for claim in self.repeated}
        return [
            claim
            for claim in (self.replaced if self.claiming else ())
            if claim.state == PENDING and claim.request_id != own_id and claim.uuid not in kept
        ]


def _is_free(placement, candidates):
    """Whether a member can be placed on its planned row; without a plan, whether any row is left.

    Returns True for a built member without a row left: it is refused like any other instance,
    without a replan.
    """
    if placement.row is not None:
        return bool(candidates.left) and (
            candidates.alive is None or bool(candidates.alive[placement.row])
        )
    return bool(candidates.left) or placement.is_built


def _is_move(request, claim, node):
    """Return whether a request moves an instance away from the node of its claim, or changes its
    size.

    Nova requests a move in one of three ways. It ignores the source host of a resize, a migration
    or an evacuation; it names another host; or it names a flavor of another size. In the last case
    the host may stay the same.
    """
    size, amounts = claim.resizing.old if claim.resizing else claim.resources, node.taken(request)
    is_other = any(size.get(name, 0) != amount for name, amount in amounts.items())
    return is_other or not allows(request, node)


def allows(request, node):
    """Return whether a request neither ignores the host of a node nor names another one."""
    avoided = {*request.ignore_hosts, *(name for name, _ in request.retry_hosts)}
    wanted = set(request.force_hosts)
    if request.destination is not None and request.destination.host is not None:
        wanted.add(request.destination.host)
    avoided, wanted = ({name.lower() for name in names} for names in (avoided, wanted))
    host = node.host.lower()
    return host not in avoided and (not wanted or host in wanted)


def is_made_by(request, marks, claim, node):
    """Whether a request has made this pending claim on the node.

    ``marks`` are fields of the request's own claim. The node need not have the amounts, CPUs and
    devices once more: the claim has them.
    """
    fields = {
        'consumer_uuid': request.instance_uuid,
        'state': PENDING,
        'group_uuid': request.group_uuid,
        'top_group': None,
        **marks,
    }
    del fields['created_s']
    if fields['request_id'] is None:
        return False
    if any(getattr(claim, name) != value for name, value in fields.items()):
        return False
    with contextlib.suppress(Overdrawn):  # its providers may be in use by the instance itself
        return node.demand(request)[0] == claim.resources
    return True


class NotKept(Exception):
    """A request that no kind of request can serve to its end: a full pass decides it."""


class Placer:
    """Decides requests on the host state and claims there. The store validates these claims
    later."""

    def __init__(self, cluster, rules, random):
        self.cluster = cluster
        self._random = random
        self._times = RuleTimes()
        self.follow(rules)

    def follow(self, rules):
        """Use these rules, with the present options."""
        self.rules, self._measured = rules, self._times.of(rules)
        self.kinds = RequestKinds(rules, self.cluster.hosts)

    def decide(
        self,
        requests,
        settings,
        want_alternates=False,
        request_id=None,
        noted=False,
        ranked=0,
        claiming=True,
        repeatable=True,
    ):
        """Choose and claim a host for each request. Each request sees the claims of the earlier
        ones.

        ``ranked``: the number of best hosts to record for each request, including the chosen host.
        Returns a Decision. Raises NoValidHost; the host state is unchanged then.
        """
        marks = {'request_id': request_id, 'created_s': self.cluster.hosts.now_s}
        spare = (
            settings.alternates if want_alternates and len(requests) == 1 else max(ranked - 1, 0)
        )
        new_decision = functools.partial(
            Decision, len(requests), claiming, repeatable, noted, marks=marks
        )
        is_measured = MEASURES.is_on and self._times.is_due()
        if not is_measured and len(self.cluster.hosts) >= self.kinds.fewest:
            with contextlib.suppress(NotKept):
                return self._attempt(new_decision(kept=True), requests, spare, settings)
        return self._attempt(new_decision(is_measured=is_measured), requests, spare, settings)

    def _attempt(self, decision, requests, spare, settings):
        """Add a host for each request to the decision; returns it. If that fails, the host state
        is unchanged."""
        before = None
        try:
            if any(
                request.member_placement or self.cluster.claims_of(request.instance_uuid)
                for request in requests
            ):
                # Where a claim is written elsewhere, that which takes it judges moves.
                if decision.claiming and decision.repeatable:
                    self._check_moves(requests, decision.marks['request_id'])
                    requests = [*map(self._without_unheard, requests)]
                self._remove_unconfirmed(decision, requests)
            for index, request in enumerate(requests):
                if request.group is not None or request.groups:
                    request = self.grouped(request, decision.instances)
                if decision.kept and self._is_kept(decision, request, index):
                    row, beside = self._choose_kept(decision, request, spare, settings)
                else:
                    row, beside, before = self._choose(
                        decision, request, index, before, spare, settings
                    )
                if spare:
                    decision.ranked.append(beside)
                self._claim(decision, request, row, settings)
        except BaseException:  # a pause is one
            self.undo(decision)
            raise
        return decision

    @contextlib.contextmanager
    def asking(self, requests):
        """Remove the instances' unconfirmed claims for the duration of the context."""
        replaced = Decision()
        self._remove_unconfirmed(replaced, requests)
        try:
            yield
        finally:
            self.undo(replaced)

    def grouped(self, request, earlier=()):
        """The request with the current state of its server group, and for devices of Nova alone
        where they are known. The ``earlier`` instances (UUIDs) of the same call count as
        members."""
        if request.groups and self.cluster.hosts.is_owned:
            request = request.from_nova()
        if request.group is None:
            return request
        return dataclasses.replace(request, group=group_now(self.cluster, request, earlier))

    def _remove_unconfirmed(self, decision, requests):
        """Remove unconfirmed claims of earlier attempts: they must not take capacity from this
        one."""
        for request in requests:
            if request.is_rebuild:
                continue
            before = [request.instance_uuid]
            if request.member_placement is not None:
                before.append(request.member_placement.consumer)
            for claim in itertools.chain(*map(self.cluster.claims_of, before)):
                if not claim.is_confirmed:
                    self.cluster.drop(claim)
                    decision.replaced.append(claim)

    def _check_moves(self, requests, request_id):
        """Raise AlreadyRunning for an instance with a confirmed claim, unless it moves, and
        Superseded for one that another request moves.

        A build request for an instance that runs is late: an earlier request has built it. So is
        a request by which the instance has moved. And which of two moves is the later one cannot
        be told: the instance may be on its way.
        """
        for request in requests:
            if request.is_rebuild:
                continue
            claims = [*self.cluster.claims_of(request.instance_uuid)]
            confirmed = [claim for claim in claims if claim.is_confirmed]
            for claim in claims:
                is_own = claim.request_id == request_id is not None
                has_arrived = claim.move and claim.is_confirmed and is_own
                if has_arrived or (claim.is_on_its_way and not is_own):
                    raise errors.Superseded(request.instance_uuid)
                resizing = claim.resizing
                is_copy = resizing and resizing.request_id == request_id is not None
                if resizing and not (claim.is_given_up or is_copy):
                    raise errors.Superseded(request.instance_uuid)
            nodes = [self.cluster.node(claim.node_uuid) for claim in confirmed]
            if confirmed and not any(map(functools.partial(_is_move, request), confirmed, nodes)):
                raise errors.AlreadyRunning(request.instance_uuid, nodes[0].host)

    def _without_unheard(self, request):
        """The request without the hosts that have still to tell whether they have its instance:
        what they tell is of the stay that may be over. If it leaves one of several hosts where the
        instance may run, that is all of them: a move may have been taken back."""
        if request.is_rebuild:
            return request
        claims = [*self.cluster.claims_of(request.instance_uuid)]
        confirmed = [claim for claim in claims if claim.is_confirmed]
        nodes = [self.cluster.node(claim.node_uuid) for claim in confirmed]
        leaves = len(nodes) > 1 and not all(allows(request, node) for node in nodes)
        hosts = frozenset(
            node.host
            for claim, node in zip(confirmed, nodes, strict=True)
            if leaves or claim.is_unheard(claims)
        )
        return dataclasses.replace(request, unheard_hosts=hosts) if hosts else request

    def _is_kept(self, decision, request, index):
        """Whether the decision is made by a kind of request.

        Raises NotKept for a later instance of another kind than the first, and where no host is
        left.
        """
        if decision.replaced or (index and decision.kind is None):
            return False
        kind = self.kinds.find(request)
        if index and (kind is None or kind is not decision.kind.kind):
            raise NotKept
        if kind is not None:
            steps = kind.steps_after(decision.kind) if index else kind.steps
            if not kind.left or (steps and steps[-1].left != kind.left):
                raise NotKept
            decision.steps = steps or decision.steps
            decision.first = decision.first or kind.steps
            decision.kind = kind.state
        return kind is not None

    def _choose_kept(self, decision, request, spare, settings):
        """The row, and the rows to rank after it, from the kept weights of the decision's
        kind."""
        kind, hosts = decision.kind.kind, self.cluster.hosts
        of_slice = own_slice(hosts, settings)
        most = (
            settings.subset_size if of_slice is not None else max(settings.subset_size, 1 + spare)
        )
        rows, weights = kind.weights.top(most, of_slice, settings.shuffle)
        pick = self._pick(rows, weights, request, settings, kind.left)
        row = int(rows[pick])
        if spare and (of_slice is not None or len(hosts.cells) > 1):
            in_cell = hosts.cell == hosts.cell[row] if len(hosts.cells) > 1 else None
            rows, weights = kind.weights.top(1 + spare, in_cell)
        beside = self._ranked(rows, weights, row, spare) if spare else []
        if decision.noted and len(decision.rows) < MAX_NOTED:
            decision.winners.append(kind.weights.winners([row, *beside]))
        return row, beside

    def _choose(self, decision, request, index, before, spare, settings):
        """The row, the rows to rank after it, and the candidate set, from a full pass."""
        hosts = self.cluster.hosts
        rules = self._measured if decision.is_measured else self.rules
        candidates = survivors(rules, hosts, request, index, before)
        decision.steps = candidates.steps or decision.steps
        decision.first = decision.first or candidates.steps
        if request.member_placement is not None and not _is_free(
            request.member_placement, candidates
        ):
            raise ReplanRequired(request)
        may_repeat = decision.repeatable and decision.replaced
        earlier_claim = self._repeatable(decision, request) if may_repeat else None
        if earlier_claim is None and not candidates.left:
            raise reasons.refusal(candidates, self.rules, hosts, request, index, decision.asked)
        rows = candidates.rows()
        if earlier_claim is not None:
            rows = np.union1d(rows, [self.cluster.node(earlier_claim.node_uuid).row])
        if request.group is not None and decision.asked > 1:
            rows = self._with_room_for_all(rows, request, decision)
        notes: list | None = [] if decision.noted and index < MAX_NOTED else None
        weights = weigh(rules.weighers, hosts, rows, request, notes)
        pick = self._pending_position(decision, request, rows) if decision.replaced else None
        if request.member_placement is not None and request.member_placement.row is not None:
            pick = int(np.searchsorted(rows, request.member_placement.row))
        if pick is None:
            pick = self._pick(rows, weights, request, settings, len(rows))
        row = int(rows[pick])
        beside = self._ranked(rows, weights, row, spare) if spare else []
        if notes is not None:
            places = [pick, *np.searchsorted(rows, beside).tolist()]
            decision.winners.append(WinnerWeights.of_notes(notes, places))
        return row, beside, candidates

    def _claim(self, decision, request, row, settings):
        """Claim on the chosen row, unless the request only checks; add both to the decision."""
        if not request.is_rebuild:
            marks = (
                decision.marks
                if request.member_placement is None
                else decision.marks | request.member_placement.marks(row)
            )
            hosts = self.cluster.hosts
            node = hosts.nodes[row]
            may_repeat = decision.repeatable and decision.replaced
            earlier_claim = self._made_before(decision, request) if may_repeat else None
            if earlier_claim is not None and earlier_claim.node_uuid == node.uuid:
                self.cluster.add(earlier_claim)
                consumption = Consumption(earlier_claim, earlier_claim, None)
            else:
                wanted = self._with_device(request, row) if hosts.child_classes else request
                consumption = self.consume(node, wanted, settings.pending_ttl_s, marks)
                if may_repeat:
                    consumption = self._shared(decision, consumption)
            decision.consumptions.append(consumption)
        decision.rows.append(row)
        decision.requests.append(request)

    # An instance may have a pending claim already. The claim of the same request is repeated, with
    # its UUID, as long as the request allows its node; whether its host is full or disabled by
    # now does not matter, because the instance may run there. The claim of another request on the
    # node that is chosen is shared, if it is what this one asks for. Any other claim is replaced.

    def _made_before(self, decision, request):
        """The pending claim that the same request has made before, or None."""
        if request.member_placement is not None:
            return None
        for claim in decision.replaced:
            node = self.cluster.node(claim.node_uuid)
            if node is not None and is_made_by(request, decision.marks, claim, node):
                return claim
        return None

    def _repeatable(self, decision, request):
        """The claim of ``_made_before``, if the request still allows its node, or None."""
        earlier_claim = self._made_before(decision, request) if decision.claiming else None
        if earlier_claim is None:
            return None
        node = self.cluster.node(earlier_claim.node_uuid)
        allowed = CandidateSet(len(self.cluster.hosts))
        narrow(allowed, self.cluster.hosts, request)
        if (node.host, node.nodename) in request.retry_hosts or node.row not in allowed.rows():
            return None
        return earlier_claim

    def _shared(self, decision, consumption):
        """The consumption of another request's claim, if it is what this one asks for: the other
        caller may still name it. Else the new consumption."""
        for claim in decision.replaced:
            if claim.key == consumption.claim.key and claim.is_for(consumption.claim):
                self.cluster.release(consumption)
                kept = claim.asked_by(consumption.claim.request_id)
                self.cluster.add(kept)
                return Consumption(kept, kept, None)
        return consumption

    def _with_device(self, request, row):
        """The request with the child provider that a weigher prefers for it on the row."""
        hosts = self.cluster.hosts
        for weigher in self.rules.weighers:
            if (device := weigher.device(hosts, row, request)) is not None:
                return dataclasses.replace(request, preferred_provider=device)
        return request

    def _pick(self, rows, weights, request, settings, left):
        """The position of the host to take: one in this scheduler's own slice, if there are
        any. ``rows`` are the best of ``left``."""
        own = None
        if settings.schedulers > 1:
            own = places_in_slice(
                self.rules.weighers, self.cluster.hosts, rows, weights, request, settings, left
            )
        among = weights if own is None else weights[own]
        order = best(among, settings.subset_size, self._random if settings.shuffle else None)
        pick = order[self._random.randrange(len(order))] if len(order) > 1 else order[0]
        return pick if own is None else int(own[pick])

    def _pending_position(self, decision, request, rows):
        """The position of the instance's pending claim among the rows; None if it has none there.

        A caller has received this claim, or will receive it. Several requests for one instance
        therefore get the same answer, as long as it satisfies them.
        """
        for claim in decision.replaced if decision.claiming else ():
            node = self.cluster.node(claim.node_uuid)
            if (
                claim.consumer_uuid != request.instance_uuid
                or claim.state != PENDING
                or node is None
            ):
                continue
            place = int(np.searchsorted(rows, node.row))
            if place < len(rows) and rows[place] == node.row:
                return place
        return None

    def consume(self, node, request, lifetime_s, marks):
        """Claim on a node. NUMA cells and devices that do not fit are left to the compute node.

        Nova does the same where no filter checks them, or where a forced host skips the filters.
        """
        wanted = request
        if request.pieces:
            for pieces in (request.pieces, dataclasses.replace(request.pieces, guest=None)):
                with contextlib.suppress(errors.ComputeResourcesUnavailable):
                    judged = dataclasses.replace(request, pieces=pieces)
                    return self.cluster.consume(node, judged, lifetime_s, **marks)
            wanted = dataclasses.replace(request, pieces=NO_HARDWARE)
        return self.cluster.consume(node, wanted, lifetime_s, **marks)

    def _ranked(self, rows, weights, row, count):
        """The best of the rows after the chosen one, in the same cell."""
        hosts = self.cluster.hosts
        rest = weights.copy()
        if len(hosts.cells) > 1:
            rest[hosts.cell[rows] != hosts.cell[row]] = -np.inf
        rest[rows == row] = -np.inf
        positions = best(rest, count)
        left = rest[positions] > -np.inf
        return rows[positions][left].tolist()

    def _with_room_for_all(self, rows, request, decision):
        """The rows that can take all new members of an affinity group, as far as free amounts
        show.

        The first member determines the host of the rest. If no row can take all of them, returns
        all rows; the request is refused later.
        """
        group = request.group
        if group.policy != AFFINITY or group.hosts:
            return rows
        roomy, columns = rows, self.cluster.hosts.resources
        for name, amount in request.resources.items():
            if name in columns:
                roomy = roomy[columns[name].free[roomy] >= amount * decision.asked]
        return roomy if len(roomy) else rows

    def undo(self, decision):
        """Remove the claims of the decision from the host state, and restore the claims that it
        removed."""
        self.cluster.release(*decision.consumptions)
        self.cluster.add(*decision.replaced)
