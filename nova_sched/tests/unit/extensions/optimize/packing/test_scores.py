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
"""Kept costs are those that a fresh look gives, whatever happened to the hosts."""

import contextlib
import json
import random

import numpy as np
import pytest

from nova_sched import errors
from nova_sched.extensions.optimize.packing import scores as scores_module
from nova_sched.extensions.optimize.packing.host_resources import read_resources
from nova_sched.extensions.optimize.packing.mix import CellDemand, Mix, PciDemand, Size, size_of
from nova_sched.extensions.optimize.packing.scores import Scores
from nova_sched.extensions.optimize.packing.tables import Tables
from nova_sched.state.request import NO_HARDWARE
from nova_sched.tests.builders import cluster, put, report, request, uuid_of
from nova_sched.tests.hardware_objects import GUEST, HOST
from nova_sched.tests.unit.extensions.optimize.packing.builders import GPU, size
from nova_sched.tests.unit.hardware.builders import told

MIX = Mix({size(2, 460): 3.0, size(8, 1000): 2.0, size(4): 5.0, size(1, 190): 1.0})
GPUS = 3
PCI = PciDemand.of(GUEST.requests[0])


def providers(host, count=GPUS):
    devices = {
        uuid_of(f'{host} {place}'): {
            'name': str(place),
            'parent_provider_uuid': uuid_of(f'node {host}'),
            'inventories': {GPU: {'total': 1000}},
        }
        for place in range(count)
    }
    return json.dumps({uuid_of(f'node {host}'): {'name': host}, **devices})


