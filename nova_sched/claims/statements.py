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
"""The statements of the SQL store: built once, the conversion of its rows to values and back, and
the locks, reads and writes of nodes together with their claims."""

import collections
import dataclasses
import functools
import json
import logging
import operator
from typing import NamedTuple

import sqlalchemy as sa

from nova_sched import errors
from nova_sched.claim import CONFIRMED, Claim, Resizing
from nova_sched.claims import NodeFacts, ServiceFacts
from nova_sched.claims.judge import ConsumerClaims, NodeUsage
from nova_sched.db import clock
from nova_sched.db.tables import (
    AGGREGATES,
    CLAIMS,
    HOST_INSTANCES,
    NODES,
    REPORTS,
    REVISIONS,
    SERVER_GROUPS,
    SERVICES,
)
from nova_sched.db.transactions import DeleteRows, InsertRows, SelectRows, UpdateRows
from nova_sched.hardware.machine import HardwareAllocation
from nova_sched.state.host_aggregate import HostAggregate
from nova_sched.state.report import Inventory, Report

LOG = logging.getLogger(__name__)

# Databases limit the parameters of one statement.
CHUNK = 500

CLAIM_FIELDS = tuple(field.name for field in dataclasses.fields(Claim))

# For many rows, one statement for all of them.
JUDGED_BY = 'inventories', 'used', 'generation', 'host', 'pieces_at', 'fences', 'foreign_instances'
LOCK_USAGES = SelectRows(NODES, 'uuid', *JUDGED_BY, lock=True, clock=True)
CONSUMERS_WITH_CLAIMS = SelectRows(CLAIMS, 'consumer_uuid', key='consumer_uuid')
PUT_CLAIMS, END_CLAIMS = InsertRows(CLAIMS), DeleteRows(CLAIMS)
WRITE_EXPIRIES = UpdateRows(CLAIMS, 'expires_s', 'changed_s', 'changed_at')
WRITE_USES = UpdateRows(NODES, 'used', also='generation = generation + 1')
WRITE_FENCES = UpdateRows(NODES, 'fences')
WRITE_PIECES = UpdateRows(NODES, 'pieces_at')
NEW_NODES, NEW_TEXTS = InsertRows(NODES), InsertRows(REPORTS)
CHANGE_NODES = UpdateRows(NODES, *(name for name in NODES.columns.keys() if name != 'uuid'))  # noqa: SIM118
SEE_NODES = UpdateRows(NODES, 'seen_s', 'boot', 'sequence', 'reported_at')
CHANGE_TEXTS = UpdateRows(REPORTS, 'report')

# Built once: building a statement costs more than running it on SQLite.
GIVEN: sa.BindParameter = sa.bindparam('given', expanding=True)
LOCK_GROUPS = (
    sa.select(SERVER_GROUPS.c.uuid)
    .where(SERVER_GROUPS.c.uuid.in_(GIVEN))
    .order_by(SERVER_GROUPS.c.uuid)
    .with_for_update()
)
NEW_GROUP = sa.insert(SERVER_GROUPS)
RAISE_GROUPS = (
    sa.update(SERVER_GROUPS)
    .where(SERVER_GROUPS.c.uuid.in_(GIVEN))
    .values(generation=SERVER_GROUPS.c.generation + 1)
)
MEMBERS_OF = (
    sa.select(
        CLAIMS.c.group_uuid,
        CLAIMS.c.consumer_uuid,
        CLAIMS.c.node_uuid,
        NODES.c.host,
        CLAIMS.c.uuid,
    )
    .join(NODES, NODES.c.uuid == CLAIMS.c.node_uuid)
    .where(CLAIMS.c.group_uuid.in_(GIVEN))
)
# Claims, with what must be read of their nodes to change them.
CLAIMS_WITH_NODES = sa.select(CLAIMS, *(NODES.c[name] for name in JUDGED_BY)).join(
    NODES, NODES.c.uuid == CLAIMS.c.node_uuid
)
# Those last changed before ``watched_s`` come last: few of them end.
OVERDUE = (
    CLAIMS_WITH_NODES.where(CLAIMS.c.expires_s <= sa.bindparam('now_s', type_=sa.Double()))
    .where(sa.or_(CLAIMS.c.state != CONFIRMED, CLAIMS.c.expires_s > 0))
    .order_by(CLAIMS.c.changed_s < sa.bindparam('watched_s', type_=sa.Double()))
    .order_by(CLAIMS.c.state == CONFIRMED, CLAIMS.c.expires_s, CLAIMS.c.uuid)
    .limit(CHUNK)
    .offset(sa.bindparam('skipped', type_=sa.Integer()))
)
CHANGED_LATER = (
    CLAIMS_WITH_NODES.where(CLAIMS.c.expires_s > 0)
    .where(CLAIMS.c.changed_s > sa.bindparam('later_s', type_=sa.Double()))
    .order_by(CLAIMS.c.uuid)
    .limit(CHUNK)
    .offset(sa.bindparam('skipped', type_=sa.Integer()))
)
WITH_NODES_OF = CLAIMS_WITH_NODES.where(CLAIMS.c.consumer_uuid.in_(GIVEN))
CLAIMS_OF = SelectRows(CLAIMS, *CLAIMS.columns.keys(), key='consumer_uuid')
CLAIMS_ON = SelectRows(CLAIMS, *CLAIMS.columns.keys(), key='node_uuid')
CLAIMS_BY_UUID = SelectRows(CLAIMS, *CLAIMS.columns.keys())
READ_NODES = SelectRows(NODES, *NODES.columns.keys())
LOCK_NODES = SelectRows(NODES, *NODES.columns.keys(), lock=True, clock=True)
READ_TEXTS = SelectRows(REPORTS, 'node_uuid', 'report')

