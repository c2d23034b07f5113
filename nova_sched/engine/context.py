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
"""What the components of one scheduler share."""

import dataclasses
import time
from collections.abc import Callable
from random import Random
from typing import Any

from nova_sched.claims import ClaimStore
from nova_sched.engine import Settings
from nova_sched.engine.explain.decision_log import DecisionLog
from nova_sched.engine.figures import Figures
from nova_sched.engine.sync.membership import SchedulerMembership
from nova_sched.groups.topology import DomainTopology
from nova_sched.state.cluster import Cluster


@dataclasses.dataclass(slots=True)
class Context:
    """One scheduler's host state, its store and its services.

    ``cluster`` is the host state; only the loop writes it. ``settings`` returns the current
    Settings. ``clock`` returns seconds since the epoch by the store's clock. ``topology`` has the
    levels for groups. ``membership`` lists the schedulers that share the store. ``reads_nova``:
    the signs of life of hosts come from Nova's databases, and reports are none.
    ``events`` (an EventNotifications of rpc) is told of refusals; None: nothing is. ``monotonic``
    returns seconds that never go back, or simulated ones.
    """

    cluster: Cluster
    store: ClaimStore
    settings: Callable[[], Settings]
    clock: Callable[[], float]
    random: Random = dataclasses.field(default_factory=Random)
    topology: DomainTopology = dataclasses.field(default_factory=DomainTopology)
    membership: SchedulerMembership = dataclasses.field(default_factory=SchedulerMembership)
    decision_log: DecisionLog = dataclasses.field(default_factory=DecisionLog)
    figures: Figures = dataclasses.field(default_factory=Figures)
    reads_nova: bool = False
    events: Any = None
    monotonic: Callable[[], float] = time.monotonic
