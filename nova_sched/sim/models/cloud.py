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
"""The common base of both models: the same nodes, one engine with its store, one simulated
clock."""

import dataclasses
import random
from collections.abc import Callable
from typing import Any

from nova_sched.queues.drivers import DriverSettings as DriverSettings
from nova_sched.queues.drivers import fake
from nova_sched.sim.clock import Clock
from nova_sched.sim.machines import Node, Plan
from nova_sched.sim.models.engine import Engine
from nova_sched.sim.models.load import Ask
from nova_sched.sim.models.nodes import aggregates_of
from nova_sched.sim.models.tally import Tally, sample
from nova_sched.sim.trace import Flavor

# Simulated durations in seconds.
CALL_S = 0.005  # a call over the bus, including its processing
COMMAND_S = 0.001  # a command to or a message from the broker of jobs
SAMPLE_S = 300.0


def build_seconds(chance: random.Random, mean_s: float) -> float:
    """Returns the duration of a driver operation: from half to one and a half of the mean."""
    return mean_s * chance.uniform(0.5, 1.5)


@dataclasses.dataclass(slots=True)
class Cloud:
    """``plan.failing`` is the share of failing builds, by instance and host the same in both
    models."""

    plan: Plan
    engine: Engine
    nodes: list[Node]
    node_apis: dict[str, Any]
    aggregates: list
    drivers: dict[str, Any]
    large: Flavor
    build_s: float
    clock: Clock = dataclasses.field(default_factory=Clock)

    @classmethod
    def of(
        cls,
        plan: Plan,
        engine: Engine,
        nodes: list[Node],
        node_apis: list,
        large: Flavor,
        build_s: float,
    ):
        """Returns the nodes that have joined the scheduler."""
        settings = DriverSettings(fake_failures=plan.failing, seed=plan.seed)
        aggregates = aggregates_of(nodes)
        disabled = [node.host for node in nodes if node.disabled]
        engine.join([node_api.told() for node_api in node_apis], aggregates, disabled)
        drivers = {node_api.host: fake.Fake(settings, node_api.host) for node_api in node_apis}
        by_host = {node_api.host: node_api for node_api in node_apis}
        return cls(plan, engine, nodes, by_host, aggregates, drivers, large, build_s)

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self.clock.at(self.clock() + seconds, call)

    def run(self, until_s: float) -> None:
        """Runs all events until then."""
        for call in self.clock.move(until_s):
            call()

    def report(self, node_api: Any, tally: Tally) -> None:
        """Sends the changes of the node as its agent does."""
        tally.reports += 1
        self.engine.report(node_api.told())

    def look(self, tally: Tally, until_s: float) -> None:
        """Samples now, and repeatedly until that time."""
        tally.samples.append(sample(self.engine.cluster, self.large, self.clock()))
        if self.clock() + SAMPLE_S <= until_s:
            self.after(SAMPLE_S, lambda: self.look(tally, until_s))

    def note_server(self, tally: Tally, ask: Ask, host: str) -> None:
        """Records that the server runs on this host."""
        tally.placed += 1
        tally.runs_s.append(self.clock() - ask.time_s)
        tally.placed_vcpus += ask.flavor.vcpus
        zone = self.node_apis[host].node.zone
        if ask.zone not in (None, zone):
            tally.violations.append(f'server {ask.uuid} wants {ask.zone} and runs in {zone}')

    def note_refusal(self, tally: Tally) -> None:
        """Records a refused request at the current time."""
        if tally.first_refusal is None:
            tally.first_refusal = sample(self.engine.cluster, self.large, self.clock())
