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
"""Nodes in the database: locks, reads, writes (together with their claims), and removes them."""

import json
from typing import NamedTuple

import sqlalchemy as sa

from nova_sched.claims import NodeFacts
from nova_sched.claims import statements as sql
from nova_sched.claims.judge import Held
from nova_sched.db.tables import CLAIMS, NODES, REPORTS
from nova_sched.state.report import Report


def lock(connection, nodes):
    """UUID -> NodeUsage: the usage of the nodes, which are locked until this transaction ends."""
    return lock_at(connection, nodes)[0]


def lock_at(connection, nodes):
    """Lock nodes until this transaction ends. Returns (UUID -> NodeUsage, the database's time in
    seconds when the last of them was locked; 0 without nodes)."""
    found, now_s = {}, 0.0
    for uuid, *rest, read_s in sql.LOCK_USAGES.run(connection, nodes):
        found[uuid], now_s = sql.usage(*rest), max(now_s, read_s)
    return found, now_s


def write(connection, usages, held=None):
    """Write the changes of claims (Held), and of the usages of nodes."""
    added = {} if held is None else held.added
    if held is not None:
        replace_claims(connection, held.removed.values(), added.values())
    changed = [{'uuid': uuid, 'used': sql.use_text(usage.used)}
               for uuid, usage in sorted(usages.items()) if usage.changed]  # fmt: skip
    sql.WRITE_USES.run(connection, changed)
    taken = {claim.node_uuid for claim in added.values() if claim.all_parts}
    pieces = [{'uuid': uuid, 'pieces_at': usages[uuid].generation + 1} for uuid in sorted(taken)]
    sql.WRITE_PIECES.run(connection, pieces)


def free_sources(connection, ended, now_s, lifetime_s):
    """Write the other claims of moves that keep their source again, if a report or a removal has
    ended them: the consumers may not be back on their sources yet, see NodeReports."""
    consumers = {claim.consumer_uuid for claim in ended if claim.keeps_source}
    if not consumers:
        return
    nodes = {claim.node_uuid for claim in sql.read_claims(connection, sql.CLAIMS_OF, consumers)}
    usages = lock(connection, nodes)
    found = sql.read_claims(connection, sql.CLAIMS_OF, consumers)
    held = Held(claim for claim in found if claim.node_uuid in usages)
    for claim in held.claims:
        held.put(claim.key, claim.returning(now_s + lifetime_s))
    held.stamp(now_s, usages)
    write(connection, usages, held)


def replace_claims(connection, gone, come):
    """End claims, and make other claims."""
    sql.END_CLAIMS.run(connection, sorted(claim.uuid for claim in gone))
    sql.PUT_CLAIMS.run(connection, [sql.claim_row(claim) for claim in come])


def texts(connection, uuids):
    """UUID -> the node's last report, as text."""
    return dict(sql.READ_TEXTS.run(connection, uuids))


def facts(connection, uuids):
    """All stored data of nodes; only of those that exist. Returns also why the others of them
    cannot be read, by UUID: another release, or a hand, has written a row of theirs."""
    # The nodes first: a generation that is older than the claims is found stale by the next read.
    nodes = sql.read_nodes(connection, uuids).values()
    reports = texts(connection, uuids)
    claims: dict[str, list] = {}
    for row in sql.CLAIMS_ON.run(connection, uuids):
        claims.setdefault(row[sql.NODE], []).append(row)
    found, odd = [], {}
    for row in nodes:
        if row.uuid not in reports:
            continue  # it was removed between the two queries
        try:
            found.append(_facts(row, reports[row.uuid], claims.get(row.uuid, ())))
        except sql.ODD as error:  # it costs its node alone
            odd[row.uuid] = f'{type(error).__name__}: {error}'
    return tuple(found), odd


def _facts(row, text, claims):
    return NodeFacts(
        report=Report.from_json(text),
        generation=row.generation,
        claims=tuple(map(sql.claim, claims)),
        unclaimed=json.loads(row.unclaimed),
        foreign_instances=row.foreign_instances,
        seen_s=row.seen_s,
        fences=sql.tokens(row.fences),
    )


class Forgotten(NamedTuple):
    """A node that was removed, with the claims that ended with it."""

    uuid: str
    host: str
    claims: list


def forget(connection, *condition):
    """Remove nodes and their claims. Returns a Forgotten for each."""
    columns = NODES.c.uuid, NODES.c.host, NODES.c.generation
    nodes = connection.execute(sa.select(*columns).where(*condition).with_for_update()).all()
    found = []
    for uuid, host, generation in nodes:
        found.append(Forgotten(uuid, host, sql.read_claims(connection, sql.CLAIMS_ON, [uuid])))
        connection.execute(sql.KEEP_GENERATION, {'generation': generation})
        connection.execute(sa.delete(CLAIMS).where(CLAIMS.c.node_uuid == uuid))
        connection.execute(sa.delete(REPORTS).where(REPORTS.c.node_uuid == uuid))
        connection.execute(sa.delete(NODES).where(NODES.c.uuid == uuid))
    return found
