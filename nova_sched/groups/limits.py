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
"""How long each part of a plan may take."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Seconds for the greedy search, for the solver's repair, for its improvement, and for saying why not."""

    greedy_s: float = 0.2
    repair_s: float = 1.0
    improve_s: float = 1.0
    explain_s: float = 2.0
