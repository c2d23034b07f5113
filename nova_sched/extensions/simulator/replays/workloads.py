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
"""What a replay needs to know of a data set, and the three data sets."""

import dataclasses
import itertools
import json
import random
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from nova_sched.claim import DISK_GB, MEMORY_MB, VCPU
from nova_sched.conf import CONF
from nova_sched.extensions.simulator import trace
from nova_sched.hardware.machine import HardwareRequest
from nova_sched.hardware.numa import GuestCell, GuestTopology, HostCell, HostTopology
from nova_sched.hardware.providers import ResourceGroup
from nova_sched.state.report import Inventory, Report
from nova_sched.state.request import Request

NAMESPACE = uuid.UUID('5bdb1f5c-6f5e-4f0c-8d1c-0a4c5f0f7f11')


class Arrival(NamedTuple):
    """Servers that are asked for together, all or nothing: a Request for each.

    Each counts ``amount`` of the load, and they are of one ``kind``, a word for the table.
    ``lifetimes_s`` has an entry for each; None: it stays for ever. Empty: all do.
    """

    requests: tuple[Request, ...]
    amount: int
    kind: str
    time_s: float = 0.0
    lifetimes_s: tuple[float | None, ...] = ()


@dataclasses.dataclass(frozen=True)
class Workload:
    """Hosts and servers. ``arrivals(seed)`` returns the Arrivals in their order.

    ``unit`` names what ``capacity``, that of all hosts, and the amounts of servers count.
    ``options`` of the configuration belong to the experiment, whatever the policy. ``end_s`` is
    when the trace ends, None for one without times. Empty hosts count from ``measured_s`` on.
    """

    name: str
    unit: str
    reports: list[Report]
    capacity: int
    arrivals: Callable[[int], Iterable[Arrival]]
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    measured_s: float = 0.0
    end_s: float | None = None


def uuid_of(name: str) -> str:
    """Return the UUID of a node or of a provider by its name."""
    return str(uuid.uuid5(NAMESPACE, name))


def server_uuid(number: int) -> str:
    """Return the UUID of a server by its number."""
    return f'{number:08x}-0000-4000-8000-000000000000'


def report(host: str, amounts: Mapping[str, int], **fields: Any) -> Report:
    """Return the report of an empty host with these totals by resource class."""
    return Report(
        node_uuid=uuid_of(host),
        host=host,
        nodename=host,
        inventories={name: Inventory(amount) for name, amount in amounts.items()},
        used=dict.fromkeys(amounts, 0),
        **fields,
    )


# The virtual machines of a cloud's region (Azure, 2017), with departures.

HOUR_S, GRID_S = 3600.0, 300.0
WARM_UP_S = 24 * HOUR_S  # the trace begins with an empty cloud


def azure(path, hosts, vcpus, memory_gb, hours=None):
    """Return the Workload of a trace (``trace``). Raise BadConfig.

    ``hosts`` hosts with ``vcpus`` and ``memory_gb`` GiB; ``hours``: only so much of the trace. A
    batch of one flavor is one request. Each request has its lifetime as ``ttl``. The order of
    arrival is that of the file, so the seed has no effect.
    """
    listed = list(trace.split(trace.load(path), CONF.scheduler.max_instances_per_request))
    start_s, end_s = listed[0].time_s, listed[-1].time_s + GRID_S
    if hours is not None:
        end_s = start_s + hours * HOUR_S
        listed = [batch for batch in listed if batch.time_s < end_s]
    amounts = {VCPU: vcpus, MEMORY_MB: memory_gb * 1024}

    def arrivals(_seed):
        numbers = itertools.count()
        return (_batch(batch, numbers) for batch in listed)

    return Workload(
        'azure',
        'vCPUs',
        [report(f'host-{number}', amounts) for number in range(hosts)],
        hosts * vcpus,
        arrivals,
        measured_s=min(start_s + WARM_UP_S, (start_s + end_s) / 2),
        end_s=end_s,
    )


def _batch(listed, numbers):
    # A lifetime of 0 ends within the grid of the trace, in its middle.
    lifetimes_s = tuple(
        GRID_S / 2 if lifetime_s == 0 else lifetime_s for lifetime_s in listed.lifetimes_s
    )
    flavor = listed.flavor
    requests = tuple(
        Request(
            server_uuid(next(numbers)),
            vcpus=flavor.vcpus,
            memory_mb=flavor.memory_mb,
            resources={VCPU: flavor.vcpus, MEMORY_MB: flavor.memory_mb},
            flavor_name=flavor.name,
            hints={} if lifetime_s is None else {'ttl': [lifetime_s]},
        )
        for lifetime_s in lifetimes_s
    )
    return Arrival(requests, flavor.vcpus, f'{flavor.vcpus} vCPUs', listed.time_s, lifetimes_s)


# The pods of a GPU cluster (Alibaba, openb 2023) on its GPU nodes. As in the published experiments
# with these lists: pods in random order, repeated at random until they ask for a given share of
# all GPUs. They never leave.

GPU, WHOLE = 'CUSTOM_GPU_MILLI', 1000


class Pod(NamedTuple):
    """CPU in thousandths, memory in MiB, GPUs, thousandths of each, and allowed models, with
    ``|`` between them (empty: all)."""

    cpu: int
    memory: int
    gpus: int
    milli: int
    models: str

    @property
    def amount(self):
        """Return thousandths of GPUs in all."""
        return self.gpus * self.milli


