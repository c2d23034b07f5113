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
"""The priority of a node for jobs, in steps: its weight between an empty and a full node's.

The weighers and multipliers are those of the scheduler. Weighers compare hosts with each other,
and a worker has only its own node. Therefore the node is compared with itself without instances
and without free capacity.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from nova_sched.conf import CONF
from nova_sched.engine.decide import weigh
from nova_sched.queues.requests import Names, Question, Requests
from nova_sched.state.columns import ResourceColumns
from nova_sched.state.hosts import Hosts, WhatIf
from nova_sched.state.request import Request
from nova_sched.weighers import Weigher

EMPTY, NOW, FULL = ROWS = np.arange(3)


class Score:
    """Returns 0 to ``steps`` - 1; the highest step if no weigher distinguishes the three
    states."""

    def __init__(self, weighers: Sequence[Weigher], requests: Requests, steps: int):
        self._weighers, self._steps = weighers, steps
        self._question = Question(requests)

    def of(self, hosts: Hosts, left: np.ndarray) -> np.ndarray:
        """Returns the step for the one node of these hosts, by queue that is ``left`` (bool), or
        one for all."""
        if self._steps == 1:
            return np.zeros((), np.int32)
        states = ends(hosts)

        def step(request: Request) -> int:
            return self._step(weigh(self._weighers, states, ROWS, request))

        names = self._facts(states)
        return self._question.answers(step, lambda request: names, left)

    def _facts(self, states: WhatIf) -> Names:
        """What the weighers read of requests; those without a multiplier here read nothing."""
        found: tuple[str, ...] = ()
        for weigher in self._weighers:
            if np.any(weigher.multiplier(states, ROWS)):
                if weigher.request_facts is None:
                    return None
                found += weigher.request_facts
        return found

    def _step(self, weights: np.ndarray) -> int:
        low, high = sorted((weights[EMPTY], weights[FULL]))
        if high == low:
            return self._steps - 1 if weights[NOW] >= high else 0
        share = (weights[NOW] - low) / (high - low)
        return int(min(max(share * self._steps, 0), self._steps - 1))


def ends(hosts: Hosts) -> WhatIf:
    """Returns a node in three states: without instances, as it is, and full.

    The full one has no free resources, and as many instances and builds as the options of
    NumInstancesFilter and IoOpsFilter allow, whose ends are not known. Failed builds count only
    for the node as it is. Unknown facts of the other two, such as metrics, are the same for all
    three.
    """
    view, options = hosts.what_if(np.zeros(len(ROWS), dtype=np.intp)), CONF.filter_scheduler
    view.resources = Classes(hosts)
    view.failed_builds[[EMPTY, FULL]] = 0
    view.free_pci_devices[FULL] = 0
    view.exit_s[EMPTY], view.exit_s[FULL] = 0.0, np.inf
    for column, most in (
        (view.num_instances, options.max_instances_per_host),
        (view.num_io_ops, options.max_io_ops_per_host),
    ):
        column[EMPTY], column[FULL] = 0, max(most, column[NOW])
    return view


class Classes(Mapping[str, ResourceColumns]):
    """The resource classes of the three states, each made at its first use."""

    def __init__(self, hosts: Hosts):
        self._hosts = hosts
        self._made: dict[str, ResourceColumns] = {}

    def __getitem__(self, name: str) -> ResourceColumns:
        if name not in self._made:
            self._made[name] = _ends(self._hosts.resources[name])
        return self._made[name]

    def __setitem__(self, name: str, resource: ResourceColumns) -> None:
        self._made[name] = resource

    def __iter__(self) -> Iterator[str]:
        return iter(self._hosts.resources)

    def __len__(self) -> int:
        return len(self._hosts.resources)


def _ends(resource: ResourceColumns) -> ResourceColumns:
    made = resource.copy(ROWS * 0)
    made.take(EMPTY, -resource.used[0])
    made.take(FULL, resource.free[0])
    return made
