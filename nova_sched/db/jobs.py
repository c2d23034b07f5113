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
"""The jobs in the database: their state, their result, and the quota that they take.

A job is stored before it is sent, together with the quota of its instance, and settled once. So
each job and its hold end exactly once, whichever messages are lost or repeated.
"""

import dataclasses
import json
from collections.abc import Mapping

import sqlalchemy as sa

from nova_sched import errors
from nova_sched.db import clock, quotas
from nova_sched.db.tables import JOBS, QUOTA_HOLDS, QUOTA_USAGE
from nova_sched.db.transactions import (
    CHUNK,
    THERE,
    DeleteRows,
    InsertRows,
    SelectRows,
    Sessions,
    repeated,
)

QUEUED, DONE, FAILED, CANCELLED = 'queued', 'done', 'failed', 'cancelled'
ENDS = (DONE, FAILED, CANCELLED)
CREATE = 'create'

PUT_JOBS, DROP_JOBS = InsertRows(JOBS), DeleteRows(JOBS)
COLUMNS = tuple(JOBS.columns.keys())
READ_JOBS, LOCK_JOBS = SelectRows(JOBS, *COLUMNS), SelectRows(JOBS, 'uuid', lock=True)

KEY: sa.BindParameter = sa.bindparam('key')
NOW_S: sa.BindParameter = sa.bindparam('now_s')
UUIDS: sa.BindParameter = sa.bindparam('uuids', expanding=True)
IS_QUEUED = JOBS.c.state == QUEUED
FIND = sa.select(JOBS).where(JOBS.c.uuid == KEY)
LOCK = FIND.where(IS_QUEUED).with_for_update()
# One statement for the job, its instance's hold and the project's usage: in the order in which all
# are locked.
LOCK_ALL = (
    sa.select(
        JOBS, QUOTA_HOLDS.c.amounts, QUOTA_HOLDS.c.project_id.label('holder'), QUOTA_USAGE.c.used
    )
    .join(QUOTA_HOLDS, QUOTA_HOLDS.c.instance_uuid == JOBS.c.instance_uuid)
    .join(QUOTA_USAGE, QUOTA_USAGE.c.project_id == QUOTA_HOLDS.c.project_id)
    .where(JOBS.c.uuid == KEY, IS_QUEUED)
    .with_for_update()
)
LOCK_HOLD = (
    sa.select(
        QUOTA_HOLDS.c.instance_uuid,
        QUOTA_HOLDS.c.amounts,
        QUOTA_HOLDS.c.project_id.label('holder'),
        QUOTA_USAGE.c.used,
    )
    .join(QUOTA_USAGE, QUOTA_USAGE.c.project_id == QUOTA_HOLDS.c.project_id)
    .where(QUOTA_HOLDS.c.instance_uuid == KEY)
    .with_for_update()
)
LOCK_CREATES = (
    sa.select(JOBS)
    .where(JOBS.c.instance_uuid == KEY, JOBS.c.kind == CREATE, IS_QUEUED)
    .order_by(JOBS.c.uuid)
    .with_for_update()
)
CREATES = sa.select(JOBS.c.uuid).where(JOBS.c.instance_uuid == KEY, JOBS.c.kind == CREATE)
SETTLE = (
    sa.update(JOBS)
    .where(JOBS.c.uuid.in_(UUIDS))
    .values(
        state=sa.bindparam('now_state'),
        host=sa.bindparam('now_host'),
        tries=sa.bindparam('now_tries'),
        why=sa.bindparam('now_why'),
        failures=sa.bindparam('now_failures'),
        updated_s=NOW_S,
    )
)
# A cancelled create is over when its instance holds no quota any more: a worker may build the
# instance until then, and it is deleted.
HOLDS_QUOTA = sa.exists().where(QUOTA_HOLDS.c.instance_uuid == JOBS.c.instance_uuid)
IS_GOING = sa.or_(IS_QUEUED, sa.and_(JOBS.c.state == CANCELLED, HOLDS_QUOTA))
ATTEMPT = sa.update(JOBS).where(JOBS.c.uuid == KEY, IS_QUEUED).values(tries=JOBS.c.tries + 1)
TOUCH = sa.update(JOBS).where(JOBS.c.uuid.in_(UUIDS), IS_GOING).values(updated_s=NOW_S)
OVERDUE = (
    sa.select(JOBS)
    .where(
        JOBS.c.state.in_((QUEUED, CANCELLED)),
        JOBS.c.updated_s < sa.bindparam('before_s'),
        IS_GOING,
    )
    .order_by(JOBS.c.updated_s, JOBS.c.uuid)
    .limit(sa.bindparam('most'))
)
OLD = (
    sa.select(JOBS.c.uuid)
    .where(JOBS.c.state.in_(ENDS), JOBS.c.updated_s < sa.bindparam('before_s'), ~IS_GOING)
    .limit(CHUNK)
)

