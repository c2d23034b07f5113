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
"""Nodes' reports in the database: applies their changes in one transaction of a connection."""

import itertools
import json

from nova_sched.claims import sql_domains, sql_nodes
from nova_sched.claims import sql_groups as groups
from nova_sched.claims import statements as sql
from nova_sched.claims.judge import Held, NodeUsage
from nova_sched.claims.reconcile import absent, keeps_source
from nova_sched.claims.taken import take
from nova_sched.db.tables import NODES


def take_all(connection, latest, now_s, tokens, locator=None):
    """Apply reports (node UUID -> Report); returns a Taken for each.

    ``now_s`` replaces the database's clock. ``tokens`` are those of the exclusive domains that may
    end with the reports; ``locator``: see ClaimStore. Raises Loose.
    """
    watched = groups.watched(connection, tokens)
    rows = sql_nodes.rows(connection, watched.union(latest), lock=True)
    texts = sql_nodes.texts(connection, latest)
    claims = sql.by_node(sql.read_claims(connection, sql.CLAIMS_ON, latest))
    moving = _moving(connection, latest, claims)
    first, read_s = 0, max((row.now_s for row in rows.values()), default=0.0)
    if not latest.keys() <= rows.keys():
        first, read_s = connection.execute(sql.LAST_GENERATION).one()
    now_s = read_s if now_s is None else now_s
    told = {
        uuid: locator and sql_domains.told_text(locator, report) for uuid, report in latest.items()
    }
    taken = [
        take(
            report,
            rows.get(uuid),
            texts.get(uuid),
            claims.get(uuid, []),
            moving,
            first,
            now_s,
            told[uuid],
        )
        for uuid, report in sorted(latest.items())
    ]
    twins = [_forget_twin(connection, one.facts.report) for one in taken if one.renamed]
    _end_fences(connection, rows, taken, itertools.chain(*twins), watched, tokens)
    sql_domains.enter(connection, locator, taken)  # a domain that has ended by now keeps no node
    _write(connection, taken)
    return taken


def _moving(connection, reports, claims):
    """(consumer, node) of the consumers that have left one of these nodes in a move that keeps its
    source."""
    gone = {
        (consumer, uuid)
        for uuid, report in reports.items()
        for consumer in absent(
            report, {claim.consumer_uuid: claim for claim in claims.get(uuid, ())}
        )
    }
    found = sql.read_claims(connection, sql.CLAIMS_OF, {consumer for consumer, _ in gone})
    return {key for key in gone if any(keeps_source(one, *key) for one in found)}


def _forget_twin(connection, report):
    """Remove a node whose name the report gives to another UUID: the node was rebuilt."""
    same_name = (NODES.c.host == report.host, NODES.c.nodename == report.nodename)
    return sql_nodes.forget(connection, NODES.c.uuid != report.node_uuid, *same_name)[1]


def _end_fences(connection, rows, taken, gone, watched, tokens):
    """End the exclusive domains whose last claims end with reports, or with the nodes ``gone``."""
    changes = {claim.key: (claim, None) for claim in gone}
    for one in taken:
        put = {claim.key: claim for claim in one.put}
        changes |= {claim.key: (claim, put.get(claim.key)) for claim in one.ended}
    if not any(old.fences for old, _ in changes.values()):
        return
    usages = {
        row.uuid: NodeUsage(
            {}, json.loads(row.used), row.generation, fences=sql.tokens(row.fences)
        )
        for row in rows.values()
    }
    fences = groups.read_fences(connection, dict(usages), watched, tokens)
    fences.adopt(fences.after(changes))
    for one in taken:
        if one.uuid in fences.changed:
            one.carry(usages.pop(one.uuid).fences)
    fences.changed &= usages.keys()
    sql_nodes.write(connection, usages, Held(()), fences)


def _write(connection, taken):
    """Write all changes that reports make, with one statement for each kind."""
    ended, put = [one.ended for one in taken], [one.put for one in taken]
    sql_nodes.replace_claims(connection, itertools.chain(*ended), itertools.chain(*put))
    texts = [(one, {'node_uuid': one.uuid, 'report': one.text}) for one in taken]
    same = [one.values for one in taken if not (one.changed or one.facts.stale)]
    sql.NEW_NODES.run(connection, [one.values for one in taken if one.new])
    sql.CHANGE_NODES.run(connection, [one.values for one in taken if one.changed and not one.new])
    sql.SEE_NODES.run(connection, same)
    sql.NEW_TEXTS.run(connection, [row for one, row in texts if one.text_is_new])
    sql.CHANGE_TEXTS.run(connection, [row for one, row in texts if one.text_changed])
