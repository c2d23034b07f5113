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

from nova_sched.claims import sql_domains, sql_nodes
from nova_sched.claims import statements as sql
from nova_sched.claims.reconcile import absent, keeps_source
from nova_sched.claims.taken import take
from nova_sched.db.tables import NODES


def take_all(connection, latest, now_s, locator=None):
    """Apply reports (node UUID -> Report); returns a ReportChanges for each.

    ``now_s`` replaces the database's clock; ``locator``: see NodeReports.
    """
    rows = sql_nodes.rows(connection, latest, lock=True)
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
    for one in taken:
        if one.renamed:
            _forget_twin(connection, one.facts.report)
    sql_domains.enter(connection, locator, taken)
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
    sql_nodes.forget(connection, NODES.c.uuid != report.node_uuid, *same_name)


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
