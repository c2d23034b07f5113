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
"""The claim store in a database that many schedulers share.

Every method locks the rows it needs in a fixed order, validates the data it read, and writes the
difference: a constant number of statements for a batch of any size.
"""

import contextlib
import dataclasses
import json

import sqlalchemy as sa
from oslo_db import exception as db_error

from nova_sched import errors
from nova_sched.claim import CONFIRMED, PENDING, PLANNED
from nova_sched.claims import (
    ANY,
    Changes,
    ClaimEdit,
    ClaimStore,
    ClosedDomain,
    GroupGuard,
    Placement,
    ServiceFacts,
    changed_claims,
    sql_domains,
    sql_reports,
    sql_watch,
)
from nova_sched.claims import sql_groups as groups
from nova_sched.claims import statements as sql
from nova_sched.claims.exclusive_domains import Change, ExclusiveDomains, moved_hosts
from nova_sched.claims.judge import ConsumerClaims, judge, only_short, stale
from nova_sched.claims.lifecycle import (
    allocating,
    amend,
    expiring,
    finishing,
    leaving,
    reverting,
)
from nova_sched.claims.reconcile import newest
from nova_sched.db import clock, quotas, transactions
from nova_sched.db.tables import (
    AGGREGATES,
    CLAIMS,
    HOST_INSTANCES,
    NODES,
    REVISIONS,
    SERVICES,
    TOP_GROUPS,
)
from nova_sched.db.transactions import MarkRows

OLDEST_FIRST = sa.select(CLAIMS).order_by(CLAIMS.c.created_s, CLAIMS.c.uuid)


class _Lost(Exception):
    """A placement was lost, and the final decision needs more data than was read."""


def _may_move(placement):
    """Whether a pending claim of the placement may be the target of a move."""
    return placement.runs != {} and any(claim.state == PENDING for claim in placement.claims)


def _by_key(claims):
    return {claim.key: claim for claim in claims}


def _some(connection, statement, **given):
    """The claims of a statement that has a limit and can skip rows: as many as that, as far as
    there are, beside those that cannot be read."""
    claims: list = []
    skipped = 0
    while True:
        rows = connection.execute(statement, {**given, 'skipped': skipped}).all()
        claims += sql.sound(rows)[0]
        skipped += len(rows)
        if len(rows) < sql.CHUNK or len(claims) >= sql.CHUNK:
            return claims