def gpu_cluster(count=6, plain=2):
    """Hosts with GPUs, then plain ones."""
    below = [providers(f'host-{row}') for row in range(count - plain)] + [None] * plain
    return cluster(count, providers=below, vcpus=[16, 32, 8] * (count // 3))


def asked(number, milli, vcpus=2):
    resources = {'VCPU': vcpus, **({GPU: milli} if milli else {})}
    return request(instance_uuid=uuid_of(f'{number}'), resources=resources)


def fresh(scores, hosts, wanted):
    resources = read_resources(hosts)
    return scores.tables.cost(wanted, scores.tables.state(resources))[0]


def test_after_any_changes():
    made, chance = gpu_cluster(), random.Random(1)
    scores = Scores(Tables(MIX, read_resources(made.hosts)), read_resources(made.hosts))
    scores.prepare(MIX.counts)
    there = []
    for number in range(300):
        wanted = asked(number, chance.choice([0, 190, 460, 1000, 300]))
        costs, empty = scores.costs(made.hosts, size_of(wanted, made.hosts.child_classes))
        kind = size_of(wanted, made.hosts.child_classes)
        assert costs.tolist() == fresh(scores, made.hosts, kind).tolist()
        assert empty.tolist() == (made.hosts.num_instances == 0).tolist()
        rows = np.flatnonzero(costs < 1e6)
        node = made.hosts.nodes[int(chance.choice(rows.tolist()))]
        with contextlib.suppress(errors.ComputeResourcesUnavailable):
            there.append(made.consume(node, wanted))
        if chance.random() < 0.4 and there:
            made.release(there.pop(chance.randrange(len(there))))
        if chance.random() < 0.05:
            put(made, report(f'more-{number}', providers=providers(f'more-{number}', 5)))
        if chance.random() < 0.05:
            gone = chance.choice(list(made))
            there = [one for one in there if one.claim.node_uuid != gone.uuid]
            made.remove(gone.uuid)


@pytest.mark.parametrize('most', [pytest.param(2**14, id='all'), pytest.param(4, id='few')])
def test_kept_states_of_cells_and_devices(monkeypatch, most):
    """Kept costs are fresh costs, also after the states that were known were dropped."""
    monkeypatch.setattr(scores_module, 'MAX_STATES', most)
    made = cluster(4)
    for row in range(4):
        put(made, report(f'host-{row}', vcpus=64, memory_mb=32768, **told(HOST)))
    kind = Size((('VCPU', 2),), None, CellDemand.all_of(GUEST.guest), (PCI,))
    mix, resources = Mix({kind: 2.0, size(4): 1.0}), read_resources(made.hosts)
    kept, there = Scores(Tables(mix, resources), resources), []
    chance = random.Random(5)
    for number in range(60):
        wanted = request(
            instance_uuid=uuid_of(f'{number}'),
            resources={'VCPU': 2},
            pieces=GUEST if number % 3 else NO_HARDWARE,
        )
        asked_for = size_of(wanted, set())
        assert kept.costs(made.hosts, asked_for)[0].tolist() == (
            fresh(kept, made.hosts, asked_for).tolist()
        )
        with contextlib.suppress(errors.ComputeResourcesUnavailable):
            there.append(made.consume(chance.choice(made.hosts.nodes), wanted))
        if chance.random() < 0.3 and there:
            made.release(there.pop(chance.randrange(len(there))))
    assert size_of(request(resources={'VCPU': 2}, pieces=GUEST), set()) == kind


def test_the_device():
    made = gpu_cluster(3, plain=1)
    scores = Scores(Tables(MIX, read_resources(made.hosts)), read_resources(made.hosts))
    one = asked(1, 460)
    made.consume(made.hosts.nodes[0], one)
    kind = size_of(one, made.hosts.child_classes)
    used = uuid_of('host-0 0')
    assert scores.device(made.hosts, 0, kind) == used  # rather than another whole one
    assert scores.device(made.hosts, 1, size(2)) is None
    assert scores.device(made.hosts, 1, size(2, 1000, 2)) is None
    assert scores.device(made.hosts, 2, kind) is None


def test_the_loop_gets_its_turn(monkeypatch):
    """While costs are prepared, after every few states of each size."""
    monkeypatch.setattr(scores_module, 'BATCH', 1)
    made, turns = gpu_cluster(), []
    scores = Scores(Tables(MIX, read_resources(made.hosts)), read_resources(made.hosts))
    scores.prepare(MIX.counts, lambda: turns.append(1))
    assert len(turns) == 5 * len(MIX.counts)  # two of the six hosts are alike


def test_only_states_that_are_asked_for_are_computed(monkeypatch):
    """A host passes through many states between two requests of a rare size."""
    made, lines = gpu_cluster(), []
    scores = Scores(Tables(MIX, read_resources(made.hosts)), read_resources(made.hosts))
    cost, kind = scores.tables.cost, size(2, 460)
    monkeypatch.setattr(
        scores.tables, 'cost', lambda size, state: lines.append(len(state)) or cost(size, state)
    )
    scores.costs(made.hosts, kind, np.array([0]))
    scores.costs(made.hosts, kind, np.array([0, 1]))
    assert lines == [1, 1]
    for number in range(3):
        made.consume(made.hosts.nodes[0], asked(number, 190))
        scores.costs(made.hosts, size(1, 190), np.array([1]))
    lines.clear()
    scores.costs(made.hosts, kind, np.array([0, 1]))
    scores.device(made.hosts, 0, kind)
    assert lines == [1]


def test_few_kept_costs():
    made = gpu_cluster()
    scores = Scores(
        Tables(MIX, read_resources(made.hosts)), read_resources(made.hosts), memory=100
    )
    for milli in (190, 460, 1000, 190):
        wanted = size(2, milli)
        assert scores.costs(made.hosts, wanted)[0].tolist() == (
            fresh(scores, made.hosts, wanted).tolist()
        )


def test_resources_are_a_copy():
    """A thread reads it while the loop goes on."""
    made = gpu_cluster()
    resources = read_resources(made.hosts)
    before = resources.free['VCPU'].tolist()
    made.consume(made.hosts.nodes[0], asked(1, 460))
    assert resources.free['VCPU'].tolist() == before
    assert resources.empty.all()
    assert read_resources(made.hosts).position > resources.position
