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
"""What a driver said of the failed attempts at a job: it stays with the job, for operators."""

import json
from typing import Any

from nova_sched import errors

FIELDS = ('host', 'why', 'stdout', 'stderr')
MOST = 5  # attempts of one job that are kept, the latest


def added(known: str | None, error: errors.BuildFailed) -> str:
    """Returns the failures of a job (JSON text) with this one."""
    last = {
        'host': error.host,
        'why': error.why,
        'stdout': error.stdout,
        'stderr': error.stderr,
    }
    return json.dumps([*read(known), last][-MOST:])


def read(known: str | None) -> list[dict[str, Any]]:
    """Returns the failures of a job, oldest first: mappings of host, why, stdout and stderr; none
    if the text is something else."""
    try:
        found = json.loads(known) if known else []
    except (ValueError, RecursionError):
        return []
    given = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    return [{name: one.get(name) for name in FIELDS} for one in given[-MOST:]]
