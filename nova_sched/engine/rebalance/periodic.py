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
"""Plans of the periodic mode."""

from nova_sched.engine.planning.snapshot import Scope
from nova_sched.rebalance.goals import goal


def planner_of(move_planner):
    """A planner for a MoveRunner that plans with a MovePlanner. It raises what that raises."""

    def plan(settings, most):
        scope = Scope(
            goal=goal(settings.goal),
            protected_aggregates=settings.protected_aggregates,
            protected_projects=settings.protected_projects,
            immovable=settings.immovable_servers,
        )
        return move_planner.plan(scope, most, bounded=False).to_moves()

    return plan
