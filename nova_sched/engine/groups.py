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
"""Top groups, as doors call them: planned outside of the loop, on what it saw, and claimed in it."""

import dataclasses
import logging
import time
from collections.abc import Mapping
from typing import Any

from oslo_utils import uuidutils

from nova_sched import errors
from nova_sched.claims import Record
from nova_sched.engine.spots import Known, consumer_of, spots
from nova_sched.groups import joint
from nova_sched.groups.arrays import policies
from nova_sched.groups.reasons import imagined
from nova_sched.groups.topology import warnings
from nova_sched.objects.claim import PENDING, PLANNED
from nova_sched.state.aggregates import zones

LOG = logging.getLogger(__name__)

UNPLACED = 'unplaced'
COMPLETE, BUILDING, BUILT, INCOMPLETE, DELETING = 'planned', 'building', 'built', 'incomplete', 'deleting'


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
class Move:
    """An instance that has to move, for its group to be what it shall be: ``source`` and ``target`` are
    hosts."""

    path: str
    source: str
    target: str
    instance_uuid: str
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """A top group as its owner sees it; times in seconds since the epoch. In a list it comes without
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
    moves: tuple[Move, ...] = ()
    warnings: tuple[str, ...] = ()
    created_s: float = 0.0
    updated_s: float = 0.0
    expires_s: float | None = None
    dry_run: bool = False


class _Changed(Exception):
    """Somebody else has changed the group meanwhile."""


class Groups:
    """Creates, changes and shows top groups; may be called from any thread.

    ``call`` runs a function in the loop and waits for it. ``solver`` is a groups.exact.worker.Solver; None:
    plans are made without one.
    """

    def __init__(self, cluster, store, plans, library, topology, call, settings, clock, solver=None):
        self._cluster, self._store, self._plans, self._library = cluster, store, plans, library
        self._topology, self._call, self._settings, self._clock = topology, call, settings, clock
        self._solver = solver

    def close(self):
        """End what runs beside."""
        if self._solver is not None:
            self._solver.close()

    @property
    def levels(self):
        """Names of the levels that policies may be on."""
        return self._topology.levels

    def topology(self):
        """``warnings`` for the operator, and for each level the number of its ``domains``."""
        levels = self._call(self._plans.levels)
        return {
            'warnings': warnings(levels),
            'domains': {name: len(level.names) for name, level in levels.items()},
        }

    # First phase.

    def create(self, definition, source, name=None, ttl_s=None, dry_run=False, context=None):
        """Plan all members together and claim the plan. Returns the View; raises GroupRefused."""
        now_s = self._clock()
        record = Record(
            uuid=uuidutils.generate_uuid(),
            project_id=getattr(context, 'project_id', None),
            user_id=getattr(context, 'user_id', None),
            name=name,
            created_s=now_s,
            updated_s=now_s,
            expires_s=self._expiry(now_s, ttl_s),
        )
        known = Known.of(record, definition, source)
        try:
            return self._plan(known, dry_run)
        except _Changed:
            # An answer that was lost: all is claimed already, under this very UUID.
            return self.show(known.uuid)

    def update(
        self,
        uuid,
        definition,
        source,
        generation=None,
        dry_run=False,
        project_id=None,
        ttl_s=None,
        context=None,
    ):
        """Make the group what the definition says: who is built stays, unless that cannot be.

        Raises GroupChanged if it is not at this generation, and GroupRefused; then it stays as it was.
        """
        for _ in range(self._settings().plan_attempts):
            old = self._find(uuid, project_id, generation)
            now_s = self._clock()
            record = dataclasses.replace(
                old.record,
                generation=old.record.generation + 1,
                updated_s=now_s,
                expires_s=self._expiry(now_s, ttl_s),
            )
            known = Known.of(record, definition, source)
            try:
                return self._revise(known, _changed(old, known), dry_run)
            except _Changed:
                if self._is_done(record):
                    return self.show(uuid)
                LOG.info('Group %s has changed meanwhile; its update is planned again', uuid)
        raise errors.GroupRefused(*self._too_quick())

    def _is_done(self, record):
        """Whether what is stored was made so by ourselves, by a commit whose answer was lost."""
        stored = self._call(self._store.top_group, record.uuid, False)
        return stored is not None and all(
            getattr(stored, name) == getattr(record, name) for name in ('generation', 'updated_s', 'deleted')
        )

    def _revise(self, known, changed, dry_run):
        try:
            return self._plan(known, dry_run, changed=changed)
        except errors.GroupRefused as refusal:
            if not any(spot.stays for spot in spots(known, self._claims(known.uuid))):
                raise
            LOG.info('%s; looking whether it can with members moved', refusal)
        return self._plan(known, dry_run, may_move=True, changed=changed)

    def delete(self, uuid, generation=None, dry_run=False, project_id=None):
        """Forget the plan: planned claims end now, those of servers when these go. Returns the View."""
        for _ in range(self._settings().plan_attempts):
            known = self._find(uuid, project_id, generation)
            record = dataclasses.replace(known.record, deleted=True, updated_s=self._clock())
            if dry_run or self._call(self._plans.release, known, record).won or self._is_done(record):
                LOG.info('Deleted group %s%s', uuid, ', for trial' if dry_run else '')
                left = [claim for claim in self._claims(uuid) if claim.state != PLANNED]
                return self._view(dataclasses.replace(known, record=record), left, dry_run)
        raise errors.GroupRefused(*self._too_quick())

    def renew(self, uuid, ttl_s=None, project_id=None, dry_run=False):
        """Let what is planned expire later: so many seconds from now. Returns the View."""
        known, expires_s = self._find(uuid, project_id), self._expiry(self._clock(), ttl_s)
        if dry_run:
            return dataclasses.replace(self.show(uuid, project_id), expires_s=expires_s, dry_run=True)
        self._call(self._plans.renew, known, expires_s)
        return self.show(uuid, project_id)

    def _expiry(self, now_s, ttl_s):
        lifetime_s = self._settings().plan_ttl_s if ttl_s is None else ttl_s
        return now_s + lifetime_s if lifetime_s else None

    # Looks.

    def show(self, uuid, project_id=None):
        """The View. Raises GroupNotFound."""
        known = self._call(self._library.find, uuid, project_id)
        claims = self._claims(uuid)
        if known.record.deleted and not claims:
            raise errors.GroupNotFound(uuid)
        return self._view(known, claims)

    def list(self, project_id=None, name=None, marker=None, limit=None):
        """Views without members, oldest first. Raises GroupNotFound for a marker that is none."""
        records = self._call(self._store.top_groups, project_id, name, marker, limit)
        return self._call(self._summaries, records)

    def _summaries(self, records):
        return [_view(record, _status(record, None, self._cluster.claims_of_group(record.uuid)))
                for record in records]  # fmt: skip

    def plan(self, uuid, project_id=None, replan=False, dry_run=False):
        """The View; with ``replan``, members that are nowhere, or whose hosts are no good any more, are
        planned."""
        if not replan:
            return self.show(uuid, project_id)
        for _ in range(self._settings().plan_attempts):
            known = self._alive(self._find(uuid, project_id))
            try:
                return self._plan(known, dry_run)
            except _Changed:
                LOG.info('Group %s has changed meanwhile; it is planned again', uuid)
        raise errors.GroupRefused(*self._too_quick())

    def contradiction(self, definition):
        """Why no cluster could ever place the group, in words; None if one could.

        Raises InvalidRequest for a member that makes no sense as a request.
        """
        Known.of(Record(uuid=uuidutils.generate_uuid()), definition, {})
        return imagined.contradiction(definition, self._topology, solver=self._solver)

    def mend_fences(self):
        """Close nodes that have come to exclusive domains to others than their groups."""
        if not self._cluster.hosts.is_fenced:
            return
        for uuid in self._call(self._plans.fenced):
            try:
                self._call(self._plans.mend_fences, self._call(self._library.find, uuid))
            except (errors.GroupNotFound, errors.IncompatibleObject) as error:
                LOG.debug('Fences of group %s are left as they are: %s', uuid, error)

    # Second phase.

    def settle(self, request):
        """Plan the members that are not built once more, so that one of them, whose request this is, can
        be."""
        seat = request.seat
        for _ in range(self._settings().plan_attempts):
            try:
                known = self._alive(self._find(seat.top_group))
            except (errors.GroupNotFound, errors.IncompatibleObject) as error:
                raise errors.MemberRefused(seat.member, str(error)) from None
            try:
                self._plan(known, asked=request)
            except _Changed:
                continue
            except errors.GroupRefused as refusal:
                why_not = (
                    f'Member {seat.member} cannot be where it was planned, and nowhere else: {refusal.reason}'
                )
                raise errors.NoValidHost(why_not) from None
            LOG.info('Planned group %s anew for member %s', seat.top_group, seat.member)
            return
        raise errors.TooManyConflicts(self._settings().plan_attempts)

    # Behind the scenes.

    def _find(self, uuid, project_id=None, generation=None):
        known = self._call(self._library.find, uuid, project_id)
        if known.record.deleted:
            raise errors.GroupNotFound(uuid)
        if generation is not None and generation != known.record.generation:
            raise errors.GroupChanged(uuid, generation, known.record.generation)
        return known

    def _alive(self, known):
        """The same; if its plan has expired, what is planned now lasts as long as a new one."""
        now_s, expires_s = self._clock(), known.record.expires_s
        if expires_s is None or expires_s > now_s:
            return known
        record = dataclasses.replace(known.record, expires_s=self._expiry(now_s, None))
        return dataclasses.replace(known, record=record)

    def _claims(self, uuid):
        return self._call(self._plans.claims, uuid)

    def _plan(self, known, dry_run=False, may_move=False, asked=None, changed=frozenset()):
        """Plan and claim, on what others leave, again and again. Raises GroupRefused, or _Changed."""
        settings, caps = self._settings(), dict[tuple[str, str], int]()
        expires_s, begin_s = known.record.expires_s, time.perf_counter()
        for _ in range(settings.plan_attempts):
            draft = self._call(self._plans.draft, known, caps, may_move, asked, changed)
            stays = {spot.member for spot in draft.spots if spot.stays}
            if closed := {path: why for path, why in draft.survey.closed.items() if path not in stays}:
                raise _closed(closed)
            found = joint.plan(draft.survey.problem, settings.plan_limits, self._solver)
            if found.hosts is None:
                refusal = _refusal(found, draft.survey)
                LOG.info('Refused group %s of %d members: %s', known.uuid, len(draft.spots), refusal.reason)
                raise refusal
            if dry_run:
                return self._foreseen(draft, found.hosts)
            record = dataclasses.replace(known.record, definition=known.text())
            lifetime_s = None if expires_s is None else max(expires_s - self._clock(), 1.0)
            taken = self._call(self._plans.take, draft, found.hosts, record, lifetime_s)
            if taken.won:
                LOG.info(
                    'Planned group %s: %d members on %d hosts, %.1f ms',
                    known.uuid,
                    len(draft.spots),
                    len(set(found.hosts.tolist())),
                    (time.perf_counter() - begin_s) * 1000,
                )
                self._call(self._library.keep, known)
                if any(spot.planned and _differs(spot.planned.expires_s, expires_s) for spot in draft.spots):
                    self._call(self._plans.renew, known, expires_s)
                moves = _moves(draft, found.hosts, self._cluster)
                view = self.show(known.uuid)
                return dataclasses.replace(
                    view, moves=moves, warnings=(*view.warnings, *_resized(draft, changed))
                )
            if taken.record is not None or taken.gone:
                raise _Changed
            for key, most in taken.short.items():
                caps[key] = min(most, caps.get(key, most))
        raise errors.GroupRefused(*self._too_quick())

    def _too_quick(self):
        attempts = self._settings().plan_attempts
        return f'What it was planned on was taken by others, {attempts} times in a row.', None

    def _foreseen(self, draft, hosts):
        """What a plan would make of the group: a View that is nowhere but in this answer."""
        return self._call(self._foresee, draft, hosts)

    def _foresee(self, draft, hosts):
        levels, members = self._plans.levels(), []
        for spot, host in zip(draft.spots, hosts.tolist(), strict=True):
            node = self._cluster.node(draft.survey.nodes[host])
            state = spot.held[0].state if spot.stays else PLANNED
            members.append(self._member(draft.known, spot, state, node, levels))
        known = draft.known
        view = _view(known.record, COMPLETE, known, tuple(members))
        moves = _moves(draft, hosts, self._cluster)
        resized = _resized(draft, draft.changed)
        return dataclasses.replace(view, moves=moves, dry_run=True, warnings=(*view.warnings, *resized))

    def _view(self, known, claims, dry_run=False):
        return self._call(self._seen, known, claims, dry_run)

    def _seen(self, known, claims, dry_run):
        levels = self._plans.levels()
        members = []
        for spot in spots(known, claims):
            # While an instance is somewhere, that is where it is, be it bound for another place.
            claim = next(iter(spot.held), spot.planned)
            node = claim and self._cluster.node(claim.node_uuid)
            members.append(self._member(known, spot, claim.state if node else UNPLACED, node, levels))
        view = _view(known.record, _status(known.record, known, claims), known, tuple(members))
        moving = tuple(
            _bound(spot, self._cluster) for spot in spots(known, claims) if spot.held and spot.planned
        )
        return dataclasses.replace(view, dry_run=dry_run, moves=moving)

    def _member(self, known, spot, state, node, levels):
        member = MemberView(
            path=spot.member,
            state=state,
            member_uuid=consumer_of(known.uuid, spot.member),
            instance_uuid=spot.held[0].consumer_uuid if spot.held else None,
        )
        if node is None:
            return member
        hosts = self._cluster.hosts
        found = zones(hosts.aggregates.of(node.host)) or {self._settings().default_zone}
        return dataclasses.replace(
            member,
            host=node.host,
            nodename=node.nodename,
            node_uuid=node.uuid,
            zone=','.join(sorted(found)),
            domains={name: level.names[level.ids[node.row]] for name, level in levels.items()},
        )


def _view(record, status, known=None, members=()):
    return View(
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


def _status(record, known, claims):
    """In a list (``known`` None) nobody counts the members: who has claims is taken for all."""
    if record.deleted:
        return DELETING
    there = {claim.member for claim in claims}
    if not there or (known is not None and not there >= known.definition.members.keys()):
        return INCOMPLETE
    states = {claim.state for claim in claims}
    if states <= {PLANNED}:
        return COMPLETE
    return BUILDING if states & {PLANNED, PENDING} else BUILT


def _refusal(found, survey):
    """Why there is no plan; what was not proven, or only of a part of what hosts can take, is no proof."""
    details = found.reason.to_plain() if found.reason else {}
    words = found.reason.words if found.reason else 'No placement was found.'
    return errors.GroupRefused(words, {**details, 'proven': bool(found.proven and survey.exact)})


def _closed(closed):
    """No host takes these members (by path, with the reason), whatever becomes of the others."""
    words = ' '.join(f'Member {path}: {why}' for path, why in closed.items())
    return errors.GroupRefused(words, {'words': words, 'proven': True, 'closed': dict(closed)})


def _changed(old, new):
    """Members that are described in another way than before."""
    return frozenset(path for path, kind in new.kinds.items() if old.kinds.get(path, kind) != kind)


def _resized(draft, changed):
    return [f'Member {spot.member} is built already, as it was described before: resize it'
            for spot in draft.spots if spot.held and spot.member in changed]  # fmt: skip


def _bound(spot, cluster):
    """The move that is under way, or still to be made."""
    source, target = (cluster.node(claim.node_uuid) for claim in (spot.held[0], spot.planned))
    why_so = 'its group was planned anew'
    return Move(spot.member, _host(source), _host(target), spot.held[0].consumer_uuid, why_so)


def _differs(expires_s, other_s):
    """Whether plans expire at different times, the moments of one answer aside."""
    if expires_s is None or other_s is None:
        return expires_s is not other_s
    return abs(expires_s - other_s) > 1


def _host(node):
    return node.host if node else ''


def _moves(draft, hosts, cluster):
    """The moves of instances that a plan needs."""
    problem, found = draft.survey.problem, []
    present = hosts.copy()
    for place, spot in enumerate(draft.spots):
        if spot.held:
            node = cluster.node(spot.held[0].node_uuid)
            present[place] = node.row if node else -1
    broken = _broken(problem, present)
    for spot, host in zip(draft.spots, hosts.tolist(), strict=True):
        if spot.held and spot.held[0].node_uuid != draft.survey.nodes[host]:
            source, target = (
                cluster.node(uuid) for uuid in (spot.held[0].node_uuid, draft.survey.nodes[host])
            )
            own = [words for policy, words in broken if spot.member in (*policy.a, *policy.b)]
            why_so = '; '.join(own) or 'it makes room for others of its group'
            found.append(Move(spot.member, _host(source), _host(target), spot.held[0].consumer_uuid, why_so))
    return tuple(found)


def _broken(problem, hosts):
    """Policies that are broken where the members are, in words."""
    return [(problem.rules[one].policy, words) for one, words in policies.broken(problem, hosts)
            if not isinstance(one, str)]  # fmt: skip
