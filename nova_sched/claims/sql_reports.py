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
"""Nodes' reports in the database: what a report changes of its node's row, text and claims, and
the transaction that applies it."""

import dataclasses
import itertools
import json

from nova_sched.claims import NodeFacts, sql_domains
from nova_sched.claims import statements as sql
from nova_sched.claims.reconcile import NEW_NODE, Before, absent, keeps_source, settle
from nova_sched.claims.values import sums
from nova_sched.db.tables import NODES
from nova_sched.state.report import Report, ReportOrder, check_boot

# Columns that say in which domains a node is.
NAMES = 'host', 'nodename', 'told'
# The fields of a report's text that describe hardware, beside its inventories.
PIECES = 'numa_topology', 'pci_pools', 'providers'


@dataclasses.dataclass(slots=True)
class ReportChanges:
    """The changes of one report: ``values`` of the node's row, its text, and claims."""

    facts: NodeFacts
    values: dict
    text: str
    ended: list = dataclasses.field(default_factory=list)  # or are replaced, as they were
    put: list = dataclasses.field(default_factory=list)
    new: bool = False
    changed: bool = False
    text_changed: bool = False
    moved: bool = False  # the node is in other domains than before, by its own report

    @property
    def uuid(self):
        return self.facts.report.node_uuid

    def carry(self, tokens):
        """Set the tokens that the node carries from now on."""
        if not self.changed:
            self.changed = True
            self.values['generation'] += 1
        self.values['fences'] = sql.fences_text(tokens)
        generation = self.values['generation']
        self.facts = dataclasses.replace(self.facts, fences=tokens, generation=generation)


def second_of_a_name(reports):
    """The position of the first report with a name that an earlier report gives to another node.

    None without such a report.
    """
    owners: dict[tuple[str, str], str] = {}
    for place, report in enumerate(reports):
        if owners.setdefault((report.host, report.nodename), report.node_uuid) != report.node_uuid:
            return place
    return None


def take(report, row, text_before, claims, moving, before, now_s, domains=None):
    """Settle the node's claims with its report, and find out which changes that makes in its
    ``row``.

    ``moving`` and ``before``: see ``settle``. ``domains`` is the text of the domains that the node
    reports; None: as before. A report that is older than the last applied one changes nothing.
    """
    if row is not None and not report.order.is_after(_order(row), row.reported_at):
        return _not_taken(row, text_before, claims)
    by_consumer = {claim.consumer_uuid: claim for claim in claims}
    settled = settle(report, by_consumer, moving, now_s, before)
    put = settled.changed(by_consumer)
    held = [claim.resources for claim in settled.claims.values()]
    text = report.to_json()
    inventories = {name: inventory.plain for name, inventory in report.inventories.items()}
    values = {
        'uuid': report.node_uuid,
        'host': report.host,
        'nodename': report.nodename,
        'inventories': json.dumps(inventories, sort_keys=True),
        'used': sql.use_text(sums([settled.foreign, *held])),
        'unclaimed': json.dumps(settled.unclaimed, sort_keys=True),
        'foreign_instances': settled.foreign_instances,
        'fences': None if row is None else row.fences,
        'told': row.told if domains is None and row is not None else domains,
    }
    new = row is None
    text_changed = not new and text != text_before
    changed = bool(
        new
        or text_changed
        or settled.ended
        or put
        or any(getattr(row, name) != values[name] for name in values)
    )
    generation = before.generation + changed
    has_changed = new or any(claim.all_parts for claim in put)
    if text_changed and not has_changed:
        is_same = row.inventories == values['inventories']
        has_changed = not is_same or _pieces_differ(report, text_before)
    order = report.order
    values |= {
        'generation': generation,
        'pieces_at': generation if has_changed else row.pieces_at,
        'made_at': generation if new else row.made_at,
        'reported_at': generation,
        'seen_s': now_s,
        'boot': order.boot,
        'sequence': order.sequence,
    }
    return ReportChanges(
        facts=NodeFacts(
            report,
            generation,
            tuple(settled.claims.values()),
            settled.unclaimed,
            settled.foreign_instances,
            now_s,
            sql.tokens(values['fences']),
            ended=settled.ended,
        ),
        values=values,
        text=text,
        ended=[*settled.ended, *(by_consumer[claim.consumer_uuid] for claim in put)],
        put=put,
        new=new,
        changed=changed,
        text_changed=text_changed,
        moved=new or any(getattr(row, name) != values[name] for name in NAMES),
    )


def _order(row):
    """The ReportOrder of the last applied report."""
    return ReportOrder(boot=row.boot, sequence=row.sequence)


def _before(row, text):
    """What ``absent`` and ``settle`` know of a node before a report. Its last list is seldom
    needed."""

    def listed():
        instances = json.loads(text)['instances']
        return None if instances is None else frozenset(instances)

    rows = json.loads(row.unclaimed)
    return Before(row.generation, row.reported_at, _order(row), listed, rows)


def _not_taken(row, text, claims):
    """The changes of a report that is older than the last one: none."""
    facts = NodeFacts(
        report=dataclasses.replace(Report.from_json(text), order=_order(row)),
        generation=row.generation,
        claims=tuple(claims),
        unclaimed=json.loads(row.unclaimed),
        foreign_instances=row.foreign_instances,
        seen_s=row.seen_s,
        fences=sql.tokens(row.fences),
        stale=True,
    )
    values = {column.name: getattr(row, column.name) for column in NODES.columns}
    return ReportChanges(facts, values, text)


