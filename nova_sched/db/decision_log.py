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
"""Decision records in the database: written in batches, read by request, deleted by age; those of
placed requests by number, too."""

import json
import operator
import sys
import uuid

import sqlalchemy as sa

from nova_sched.db import clock
from nova_sched.db.tables import TRAILS
from nova_sched.db.transactions import CHUNK, delete_in_chunks, transaction

PAGE = 500  # records that one statement reads
REFUSED = 'refused'  # an outcome

READ = (
    sa.select(TRAILS.c.trail)
    .where(TRAILS.c.request_id == sa.bindparam('request_id'))
    .order_by(TRAILS.c.time_s, TRAILS.c.uuid)
)
NEWEST = (
    sa.select(TRAILS.c.trail, TRAILS.c.time_s, TRAILS.c.uuid)
    .where(
        TRAILS.c.time_s >= sa.bindparam('since_s'),
        sa.or_(
            TRAILS.c.time_s < sa.bindparam('time_s'),
            sa.and_(
                TRAILS.c.time_s == sa.bindparam('time_s'), TRAILS.c.uuid < sa.bindparam('uuid')
            ),
        ),
    )
    .order_by(TRAILS.c.time_s.desc(), TRAILS.c.uuid.desc())
    .limit(PAGE)
)
OVERDUE = sa.select(TRAILS.c.uuid).where(TRAILS.c.time_s < sa.bindparam('before_s')).limit(CHUNK)
PLACED_BEFORE = (
    sa.select(TRAILS.c.uuid).where(TRAILS.c.placed_s <= sa.bindparam('before_s')).limit(CHUNK)
)
LAST_PLACED = (
    sa.select(TRAILS.c.placed_s)
    .where(TRAILS.c.placed_s.is_not(None))
    .order_by(TRAILS.c.placed_s.desc())
    .limit(1)
)


class SqlDecisionLog:
    """The decision log. Each method raises StoreUnavailable if the database does not answer."""

    def __init__(self, engine):
        self._engine = engine

    def write(self, records):
        """Store records: JSON-able mappings with ``request_id`` and ``time`` (seconds since the
        epoch)."""
        rows = [
            {
                'uuid': str(uuid.uuid4()),
                'request_id': record['request_id'],
                'time_s': record['time'],
                'placed_s': None if record['outcome'] == REFUSED else record['time'],
                'trail': dump(record),
            }
            for record in records
        ]
        with transaction(self._engine) as connection:
            connection.execute(sa.insert(TRAILS), rows)

    def read(self, request_id):
        """The records of a request, oldest first."""
        with transaction(self._engine) as connection:
            return [load(text) for text in connection.scalars(READ, {'request_id': request_id})]

    def newest_first(self, since_s=0, refused=False):
        """The records from that time on, one after the other, newest first; with ``refused``, only
        those of refusals."""
        last = (sys.float_info.max, '')
        query = NEWEST.where(TRAILS.c.placed_s.is_(None)) if refused else NEWEST
        while True:
            with transaction(self._engine) as connection:
                page = connection.execute(
                    query, {'since_s': since_s, 'time_s': last[0], 'uuid': last[1]}
                ).all()
            yield from (load(row.trail) for row in page)
            if len(page) < PAGE:
                return
            last = page[-1].time_s, page[-1].uuid

    def now_s(self):
        """The time by the database's clock, in seconds since the epoch."""
        with transaction(self._engine) as connection:
            return clock.read(connection)

    def forget(self, before_s, most_placed=None):
        """Delete the records from before that time, and the oldest of placed requests beyond
        ``most_placed`` (None: no limit)."""
        delete_in_chunks(self._engine, TRAILS, OVERDUE, before_s=before_s)
        if most_placed is not None:
            with transaction(self._engine) as connection:
                full_s = connection.scalar(LAST_PLACED.offset(most_placed))
            if full_s is not None:
                delete_in_chunks(self._engine, TRAILS, PLACED_BEFORE, before_s=full_s)


# The text of a record, without names that repeat. A filter that gave no reason is a list of its
# name and numbers. The weights of the placed hosts are lists of numbers, and the names of the
# weighers stand once. That halves the text, of which there may be one for each decision.

FILTER = 'filter', 'seen', 'left'
SILENT = {'why': '', 'removed': [], 'nearest': None, 'nearest_why': ''}
FIGURES = 'raw', 'normalised', 'multiplier', 'weight'
# A record is a tree: nothing in it contains itself.
_encode = json.JSONEncoder(separators=(',', ':'), check_circular=False).encode
_numbers, _said, _figures = (operator.itemgetter(*names) for names in (FILTER, SILENT, FIGURES))


def dump(record):
    """Return the text of a record, which has the form of engine.explain.decision_log.record."""
    short = dict(record)
    if 'filters' in short:
        short['filters'] = [
            step if any(_said(step)) else _numbers(step) for step in short['filters']
        ]
    names = next((_names(host) for host in _hosts(record) if host.get('weights')), None)
    if names and all(_names(host) == names for host in _hosts(record) if 'weights' in host):
        short['weighers'] = names
        short['placed'] = [
            _each_host(placed, lambda weights: [_figures(weight) for weight in weights])
            for placed in record['placed']
        ]
    return _encode(short)


def load(text):
    """Return the record of a text, of this release or of an earlier one."""
    record = json.loads(text)
    if 'filters' in record:
        record['filters'] = [
            {**dict(zip(FILTER, step, strict=True)), **SILENT} if isinstance(step, list) else step
            for step in record['filters']
        ]
    names = record.pop('weighers', None)
    if names is not None:

        def named(weights):
            return [
                {'weigher': name, **dict(zip(FIGURES, figures, strict=True))}
                for name, figures in zip(names, weights, strict=True)
            ]

        record['placed'] = [_each_host(placed, named) for placed in record['placed']]
    return record


def _hosts(record):
    for placed in record.get('placed', ()):
        yield placed
        yield from placed['alternates']


def _names(host):
    return [weight['weigher'] for weight in host['weights']]


def _each_host(placed, change):
    """A placed instance with other ``weights`` of its host and of its alternates."""
    changed = dict(placed)
    if 'weights' in changed:
        changed['weights'] = change(changed['weights'])
    changed['alternates'] = [
        {**alternate, 'weights': change(alternate['weights'])}
        if 'weights' in alternate
        else alternate
        for alternate in placed['alternates']
    ]
    return changed