# A row of NODES; ``now_s`` is the database's time at which it was locked, or None.
_COLUMNS = [*NODES.columns.keys(), 'now_s']
NodeRow = collections.namedtuple('NodeRow', _COLUMNS, defaults=[None])  # type: ignore[misc]
DIGEST = sa.select(sa.func.count(), sa.func.sum(NODES.c.generation)).select_from(NODES)
# A node that returns must have a higher generation: no generation is used twice.
LAST_GENERATION = sa.select(REVISIONS.c.value, clock.NOW).where(REVISIONS.c.name == 'nodes')
KEEP_GENERATION = (
    sa.update(REVISIONS)
    .where(REVISIONS.c.name == 'nodes', REVISIONS.c.value < sa.bindparam('generation'))
    .values(value=sa.bindparam('generation'))
)
RAISE_REVISION = (
    sa.update(REVISIONS)
    .where(REVISIONS.c.name == sa.bindparam('table'))
    .values(value=REVISIONS.c.value + 1)
)
HEADS = sa.select(NODES.c.uuid, NODES.c.generation, NODES.c.seen_s)
READ_REVISIONS = sa.select(REVISIONS.c.name, REVISIONS.c.value)


def chunks(items):
    items = list(items)
    return (items[start : start + CHUNK] for start in range(0, len(items), CHUNK))


def rows(connection, statement, given):
    """Rows of a statement about many names, in the order of the names."""
    return [
        row
        for chunk in chunks(sorted(given))
        for row in connection.execute(statement, {'given': chunk})
    ]


# What reading a row raises that is of an unknown form.
ODD = ValueError, LookupError, TypeError, AttributeError, errors.Invalid
COLUMNS = len(CLAIMS.columns)
NODE = list(CLAIMS.columns).index(CLAIMS.c.node_uuid)  # its place in a row of CLAIMS


def read_claims(connection, select, given):
    """The claims whose key is given: ``select`` is CLAIMS_OF, CLAIMS_ON or CLAIMS_BY_UUID."""
    return [claim(row) for row in select.run(connection, given)]


def read_twin(connection, report):
    """The locked NodeRow of the node whose name the report gives to another UUID; None if there is
    none."""
    row = connection.execute(
        sa.select(NODES)
        .where(NODES.c.host == report.host, NODES.c.nodename == report.nodename)
        .where(NODES.c.uuid != report.node_uuid)
        .with_for_update()
    ).first()
    return row and NodeRow(*row)


def read_nodes(connection, uuids, lock=False):
    """UUID -> the NodeRow, in the order of the UUIDs."""
    stored = (LOCK_NODES if lock else READ_NODES).run(connection, uuids)
    return {row[0]: NodeRow(*row) for row in sorted(stored, key=lambda row: row[0])}


