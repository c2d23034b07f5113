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
"""Exclusive domains in the database: which are closed, and which nodes join or leave them.

Three kinds of transactions change which node carries which token: those that close or end an
exclusive domain, those that bring a node to other domains by its report, and those that change an
aggregate. Each of them holds the revision of ``domains`` from the time it has its nodes to its
end. So each reads the changes that the one before it has committed, and two of them never decide
on the same state.
"""

import collections
import json
from typing import NamedTuple

import sqlalchemy as sa

from nova_sched import errors
from nova_sched.claims import Domain
from nova_sched.claims import exclusive_domains as domains
from nova_sched.claims import statements as sql
from nova_sched.claims.exclusive_domains import ExclusiveDomains
from nova_sched.db.tables import CLAIMS, EXCLUSIVE_DOMAINS, NODES, REVISIONS
from nova_sched.db.transactions import DeleteRows, InsertRows, SelectRows

# It is written, not only locked: in a database cluster, locks are local to one server.
HOLD = (
    sa.update(REVISIONS).where(REVISIONS.c.name == 'domains').values(value=REVISIONS.c.value + 1)
)
ALL_DOMAINS = sa.select(EXCLUSIVE_DOMAINS)
PLACES = sa.select(NODES.c.uuid, NODES.c.host, NODES.c.nodename, NODES.c.told, NODES.c.fences)
PLACES_OF = PLACES.where(NODES.c.host.in_(sql.GIVEN))
NEW_DOMAINS, END_DOMAINS = InsertRows(EXCLUSIVE_DOMAINS), DeleteRows(EXCLUSIVE_DOMAINS)
MARKED = sa.select(NODES.c.uuid, NODES.c.fences).where(NODES.c.fences.is_not(None))
TENANTS = SelectRows(CLAIMS, 'consumer_uuid', 'node_uuid', 'fences', key='node_uuid')

# How many times other schedulers may change the nodes of a domain while it is closed or ended.
TRIES = 5


class NodesChanged(Exception):
    """Other transactions have changed the nodes of a domain before this one held the domains."""


def repeated(work):
    """Return the result of ``work``, which is repeated while it raises NodesChanged."""
    for _ in range(TRIES):
        try:
            return work()
        except NodesChanged:
            continue
    raise errors.StoreBusy('other schedulers change the same exclusive domains now')


class Place(NamedTuple):
    """A node's host, name, domains and tokens.

    ``told`` is the node's own report of its domains. None: it has not reported since the column
    was added.
    """

    uuid: str
    host: str
    nodename: str
    told: dict | None
    fences: frozenset


def hold(connection):
    """Wait for other transactions that change exclusive domains; later ones wait for this one's
    end."""
    connection.execute(HOLD)


def known(connection):
    """Token -> Domain: the exclusive domains."""
    return {
        row.token: Domain(row.level, row.name, row.top_group)
        for row in connection.execute(ALL_DOMAINS)
    }


# Domains that are closed, and that end.


class DomainReader:
    """The exclusive domains that placements (``put``) close, and those that may end: the tokens
    ``ending``.

    ``placements`` close the domains with all of their nodes, as committed by now. ``nodes`` are
    the UUIDs of all nodes concerned. They are locked next; then ``exclusive_domains`` reads the
    rest.
    """

    def __init__(self, connection, locator, put, ending=frozenset()):
        self._locator, self._ending = locator, ending
        self.placements = _filled(connection, locator, put)
        self._closed = [
            closed for placement in self.placements for closed in domains.put(placement)
        ]
        self.nodes = marked(connection, ending).union(*(closed.nodes for closed in self._closed))

    def exclusive_domains(self, connection, usages):
        """Return the ExclusiveDomains on the locked nodes.

        Holds the exclusive domains until the end of the transaction. Raises NodesChanged if other
        nodes than the locked ones are concerned by now.
        """
        if not self._closed and not self._ending:
            return ExclusiveDomains(usages)
        hold(connection)
        current = _filled(connection, self._locator, self.placements) == self.placements
        if not current or not marked(connection, self._ending) <= usages.keys():
            raise NodesChanged
        locked = self.nodes & usages.keys()
        tenants: dict = {node: {} for node in locked}
        for consumer, node, text in TENANTS.run(connection, locked) if locked else ():
            tenants[node][consumer] = sql.tokens(text)
        return ExclusiveDomains(usages, tenants, self._ending)


def _filled(connection, locator, placements):
    """The placements with all nodes in the domains they close, as committed by now."""
    named = [
        closed.domain
        for placement in placements
        for closed in domains.put(placement)
        if closed.domain
    ]
    if locator is None or not named:
        return placements
    hosts = {locator.host_of(domain.level, domain.name) for domain in named}
    rows = connection.execute(PLACES) if None in hosts else sql.rows(connection, PLACES_OF, hosts)
    places, where = [_place(row) for row in rows], _Where(connection, locator)
    inside = collections.defaultdict(set)
    for place in places:
        for domain in where.domains(place).items() if place.told is not None else ():
            inside[domain].add(place.uuid)
    untold = [place for place in places if place.told is None]
    return domains.filled(placements, lambda closed: _nodes_of(closed, inside, untold))


