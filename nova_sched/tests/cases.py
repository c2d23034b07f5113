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
"""How many random cases a test tries: a third of them in the gate, all with
`NOVA_SCHED_THOROUGH=1` (`tools/test thorough`)."""

import os

IS_THOROUGH = os.environ.get('NOVA_SCHED_THOROUGH', '') not in ('', '0')
SHARE = 3  # of the cases, one is tried in the gate


def cases(count):
    """Returns how many of ``count`` cases to try, at least one."""
    return count if IS_THOROUGH else max(count // SHARE, 1)
