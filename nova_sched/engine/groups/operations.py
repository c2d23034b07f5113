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
"""The operations on groups. Plans are computed outside of the loop, and claimed in it."""

import contextlib
import dataclasses
import functools
import logging
import threading
import time

from oslo_utils import uuidutils

from nova_sched import errors
from nova_sched.claim import PLANNED
from nova_sched.claims import GroupRecord, plan_quota
from nova_sched.engine.groups import reading
from nova_sched.engine.groups.group_events import (
    BUILD,
    CONFLICT,
    CREATE,
    DELETE,
    REPLAN,
    UPDATE,
    GroupEvents,
    measured,
)
from nova_sched.engine.groups.member_state import LoadedGroup, kinds_of, read
from nova_sched.engine.groups.views import GroupViews, status_of, view_of
from nova_sched.groups import joint, why
from nova_sched.groups.limits import PlanLimits
from nova_sched.groups.topology import warnings
from nova_sched.tracing import TRACER

LOG = logging.getLogger(__name__)

TURN_S = 2.0  # a group that has lost waits at most this long for another one that has


def limits_of(limits, project_id):
    """Return the limits of a project on what plans use, by resource, without those that are none.

    ``limits(project_id)`` may ask another service: not for the loop.
    """
    if project_id is None:
        return {}
    # Of Keystone's limits, only the registered ones: the others would be 0.
    known = dict(limits(project_id))
    return {
        name: most for name, most in known.items() if most >= 0 and plan_quota.is_counted(name)
    }


class _Changed(Exception):
    """Another call has changed the group in the meantime."""


