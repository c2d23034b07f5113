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
"""Maintains the claims in a database: takes a snapshot, repairs audit findings, ends claims.

Each repair is a separate transaction. It locks the nodes and reads the data again before it
repairs them, because schedulers may run at the same time.
"""

import dataclasses
import json

import sqlalchemy as sa
from oslo_db import exception as db_error

from nova_sched import errors
from nova_sched.claim import PLANNED, Claim
from nova_sched.claims import ServerGroupPolicy, findings, sql_domains
from nova_sched.claims import sql_groups as groups
from nova_sched.claims import statements as sql
from nova_sched.claims.findings import AuditedMove, AuditedNode, Snapshot, UnreadableRow
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.claims.values import sums
from nova_sched.db import rebalances
from nova_sched.db.rebalances import IN_FLIGHT
from nova_sched.db.tables import (
    CLAIMS,
    HOST_INSTANCES,
    MOVES,
    NODES,
    REPORTS,
    SERVER_GROUPS,
    SERVICES,
)
from nova_sched.db.transactions import Sessions
from nova_sched.state.report import Inventory, Report

# Schedulers need each statement to see data committed before it. Here all statements must see the
# same data.
ONE_MOMENT = sa.text('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ')

ALL_CLAIMS = sa.select(CLAIMS).order_by(CLAIMS.c.created_s, CLAIMS.c.uuid)
NAMED = ALL_CLAIMS.where(
    CLAIMS.c.consumer_uuid.in_(
        sa.select(CLAIMS.c.consumer_uuid).where(
            sa.or_(
                CLAIMS.c.uuid == sa.bindparam('name'),
                CLAIMS.c.consumer_uuid == sa.bindparam('name'),
            )
        )
    )
)
MOVE_FIELDS = [MOVES.c[field.name] for field in dataclasses.fields(AuditedMove)]
OPEN_MOVES = sa.select(*MOVE_FIELDS).where(
    sa.or_(
        MOVES.c.state.in_(IN_FLIGHT),
        sa.and_(MOVES.c.state == rebalances.CONFIRMED, MOVES.c.why.is_not(None)),
    )
)
MOVES_BY_UUID = sa.select(*MOVE_FIELDS).where(MOVES.c.uuid.in_(sql.GIVEN))
SET_MARK = (
    sa.update(CLAIMS)
    .where(CLAIMS.c.uuid == sa.bindparam('claim'))
    .values(unconfirmed=sa.bindparam('mark', type_=CLAIMS.c.unconfirmed.type))
)


class StillThere(errors.SchedError):
    """Confirmed claims, on ``nodes`` (UUIDs), end only by force; nothing has ended."""

    facts = ('consumer', 'nodes')
    message = 'Instance {consumer} has confirmed claims on nodes {nodes}'


class HasClaims(errors.SchedError):
    """A host with claims is removed only by force; nothing is removed."""

    facts = ('host', 'number')
    message = 'Host {host} has claims ({number}); --force ends them, too'


class HasReported(errors.SchedError):
    """A host that reports is not removed; nothing is removed."""

    facts = ('host',)
    message = 'Host {host} has reported in the meantime: it is up'


