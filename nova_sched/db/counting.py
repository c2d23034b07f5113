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
"""Counts the statements of an embedded SQLite database: for simulations and benchmarks."""

import collections

import sqlalchemy as sa

WRITES = frozenset(['INSERT', 'UPDATE', 'DELETE'])
COUNTED = WRITES | {'SELECT', 'WITH', 'COMMIT'}


class Statements:
    """``count`` has the number of statements by their first keyword, including COMMIT, over all
    connections.

    A statement that is run for many rows counts once for each of them. Create it before the first
    connection.
    """

    def __init__(self, engine):
        self.count: collections.Counter[str] = collections.Counter()

        @sa.event.listens_for(engine, 'connect')
        def _connect(connection, _record):
            connection.set_trace_callback(self._see)

    def _see(self, statement):
        word = statement.lstrip().partition(' ')[0].upper()
        if word in COUNTED:
            self.count[word] += 1

    @property
    def reads(self):
        return self.count['SELECT'] + self.count['WITH']

    @property
    def writes(self):
        return sum(self.count[word] for word in WRITES)
