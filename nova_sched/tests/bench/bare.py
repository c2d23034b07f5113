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
"""The floor of a shared claim: a database's bare driver, running the statements of a commit."""

import sqlalchemy as sa

from nova_sched.claims import statements
from nova_sched.db.tables import CLAIMS

COLUMNS = tuple(CLAIMS.columns.keys())
INSERT = f'INSERT INTO claims ({", ".join(COLUMNS)}) VALUES'
LOCK_ONE = 'SELECT inventories, used, generation FROM nodes WHERE uuid = %s FOR UPDATE'
UPDATE_ONE = 'UPDATE nodes SET used = %s, generation = generation + 1 WHERE uuid = %s'


def client(url):
    """A client for the database of the URL."""
    address = sa.make_url(url)
    return {'postgresql': PostgreSQL, 'mysql': MariaDB}[address.get_backend_name()](address)


class Bare:
    """Locks the nodes, puts the claims, writes the nodes, commits; judges nothing.

    Rows are ready before the clock runs; what was in use is written back as it was.
    """

    def prepare(self, claims):
        nodes = sorted({claim.node_uuid for claim in claims})
        rows = map(statements.claim_row, claims)
        return nodes, [[row[name] for name in COLUMNS] for row in rows]

    def commit(self, batch):
        nodes, rows = batch
        if len(rows) == 1:
            self._one(nodes[0], rows[0])
        else:
            self._many(nodes, rows)
        self._connection.commit()
        return [], 0

    def _one(self, node, row):
        self._cursor.execute(LOCK_ONE, (node,))
        ((_, used, _),) = self._cursor.fetchall()
        self._cursor.execute(f'{INSERT} ({", ".join(["%s"] * len(row))})', row)
        self._cursor.execute(UPDATE_ONE, (used, node))


class PostgreSQL(Bare):
    """psycopg2, with its own helper for statements of many rows."""

    LOCK = (
        'SELECT uuid, inventories, used, generation FROM nodes WHERE uuid IN %s '
        'ORDER BY uuid FOR UPDATE'
    )
    UPDATE = (
        'UPDATE nodes SET used = new.used, generation = generation + 1 '
        'FROM (VALUES %s) AS new (uuid, used) WHERE nodes.uuid = new.uuid'
    )

    def __init__(self, address):
        import psycopg2
        from psycopg2 import extras

        self._many_values = extras.execute_values
        self._connection = psycopg2.connect(
            host=address.host, port=address.port, user=address.username, dbname=address.database
        )
        self._cursor = self._connection.cursor()

    def _many(self, nodes, rows):
        self._cursor.execute(self.LOCK, (tuple(nodes),))
        used = [(uuid, used) for uuid, _, used, _ in self._cursor.fetchall()]
        self._many_values(self._cursor, f'{INSERT} %s', rows)
        self._many_values(self._cursor, self.UPDATE, used)


class MariaDB(Bare):
    """PyMySQL; one statement updates many rows, and locks no others."""

    LOCK = (
        'SELECT uuid, inventories, used, generation FROM nodes FORCE INDEX (PRIMARY) '
        'WHERE uuid IN %s ORDER BY uuid FOR UPDATE'
    )
    UPDATE = (
        'UPDATE ({}) AS new STRAIGHT_JOIN nodes FORCE INDEX (PRIMARY) ON nodes.uuid = new.uuid '
        'SET nodes.used = new.used, nodes.generation = nodes.generation + 1'
    )

    def __init__(self, address):
        import pymysql

        self._connection = pymysql.connect(
            host=address.host, port=address.port, user=address.username, database=address.database
        )
        self._cursor = self._connection.cursor()
        self._cursor.execute('SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED')

    def _many(self, nodes, rows):
        self._cursor.execute(self.LOCK, (tuple(nodes),))
        used = [value for uuid, _, used, _ in self._cursor.fetchall() for value in (uuid, used)]
        self._cursor.executemany(f'{INSERT} ({", ".join(["%s"] * len(COLUMNS))})', rows)
        more = ' UNION ALL SELECT %s, %s' * (len(nodes) - 1)
        self._cursor.execute(self.UPDATE.format(f'SELECT %s AS uuid, %s AS used{more}'), used)