class ClaimMaintenance:
    """Maintenance of the claims. Each method raises StoreUnavailable or StoreBusy, and may then be
    called again."""

    def __init__(self, engine):
        self._sessions = Sessions(engine)
        self._store = SqlClaimStore(engine)

    def now_s(self):
        """The time by the database's clock, in seconds since the epoch."""
        return self._store.now_s()

    # Reads.

    def snapshot(self):
        """Return all nodes, claims and server groups as they are at one moment."""
        with self._sessions.transaction(reads=True) as connection:
            if connection.dialect.name != 'sqlite':
                connection.execute(ONE_MOMENT)
            claims = connection.execute(ALL_CLAIMS).all()
            nodes = connection.execute(
                sa.select(NODES).order_by(NODES.c.host, NODES.c.nodename)
            ).all()
            texts = dict(
                connection.execute(sa.select(REPORTS.c.node_uuid, REPORTS.c.report)).all()
            )
            policies = connection.execute(
                sa.select(SERVER_GROUPS).order_by(SERVER_GROUPS.c.uuid)
            ).all()
            records = groups.read_records(connection, deleted=True)
            moves = _moves(connection, claims)
        reader = _SoundRows()
        hosts = {row.uuid: row.host for row in nodes}
        sound_nodes = [*filter(None, (reader.node(row, texts.get(row.uuid)) for row in nodes))]
        sound_claims = [
            *filter(None, (reader.claim(row, hosts.get(row.node_uuid)) for row in claims))
        ]
        left_out = {row.node_uuid for row in reader.unreadable}
        return Snapshot(
            nodes={node.uuid: node for node in sound_nodes if node.uuid not in left_out},
            claims=tuple(claim for claim in sound_claims if claim.node_uuid not in left_out),
            policies=tuple(ServerGroupPolicy(row.uuid, row.policy, row.most) for row in policies),
            marks={row.uuid: row.unconfirmed for row in claims},
            records=tuple(records),
            moves=moves,
            unreadable=tuple(reader.unreadable),
            uncertain=frozenset(row.consumer_uuid for row in claims if row.node_uuid in left_out),
        )

    def named(self, uuid):
        """Return the claims of the consumer with this UUID, or of the consumer of the claim with
        it; oldest first."""
        with self._sessions.transaction(reads=True) as connection:
            return [sql.claim(row) for row in connection.execute(NAMED, {'name': uuid})]

    # Ends.

    def release(self, consumer, node_uuids=None, force=False):
        """End the consumer's claims: on these nodes, or everywhere. Returns them, oldest first.

        Raises StillThere if one of them is confirmed and ``force`` is not set; then none has
        ended.
        """
        with self._sessions.transaction() as connection:
            claims = [claim for claim in _lock_claims(connection, sql.CLAIMS_OF, [consumer])
                      if node_uuids is None or claim.node_uuid in node_uuids]  # fmt: skip
            confirmed = [claim.node_uuid for claim in claims if claim.is_confirmed]
            if confirmed and not force:
                raise StillThere(consumer, confirmed)
            _end(connection, claims)
        sql_domains.end(self._sessions)
        return sorted(claims, key=lambda claim: (claim.created_s, claim.uuid))

    def remove_host(self, host, node_uuids, since_s, force=False):
        """Remove these nodes with their claims, and the operator's settings and the list of
        instances of the host. Returns how many claims have ended.

        ``since_s`` is the time, by the database's clock, at which the caller saw that the host is
        down. Raises HasReported if a node of the host was seen after that, and HasClaims if there
        is a claim and ``force`` is not set; then nothing is removed.
        """
        seen = sa.select(sa.func.max(NODES.c.seen_s)).where(NODES.c.host == host)
        with self._sessions.transaction() as connection:
            sql.LOCK_USAGES.run(connection, node_uuids)
            if (connection.scalar(seen) or 0) > since_s:
                raise HasReported(host)
            claims = sql.read_claims(connection, sql.CLAIMS_ON, node_uuids)
            if claims and not force:
                raise HasClaims(host, len(claims))
            sql.forget_nodes(connection, NODES.c.uuid.in_(node_uuids))
            for table, name in ((SERVICES, 'services'), (HOST_INSTANCES, 'host_instances')):
                connection.execute(sql.RAISE_REVISION, {'table': name})
                connection.execute(sa.delete(table).where(table.c.host == host))
        sql_domains.end(self._sessions)
        return len(claims)

    # Repairs.

    def repair(self, reported, now_s):
        """Repair the findings of an audit that have a repair; data that is correct by now
        stays."""
        kinds = {
            kind: [finding for finding in reported if finding.kind == kind]
            for kind in findings.KINDS
        }
        self._end_orphans([orphan.claim_uuid for orphan in kinds[findings.ORPHAN]])
        for duplicate in kinds[findings.DUPLICATE]:
            self._end_older(duplicate.consumer_uuid)
        if kinds[findings.OVERDUE]:
            self._store.expire(now_s)
        for mark in kinds[findings.MARK]:
            self._mark(mark.claim_uuid)
        for drift in kinds[findings.DRIFT]:
            self._add_up(drift.node_uuid)
        self._end_strays([stray.claim_uuid for stray in kinds[findings.STRAY]])
        if kinds[findings.EMPTY_GROUP]:
            groups.forget_groups(self._sessions)
        sql_domains.end(self._sessions)

    def _end_orphans(self, uuids):
        for chunk in sql.chunks(sorted(uuids)):
            with self._sessions.transaction() as connection:
                claims = sql.read_claims(connection, sql.CLAIMS_BY_UUID, chunk)
                nodes = {claim.node_uuid for claim in claims}
                existing = {row.uuid for row in sql.LOCK_USAGES.run(connection, nodes)}
                _end(connection, [claim for claim in claims if claim.node_uuid not in existing])
            # A node that returned at just that moment may have counted them.
            for uuid in sorted(nodes - existing):
                self._add_up(uuid)

    def _end_strays(self, uuids):
        for chunk in sql.chunks(sorted(uuids)):
            with self._sessions.transaction() as connection:
                of = {
                    claim.top_group
                    for claim in sql.read_claims(connection, sql.CLAIMS_BY_UUID, chunk)
                } - {None}
                records = groups.lock_records(connection, of)
                existing = {
                    uuid for uuid, record in records.items() if record and not record.deleted
                }
                claims = _lock_claims(connection, sql.CLAIMS_BY_UUID, chunk)
                _end(
                    connection,
                    [
                        claim
                        for claim in claims
                        if claim.state == PLANNED and claim.top_group not in existing
                    ],
                )

    def _end_older(self, consumer):
        with self._sessions.transaction() as connection:
            waiting = [claim for claim in _lock_claims(connection, sql.CLAIMS_OF, [consumer])
                       if not claim.is_confirmed]  # fmt: skip
            if waiting:
                *older, newest = sorted(waiting, key=Claim.order)
                _end(connection, older)
                _set_mark(connection, newest)

    def _mark(self, uuid):
        try:
            with self._sessions.transaction() as connection:
                for claim in _lock_claims(connection, sql.CLAIMS_BY_UUID, [uuid]):
                    _set_mark(connection, claim)
        except db_error.DBDuplicateEntry as error:
            raise errors.StoreBusy('a scheduler claims for the same instance now') from error

    def _add_up(self, node_uuid):
        with self._sessions.transaction() as connection:
            _add_up(connection, [node_uuid])


