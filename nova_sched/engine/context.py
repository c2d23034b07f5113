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
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from nova_sched.claims import ClaimStore
from nova_sched.engine import Settings
from nova_sched.engine.catalog import Rules
from nova_sched.engine.clock import Pauses
from nova_sched.engine.explain.decision_log import DecisionLog
from nova_sched.engine.figures import Figures
from nova_sched.engine.sync.membership import SchedulerMembership
from nova_sched.extension import Seams
from nova_sched.groups.topology import DomainTopology
from nova_sched.state.cluster import Cluster


@dataclasses.dataclass(slots=True)
class Context:
    """One scheduler's host state, its stores and its services: all that its components, and its
    extensions, are made with.

    ``cluster`` is the host state; only the loop writes it. ``settings`` returns the current
    Settings, as ``read_settings`` has read them last: at the start and after each reload.
    ``clock`` returns seconds since the epoch by the store's clock. ``rules`` are those of the
    first batch, ``max_batch`` is the most requests of one. ``topology`` has the levels for groups.
    ``membership`` lists the schedulers that share the store. ``pauses`` detects that this process
    was stopped. ``candidates`` stores offered hosts; None: this process keeps them. ``solver`` (a
    groups.exact.worker.Solver) solves hard group problems; None: plans are made without one.
    ``readers`` are TemplateReaders; None: templates are read in the thread of the caller.
    ``limits(project_id)`` are the limits of a project by resource, for plans; it may raise
    LimitsUnknown and StoreUnavailable.

    ``database`` is the SQLAlchemy engine that the schedulers share, None for a store in memory.
    ``nova`` is the nova_service.NovaReader of its hosts; None: hosts report themselves.
    ``reads_nova``: the heartbeats of hosts come from Nova's databases, and reports are none.
    ``writer`` (a writer.Writer) writes won decisions in another service.
    ``before_refusal(requests, refusal)`` polls for changes of hosts, and returns the requests that
    are decided again. ``events`` (an EventNotifications of rpc) is told of refusals; None: nothing
    is. ``seams`` are the listeners of extensions. ``monotonic`` returns seconds that never go
    back, or simulated ones.
    """

    cluster: Cluster
    store: ClaimStore
    settings: Callable[[], Settings]
    clock: Callable[[], float]
    random: Random = dataclasses.field(default_factory=Random)
    rules: Rules = dataclasses.field(default_factory=Rules)
    max_batch: int = 64
    topology: DomainTopology = dataclasses.field(default_factory=DomainTopology)
    membership: SchedulerMembership = dataclasses.field(default_factory=SchedulerMembership)
    decision_log: DecisionLog = dataclasses.field(default_factory=DecisionLog)
    figures: Figures = dataclasses.field(default_factory=Figures)
    pauses: Pauses = dataclasses.field(default_factory=Pauses)
    candidates: Any = None
    solver: Any = None
    readers: Any = None
    limits: Callable[[str], Mapping[str, int]] = lambda _project_id: {}
    database: Any = None
    nova: Any = None
    reads_nova: bool = False
    writer: Any = None
    before_refusal: Callable[[Any, Any], Any] | None = None
    events: Any = None
    seams: Seams = dataclasses.field(default_factory=Seams)
    monotonic: Callable[[], float] = time.monotonic
    read_settings: Callable[[], None] = lambda: None
