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

"""How long the plan of a group may take."""

import dataclasses

MEMBERS = 100  # of the groups that PlanLimits are for


@dataclasses.dataclass(frozen=True, slots=True)
class PlanLimits:
    """Seconds of processor time for the greedy search, and for the solver's repair, improvement
    and explanation, each for a group of up to MEMBERS.

    ``improve_scores``: the solver also improves a placement that breaks no preferred policy and
    moves no member.
    """

    greedy_s: float = 0.2
    repair_s: float = 1.0
    improve_s: float = 1.0
    explain_s: float = 2.0
    improve_scores: bool = False

    def of_group(self, members: int) -> 'PlanLimits':
        """Returns the limits for a group of so many members: the greedy search of a large group
        has proportionally more time."""
        return dataclasses.replace(self, greedy_s=self.greedy_s * max(1.0, members / MEMBERS))
