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
"""The pods of a GPU cluster (Alibaba, openb 2023) on its GPU nodes.

As in the published experiments with these lists: pods in random order, repeated at random until
they ask for a given share of all GPUs. They never leave.
"""

import json
import random
from typing import NamedTuple

from nova_sched.claim import DISK_GB, MEMORY_MB, VCPU
from nova_sched.hardware.providers import ResourceGroup
from nova_sched.sim import trace
from nova_sched.sim.replays.workload import Arrival, Workload, report, server_uuid, uuid_of
from nova_sched.state.request import Request

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
        """Thousandths of GPUs in all."""
        return self.gpus * self.milli


def workload(nodes, pods, load=1.3):
    """Returns the Workload of two files: the list of GPU nodes, and a list of pods. Raises
    BadConfig.

    A GPU is a child provider of 1000 units, with a trait for each list of models that names its
    own. The weighers for best fit know no devices, so the node has the sum of its GPUs as
    MEMORY_MB, and its memory as DISK_GB.
    """
    listed = list(trace.rows(pods, _pod))
    specs = sorted({pod.models for pod in listed} - {''})
    reports = list(trace.rows(nodes, lambda row: _report(row, specs)))
    total = sum(one.inventories[MEMORY_MB].total for one in reports)

    def arrivals(seed):
        for number, pod in enumerate(_order(listed, load * total, random.Random(seed))):
            yield Arrival((_request(pod, number),), pod.amount, f'{pod.gpus} GPUs')

    return Workload('openb', 'GPU thousandths', reports, total, arrivals)


def _pod(row):
    columns = 'cpu_milli', 'memory_mib', 'num_gpu', 'gpu_milli'
    return Pod(*(int(row[column]) for column in columns), row.get('gpu_spec') or '')


def _order(listed, wanted, chance):
    """The pods of one run: they ask for at most ``wanted`` thousandths of GPUs."""
    order = listed[:]
    chance.shuffle(order)
    asked = sum(pod.amount for pod in order)
    while asked > wanted:
        asked -= order.pop(chance.randrange(len(order))).amount
    while True:
        pod = chance.choice(listed)
        asked += pod.amount
        if asked > wanted:
            return order
        order.append(pod)


def _trait(models):
    return 'CUSTOM_GPU_' + models.replace('|', '_OR_')


def _report(row, specs):
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


def _request(pod, number):
    traits = frozenset([_trait(pod.models)] if pod.models else [])
    groups = tuple(
        ResourceGroup(str(one), ((GPU, pod.milli),), traits)
        for one in range(pod.gpus if pod.milli else 0)
    )
    resources = {VCPU: pod.cpu, DISK_GB: pod.memory, MEMORY_MB: pod.amount}
    return Request(
        server_uuid(number),
        vcpus=pod.cpu,
        resources={name: amount for name, amount in resources.items() if amount},
        groups=groups,
        group_policy='isolate',
    )