class GroupOperations:
    """Creates, changes and shows groups; may be called from any thread.

    ``call`` runs a function in the loop and waits for it.
    """

    def __init__(self, context, plans, library, call):
        self._cluster, self._store = context.cluster, context.store
        self._topology = context.topology
        self._settings, self._clock = context.settings, context.clock
        self._plans, self._library, self._call = plans, library, call
        self._solver, self._limits = context.solver, context.limits
        self._readers = context.readers
        self._turns = threading.Lock()
        self._group_views, self._events = GroupViews(context, plans), GroupEvents(context)

    def start(self):
        """Start the solver's process, without waiting until it has loaded."""
        if self._solver is not None:
            self._solver.start()

    @property
    def has_solver(self):
        return self._solver is not None

    def use(self, solver):
        """Plan with this solver from the next group on (None: without one), and stop the previous
        one."""
        if self._solver is not None:
            self._solver.close()
        self._solver = solver
        self.start()

    def close(self):
        """Stop the solver and the readers."""
        for process in (self._solver, self._readers):
            if process is not None:
                process.close()

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

    # Templates.

    def read(self, project_id, given, rules):
        """Return what a project has given, as ``reading.read`` returns it. Raises as that, and as
        TemplateReaders."""
        return self._run_reader(project_id, reading.read, given, rules, seconds=rules.seconds)

    def account(self, project_id, given, rules):
        """Return the account of a template, as Definition.summary returns it, with
        ``contradiction``: why no cluster with the same nesting of levels could place the group, as
        text; None if one could. Raises as ``read``."""
        nests = self._topology.nests(self._call(self._plans.levels))
        summary, (problem, is_certain) = self._run_reader(
            project_id, reading.account, given, rules, nests, seconds=rules.seconds
        )
        contradiction = None
        if problem is not None:
            count = functools.partial(self._run_reader, project_id, why.counted_clash)
            seconds = PlanLimits().explain_s
            contradiction = why.explained(problem, is_certain, seconds, self._solver, count)
        return {**summary, 'contradiction': contradiction}

    def _run_reader(self, project_id, function, *arguments, seconds):
        if self._readers is None:
            return function(*arguments, seconds=seconds)
        task = f'{function.__module__}:{function.__name__}'
        return self._readers.run(project_id, task, *arguments, seconds=seconds)

    # First phase.

    def create(
        self,
        definition,
        source,
        name=None,
        ttl_s=None,
        dry_run=False,
        context=None,
        requests=None,
    ):
        """Plan all members together and claim the plan. Return the GroupView.

        ``requests``: the MemberRequests of the definition, made here by default. Raises
        GroupRefused, QuotaExceeded and LimitsUnknown.
        """
        now_s = self._clock()
        record = GroupRecord(
            uuid=uuidutils.generate_uuid(),
            project_id=getattr(context, 'project_id', None),
            user_id=getattr(context, 'user_id', None),
            name=name,
            created_s=now_s,
            updated_s=now_s,
            expires_s=self._expiry(now_s, ttl_s),
            members=len(definition.members),
        )
        definition = self._with_known_names(definition, definition.members)
        known = LoadedGroup.of(record, definition, source, requests)
        try:
            return self._plan(known, CREATE, dry_run)
        except _Changed:
            # The answer of a commit was lost: the plan is claimed already, under this UUID.
            return self._events.planned(CREATE, self.show(known.uuid))

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
        requests=None,
        renew=True,
    ):
        """Change the group to the definition. Built members keep their hosts, unless that is
        impossible. Without ``renew``, a plan that has not expired keeps its expiry.

        Return the GroupView. Raises GroupChanged if the group is not at this generation,
        GroupRefused, QuotaExceeded and LimitsUnknown. The group is unchanged then.
        """
        for _ in range(self._settings().plan_attempts):
            old = self._find(uuid, project_id, generation)
            now_s = self._clock()
            kept = None if renew else self._alive(old).record
            record = dataclasses.replace(
                old.record,
                generation=old.record.generation + 1,
                updated_s=now_s,
                expires_s=kept.expires_s if kept else self._expiry(now_s, ttl_s, uuid),
                members=len(definition.members),
            )
            known = LoadedGroup.of(record, definition, source, requests)
            kinds, old_kinds = known.requests().kinds, kinds_of(old.definition)
            new = [path for path, kind in kinds.items() if old_kinds.get(path) != kind]
            changed = frozenset(path for path in new if path in old_kinds)
            named = self._with_known_names(definition, new)
            known = dataclasses.replace(known, definition=named)
            try:
                return self._plan(known, UPDATE, dry_run, may_move=True, changed=changed)
            except _Changed:
                if self._is_done(record):
                    self._call(self._renew_kept, known)
                    return self._events.planned(UPDATE, self.show(uuid))
                LOG.info('Group %s has changed meanwhile; its update is planned again', uuid)
        with self._events.refusals(UPDATE, old.record, dry_run):
            raise self._too_quick()

    def _with_known_names(self, definition, paths):
        """Return the definition with warnings of unknown names in these members. Raises
        TemplateError."""
        default_zone = self._settings().default_zone
        return self._call(reading.checked, definition, paths, self._cluster.hosts, default_zone)

    def _is_done(self, record):
        """Return whether this call has stored the record already, in a commit whose answer was
        lost."""
        stored = self._call(self._store.top_group, record.uuid, False)
        return stored is not None and all(
            getattr(stored, name) == getattr(record, name)
            for name in ('generation', 'updated_s', 'deleted')
        )

    def delete(self, uuid, generation=None, dry_run=False, project_id=None):
        """Delete the plan. Planned claims end now, claims of servers with their servers. Return
        the GroupView."""
        for _ in range(self._settings().plan_attempts):
            known = self._find(uuid, project_id, generation)
            record = dataclasses.replace(known.record, deleted=True, updated_s=self._clock())
            if (
                dry_run
                or self._call(self._plans.release, known, record).won
                or self._is_done(record)
            ):
                LOG.info('Deleted group %s%s', uuid, ', for trial' if dry_run else '')
                left = [claim for claim in self._claims(uuid) if claim.state != PLANNED]
                view = self._call(
                    self._group_views.see, dataclasses.replace(known, record=record), left, dry_run
                )
                if not dry_run:
                    self._events.deleted(view)
                return view
        with self._events.refusals(DELETE, known.record, dry_run):
            raise self._too_quick()

    def renew(self, uuid, ttl_s=None, project_id=None, dry_run=False):
        """Set the expiry of the planned claims to ``ttl_s`` seconds from now.

        Return the GroupView. Raises InvalidRequest if they may not be held for so long.
        """
        known, expires_s = self._find(uuid, project_id), self._expiry(self._clock(), ttl_s, uuid)
        if dry_run:
            return dataclasses.replace(
                self.show(uuid, project_id), expires_s=expires_s, dry_run=True
            )
        self._call(self._plans.renew, known, expires_s)
        return self.show(uuid, project_id)

    def _expiry(self, now_s, ttl_s, uuid=None):
        """Return when planned claims end, in seconds since the epoch (None: never). The claims
        that the group of this UUID already has end in time in any case. Raises InvalidRequest."""
        settings = self._settings()
        if ttl_s is not None and ttl_s > settings.plan_ttl_max_s:
            why = f'{ttl_s} s is more than [groups] plan_ttl_max, {settings.plan_ttl_max_s} s'
            raise errors.InvalidRequest('ttl', why)
        lifetime_s = settings.plan_ttl_s if ttl_s is None else ttl_s
        planned = [] if uuid is None else [
            claim.created_s for claim in self._claims(uuid) if claim.state == PLANNED
        ]  # fmt: skip
        if planned:
            left_s = int(min(planned) + settings.plan_life_max_s - now_s)
            if left_s < 1 or (ttl_s is not None and ttl_s > left_s):
                why = (
                    f'its planned claims may be held for {max(left_s, 0)} s more, until they are '
                    f'{settings.plan_life_max_s} s old ([groups] plan_life_max)'
                )
                raise errors.InvalidRequest('ttl', why)
            lifetime_s = min(lifetime_s, left_s) if lifetime_s else left_s
        return now_s + lifetime_s if lifetime_s else None

    # Reads.

    def show(self, uuid, project_id=None):
        """Return the GroupView. Raises GroupNotFound."""
        known = self._load(uuid, project_id)
        claims = self._claims(uuid)
        if known.record.deleted and not claims:
            raise errors.GroupNotFound(uuid)
        return self._call(self._group_views.see, known, claims)

    def list(self, project_id=None, name=None, marker=None, limit=None):
        """Return views without members, oldest first. Raises GroupNotFound for an unknown
        marker."""
        records = self._call(self._store.top_groups, project_id, name, marker, limit)
        return self._call(self._summaries, records)

    def _summaries(self, records):
        claims_of = self._cluster.claims_of_group
        return [
            view_of(record, status_of(record, None, claims_of(record.uuid))) for record in records
        ]

    def plan(self, uuid, project_id=None, replan=False, dry_run=False):
        """Return the GroupView.

        With ``replan``, plans members without a host, and members whose hosts are not suitable any
        more. Raises GroupRefused, QuotaExceeded and LimitsUnknown.
        """
        if not replan:
            return self.show(uuid, project_id)
        for _ in range(self._settings().plan_attempts):
            known = self._alive(self._find(uuid, project_id))
            try:
                return self._plan(known, REPLAN, dry_run)
            except _Changed:
                LOG.info('Group %s has changed meanwhile; it is planned again', uuid)
        with self._events.refusals(REPLAN, known.record, dry_run):
            raise self._too_quick()

    def mend_domains(self):
        """End exclusive domains without claims, and add nodes to the domains that they joined.

        These nodes take no servers from outside the owning group from then on.
        """
        if not self._cluster.hosts.has_exclusive_domains:
            return
        self._call(self._plans.end_domains)
        for uuid in self._call(self._plans.groups_with_domains):
            try:
                self._call(self._plans.mend_domains, self._load(uuid))
            except (errors.GroupNotFound, errors.IncompatibleObject) as error:
                LOG.debug('Exclusive domains of group %s are not updated: %s', uuid, error)

    # Second phase.

    def replan_for(self, request):
        """Replan the group of this request, so that its member can be built."""
        placement = request.member_placement
        for _ in range(self._settings().plan_attempts):
            try:
                known = self._alive(self._find(placement.top_group))
            except (errors.GroupNotFound, errors.IncompatibleObject) as error:
                raise errors.MemberRefused(placement.member, str(error)) from None
            try:
                self._plan(known, BUILD, replacement=request)
            except _Changed:
                continue
            except errors.GroupRefused as refusal:
                why_not = (
                    f'Member {placement.member} cannot be where it was planned, and nowhere else'
                )
                raise errors.NoValidHost(
                    f'{why_not}: {refusal.reason}', for_tenants=f'{why_not}.'
                ) from None
            except (errors.QuotaExceeded, errors.LimitsUnknown) as error:
                raise errors.MemberRefused(placement.member, str(error)) from None
            LOG.info('Replanned group %s for member %s', placement.top_group, placement.member)
            return
        raise errors.TooManyConflicts(self._settings().plan_attempts)

    # Internals.

    def _load(self, uuid, project_id=None):
        """Return the LoadedGroup. A definition that is not cached is parsed outside of the
        loop."""
        group = self._call(self._library.peek, uuid, project_id)
        if isinstance(group, GroupRecord):
            group = read(group)
            self._call(self._library.keep, group)
        return group

    def _find(self, uuid, project_id=None, generation=None):
        known = self._load(uuid, project_id)
        if known.record.deleted:
            raise errors.GroupNotFound(uuid)
        if generation is not None and generation != known.record.generation:
            raise errors.GroupChanged(uuid, generation, known.record.generation)
        return known

    def _alive(self, known):
        """Return the group; if its plan has expired, with the expiry of a new plan."""
        now_s, expires_s = self._clock(), known.record.expires_s
        if expires_s is None or expires_s > now_s:
            return known
        record = dataclasses.replace(known.record, expires_s=self._expiry(now_s, None))
        return dataclasses.replace(known, record=record)

    def _claims(self, uuid):
        return self._call(self._plans.claims, uuid)

    def _plan(
        self, known, cause, dry_run=False, may_move=False, replacement=None, changed=frozenset()
    ):
        """Plan and claim, and tell of it; repeat on the new host state if other claims came first.
        Raises GroupRefused, QuotaExceeded, LimitsUnknown, or _Changed."""
        caps: dict[tuple[str, str], int] = {}
        with self._events.refusals(cause, known.record, dry_run):
            limits = limits_of(self._limits, known.record.project_id)
            for attempt in range(self._settings().plan_attempts):
                with self._turn() if attempt else contextlib.nullcontext():
                    view = self._try(known, dry_run, may_move, replacement, changed, caps, limits)
                if view is not None:
                    break
            else:
                raise self._too_quick()
        return view if dry_run else self._events.planned(cause, view)

    @contextlib.contextmanager
    def _turn(self):
        """Plan groups that have lost one after the other: at the same time they would choose the
        same hosts, and lose again. A slow plan delays the next one by at most TURN_S."""
        has_it = self._turns.acquire(timeout=TURN_S)
        try:
            yield
        finally:
            if has_it:
                self._turns.release()

    def _try(self, known, dry_run, may_move, replacement, changed, caps, limits):
        """Plan and claim once. Return None if claims of other requests came first; ``caps`` then
        has the limits found on their hosts."""
        members = len(known.definition.members)
        with (
            TRACER.traced('plan group', group=known.uuid, members=members),
            measured(dry_run) as plan,
        ):
            settings = self._settings()
            expires_s = known.record.expires_s
            begin_s = time.perf_counter()
            draft = self._call(
                self._plans.draft, known, known.requests(), caps, replacement, changed, limits
            )
            record = dataclasses.replace(known.record, definition=known.text())
            if limits:
                self._call(self._plans.check_quota, draft, record)
            seen = draft.group_problem
            if seen.closed:
                raise _closed(seen.closed, seen.removed_by)
            result = joint.place(
                seen.problem,
                seen.sites,
                lambda problem, plan_limits: joint.plan(problem, plan_limits, self._solver),
                settings.plan_limits,
                may_move,
            )
            plan.stage = result.figures.get('by', plan.stage)
            if result.hosts is None:
                refusal = _refusal(result, draft.group_problem)
                LOG.info(
                    'Refused group %s of %d members: %s',
                    known.uuid,
                    len(draft.member_states),
                    refusal.reason,
                )
                raise refusal
            if dry_run:
                if limits:
                    self._call(self._plans.check_quota, draft, record, result.hosts)
                return self._call(self._group_views.foresee, draft, result.hosts)
            lifetime_s = None if expires_s is None else max(expires_s - self._clock(), 1.0)
            taken, view = self._call(self._take, known, draft, result.hosts, record, lifetime_s)
            if taken.exceeded is not None:
                raise taken.exceeded
            if not taken.won:
                plan.result = CONFLICT
                if taken.record is not None or taken.gone:
                    raise _Changed
                for key, most in taken.short.items():
                    caps[key] = min(most, caps.get(key, most))
                return None
            LOG.info(
                'Planned group %s: %d members on %d hosts, %.1f ms',
                known.uuid,
                len(draft.member_states),
                len(set(result.hosts.tolist())),
                (time.perf_counter() - begin_s) * 1000,
            )
            return view

    def _take(self, known, draft, hosts, record, lifetime_s):
        """Claim a plan. Return its PlanOutcome, and the GroupView if it has won. Runs in the
        loop."""
        taken = self._plans.take(draft, hosts, record, lifetime_s)
        if not taken.won:
            return taken, None
        self._library.keep(known)
        self._renew_kept(known)
        known = dataclasses.replace(
            known, record=dataclasses.replace(known.record, serial=record.serial + 1)
        )
        view = self._group_views.see(known, self._cluster.claims_of_group(known.uuid))
        return taken, self._group_views.with_changes(view, draft, hosts)

    def _renew_kept(self, known):
        """Give planned claims that a plan keeps the expiry that its record has. A repeated plan
        does that, too, if this one is not told whether its record was stored. Runs in the loop."""
        expires_s = known.record.expires_s
        claims = self._cluster.claims_of_group(known.uuid)
        if any(
            claim.state == PLANNED and _differs(claim.expires_s, expires_s) for claim in claims
        ):
            self._plans.renew(known, expires_s)

    def _too_quick(self):
        attempts = self._settings().plan_attempts
        return errors.GroupRefused(
            f'Other requests claimed the planned hosts first, {attempts} times in a row.', None
        )


def _refusal(result, group_problem):
    """Return the GroupRefused for a failed plan. It is ``proven`` only if the search was complete
    and the group problem is exact."""
    details = result.reason.to_plain() if result.reason else {}
    words = result.reason.words if result.reason else 'No placement was found.'
    return errors.GroupRefused(
        words, {**details, 'proven': bool(result.proven and group_problem.exact)}
    )


def _closed(closed, removed_by):
    """Return the GroupRefused for members (by path, with the reason) that no host takes, even
    without the other members."""
    words = ' '.join(f'Member {path}: {why}' for path, why in closed.items())
    details = {'words': words, 'proven': True, 'closed': closed, 'removed_by': removed_by}
    return errors.GroupRefused(words, details)


def _differs(expires_s, other_s):
    """Return whether two expiry times differ by more than a second. Times within one call differ
    by less."""
    if expires_s is None or other_s is None:
        return expires_s is not other_s
    return abs(expires_s - other_s) > 1
