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
"""Checks for a database of claims at the end of a test: its usage equals its claims."""

import time

from nova_sched.claims.audit import audit
from nova_sched.claims.maintenance import ClaimMaintenance


def faults(database, now_s=None, but=()):
    """Errors that an audit finds, in words; notes are none. ``but``: kinds that the test itself
    causes."""
    found = audit(ClaimMaintenance(database).snapshot(), time.time() if now_s is None else now_s)
    return [f'{one.kind}: {one.words}' for one in found if one.is_error and one.kind not in but]


def assert_clean(database, now_s=None, but=()):
    """Assert that the usage in the database of this engine equals its claims."""
    assert faults(database, now_s, but) == []
