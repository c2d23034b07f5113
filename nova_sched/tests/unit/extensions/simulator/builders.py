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
"""Builders for tests of the simulation: nodes, arrivals and results."""

import itertools

from nova_sched.extensions.simulator import conductor, machines
from nova_sched.extensions.simulator.replay import ReplayTally, use_by_zone
from nova_sched.extensions.simulator.session import SimulationResult, SimulationSettings
from nova_sched.extensions.simulator.trace import Arrival, TraceFlavor
from nova_sched.rpc import translate
from nova_sched.tests.builders import uuid_of

SMALL = TraceFlavor('small', 1, 1024)
GIB = 1024
_batches = itertools.count()


def arrival(count=1, time_s=0.0, flavor=SMALL, lifetime_s=None, batch=None):
    """A batch of its own, all of whose servers stay for that long."""
    return Arrival(time_s, batch or f'batch {next(_batches)}', flavor, (lifetime_s,) * count)


def plan(nodes=3, zones=1, racks=1, vcpus=8, memory_gib=16, disabled=0.0, failing=0.0, **fields):
    """A small cloud in which nothing goes wrong by itself."""
    shape = machines.MachineShape(vcpus=vcpus, memory_mb=memory_gib * GIB, reserved_mb=0)
    return machines.Plan(nodes, zones, racks, shape, disabled=disabled, failing=failing, **fields)


def requests(*names, flavor=SMALL):
    """The requests for servers of these names, as a node is asked to build them."""
    uuids = [uuid_of(name) for name in names]
    return translate.requests(conductor.spec(flavor, uuids), uuids)


def node(*names, flavor=SMALL, **words):
    """The only node of a cloud; it runs servers of these names."""
    (made,) = machines.machines(plan(nodes=1, **words))
    if names:
        for request in requests(*names, flavor=flavor):
            made.build(request)
    return made


def result(nodes=None, **fields):
    """The Result of a run without events on these nodes; ``fields`` are those of Result and of
    Tally."""
    nodes = nodes or [node('one', 'two')]
    tally = ReplayTally(
        **{
            name: fields.pop(name)
            for name in list(fields)
            if name in ReplayTally.__dataclass_fields__
        }
    )
    tally.history = tally.history or [(0.0, use_by_zone(nodes))]
    return SimulationResult(
        **{'settings': SimulationSettings(plan()), 'tally': tally, 'nodes': nodes, **fields}
    )
