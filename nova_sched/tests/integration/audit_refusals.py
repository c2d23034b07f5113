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
"""Refusals that were not true: by the claims of that time, some host had room.

Claims that ended are needed for this, so the database itself keeps what is deleted: see
``keep_ended``. Otherwise nothing is released in a crowd, so whatever is free when a refusal
arrives was free all the time before. A claim counts from its ``created_s`` on, before others could
see it, and one that ended counts against every refusal that was under way while it stood: in
doubt, a refusal is true.
"""

import collections
import json

import sqlalchemy as sa

from nova_sched.tests.integration import audit
from nova_sched.tests.integration.orders import PAGE_KB

SLACK_S = 1.0  # from a deletion to its commit, at most
COLUMNS = 'uuid, consumer_uuid, node_uuid, group_uuid, resources, parts, created_s'
OLD = ', '.join(f'OLD.{name}' for name in COLUMNS.split(', '))
INSERT = f'INSERT INTO ended_claims ({COLUMNS}, ended_s) VALUES ({OLD}, {{now}});'
TRIGGERS = {
    'postgresql': [
        'CREATE FUNCTION keep_ended() RETURNS trigger AS $$ BEGIN '
        + INSERT.format(now='EXTRACT(EPOCH FROM clock_timestamp())')
        + ' RETURN NULL; END $$ LANGUAGE plpgsql',
        (
            'CREATE TRIGGER keep_ended AFTER DELETE ON claims FOR EACH ROW EXECUTE '
            'FUNCTION keep_ended()'
        ),
    ],
    'mysql': [
        'CREATE TRIGGER keep_ended AFTER DELETE ON claims FOR EACH ROW '
        + INSERT.format(now='UNIX_TIMESTAMP(SYSDATE(6))')
    ],
}


def keep_ended(database, triggers=True):
    """Have the database copy every claim that is deleted into a table of its own,
    ``ended_claims``.

    Without ``triggers`` the table stays empty, and refusals are to be judged with ``doubtful``.
    """
    engine = sa.create_engine(database, poolclass=sa.NullPool)
    with engine.begin() as session:
        session.execute(
            sa.text(f'CREATE TABLE ended_claims AS SELECT {COLUMNS} FROM claims WHERE 1 = 0')
        )
        session.execute(sa.text('ALTER TABLE ended_claims ADD COLUMN ended_s DOUBLE PRECISION'))
        for statement in TRIGGERS[engine.dialect.name] if triggers else ():
            session.execute(sa.text(statement))


def false_refusals(answers, claims, ended, nodes, reports):
    """(order with its answer, where there was room) of each refusal that was not true."""
    told = {row['node_uuid']: json.loads(row['report']) for row in reports}
    rooms = {node['uuid']: Room(node, told[node['uuid']]) for node in nodes}
    group_of = {instance: answer['group']['uuid'] for answer in answers if answer['group']
                for instance in answer['instances']}  # fmt: skip
    coming = collections.deque(sorted(claims, key=lambda claim: claim['created_s']))
    refused = [answer for answer in answers if answer['error'] == 'NoValidHost']
    for answer in sorted(refused, key=lambda answer: answer['answered_s']):
        while coming and coming[0]['created_s'] <= answer['answered_s']:
            rooms[coming[0]['node_uuid']].take(coming[0], group_of)
            coming.popleft()
        ghosts = [claim for claim in ended if _stood(claim, answer)]
        for ghost in ghosts:
            rooms[ghost['node_uuid']].take(ghost, group_of)
        if found := where(answer, rooms.values()):
            yield answer, found
        for ghost in ghosts:
            rooms[ghost['node_uuid']].take(ghost, group_of, -1)


