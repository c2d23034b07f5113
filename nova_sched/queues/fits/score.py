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

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nova_sched.conf import CONF
from nova_sched.engine.decide import weigh
from nova_sched.queues.fits.asking import Asked, Question, Requests
from nova_sched.state.columns import Columns, Resource, declared
from nova_sched.state.hosts import Hosts
from nova_sched.state.kept import Kept
from nova_sched.weighers import Weigher

EMPTY, NOW, FULL = ROWS = np.arange(3)
COLUMNS = tuple(declared(Columns))
OF_RESOURCE = tuple(declared(Resource))


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
        ends = Ends(hosts)

        def step(asked: Asked) -> int:
            return self._step(weigh(self._weighers, ends, ROWS, asked))

        return self._question.answers(step, left)

    def _step(self, weights: np.ndarray) -> int:
        low, high = sorted((weights[EMPTY], weights[FULL]))
        if high == low:
            return self._steps - 1 if weights[NOW] >= high else 0
        share = (weights[NOW] - low) / (high - low)
        return int(min(max(share * self._steps, 0), self._steps - 1))


class Ends(Hosts):
    """A node in three states: without instances, as it is, and full.

    The full one has no free resources, and as many instances and builds as the options of
    NumInstancesFilter and IoOpsFilter allow. Failed builds count only for the node as it is.
    Unknown facts of the other two, such as metrics, are the same for all three.
    """

    def __init__(self, hosts: Hosts):
        self.__dict__.update(hosts.__dict__)
        self._one, self.rows, self.kept = hosts, len(ROWS), Kept()
        self.nodes = hosts.nodes * len(ROWS)
        self.rows_of_host = {node.host: ROWS.tolist() for node in hosts.nodes}
        for name in COLUMNS:
            setattr(self, name, _thrice(getattr(hosts, name)))
        self.resources: Any = Classes(hosts)
        options = CONF.filter_scheduler
        self.failed_builds[[EMPTY, FULL]] = 0
        self.free_pci_devices[FULL] = 0
        for column, most in (
            (self.num_instances, options.max_instances_per_host),
            (self.num_io_ops, options.max_io_ops_per_host),
        ):
            column[EMPTY], column[FULL] = 0, max(most, column[NOW])

    def resource(self, name):
        return self.resources.get(name) or Resource(self.rows, self.rows)

    def metric(self, name):
        return _thrice(self._one.metric(name))

    def has_trait(self, trait):
        return _thrice(self._one.has_trait(trait))

    def count_instances(self, uuids):
        return _thrice(self._one.count_instances(uuids))

    def count_images(self, name, text):
        return _thrice(self._one.count_images(name, text))


def _thrice(column: np.ndarray) -> np.ndarray:
    return column[[0, 0, 0]]


class Classes(Mapping):
    """The resource classes of the three states, each built at its first use."""

    def __init__(self, hosts: Hosts):
        self._hosts = hosts
        self._made: dict[str, Resource] = {}

    def __getitem__(self, name: str) -> Resource:
        if name not in self._made:
            self._made[name] = _ends(self._hosts.resources[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._hosts.resources)

    def __len__(self) -> int:
        return len(self._hosts.resources)


def _ends(resource: Resource) -> Resource:
    made = copy.copy(resource)
    for name in OF_RESOURCE:
        setattr(made, name, _thrice(getattr(resource, name)))
    used, room = resource.used[0], resource.free[0]
    for row, taken in ((EMPTY, -used), (FULL, room)):
        made.used[row] += taken
        for name in ('free', 'unused', 'spare'):
            getattr(made, name)[row] -= taken
    return made