def claim(row):
    """The Claim of a row of CLAIMS, with all columns in their order.

    By position: a report reads all claims of its node, and keywords for 23 arguments take twice as
    long as the rest.
    """
    uuid, consumer, node, state, _, resources, *plain = row[:15]
    image, parts, counted, move, resizing, top, member, fences, ends_s, _ = row[15:]
    values = [consumer, node, dict(_parsed(resources)), state, *plain]
    values += parts and HardwareAllocation.from_json(parts), bool(counted)
    values += json.loads(image) if image else {}, move, resizing and Resizing.from_json(resizing)
    values += top, member, tuple(json.loads(fences)) if fences else ()
    values += ends_s, uuid
    return Claim(*values)


def sound(rows):
    """The claims of rows of CLAIMS or of CLAIMS_WITH_NODES. Returns also the consumers of those
    that cannot be read, or whose node cannot: they must not keep the others from ending."""
    claims, odd = [], set()
    for row in rows:
        try:
            if len(row) > COLUMNS:
                inventories, used, *_, fences, _ = row[COLUMNS:]
                _inventories(inventories), dict(json.loads(used)), tokens(fences)
            claims.append(claim(row[:COLUMNS]))
        except ODD as error:
            LOG.error('Claim %s or its node cannot be read, and stays as it is: %r', row[0], error)
            odd.add(row[1])
    return claims, odd


# Creating an encoder takes as long as using it, and json.loads asks for its options each time.
_json = json.JSONEncoder(sort_keys=True).encode
_parsed = json.JSONDecoder().decode
_values = operator.attrgetter(*CLAIM_FIELDS)


def claim_row(claim):
    row = dict(zip(CLAIM_FIELDS, _values(claim), strict=True))
    row['resources'] = _json(dict(claim.resources))
    image = claim.image_properties
    row['image_properties'] = _json(dict(image)) if image else None
    row['parts'] = claim.parts and claim.parts.to_json()
    row['resizing'] = claim.resizing and claim.resizing.to_json()
    row['fences'] = fences_text(claim.fences) if claim.fences else None
    row['life'] = None
    row['unconfirmed'] = None if claim.is_confirmed else claim.consumer_uuid
    return row


def use_text(used):
    return _json({name: amount for name, amount in used.items() if amount})


def fences_text(tokens):
    return _json(sorted(tokens)) if tokens else None


def tokens(text):
    """The tokens of exclusive domains in a row's text."""
    return frozenset(json.loads(text)) if text else frozenset()


# Nodes of one type have the same text, and it seldom changes.
@functools.lru_cache(maxsize=1024)
def _inventories(text):
    return {name: Inventory(*values) for name, values in json.loads(text).items()}


def by_node(claims):
    nodes: dict[str, list[Claim]] = {}
    for claim in claims:
        nodes.setdefault(claim.node_uuid, []).append(claim)
    return nodes


def read_services(connection):
    return tuple(ServiceFacts(**row) for row in connection.execute(sa.select(SERVICES)).mappings())


def read_aggregates(connection):
    return tuple(aggregate(row) for row in connection.execute(sa.select(AGGREGATES)).mappings())


def aggregate(row):
    hosts, metadata = frozenset(json.loads(row['hosts'])), json.loads(row['details'])
    return HostAggregate(row['id'], row['name'], hosts, metadata, row['uuid'])


def read_instances(connection):
    return {
        row.host: frozenset(json.loads(row.instances))
        for row in connection.execute(sa.select(HOST_INSTANCES))
    }


# Nodes, together with their claims.


def lock_nodes(connection, nodes, clock=None):
    """Lock nodes until this transaction ends. Returns (UUID -> NodeUsage, the time in seconds when
    the last of them was locked): by the database, 0 without nodes, or by ``clock``."""
    usages, now_s = {}, 0.0
    for row in LOCK_USAGES.run(connection, nodes):
        uuid, inventories, used, generation, host, pieces_at, fences, foreign, read_s = row
        usages[uuid] = NodeUsage(
            _inventories(inventories), json.loads(used), generation, host, pieces_at
        )
        usages[uuid].foreign_instances = foreign
        if fences:
            usages[uuid].fences = tokens(fences)
        now_s = max(now_s, read_s)
    return usages, now_s if clock is None else clock()