def openb(nodes, pods, load=1.3):
    """Return the Workload of two files: the list of GPU nodes, and a list of pods. Raise
    BadConfig.

    A GPU is a child provider of 1000 units, with a trait for each list of models that names its
    own. The weighers for best fit know no devices, so the node has the sum of its GPUs as
    MEMORY_MB, and its memory as DISK_GB.
    """
    listed = list(trace.rows(pods, _pod))
    specs = sorted({pod.models for pod in listed} - {''})
    reports = list(trace.rows(nodes, lambda row: _gpu_node(row, specs)))
    total = sum(host_report.inventories[MEMORY_MB].total for host_report in reports)

    def arrivals(seed):
        for number, pod in enumerate(_order(listed, load * total, random.Random(seed))):
            yield Arrival((_pod_request(pod, number),), pod.amount, f'{pod.gpus} GPUs')

    return Workload('openb', 'GPU thousandths', reports, total, arrivals)


def _pod(row):
    columns = 'cpu_milli', 'memory_mib', 'num_gpu', 'gpu_milli'
    return Pod(*(int(row[column]) for column in columns), row.get('gpu_spec') or '')


def _order(listed, wanted, chance):
    """Return the pods of one run: they ask for at most ``wanted`` thousandths of GPUs."""
    order = listed[:]
    chance.shuffle(order)
    amount = sum(pod.amount for pod in order)
    while amount > wanted:
        amount -= order.pop(chance.randrange(len(order))).amount
    while True:
        pod = chance.choice(listed)
        amount += pod.amount
        if amount > wanted:
            return order
        order.append(pod)


def _trait(models):
    return 'CUSTOM_GPU_' + models.replace('|', '_OR_')


def _gpu_node(row, specs):
    name, count = row['sn'], int(row['gpu'])
    traits = sorted(_trait(spec) for spec in specs if row['model'] in spec.split('|'))
    root = uuid_of(name)
    below = {
        uuid_of(f'{name} {number}'): {
            'name': f'{name}_{number}',
            'parent_provider_uuid': root,
            'inventories': {GPU: {'total': WHOLE}},
            'traits': traits,
        }
        for number in range(count)
    }
    amounts = {
        VCPU: int(row['cpu_milli']),
        MEMORY_MB: count * WHOLE,
        DISK_GB: int(row['memory_mib']),
    }
    return report(name, amounts, providers=json.dumps({root: {'name': name}, **below}))


def _pod_request(pod, number):
    traits = frozenset([_trait(pod.models)] if pod.models else [])
    groups = tuple(
        ResourceGroup(str(suffix), ((GPU, pod.milli),), traits)
        for suffix in range(pod.gpus if pod.milli else 0)
    )
    resources = {VCPU: pod.cpu, DISK_GB: pod.memory, MEMORY_MB: pod.amount}
    return Request(
        server_uuid(number),
        vcpus=pod.cpu,
        resources={name: amount for name, amount in resources.items() if amount},
        groups=groups,
        group_policy='isolate',
    )


# Virtual machines with NUMA needs (Huawei, 2025), in sequences that are chained in random order.
# The data has no times and no departures. Placement groups are left out: a server counts alone.

NUMA_FILTER = 'NUMATopologyFilter'


def huawei(hosts, sequences):
    """Return the Workload of the file of hosts and those of the sequences. Raise BadConfig.

    All that a cell has is free, and CPUs are not overcommitted. A server of
    two cells takes half of its CPUs and memory in each.
    """
    reports = [
        _numa_host(f'host-{number}', cells)
        for number, cells in enumerate(trace.rows(hosts, _cells))
    ]
    parts = [list(trace.rows(path, _size)) for path in sequences]

    def arrivals(seed):
        order = parts[:]
        random.Random(seed).shuffle(order)
        for number, size in enumerate(itertools.chain(*order)):
            yield _numa_server(server_uuid(number), *size)

    filters = [*dict.fromkeys([*CONF.filter_scheduler.enabled_filters, NUMA_FILTER])]
    capacity = sum(host_report.inventories[VCPU].total for host_report in reports)
    options = {'filter_scheduler.enabled_filters': filters}
    return Workload('huawei', 'vCPUs', reports, capacity, arrivals, options)


def _cells(row):
    """Return (CPUs, MiB) of each cell that has any CPU."""
    cells = [(int(row[f'CPU{cell}']), int(row[f'RAM{cell}']) * 1024) for cell in (1, 2)]
    return [cell for cell in cells if cell[0]]


def _numa_host(host, cells):
    first, host_cells = 0, []
    for number, (cpus, memory_mb) in enumerate(cells):
        host_cells.append(
            HostCell(number, frozenset(range(first, first + cpus)), frozenset(), memory_mb)
        )
        first += cpus
    amounts = {VCPU: first, MEMORY_MB: sum(memory_mb for _, memory_mb in cells)}
    return report(host, amounts, numa_topology=HostTopology(tuple(host_cells)).to_json())


def _size(row):
    return int(row['flavor_vcpus']), int(row['flavor_ram']) * 1024, int(row['numa'])


def _numa_server(server, vcpus, memory_mb, cells):
    each = vcpus // cells
    guest = GuestTopology(
        tuple(
            GuestCell(
                number,
                frozenset(range(number * each, (number + 1) * each)),
                frozenset(),
                memory_mb // cells,
            )
            for number in range(cells)
        )
    )
    request = Request(
        server,
        vcpus=vcpus,
        memory_mb=memory_mb,
        resources={VCPU: vcpus, MEMORY_MB: memory_mb},
        flavor_name=f'{vcpus}-{memory_mb}-{cells}',
        pieces=HardwareRequest(guest=guest),
    )
    return Arrival((request,), vcpus, 'one cell' if cells == 1 else f'{cells} cells')