class SqlClaimStore(ClaimStore):
    """Claims and node facts in the tables of nova_sched.db."""

    def __init__(self, engine, clock=None):
        self._sessions = transactions.sessions(engine)
        self.clock = clock
        self._seen_revisions = {}

    # Claims.

    def commit(self, placements):
        is_guarded = any(placement.guard for placement in placements)
        commit = self._commit_guarded if is_guarded else self._commit
        # Nearly every consumer is new, and no query is needed to find that out: the table rejects
        # a second claim of a consumer. A placement may also lose because of its consumer's own
        # older claim. Where another scheduler comes in between two reads, they are judged again.
        is_new = not any(
            placement.releases or placement.replaces or _may_move(placement)
            for placement in placements
        )
        for ask in (False, True) if is_new else (True,):
            with contextlib.suppress(db_error.DBDuplicateEntry, sa.exc.IntegrityError, _Lost):
                return commit(placements, ask)
        try:
            return commit(placements, ask=True)
        except (db_error.DBDuplicateEntry, _Lost) as error:
            raise errors.StoreBusy(
                'another scheduler claims for the same instance or group now'
            ) from error

    def _commit_guarded(self, placements, ask):
        """``_commit`` for a batch with guards. It is repeated while other schedulers change the
        nodes of its exclusive domains, and once more after the usage of its projects has got its
        rows."""

        def commit():
            return self._commit(placements, ask)

        try:
            return sql_domains.repeated(commit)
        except quotas.NoRows as missing:
            quotas.make_rows(self._sessions, missing.projects)
            return sql_domains.repeated(commit)

    def _commit(self, placements, ask):
        """Validate and write placements; ``ask`` whether their consumers hold claims already.

        The comment before ``refuse_confirmed`` tells why that is right without asking.
        """
        wanted = [claim for placement in placements for claim in placement.claims]
        nodes = {claim.node_uuid for claim in wanted}
        consumers = {claim.consumer_uuid for claim in wanted}
        consumers |= {consumer for placement in placements for consumer, _ in placement.releases}
        given = [placement.guard for placement in placements if placement.guard]
        is_brief = not ask and not any(
            guard.policies or guard.closed_domains or guard.limits for guard in given
        )
        with (self._sessions.brief if is_brief else self._sessions.transaction)() as connection:
            known = sql.read_claims(connection, sql.CLAIMS_OF, consumers) if ask else ()
            nodes |= {claim.node_uuid for claim in known}
            steps = guards = None
            if given:
                steps = groups.Steps(connection, self.locator, placements, known)
                nodes |= steps.nodes
            usages, now_s = sql.lock_nodes(connection, nodes, self.clock)
            # Read after the lock, so that changes by other schedulers before it count.
            claims = sql.read_claims(connection, sql.CLAIMS_OF, consumers) if ask else ()
            # Not claims made since the first read on nodes that are not locked: those nodes exist,
            # and the table refuses a second pending claim of the consumers.
            before = {claim.uuid for claim in known}
            if any(
                claim.is_confirmed and claim.uuid not in before and claim.node_uuid not in usages
                for claim in claims
            ):
                raise _Lost
            orphans = [
                claim for claim in claims if claim.uuid in before and claim.node_uuid not in usages
            ]
            if orphans:  # they would block new claims of their consumers
                sql.END_CLAIMS.run(connection, sorted(claim.uuid for claim in orphans))
            consumer_claims = ConsumerClaims(
                claim for claim in claims if claim.node_uuid in usages
            )
            if steps:
                placements = steps.placements
                guards = steps.guards(connection, usages)
            outcomes = judge(placements, usages, consumer_claims, now_s, guards)
            lost = {
                claim.consumer_uuid
                for placement, outcome in zip(placements, outcomes, strict=True)
                if not outcome.won
                for claim in placement.claims
            }
            if lost and not ask and sql.CONSUMERS_WITH_CLAIMS.run(connection, lost):
                raise _Lost
            sql.write_changes(connection, usages, consumer_claims)
            refuse_confirmed(connection, placements, consumer_claims)
            if steps:
                steps.write(connection, usages, consumer_claims, guards)
        if self.on_changes is not None:
            self._tell(changed_claims.REMOVAL, _by_key(orphans), {}, now_s, {})
            self._tell_changes(changed_claims.REQUEST, consumer_claims, now_s, usages)
        if all(outcome.won for outcome in outcomes):
            return outcomes
        outdated = [
            set()
            if outcome.won or only_short(placement, usages, consumer_claims)
            else stale(placement, consumer_claims, guards)
            for placement, outcome in zip(placements, outcomes, strict=True)
        ]
        return self._refreshed(placements, outcomes, outdated)

    def _refreshed(self, placements, outcomes, outdated):
        """The outcomes, with the data of the nodes that are ``outdated`` for each of them, and
        with records that have changed."""
        nodes = set().union(*outdated)
        changed = {placement.record_uuid
                   for placement, outcome in zip(placements, outcomes, strict=True)
                   if outcome.record is not None}  # fmt: skip
        if not (nodes or changed):
            return outcomes
        with self._sessions.transaction(reads=True) as connection:
            nodes_read, odd = sql.read_facts(connection, nodes)
            facts = {node.report.node_uuid: node for node in nodes_read}
            records = {uuid: groups.read_record(connection, uuid) for uuid in changed}
        refreshed = []
        for placement, outcome, uuids in zip(placements, outcomes, outdated, strict=True):
            fresh = tuple(facts[uuid] for uuid in sorted(uuids & facts.keys()))
            record = outcome.record and records[placement.record_uuid]
            is_gone = outcome.record_gone or (outcome.record is not None and record is None)
            gone = uuids - facts.keys() - odd.keys()
            refreshed.append(
                dataclasses.replace(
                    outcome,
                    fresh=fresh,
                    gone=tuple(sorted(gone.union(outcome.gone))),
                    record=record,
                    record_gone=is_gone,
                )
            )
        return refreshed

    def now_s(self):
        if self.clock is not None:
            return self.clock()
        with self._sessions.transaction(reads=True) as connection:
            return clock.read(connection)

    def confirm(self, consumers, node_uuids):
        def change(_claims):
            return lambda claim: claim.confirmed() if claim.node_uuid in node_uuids else claim

        return self._amend_of(changed_claims.CONFIRM, consumers, change).changed

    def allocated(self, claims):
        consumers = {claim.consumer_uuid for claim in claims}
        return self._amend_of(
            changed_claims.ALLOCATION, consumers, lambda _: allocating(claims)
        ).changed

    def finish(self, consumer, node_uuids, selector=ANY):
        return self._amend_of(
            changed_claims.FINISH,
            [consumer],
            lambda claims: finishing(claims, node_uuids, selector),
        )

    def revert(self, consumer, selector=ANY):
        return self._amend_of(
            changed_claims.REVERT,
            [consumer],
            lambda claims: reverting(claims, selector),
        )

    def release(self, keys, selector=ANY):
        keys = set(keys)
        return self._amend_of(
            changed_claims.RELEASE,
            {consumer for consumer, _ in keys},
            lambda _: leaving(keys, selector),
        )

    def renew_claim(self, claim, lifetime_s):
        # The node's lock orders this and ``expire``, which looks again once it has the lock.
        with self._sessions.transaction() as connection:
            usages, now_s = sql.lock_nodes(connection, [claim.node_uuid], self.clock)
            stored = sql.read_claims(connection, sql.CLAIMS_BY_UUID, [claim.uuid])
            renewed = [
                after
                for current in stored
                if current.node_uuid in usages
                and current.name == claim.name
                and (
                    after := current.renewed(
                        now_s, lifetime_s, usages[current.node_uuid].generation + 1
                    )
                )
            ]
            sql.WRITE_EXPIRIES.run(connection, [sql.claim_row(current) for current in renewed])
            for current in renewed:
                usages[current.node_uuid].changed = True
            sql.write_changes(connection, usages)
        return bool(renewed)

    def expire_some(self, now_s=None, unwatched_s=None):
        unwatched = None  # the last time that does not count

        def first(connection):
            nonlocal now_s, unwatched
            watch = None if unwatched_s is None else sql_watch.Watch(connection)
            if now_s is None:
                now_s = clock.read(connection) if self.clock is None else self.clock()
            if watch is not None:
                unwatched = watch.look(now_s, unwatched_s)

        def waiting(connection):
            watched_s = 0.0 if unwatched is None else unwatched.end_s
            due = _some(connection, sql.OVERDUE, now_s=now_s, watched_s=watched_s)
            if unwatched is not None and unwatched.is_set_back:
                due += _some(connection, sql.CHANGED_LATER, later_s=now_s + unwatched_s)
            moving = {claim.consumer_uuid for claim in due if claim.keeps_source}
            kept, odd = sql.sound(sql.rows(connection, sql.WITH_NODES_OF, moving))
            due += [claim for claim in kept if claim.is_confirmed]
            return [
                claim
                for claim in {claim.uuid: claim for claim in due}.values()
                if claim.consumer_uuid not in odd
            ]

        def change(claim):
            if (
                unwatched is not None
                and claim.expires_s
                and (claim.changed_s < unwatched.end_s or claim.changed_s > now_s + unwatched_s)
            ):
                claim = claim.spared(*unwatched)
            return expiring(now_s)(claim)

        edit = self._amend(changed_claims.TIMEOUT, waiting, lambda _: change, first)
        ended = [claim for claim in edit.changed if change(claim) is None]
        return ended, len(edit.changed) >= sql.CHUNK

    def _amend_of(self, cause, consumers, changing):
        """Change claims of these consumers, see ``_amend``."""

        def read(connection):
            return sql.read_claims(connection, sql.CLAIMS_OF, consumers)

        return self._amend(cause, read, changing, begin=self._sessions.brief)

    def _amend(self, cause, read, changing, first=lambda connection: None, begin=None):
        """Change the claims that ``read`` finds; returns the ClaimEdit.

        ``changing`` takes these claims and returns the change: a function from a claim to its new
        state. ``first`` is called before. ``cause``: see changed_claims.
        """
        with (begin or self._sessions.transaction)() as connection:
            first(connection)
            seen = read(connection)
            if not seen:
                return ClaimEdit([], [])
            nodes = {claim.node_uuid for claim in seen}
            usages, now_s = sql.lock_nodes(connection, nodes, self.clock)
            claims = [claim for claim in read(connection) if claim.node_uuid in usages]
            consumer_claims = ConsumerClaims(claims)
            changed = amend(claims, changing(claims), usages, consumer_claims, now_s)
            sql.write_changes(connection, usages, consumer_claims)
        self._tell_changes(cause, consumer_claims, now_s, usages)
        return ClaimEdit(changed, consumer_claims.claims)

    def forget_groups(self):
        return groups.forget_groups(self._sessions)

    # Groups.

    def top_group(self, uuid, whole=True):
        with self._sessions.transaction(reads=True) as connection:
            return groups.read_record(connection, uuid, whole)

    def top_groups(self, project_id=None, name=None, marker=None, limit=None, deleted=False):
        with self._sessions.transaction(reads=True) as connection:
            return groups.read_records(connection, project_id, name, marker, limit, deleted)

    def group_claims(self, uuid):
        query = OLDEST_FIRST.where(CLAIMS.c.top_group == uuid)
        with self._sessions.transaction(reads=True) as connection:
            return [sql.claim(row) for row in connection.execute(query)]

    def renew(self, uuid, expires_s):
        planned = sql.CLAIMS_WITH_NODES.where(
            CLAIMS.c.top_group == uuid, CLAIMS.c.state == PLANNED
        )
        record = sa.update(TOP_GROUPS).where(TOP_GROUPS.c.uuid == uuid).values(expires_s=expires_s)

        def change(claim):
            is_same = claim.expires_s == expires_s
            return claim if is_same else dataclasses.replace(claim, expires_s=expires_s)

        self._amend(
            changed_claims.RENEWAL,
            lambda connection: sql.sound(connection.execute(planned))[0],
            lambda _: change,
            lambda connection: connection.execute(record),
        )
        return [claim for claim in self.group_claims(uuid) if claim.state == PLANNED]

    def spread_domain(self, token, nodes, domain=None):
        guard = GroupGuard(closed_domains=(ClosedDomain(token, frozenset(nodes), domain),))
        wanted = Placement((), guard=guard)
        return sql_domains.repeated(lambda: self._spread(wanted, frozenset([token])))

    def _spread(self, wanted, token):
        with self._sessions.transaction() as connection:
            read = sql_domains.DomainReader(connection, self.locator, [wanted], token)
            usages, _ = sql.lock_nodes(connection, read.nodes)
            exclusive_domains = read.exclusive_domains(connection, usages)
            (closed,) = read.placements[0].guard.closed_domains
            exclusive_domains.adopt(exclusive_domains.spread(closed))
            sql.write_changes(connection, usages)
            sql_domains.write(connection, usages, exclusive_domains)
        return sorted(exclusive_domains.changed)

    def end_domains(self):
        return sql_domains.end(self._sessions)

    def domains(self):
        with self._sessions.transaction(reads=True) as connection:
            return sql_domains.known(connection)

    def plan_usage(self, project_id):
        with self._sessions.transaction(reads=True) as connection:
            return groups.plan_usage(connection, project_id)

    def limits(self, project_id):
        with self._sessions.transaction(reads=True) as connection:
            return quotas.own_limits(connection, project_id)

    def claims(self, consumer_uuid=None):
        if consumer_uuid is None:
            with self._sessions.transaction(reads=True) as connection:
                return sql.sound(connection.execute(OLDEST_FIRST))[0]
        with self._sessions.brief(reads=True) as connection:
            claims = sql.read_claims(connection, sql.CLAIMS_OF, [consumer_uuid])
        return sorted(claims, key=lambda claim: (claim.created_s, claim.uuid))

    # Nodes.

    def report(self, reports, now_s=None):
        now_s = self.clock() if now_s is None and self.clock is not None else now_s
        if (place := sql_reports.second_of_a_name(reports)) is not None:
            return self.report(reports[:place], now_s) + self.report(reports[place:], now_s)
        latest = newest(reports)
        try:
            with self._sessions.transaction() as connection:
                changes, twins = sql_reports.take_all(
                    connection, latest, now_s, self.lifetime_s(), self.locator
                )
        except db_error.DBDuplicateEntry as error:
            raise errors.StoreBusy(
                'another scheduler takes the first report of a node now'
            ) from error
        if self.on_changes is not None:
            taken = changes.values()
            at_s = max((change.facts.seen_s for change in taken), default=0.0)
            self._tell_removed(twins, at_s)
            before = _by_key(claim for change in taken for claim in change.ended)
            after = _by_key(claim for change in taken for claim in change.put)
            hosts = {change.uuid: change.facts.report.host for change in taken}
            self._tell(changed_claims.REPORT, before, after, at_s, hosts)
        return [changes[report.node_uuid].facts for report in reports]

    def _tell_removed(self, nodes, now_s):
        claims = _by_key(claim for node in nodes for claim in node.claims)
        self._tell(
            changed_claims.REMOVAL, claims, {}, now_s, {node.uuid: node.host for node in nodes}
        )

    def remove_node(self, uuid, generation=None):
        with self._sessions.transaction() as connection:
            row = sql.read_nodes(connection, [uuid], lock=True).get(uuid)
            if row is None:
                return False
            claims = sql.read_claims(connection, sql.CLAIMS_ON, [uuid])
            if generation is None:
                is_meant = not any(claim.is_confirmed for claim in claims)
            else:
                written = (claim.changed_at for claim in claims)
                is_meant = max(row.reported_at, *written, 0) <= generation
            gone = sql.forget_nodes(connection, NODES.c.uuid == uuid) if is_meant else []
            now_s = clock.read(connection) if self.clock is None else self.clock()
            sql.free_sources(connection, claims if gone else (), now_s, self.lifetime_s())
        self._tell_removed(gone, now_s)
        return bool(gone)

    # Services, aggregates, instance lists.

    def set_service(self, service, may=lambda stored: True):
        kept = service

        def merged(row):
            nonlocal kept
            kept = ServiceFacts(**row) if row else ServiceFacts(service.host)
            if not may(kept):
                return row
            kept = service.after(kept)
            return dataclasses.asdict(kept)

        self._replace(SERVICES, 'services', SERVICES.c.host == service.host, merged)
        return kept

    def set_aggregate(self, aggregate_id, aggregate):
        row = aggregate and {
            'id': aggregate.id,
            'uuid': aggregate.uuid,
            'name': aggregate.name,
            'hosts': json.dumps(sorted(aggregate.hosts)),
            'details': json.dumps(dict(aggregate.metadata), sort_keys=True),
        }
        return sql_domains.repeated(lambda: self._set_aggregate(aggregate_id, row))

    def _set_aggregate(self, aggregate_id, row):
        this = AGGREGATES.c.id == aggregate_id
        with self._sessions.transaction() as connection:
            stored = self._put_row(connection, AGGREGATES, 'aggregates', this, lambda _: row)
            if stored == row or self.locator is None:
                return []
            hosts = moved_hosts(
                *(aggregate and sql.aggregate(aggregate) for aggregate in (stored, row))
            )
            come = sql_domains.entering(connection, self.locator, hosts)
            usages, _ = sql.lock_nodes(connection, come)
            sql_domains.hold(connection)
            come = sql_domains.entering(connection, self.locator, hosts)
            if not come.keys() <= usages.keys():
                raise sql_domains.NodesChanged
            exclusive_domains = ExclusiveDomains(usages)
            exclusive_domains.adopt(Change({}, come))
            sql.write_changes(connection, usages)
            sql_domains.write(connection, usages, exclusive_domains)
        return sorted(exclusive_domains.changed)

    def set_instances(self, host, instances):
        row = {'host': host, 'instances': json.dumps(sorted(instances))}
        self._replace(
            HOST_INSTANCES, 'host_instances', HOST_INSTANCES.c.host == host, lambda _: row
        )

    def _replace(self, table, name, condition, change):
        """Replace a row with the result of ``change``, unless that is the same.

        Every scheduler receives the same casts.
        """
        with self._sessions.transaction() as connection:
            self._put_row(connection, table, name, condition, change)

    def _put_row(self, connection, table, name, condition, change):
        """Replace a row as ``_replace`` does, in a transaction that is open. Returns the row that
        was there, or None."""
        # The revision's row is the lock: two schedulers that receive one cast write one after
        # the other.
        connection.execute(sa.select(REVISIONS).where(REVISIONS.c.name == name).with_for_update())
        stored = connection.execute(sa.select(table).where(condition)).mappings().first()
        old = dict(stored) if stored else None
        row = change(old)
        if old != row:
            connection.execute(sa.delete(table).where(condition))
            if row:
                connection.execute(sa.insert(table).values(**row))
            connection.execute(sql.RAISE_REVISION, {'table': name})
        return old

    # Changes by other schedulers.

    def digest(self):
        with self._sessions.transaction(reads=True) as connection:
            count, total = connection.execute(sql.DIGEST).one()
        return count, int(total or 0)

    def heads(self):
        with self._sessions.transaction(reads=True) as connection:
            # The driver's own rows: there are as many as nodes, and this query runs every few
            # seconds.
            rows = connection.execute(sql.HEADS).cursor.fetchall()
        return {uuid: (generation, seen_s) for uuid, generation, seen_s in rows}

    def read_nodes(self, nodes):
        with self._sessions.transaction(reads=True) as connection:
            revisions = dict(connection.execute(sql.READ_REVISIONS).all())
            facts, odd = sql.read_facts(connection, nodes)
            known = odd.keys() | {node.report.node_uuid for node in facts}
            changes = Changes(
                nodes=facts,
                odd=odd,
                gone=tuple(uuid for uuid in nodes if uuid not in known),
                services=self._if_new(revisions, 'services', sql.read_services, connection),
                aggregates=self._if_new(revisions, 'aggregates', sql.read_aggregates, connection),
                instances=self._if_new(
                    revisions, 'host_instances', sql.read_instances, connection
                ),
            )
        self._seen_revisions = revisions
        return changes

    def _if_new(self, revisions, name, read, connection):
        """Return a small table, or None if its revision did not rise since the last call."""
        return None if revisions.get(name) == self._seen_revisions.get(name) else read(connection)