COUNTS = sa.select(JOBS.c.state, sa.func.count()).group_by(JOBS.c.state)

STATES = (QUEUED, DONE, FAILED, CANCELLED)

TRIES = 5  # how many times other transactions may store the same jobs meanwhile
MAX_REASON_CHARS = 4000  # maximum length of a stored reason, in characters


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JobEntry:
    """A stored job; times are seconds since the epoch.

    ``queue`` is the flavor queue, by its name in the catalogue; None for a job in a node's own
    queue. ``host`` is where the job is or was done, as far as that is known. ``tries`` is the
    number of times that a node has taken it; of a queued move, how often a host was claimed.
    ``why`` is the cause of a failure, and ``failures`` (JSON text) what drivers said of failed
    attempts. ``message`` is the QueueJob as JSON text, which is sent again if the job is lost.
    """

    uuid: str
    kind: str
    instance_uuid: str
    project_id: str | None = None
    user_id: str | None = None
    request_id: str | None = None
    queue: str | None = None
    host: str | None = None
    state: str = QUEUED
    tries: int = 0
    why: str | None = None
    message: str
    created_s: float
    updated_s: float
    failures: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaHold:
    """The quota of its project that an instance takes, by resource: `servers`, `class:VCPU`,
    ..."""

    instance_uuid: str
    project_id: str
    amounts: Mapping[str, int]


