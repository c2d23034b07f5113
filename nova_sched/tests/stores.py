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
"""The claim store of tests that need no server, and checks of any database of claims."""

import time

from nova_sched.claims.audit import audit
from nova_sched.claims.maintenance import ClaimMaintenance
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.db import schema


class MemoryClaimStore(SqlClaimStore):
    """An empty store in a database in memory; schedulers of one test may share it."""

    def __init__(self, clock=None):
        super().__init__(schema.in_memory(), clock)

    def read_nodes(self, nodes):
        self._seen_revisions = {}  # another scheduler may have had the small tables
        return super().read_nodes(nodes)


def faults(database, now_s=None, but=()):
    """Errors that an audit finds, in words; notes are none. ``but``: kinds that the test itself
    causes."""
    findings = audit(
        ClaimMaintenance(database).snapshot(), time.time() if now_s is None else now_s
    )
    return [
        f'{finding.kind}: {finding.words}'
        for finding in findings
        if finding.is_error and finding.kind not in but
    ]


def assert_clean(database, now_s=None, but=()):
    """Assert that the usage in the database of this engine equals its claims."""
    assert faults(database, now_s, but) == []