def doubtful(answers, refused, found):
    """Whether claims that ended may have taken all the room ``found`` for an order that was
    refused.

    Only an order that was asked again has had claims that ended, one at a time for each of its
    instances.
    """
    meanwhile = [answer for answer in answers if len(answer['sent_s']) > 1
                 and answer['sent_s'][0] <= refused['answered_s']
                 and answer['answered_s'] + SLACK_S >= refused['sent_s'][-1]]  # fmt: skip
    ghosts = sum(len(answer['instances']) for answer in meanwhile)
    left = sorted(found.values(), reverse=True)[ghosts:]
    return sum(left) < len(refused['instances'])


def _stood(claim, answer):
    """Whether a claim that ended may have stood while the order was last decided; its own do not
    matter."""
    return (
        claim['created_s'] <= answer['answered_s']
        and claim['ended_s'] + SLACK_S >= answer['sent_s'][-1]
        and claim['consumer_uuid'] not in answer['instances']
    )


def where(order, rooms):
    """Hosts that take the whole order, as ``{host: how many of its instances}``; empty if none
    do."""
    group, count = order['group'] or {}, len(order['instances'])
    fits = {room: room.slots(order['asks']) for room in rooms}
    if group.get('policy') == 'anti-affinity':
        for room in fits:
            fits[room] = min(fits[room], group['most'] - room.members[group['uuid']])
    elif group.get('policy') == 'affinity':
        there = [room for room in fits if room.members[group['uuid']]]
        home = max(there or fits, key=lambda room: fits[room])
        fits = {home: fits[home]}
    found = {room.host: slots for room, slots in fits.items() if slots > 0}
    return found if sum(found.values()) >= count else {}


class Room:
    """What is free on a node: amounts by resource class, and pieces by NUMA cell."""

    def __init__(self, node, report):
        self.host = node['host']
        self.members = collections.Counter()  # group -> how many of its members are here
        self.free = collections.Counter()
        for name, (total, reserved, ratio, *_) in json.loads(node['inventories']).items():
            self.free[name] = (total - reserved) * ratio
        for amounts in json.loads(node['unclaimed']).values():
            self.free.subtract(amounts)
        self.pieces = audit.free(report)
        self._cell_of = audit.cells_of_cpus(report)
        self._cells = sorted({*self._cell_of.values()})

    def take(self, claim, group_of, sign=1):
        """Add a claim; with the sign -1 remove it."""
        for name, amount in json.loads(claim['resources']).items():
            self.free[name] -= sign * amount
        for thing, count in audit.parts(claim).items():
            self.pieces[thing] -= sign * count
        if group := group_of.get(claim['consumer_uuid']):
            self.members[group] += sign

    def slots(self, asks):
        """How many instances that ask this fit, one after the other."""
        most = min(
            self.free[name] // amount for name, amount in asks['resources'].items() if amount
        )
        if asks['cpus']:
            return min(most, sum(self._slots_in(cell, asks) for cell in self._cells))
        if asks['devices']:
            return min(most, sum(self._devices()) // asks['devices'])
        return most

    def _slots_in(self, cell, asks):
        """The same for one cell, if all that an instance has in pieces has to be there."""
        cpus = sum(max(count, 0) for thing, count in self.pieces.items()
                   if thing[0] == 'cpu' and self._cell_of[thing[1]] == cell)  # fmt: skip
        return min(
            cpus // asks['cpus'],
            self.pieces['pages', cell, PAGE_KB] // asks['pages'],
            sum(self._devices(cell)) // asks['devices'] if asks['devices'] else cpus,
        )

    def _devices(self, *cells):
        """Free devices of each kind, in these cells; without any, wherever they are."""
        for thing, count in self.pieces.items():
            if thing[0] == 'device' and (not cells or thing[3] in cells):
                yield count


def told(order, found):
    """A false refusal in words."""
    host, slots = next(iter(found.items()))
    return (
        f'{order["kind"]} {order["number"]} was refused for {len(order["instances"])} '
        f'({order["reason"]}), and {len(found)} hosts had room, {host} for {slots}'
    )