class SqlJobTable:
    """Jobs and holds in the tables of nova_sched.db. May be used from any thread.

    Each method raises StoreUnavailable if the database does not answer. Methods that change data
    also raise StoreFull, and StoreBusy if other transactions stop them again and again. Only after
    StoreUnavailable, all may have been done; then the same call may be repeated.
    """

    def __init__(self, engine):
        self._sessions = Sessions(engine)

    def now_s(self):
        """The time by the database's clock, in seconds since the epoch."""
        with self._sessions.transaction(reads=True) as connection:
            return clock.read(connection)

    # A job from its start to its end.

    def open(self, entries, holds=(), limits=lambda _project_id: {}):
        """Store jobs and make the holds of their instances: all or nothing. Returns the stored
        entries.

        A job that is stored already stays as it is, with its instance's hold. An existing hold of
        an instance is raised, by resource, to the greater amount. ``limits`` returns the limits of
        a project by resource (-1, or none: no limit), and is called before any row is locked.
        Raises QuotaExceeded, and InvalidRequest for an instance of another project.
        """
        most = {
            project: limits(project) for project in sorted({hold.project_id for hold in holds})
        }
        known = False
        for _ in range(TRIES):
            try:
                return self._open(entries, holds, most, known)
            except quotas.NoRows as missing:
                quotas.make_rows(self._sessions, missing.projects)
            except THERE:
                known = True  # nearly always all are new, and a check costs a statement
        raise errors.StoreBusy('other schedulers enter the same jobs now')

    @repeated
    def _open(self, entries, holds, limits, known):
        with self._sessions.brief() as connection:
            stored = {}
            if known:
                for row in READ_JOBS.run(connection, {entry.uuid for entry in entries}):
                    entry = JobEntry(**dict(zip(COLUMNS, row, strict=True)))
                    stored[entry.uuid] = entry
            new = [entry for entry in entries if entry.uuid not in stored]
            rows = [
                {name: getattr(entry, name) for name in COLUMNS}
                for entry in sorted(new, key=lambda entry: entry.uuid)
            ]
            PUT_JOBS.run(connection, rows)
            kept = {entry.instance_uuid for entry in stored.values()} - {
                entry.instance_uuid for entry in new
            }
            quotas.take(
                connection, [hold for hold in holds if hold.instance_uuid not in kept], limits
            )
        return [stored.get(entry.uuid, entry) for entry in entries]

    @repeated
    def settle(
        self,
        uuid,
        state,
        now_s,
        host=None,
        tries=0,
        why=None,
        failures=None,
        release=False,
        amounts=None,
        known=None,
        follow=(),
        seen=None,
    ):
        """End a queued job; returns its entry then, or None for a job that is no longer queued.

        With ``release`` the hold of its instance ends, unless the instance was created again (see
        ``end_hold`` for ``known``); with ``amounts`` its amounts become these. A hold that has
        ended stays ended. ``follow`` are the entries of jobs that follow from the end: those that
        are new are stored with it. With ``seen``, the job is left alone unless its ``tries`` are
        these.
        """
        with self._sessions.transaction() as connection:
            row = None
            if release or amounts is not None:
                row = connection.execute(LOCK_ALL, {'key': uuid}).mappings().one_or_none()
            held = row is not None
            if (
                not held
                and (row := connection.execute(LOCK, {'key': uuid}).mappings().one_or_none())
                is None
            ):
                return None
            if seen not in (None, row['tries']):
                return None
            (entry,) = _end(connection, [_entry(row)], state, now_s, host, tries, why, failures)
            if follow:  # others of the same job wait for its row
                uuids = [following.uuid for following in follow]
                stored = {uuid for uuid, *_ in READ_JOBS.run(connection, uuids)}
                new = [
                    dataclasses.asdict(following)
                    for following in follow
                    if following.uuid not in stored
                ]
                if new:
                    connection.execute(sa.insert(JOBS), new)
            if held and not (release and self._has_more(connection, entry.instance_uuid, known)):
                quotas.give_back(connection, *_hold(row), {} if release else amounts)
        return entry

    @repeated
    def attempt(self, uuid):
        """Note that a queued job is tried once more. Returns whether it is queued."""
        with self._sessions.transaction() as connection:
            return bool(connection.execute(ATTEMPT, {'key': uuid}).rowcount)

    @repeated
    def cancel(self, instance_uuid, now_s, uuid=None):
        """Cancel the queued create of an instance; returns its entry then, or None if none is
        queued. With ``uuid`` only that job is cancelled.

        The instance's hold stays.
        """
        with self._sessions.transaction() as connection:
            rows = connection.execute(LOCK_CREATES, {'key': instance_uuid}).mappings().all()
            rows = [row for row in rows if uuid in (None, row['uuid'])]
            ended = (
                _end(connection, [_entry(row) for row in rows], CANCELLED, now_s)
                if rows
                else [None]
            )
        return ended[-1]

    @repeated
    def end_hold(self, instance_uuid, known=None):
        """End the hold of an instance; returns the Hold as it was, or None if there was none.

        ``known`` are the UUIDs of its creates that the caller has seen. If there is another one,
        the instance was created again, and its hold stays.
        """
        with self._sessions.transaction() as connection:
            row = connection.execute(LOCK_HOLD, {'key': instance_uuid}).mappings().one_or_none()
            if row is None or self._has_more(connection, instance_uuid, known):
                return None
            hold, used = _hold(row)
            quotas.give_back(connection, hold, used, {})
        return hold

    def _has_more(self, connection, instance_uuid, known):
        """Whether the instance has creates that are not ``known`` (None: no matter which).

        Its hold is locked by then: a transaction that stores a create waits for the lock.
        """
        return known is not None and not set(known).issuperset(
            connection.scalars(CREATES, {'key': instance_uuid})
        )

    @repeated
    def touch(self, uuids, now_s):
        """Mark jobs as checked now: they are not overdue."""
        with self._sessions.transaction() as connection:
            LOCK_JOBS.run(connection, uuids)
            connection.execute(TOUCH, {'uuids': sorted(uuids), 'now_s': now_s})

    @repeated
    def forget(self, before_s):
        """Delete the jobs that ended before that time."""
        count = CHUNK
        while count == CHUNK:
            with self._sessions.transaction() as connection:
                old = connection.scalars(OLD, {'before_s': before_s}).all()
                count = len(old)
                LOCK_JOBS.run(connection, old)
                DROP_JOBS.run(connection, sorted(old))

    # Reads.

    def find(self, uuid):
        """The entry of a job, or None."""
        entries = self._read(FIND, {'key': uuid})
        return entries[0] if entries else None

    def of_instance(self, instance_uuid):
        """All jobs for an instance, oldest first."""
        return self.list(instance_uuid=instance_uuid)

    def list(self, project_id=None, state=None, instance_uuid=None, marker=None, limit=None):
        """Jobs, oldest first: of a project, in a state, for an instance; at most ``limit`` after
        ``marker``.

        ``marker`` is the UUID of a job. Raises JobNotFound if there is no such job, or if it is of
        another project.
        """
        wanted = {'project_id': project_id, 'state': state, 'instance_uuid': instance_uuid}
        query = sa.select(JOBS).order_by(JOBS.c.created_s, JOBS.c.uuid).limit(limit)
        query = query.filter_by(
            **{name: value for name, value in wanted.items() if value is not None}
        )
        if marker is not None:
            last = self.find(marker)
            if last is None or project_id not in (None, last.project_id):
                raise errors.JobNotFound(marker)
            later = sa.and_(JOBS.c.created_s == last.created_s, JOBS.c.uuid > last.uuid)
            query = query.where(sa.or_(JOBS.c.created_s > last.created_s, later))
        return self._read(query, {})

    def newest(self, limit, project_id=None):
        """The last ``limit`` jobs, newest first: of a project, or of all."""
        query = sa.select(JOBS).order_by(JOBS.c.created_s.desc(), JOBS.c.uuid.desc()).limit(limit)
        if project_id is not None:
            query = query.filter_by(project_id=project_id)
        return self._read(query, {})

    def counts(self):
        """The number of jobs by state."""
        with self._sessions.transaction(reads=True) as connection:
            counts = dict(connection.execute(COUNTS).all())
        return {state: counts.get(state, 0) for state in STATES}

    def overdue(self, before_s, limit):
        """Up to ``limit`` jobs that are queued, or cancelled while their instances hold quota, and
        that were not checked since that time, the longest first."""
        return self._read(OVERDUE, {'before_s': before_s, 'most': limit})

    def _read(self, query, given):
        with self._sessions.transaction(reads=True) as connection:
            return [_entry(row) for row in connection.execute(query, given).mappings()]

    # Quotas.

    def usage(self, project_id):
        """The usage of a project by resource; resources without usage are left out."""
        with self._sessions.transaction(reads=True) as connection:
            return json.loads(
                connection.scalar(quotas.READ_USAGE, {'project': project_id}) or '{}'
            )

    def limits(self, project_id):
        """The limits that were set for a project, by resource; -1 is unlimited."""
        with self._sessions.transaction(reads=True) as connection:
            return quotas.own_limits(connection, project_id)

    @repeated
    def set_limit(self, project_id, resource, limit):
        """Set a limit of a project, -1 for no limit; None removes the limit that was set."""
        key = {'project': project_id, 'of': resource}
        row = {'project_id': project_id, 'resource': resource, 'most': limit}
        try:
            with self._sessions.transaction() as connection:
                if limit is None:
                    connection.execute(quotas.DROP_LIMIT, key)
                elif connection.execute(quotas.SET_LIMIT, {**key, 'now': limit}).rowcount == 0:
                    connection.execute(quotas.PUT_LIMIT, row)
        except THERE as error:
            raise errors.StoreBusy('another process sets the same limit now') from error

    def projects(self):
        """The projects that have usage or limits of their own, by ID."""
        with self._sessions.transaction(reads=True) as connection:
            return sorted({*connection.scalars(quotas.USERS), *connection.scalars(quotas.LIMITED)})


def _entry(row):
    return JobEntry(**{name: row[name] for name in COLUMNS})


def _hold(row):
    """The hold of a locked row, and the usage of its project."""
    return QuotaHold(row['instance_uuid'], row['holder'], json.loads(row['amounts'])), json.loads(
        row['used']
    )


def _end(connection, entries, state, now_s, host=None, tries=0, why=None, failures=None):
    """Write the end of locked jobs; returns their entries then."""
    why = why and why.replace('\0', '')[:MAX_REASON_CHARS]
    host = host or entries[0].host
    facts = {
        'now_state': state,
        'now_host': host,
        'now_tries': tries,
        'now_why': why,
        'now_failures': failures,
        'now_s': now_s,
    }
    connection.execute(SETTLE, {'uuids': [entry.uuid for entry in entries], **facts})
    ends = {'state': state, 'host': host, 'tries': tries, 'why': why, 'failures': failures}
    ends['updated_s'] = now_s
    return [dataclasses.replace(entry, **ends) for entry in entries]