# A claim of a consumer that is confirmed already, if the validation did not know that.
#
# Two events must not both happen: a pending claim becomes confirmed on one node, and a request
# that is not a move claims the same consumer on another node. A consumer has no row that both
# transactions could lock, and a transaction that has read that there is no claim may be wrong a
# moment later. Both do meet in the unique index of the column ``unconfirmed``: each claim that is
# not confirmed has its consumer there.
#
# So the new claim is written first. Then, in the same transaction, every confirmed claim of its
# consumer gets that entry too, which the index refuses: the transaction is rolled back, and the
# placement is validated again with all claims of the consumer. Nearly always there is no confirmed
# claim, and the statement finds no row. It returns no rows, so on PostgreSQL it is sent with the
# other statements. By the time that it runs,
#
# - no other transaction has a pending claim of the consumer, and none can make one before this
#   one has ended. A claim is confirmed only from an unconfirmed one, so no claim of this
#   consumer becomes confirmed any more;
# - a transaction that was about to confirm one had taken its entry out of the index, and this
#   transaction has waited for its end to write its own entry. If it committed, the statement
#   sees the confirmed claim: each statement sees the data committed by then (READ COMMITTED, see
#   db.engine). If it did not, the pending claim still exists, and the new one was refused as the
#   second of its consumer.
#
# On Galera, no transaction waits for one on another server. There the entry in the index is a key
# of both: of the transaction that removes it and of the one that adds it. Of two transactions that
# did not see each other, the second is rolled back.
#
# A claim that this transaction removes itself is protected by the lock of its node: a transaction
# that would confirm it waits for that, reads again, and finds it gone. On SQLite, transactions
# that write run one after the other.

IS_CONFIRMED = f"state = '{CONFIRMED}'"
ENTER_CONFIRMED = MarkRows(
    CLAIMS, 'unconfirmed', 'consumer_uuid', 'uq_claims_consumer_uuid', IS_CONFIRMED
)


def refuse_confirmed(connection, placements, consumer_claims):
    """Make the database refuse claims of placements that are not moves for consumers confirmed on
    other nodes.

    All changes of the placements (ConsumerClaims) must be written before. Raises DBDuplicateEntry
    or IntegrityError.
    """
    firm = {
        claim.uuid
        for placement in placements
        if not _may_move(placement)
        for claim in placement.claims
        if claim.state == PENDING
    }
    consumers = {
        claim.consumer_uuid
        for claim in consumer_claims.added.values()
        if claim.uuid in firm and claim.state == PENDING  # it may be confirmed by now
    }
    ENTER_CONFIRMED.run(connection, sorted(consumers))