def _moves(connection, claims):
    """Moves of rebalances that are in flight, have ended without a claim, or have one of these
    claims."""
    named = {row.request_id for row in claims if row.move and row.request_id}
    rows = connection.execute(OPEN_MOVES).all() + sql.rows(connection, MOVES_BY_UUID, named)
    return tuple({row.uuid: AuditedMove(**row._mapping) for row in rows}.values())


class _SoundRows:
    """Reads rows; those that it cannot read are ``unreadable``."""

    def __init__(self):
        self.unreadable = []

    def node(self, row, text):
        return self._read(lambda: _node(row, text), row.uuid, row.host)

    def claim(self, row, host):
        return self._read(lambda: sql.claim(row), row.node_uuid, host, row.consumer_uuid, row.uuid)

    def _read(self, read, *about):
        try:
            return read()
        except sql.ODD as error:
            self.unreadable.append(UnreadableRow(f'{type(error).__name__}: {error}', *about))


def _node(row, text):
    return AuditedNode(
        uuid=row.uuid,
        host=row.host,
        nodename=row.nodename,
        seen_s=row.seen_s,
        reported_at=row.reported_at,
        inventories={
            name: Inventory(*values) for name, values in json.loads(row.inventories).items()
        },
        used=json.loads(row.used),
        foreign=sums(json.loads(row.unclaimed)),
        report=Report.from_json(text) if text else None,
        fences=sql.tokens(row.fences),
        foreign_instances=row.foreign_instances,
    )


def _lock_claims(connection, statement, given):
    """Claims that no other transaction can change: their nodes are locked, in the common order."""
    nodes = {claim.node_uuid for claim in sql.read_claims(connection, statement, given)}
    sql.LOCK_USAGES.run(connection, nodes)
    claims = sql.read_claims(connection, statement, given)
    return [claim for claim in claims if claim.node_uuid in nodes]


def _end(connection, claims):
    sql.END_CLAIMS.run(connection, sorted(claim.uuid for claim in claims))
    _add_up(connection, {claim.node_uuid for claim in claims}, changed=True)


def _add_up(connection, nodes, changed=False):
    """Set the usage that claims are validated against to the sum of the nodes' claims and
    unclaimed usage."""
    rows = sql.read_nodes(connection, nodes, lock=True).values()
    claims = sql.by_node(sql.read_claims(connection, sql.CLAIMS_ON, nodes))
    wrong = []
    for row in rows:
        held = (claim.resources for claim in claims.get(row.uuid, ()))
        used = sql.use_text(sums([*json.loads(row.unclaimed).values(), *held]))
        if changed or json.loads(used) != json.loads(row.used):
            wrong.append({'uuid': row.uuid, 'used': used})
    sql.WRITE_USES.run(connection, wrong)


def _set_mark(connection, claim):
    mark = None if claim.is_confirmed else claim.consumer_uuid
    connection.execute(SET_MARK, {'claim': claim.uuid, 'mark': mark})
