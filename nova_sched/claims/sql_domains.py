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

from nova_sched.claims import Domain, domains
from nova_sched.claims import statements as sql
from nova_sched.claims.fences import Loose
from nova_sched.db import bulk
from nova_sched.db.tables import EXCLUSIVE_DOMAINS, NODES, REVISIONS

_json = json.JSONEncoder(sort_keys=True).encode

# It is written, not only locked: in a database cluster, locks are local to one server.
HOLD = (
    sa.update(REVISIONS).where(REVISIONS.c.name == 'domains').values(value=REVISIONS.c.value + 1)
)
KNOWN = sa.select(EXCLUSIVE_DOMAINS)
PLACES = sa.select(NODES.c.uuid, NODES.c.host, NODES.c.nodename, NODES.c.told, NODES.c.fences)
PLACES_OF = PLACES.where(NODES.c.host.in_(sql.GIVEN))
NEW_DOMAINS, END_DOMAINS = bulk.Insert(EXCLUSIVE_DOMAINS), bulk.Delete(EXCLUSIVE_DOMAINS)
BORNE = bulk.Select(sql.CLAIMS, 'node_uuid', 'fences', key='node_uuid')


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
        row.token: Domain(row.level, row.name, row.top_group) for row in connection.execute(KNOWN)
    }


def told_text(locator, report):
    """The stored text of the node's own report of its domains."""
    return _json(locator.told(report))


# Placements that close domains.


def filled(connection, locator, placements):
    """The placements with all nodes in the domains they close, as committed by now."""
    if locator is None or not domains.is_closing(placements):
        return placements
    where = _Where(connection, locator)
    places = [_place(row) for row in connection.execute(PLACES)]
    return domains.filled(placements, lambda fence: _nodes_of(fence, places, where))


def check(connection, locator, placements):
    """Hold the exclusive domains; raise Loose if the placements were filled with outdated
    nodes."""
    if domains.is_closing(placements):
        hold(connection)
        if filled(connection, locator, placements) != placements:
            raise Loose(())


def _nodes_of(fence, places, where):
    if fence.domain is None:
        return fence.nodes
    level, name = fence.domain.level, fence.domain.name
    return frozenset(
        place.uuid
        for place in places
        if (
            where.domains(place).get(level) == name
            if place.told is not None
            else place.uuid in fence.nodes or fence.token in place.fences
        )
    )


def write(connection, fences):
    """Store the domains of the Fences that are closed, and delete those that have ended."""
    standing, ended = fences.standing, fences.ended
    if not standing and not ended:
        return
    there = known(connection)
    END_DOMAINS.run(connection, sorted(ended & there.keys()))
    NEW_DOMAINS.run(
        connection,
        [
            {
                'token': token,
                'level': one.domain.level,
                'name': one.domain.name,
                'top_group': one.domain.top_group,
            }
            for token, one in sorted(standing.items())
            if token not in there
        ],
    )


# Nodes that join and leave.


def enter(connection, locator, taken):
    """Set the tokens of nodes whose reports (Taken) bring them to other domains."""
    moved = [one for one in taken if one.moved]
    if locator is None or not moved:
        return
    hold(connection)
    there = known(connection)
    if not there:
        return
    where = _Where(connection, locator)
    for one in moved:
        report, before = one.facts.report, sql.tokens(one.values['fences'])
        place = Place(one.uuid, report.host, report.nodename, locator.told(report), before)
        borne = {token for claim in one.facts.claims for token in claim.fences}
        after = domains.carried(before, where.domains(place), there, borne)
        if after != before:
            one.carry(after)


def entering(connection, locator, hosts):
    """Node UUID -> its tokens from now on, of the nodes on these hosts whose tokens change."""
    there = known(connection)
    if locator is None or not there:
        return {}
    where = _Where(connection, locator)
    places = [
        place
        for place in map(_place, sql.rows(connection, PLACES_OF, hosts))
        if place.told is not None
    ]
    borne: dict[str, frozenset[str]] = collections.defaultdict(frozenset)
    for uuid, text in BORNE.run(connection, [place.uuid for place in places if place.fences]):
        borne[uuid] |= sql.tokens(text)
    after = {
        place.uuid: domains.carried(place.fences, where.domains(place), there, borne[place.uuid])
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
        for one in sql.read_aggregates(connection):
            for host in one.hosts:
                self._of_host[host].append(one)

    def domains(self, place):
        aggregates = self._of_host.get(place.host, ())
        return self._locator.domains(place.host, place.nodename, place.told, aggregates)
