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
"""The engine: decides, claims and answers. It owns the host state."""

import dataclasses

from nova_sched.groups.limits import PlanLimits


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """The engine's options, and this scheduler's position among those that share the store. Times
    are in seconds."""

    alternates: int = 2
    subset_size: int = 1
    shuffle: bool = False
    position: int = 0  # position of this scheduler among those that share the store
    schedulers: int = 1  # number of schedulers
    default_zone: str = 'nova'
    pending_ttl_s: float | None = 3600.0
    max_claim_attempts: int = 10
    retry_interval_s: float = 1.0
    refresh_interval_s: float = 2.0
    service_down_time_s: float = 60.0
    track_instances: bool = True
    explain_retention_s: float = 604800.0
    explain_sample: float = 1.0
    explain_per_second: float = 100.0
    explain_most_placed: int = 1_000_000
    tell_callers: str = 'rules'  # what a refusal says: see engine.explain.callers
    candidates_ttl_s: float = 600.0
    candidates_max: int = 10
    plan_ttl_s: float | None = 3600.0
    plan_ttl_max_s: float = 86400.0
    plan_life_max_s: float = 604800.0
    plan_attempts: int = 5
    plan_limits: PlanLimits = dataclasses.field(default_factory=PlanLimits)