def _pieces_differ(report, text_before):
    """Whether a report describes other pieces than the text of the one before it."""
    try:
        before = json.loads(text_before)
        return any(getattr(report, name) != before[name] for name in PIECES)
    except sql.ODD:  # the text before is of an unknown form
        return True


# The transaction.


def take_all(connection, latest, now_s, lifetime_s, locator=None):
    """Apply reports (node UUID -> Report). Returns a ReportChanges for each, by the UUIDs of the
    reports, and the nodes (Forgotten) that had the name of one of them: they were rebuilt.

    A report of a new node that may be from before the node of that name was made changes nothing:
    its ReportChanges is of that node. ``now_s`` replaces the database's clock; ``lifetime_s`` and
    ``locator``: see NodeReports.
    """
    rows = sql.read_nodes(connection, latest, lock=True)
    # Of the locked nodes only: another scheduler may make a node that is missing here, and remove
    # it with its text before this transaction writes.
    texts = sql.read_texts(connection, rows)
    claims = sql.by_node(sql.read_claims(connection, sql.CLAIMS_ON, latest))
    known = {uuid: _before(row, texts[uuid]) for uuid, row in rows.items()}
    moving = _moving(connection, latest, known, claims)
    late, forgotten = _meet_twins(connection, latest, rows)
    first, read_s = 0, max((row.now_s for row in rows.values()), default=0.0)
    if not latest.keys() <= rows.keys():
        # After the twins: the generations of the new nodes are above theirs.
        first, read_s = connection.execute(sql.LAST_GENERATION).one()
    now_s = read_s if now_s is None else now_s
    new_node = NEW_NODE._replace(generation=first)
    taken = {
        uuid: late[uuid]
        if uuid in late
        else take(
            report,
            rows.get(uuid),
            texts.get(uuid),
            claims.get(uuid, []),
            moving,
            known.get(uuid, new_node),
            now_s,
            locator and json.dumps(locator.told(report), sort_keys=True),
        )
        for uuid, report in sorted(latest.items())
    }
    sql_domains.enter(connection, locator, taken.values())
    _write(connection, taken.values())
    ended = [change.facts.ended for change in taken.values()] + [node.claims for node in forgotten]
    sql.free_sources(connection, itertools.chain(*ended), now_s, lifetime_s)
    return taken, forgotten


def _moving(connection, reports, known, claims):
    """(consumer, node) of the consumers that have left one of these nodes in a move that keeps its
    source."""
    gone = {
        (consumer, uuid)
        for uuid, before in known.items()
        for consumer in absent(
            reports[uuid], {claim.consumer_uuid: claim for claim in claims.get(uuid, ())}, before
        )
    }
    consumers = {consumer for consumer, _ in gone}
    remaining, odd = sql.sound(sql.CLAIMS_OF.run(connection, consumers))
    # One that has a claim elsewhere that cannot be read may have.
    return {
        (consumer, uuid)
        for consumer, uuid in gone
        if consumer in odd or any(keeps_source(claim, consumer, uuid) for claim in remaining)
    }


def _meet_twins(connection, reports, rows):
    """Remove the nodes whose names these reports give to other UUIDs: they were rebuilt.

    Returns for reports that may be older than such a node its ReportChanges, by their UUIDs, and
    the removed nodes (Forgotten). A known node that gets another name orders its reports itself.
    Raises BadReport for a start number that does not follow the last one.
    """
    late, forgotten = {}, []
    for uuid, report in sorted(reports.items()):
        row = rows.get(uuid)
        if row is not None:
            check_boot(report, row.boot)
        if row is not None and (
            (row.host, row.nodename) == (report.host, report.nodename)
            or not report.order.is_after(_order(row), row.reported_at)
        ):
            continue
        twin = sql.read_twin(connection, report)
        if row is None:
            check_boot(report, twin and twin.boot)
        if twin is None:
            continue
        if row is None and not report.order.is_of_later_life(twin.boot, twin.made_at):
            text = sql.read_texts(connection, [twin.uuid])[twin.uuid]
            claims = sql.read_claims(connection, sql.CLAIMS_ON, [twin.uuid])
            late[uuid] = _not_taken(twin, text, claims)
        else:
            forgotten += sql.forget_nodes(connection, NODES.c.uuid == twin.uuid)
    return late, forgotten


def _write(connection, taken):
    """Write all changes that reports make, with one statement for each kind."""
    ended, put = [change.ended for change in taken], [change.put for change in taken]
    uuids = sorted(claim.uuid for claim in itertools.chain(*ended))
    sql.END_CLAIMS.run(connection, uuids)
    sql.PUT_CLAIMS.run(connection, [sql.claim_row(claim) for claim in itertools.chain(*put)])
    texts = [(change, {'node_uuid': change.uuid, 'report': change.text}) for change in taken]
    same = [change.values for change in taken if not (change.changed or change.facts.stale)]
    sql.NEW_NODES.run(connection, [change.values for change in taken if change.new])
    sql.CHANGE_NODES.run(
        connection, [change.values for change in taken if change.changed and not change.new]
    )
    sql.SEE_NODES.run(connection, same)
    sql.NEW_TEXTS.run(connection, [row for change, row in texts if change.new])
    sql.CHANGE_TEXTS.run(connection, [row for change, row in texts if change.text_changed])
