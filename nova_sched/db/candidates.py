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
"""Offered hosts in the database: written once for each request, read by UUID, deleted when they
expire."""

import uuid

import sqlalchemy as sa

from nova_sched.db.tables import CANDIDATE_REQUESTS, CANDIDATES
from nova_sched.db.transactions import CHUNK, delete_in_chunks, transaction

READ = (
    sa.select(CANDIDATES, CANDIDATE_REQUESTS.c.expires_s, CANDIDATE_REQUESTS.c.spec)
    .join(CANDIDATE_REQUESTS, CANDIDATE_REQUESTS.c.uuid == CANDIDATES.c.request_uuid)
    .where(CANDIDATES.c.uuid == sa.bindparam('uuid'))
)
OVERDUE = (
    sa.select(CANDIDATES.c.uuid)
    .join(CANDIDATE_REQUESTS, CANDIDATE_REQUESTS.c.uuid == CANDIDATES.c.request_uuid)
    .where(CANDIDATE_REQUESTS.c.expires_s < sa.bindparam('before_s'))
    .limit(CHUNK)
)
OVERDUE_REQUESTS = (
    sa.select(CANDIDATE_REQUESTS.c.uuid)
    .where(CANDIDATE_REQUESTS.c.expires_s < sa.bindparam('before_s'))
    .limit(CHUNK)
)


class SqlCandidates:
    """The offered hosts. Each method raises StoreUnavailable if the database does not answer."""

    def __init__(self, engine):
        self._engine = engine

    def write(self, spec, expires_s, candidates):
        """Store the candidates of one request until ``expires_s`` (seconds since the epoch).

        ``spec`` is text; each candidate a mapping with ``uuid``, ``instance_uuid``, ``node_uuid``,
        ``host``, ``nodename`` and ``rank``.
        """
        request = {'uuid': str(uuid.uuid4()), 'expires_s': expires_s, 'spec': spec}
        rows = [_row(candidate, request['uuid']) for candidate in candidates]
        with transaction(self._engine) as connection:
            connection.execute(sa.insert(CANDIDATE_REQUESTS), request)
            connection.execute(sa.insert(CANDIDATES), rows)

    def read(self, candidate_uuid):
        """A candidate as it was written, with ``spec`` and ``expires_s``; None if it is not
        stored."""
        with transaction(self._engine) as connection:
            row = connection.execute(READ, {'uuid': candidate_uuid}).mappings().one_or_none()
        if row is None:
            return None
        facts = dict(row, rank=row['place'])
        del facts['place'], facts['request_uuid']
        return facts

    def forget(self, before_s):
        """Delete candidates that expired before that time: a request only after all its
        candidates."""
        for overdue, table in ((OVERDUE, CANDIDATES), (OVERDUE_REQUESTS, CANDIDATE_REQUESTS)):
            delete_in_chunks(self._engine, table, overdue, before_s=before_s)


def _row(candidate, request_uuid):
    row = dict(candidate, request_uuid=request_uuid, place=candidate['rank'])
    del row['rank']
    return row