def write_changes(connection, usages, consumer_claims=None):
    """Write the changes of claims (ConsumerClaims), and of the usages of nodes."""
    added = {} if consumer_claims is None else consumer_claims.added
    if consumer_claims is not None and consumer_claims.removed:
        END_CLAIMS.run(
            connection, sorted(claim.uuid for claim in consumer_claims.removed.values())
        )
    PUT_CLAIMS.run(connection, [claim_row(claim) for claim in added.values()])
    changed = [{'uuid': uuid, 'used': use_text(usage.used)}
               for uuid, usage in sorted(usages.items()) if usage.changed]  # fmt: skip
    WRITE_USES.run(connection, changed)
    taken = {claim.node_uuid for claim in added.values() if claim.all_parts}
    pieces = [{'uuid': uuid, 'pieces_at': usages[uuid].generation + 1} for uuid in sorted(taken)]
    WRITE_PIECES.run(connection, pieces)


def free_sources(connection, ended, now_s, lifetime_s):
    """Write the other claims of moves that keep their source again, if a report or a removal has
    ended them: the consumers may not be back on their sources yet, see NodeReports."""
    consumers = {claim.consumer_uuid for claim in ended if claim.keeps_source}
    if not consumers:
        return

    def remaining():
        return sound(rows(connection, WITH_NODES_OF, consumers))[0]

    usages, _ = lock_nodes(connection, {claim.node_uuid for claim in remaining()})
    consumer_claims = ConsumerClaims(claim for claim in remaining() if claim.node_uuid in usages)
    for claim in consumer_claims.claims:
        consumer_claims.put(claim.key, claim.returning(now_s + lifetime_s))
    consumer_claims.stamp(now_s, usages)
    write_changes(connection, usages, consumer_claims)


def read_texts(connection, uuids):
    """UUID -> the node's last report, as text."""
    return dict(READ_TEXTS.run(connection, uuids))


def read_facts(connection, uuids):
    """All stored data of those of these nodes that exist. Returns also, by UUID, why other ones
    cannot be read: another release, or an operator, has written one of their rows."""
    # The nodes first: a generation that is older than the claims is found stale by the next read.
    nodes = read_nodes(connection, uuids).values()
    reports = read_texts(connection, uuids)
    claims: dict[str, list] = {}
    for row in CLAIMS_ON.run(connection, uuids):
        claims.setdefault(row[NODE], []).append(row)
    facts, odd = [], {}
    for row in nodes:
        if row.uuid not in reports:
            continue  # it was removed between the two queries
        try:
            facts.append(
                NodeFacts(
                    report=Report.from_json(reports[row.uuid]),
                    generation=row.generation,
                    claims=tuple(map(claim, claims.get(row.uuid, ()))),
                    unclaimed=json.loads(row.unclaimed),
                    foreign_instances=row.foreign_instances,
                    seen_s=row.seen_s,
                    fences=tokens(row.fences),
                )
            )
        except ODD as error:  # it costs its node alone
            odd[row.uuid] = f'{type(error).__name__}: {error}'
    return tuple(facts), odd


class Forgotten(NamedTuple):
    """A node that was removed, with the claims that ended with it."""

    uuid: str
    host: str
    claims: list


def forget_nodes(connection, *condition):
    """Remove nodes and their claims. Returns a Forgotten for each."""
    columns = NODES.c.uuid, NODES.c.host, NODES.c.generation
    nodes = connection.execute(sa.select(*columns).where(*condition).with_for_update()).all()
    forgotten = []
    for uuid, host, generation in nodes:
        forgotten.append(Forgotten(uuid, host, read_claims(connection, CLAIMS_ON, [uuid])))
        connection.execute(KEEP_GENERATION, {'generation': generation})
        connection.execute(sa.delete(CLAIMS).where(CLAIMS.c.node_uuid == uuid))
        connection.execute(sa.delete(REPORTS).where(REPORTS.c.node_uuid == uuid))
        connection.execute(sa.delete(NODES).where(NODES.c.uuid == uuid))
    return forgotten
