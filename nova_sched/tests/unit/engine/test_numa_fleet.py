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
"""Servers of a real cloud into the NUMA cells of its hosts: through the engine and a claim
store."""

import collections
import csv
import gzip
import time
from pathlib import Path

import pytest

from nova_sched import service
from nova_sched.claim import MEMORY_MB, PCPU
from nova_sched.conf import CONF
from nova_sched.hardware.machine import HardwareRequest
from nova_sched.hardware.numa import GuestCell, GuestTopology, HostCell, HostTopology
from nova_sched.state.report import Inventory, Report
from nova_sched.state.request import Request
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.cases import cases
from nova_sched.tests.options import settings
from nova_sched.tests.stores import MemoryClaimStore

DATA = Path(__file__).parents[2] / 'data' / 'huawei-numa-topology-2025'
GIB = 1024
# Fill up what is begun: an empty pair of cells is kept for those who need both.
PACKING = {
    'filter_scheduler.enabled_filters': ['NUMATopologyFilter'],
    'filter_scheduler.ram_weight_multiplier': -1.0,
    'filter_scheduler.cpu_weight_multiplier': 0.0,
    'compute.packing_host_numa_cells_allocation_strategy': True,
}


def table(name):
    with gzip.open(DATA / f'{name}.csv.gz', 'rt') as file:
        return list(csv.DictReader(file))


def node(place, row):
    """A host with what is free in its cells; one has nothing in its second cell, and so none."""
    cells, first = [], 0
    for number in (1, 2):
        cpus, memory_mb = int(row[f'CPU{number}']), int(row[f'RAM{number}']) * GIB
        if cpus:
            own = frozenset(range(first, first + cpus))
            cells.append(HostCell(len(cells), frozenset(), own, memory_mb))
        first += cpus
    return Report(
        node_uuid=uuid_of(f'host-{place}'),
        host=f'host-{place:04}',
        nodename=f'host-{place:04}',
        inventories={
            PCPU: Inventory(sum(len(cell.pcpuset) for cell in cells)),
            MEMORY_MB: Inventory(sum(cell.memory_mb for cell in cells)),
        },
        used={},
        instances=frozenset(),
        numa_topology=HostTopology(tuple(cells)).to_json(),
    )


def server(name, row):
    """A server of `hw:cpu_policy=dedicated` and `hw:numa_nodes`: the same share in each of its
    cells."""
    vcpus = int(row['flavor_vcpus'])
    memory_mb = int(row['flavor_ram']) * GIB
    count = int(row['numa'])
    share = vcpus // count
    cells = tuple(
        GuestCell(
            number,
            frozenset(),
            frozenset(range(number * share, (number + 1) * share)),
            memory_mb // count,
            cpu_policy='dedicated',
        )
        for number in range(count)
    )
    return Request(
        instance_uuid=uuid_of(name),
        vcpus=vcpus,
        memory_mb=memory_mb,
        resources={PCPU: vcpus, MEMORY_MB: memory_mb},
        pieces=HardwareRequest(GuestTopology(cells)),
    )


@pytest.fixture
def scheduler():
    with settings(PACKING):
        store = MemoryClaimStore()
        store.report([node(place, row) for place, row in enumerate(table('PM_res'))], time.time())
        made = service.scheduler(CONF, store)
        made.start()
        yield made
        made.stop()


@pytest.mark.parametrize('sequence', ['C1', 'C2', 'C3'])
def test_every_server_finds_its_cells(scheduler, sequence):
    rows = table(f'VM_data_{sequence}')
    assert len(rows) == 4998
    rows = rows[: cases(len(rows))]
    for number, row in enumerate(rows):
        scheduler.place([server(f'{sequence} {number}', row)])
    held = collections.defaultdict(list)
    for claim in scheduler.call(scheduler.claim_service.claims_of, None):
        held[claim.node_uuid].append(claim.parts)
    assert sum(map(len, held.values())) == len(rows)
    for parts in held.values():
        cpus = [cpu for one in parts for placed in one.cells.cells for cpu in placed.host_cpus]
        assert len(cpus) == len(set(cpus))