def _nodes_of(closed, inside, untold):
    """The nodes of a ClosedDomain: those ``inside`` its domain (level, name), and of the places of
    ``untold`` domains those that were known to be."""
    if closed.domain is None:
        return closed.nodes
    known = (
        place.uuid
        for place in untold
        if place.uuid in closed.nodes or closed.token in place.fences
    )
    return frozenset(inside[closed.domain.level, closed.domain.name]).union(known)


def marked(connection, tokens):
    """UUIDs of all nodes that carry one of the tokens."""
    if not tokens:
        return set()
    return {
        row.uuid
        for row in connection.execute(MARKED)
        if not tokens.isdisjoint(sql.tokens(row.fences))
    }


def end(sessions):
    """End the exclusive domains that no claim is in; returns the UUIDs of the nodes that were in
    them."""
    return repeated(lambda: _end_once(sessions))


def _end_once(sessions):
    with sessions.transaction(reads=True) as connection:
        carried = {row.uuid: sql.tokens(row.fences) for row in connection.execute(MARKED)}
        texts = {text for *_, text in TENANTS.run(connection, carried)} if carried else ()
        ending = frozenset().union(*carried.values()).difference(*map(sql.tokens, texts))
    if not ending:
        return []
    with sessions.transaction() as connection:
        read = DomainReader(connection, None, (), ending)
        usages, _ = sql.lock_nodes(connection, read.nodes)
        # A claim may have entered since; after the lock, none can before this transaction ends.
        exclusive_domains = read.exclusive_domains(connection, usages)
        exclusive_domains.adopt(exclusive_domains.swept())
        sql.write_changes(connection, usages)
        write(connection, usages, exclusive_domains)
    return sorted(exclusive_domains.changed)


def write(connection, usages, exclusive_domains):
    """Write the tokens that the nodes carry now and the domains that were closed, and delete the
    domains that ended."""
    rows = [
        {'uuid': node, 'fences': sql.fences_text(usages[node].fences)}
        for node in sorted(exclusive_domains.changed)
    ]
    sql.WRITE_FENCES.run(connection, rows)
    closed, ended = exclusive_domains.closed, exclusive_domains.ended
    if not closed and not ended:
        return
    stored = known(connection)
    END_DOMAINS.run(connection, sorted(ended & stored.keys()))
    NEW_DOMAINS.run(
        connection,
        [
            {
                'token': token,
                'level': closed_domain.domain.level,
                'name': closed_domain.domain.name,
                'top_group': closed_domain.domain.top_group,
            }
            for token, closed_domain in sorted(closed.items())
            if token not in stored
        ],
    )


# Nodes that join and leave.


def enter(connection, locator, taken):
    """Set the tokens of nodes whose reports (ReportChanges) bring them to other domains."""
    moved = [change for change in taken if change.moved]
    if locator is None or not moved:
        return
    hold(connection)
    stored = known(connection)
    if not stored:
        return
    where = _Where(connection, locator)
    for change in moved:
        report, before = change.facts.report, sql.tokens(change.values['fences'])
        place = Place(change.uuid, report.host, report.nodename, locator.told(report), before)
        borne = {token for claim in change.facts.claims for token in claim.fences}
        after = domains.carried(before, where.domains(place), stored, borne)
        if after != before:
            change.carry(after)


def entering(connection, locator, hosts):
    """Node UUID -> its tokens from now on, of the nodes on these hosts whose tokens change."""
    stored = known(connection)
    if locator is None or not stored:
        return {}
    where = _Where(connection, locator)
    places = [
        place
        for place in map(_place, sql.rows(connection, PLACES_OF, hosts))
        if place.told is not None
    ]
    borne: dict[str, frozenset[str]] = collections.defaultdict(frozenset)
    for _, uuid, text in TENANTS.run(connection, [place.uuid for place in places if place.fences]):
        borne[uuid] |= sql.tokens(text)
    after = {
        place.uuid: domains.carried(place.fences, where.domains(place), stored, borne[place.uuid])
        for place in places
    }
    return {place.uuid: after[place.uuid] for place in places if after[place.uuid] != place.fences}


def _place(row):
    return Place(
        row.uuid, row.host, row.nodename, row.told and json.loads(row.told), sql.tokens(row.fences)
    )


class _Where:
    """The domains of nodes, by the aggregates that are committed by now."""

    def __init__(self, connection, locator):
        self._locator = locator
        self._of_host = collections.defaultdict(list)
        for aggregate in sql.read_aggregates(connection):
            for host in aggregate.hosts:
                self._of_host[host].append(aggregate)

    def domains(self, place):
        aggregates = self._of_host.get(place.host, ())
        return self._locator.domains(place.host, place.nodename, place.told, aggregates)
