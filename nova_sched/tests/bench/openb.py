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
"""The openb experiment through the engine: `python -m nova_sched.tests.bench.openb`.

The GPU nodes of a production cluster, and its pods in random order until 130 % of the GPUs are
asked for (`../data/alibaba-openb-gpu-2023`). Pods never leave, and one that fits nowhere is
refused. A GPU is a child provider of 1000 units. The figure is the share of all GPUs that are
allocated in the end.
"""

import argparse
import csv
import gzip
import json
import pathlib
import random
import statistics
import time

from nova_sched import errors, service
from nova_sched.claims.memory import MemoryClaimStore
from nova_sched.conf import CONF
from nova_sched.engine.context import Context
from nova_sched.engine.scheduler import Scheduler
from nova_sched.hardware.providers import ResourceGroup
from nova_sched.state.cluster import Cluster
from nova_sched.state.report import Inventory, Report
from nova_sched.state.request import Request
from nova_sched.tests.bench.timing import p50_ms, p99_ms
from nova_sched.tests.builders import NOW, uuid_of
from nova_sched.tests.options import settings

DATA = pathlib.Path(__file__).resolve().parents[1] / 'data' / 'alibaba-openb-gpu-2023'
GPU, WHOLE, LOAD = 'CUSTOM_GPU_MILLI', 1000, 1.3
MARKS = (80, 90, 100)  # per cent of the GPUs that are asked for so far
POLICIES = {
    'best-fit': {'cpu_weight_multiplier': -1.0, 'ram_weight_multiplier': -1.0},
    'fragmentation': {'fragmentation_weight_multiplier': 1.0},
}
OFF = ('ram', 'cpu', 'disk', 'io_ops', 'pci', 'hypervisor_version', 'build_failure')


def lines(name):
    with gzip.open(DATA / f'openb_{name}.csv.gz', 'rt', newline='') as file:
        yield from csv.DictReader(file)


def pods(name):
    """Each pod as (CPU in thousandths, MiB, GPUs, thousandths of each, allowed models)."""
    columns = 'cpu_milli', 'memory_mib', 'num_gpu', 'gpu_milli'
    return [
        (*(int(line[column]) for column in columns), line.get('gpu_spec') or '')
        for line in lines(f'pod_list_{name}')
    ]


def arrivals(listed, total, seed):
    """The pods in the order of one run, as in the published experiment; ``total``: thousandths of
    GPUs that there are."""
    chance, order = random.Random(seed), listed[:]
    chance.shuffle(order)
    asked = sum(num * milli for _, _, num, milli, _ in order)
    while asked > LOAD * total:
        _, _, num, milli, _ = order.pop(chance.randrange(len(order)))
        asked -= num * milli
    while True:
        pod = chance.choice(listed)
        asked += pod[2] * pod[3]
        if asked > LOAD * total:
            return order
        order.append(pod)


def trait(models):
    return 'CUSTOM_GPU_' + models.replace('|', '_OR_')


def reports(specs):
    """The nodes' reports; a GPU has a trait for each list of models that names its own.

    The node has the sum of its GPUs as MEMORY_MB: the weighers for best fit know no devices. Its
    memory is DISK_GB.
    """
    for line in lines('node_list_gpu_node'):
        name, count = line['sn'], int(line['gpu'])
        traits = sorted(trait(spec) for spec in specs if line['model'] in spec.split('|'))
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
            'VCPU': int(line['cpu_milli']),
            'MEMORY_MB': count * WHOLE,
            'DISK_GB': int(line['memory_mib']),
        }
        yield Report(
            node_uuid=root,
            host=name,
            nodename=name,
            inventories={key: Inventory(amount) for key, amount in amounts.items()},
            used=dict.fromkeys(amounts, 0),
            providers=json.dumps({root: {'name': name}, **below}),
        )


def request(pod, number):
    """The request of a pod; see ``reports``."""
    cpu, memory, num, milli, spec = pod
    traits = frozenset([trait(spec)] if spec else [])
    groups = tuple(
        ResourceGroup(str(one), ((GPU, milli),), traits) for one in range(num if milli else 0)
    )
    resources = {'VCPU': cpu, 'DISK_GB': memory, 'MEMORY_MB': num * milli}
    return Request(
        uuid_of(f'pod {number}'),
        vcpus=cpu,
        resources={name: amount for name, amount in resources.items() if amount},
        groups=groups,
        group_policy='isolate',
    )


class Run:
    """One list of pods, one policy and one seed; ``marks`` are the shares that were allocated, in
    per cent of all GPUs, by the share that was asked for. ``took_s``: seconds of processor time
    that each request took, the tables excepted."""

    def __init__(self, listed, policy, seed):
        self._seed, self._listed = seed, listed
        self._options = {f'filter_scheduler.{name}_weight_multiplier': 0.0 for name in OFF}
        self._options |= {f'filter_scheduler.{k}': v for k, v in POLICIES[policy].items()}
        self.marks, self.share, self.took_s = {}, 0.0, []

    def __call__(self):
        with settings(self._options):
            self._run()
        return self

    def _run(self):
        found = list(reports(sorted({pod[4] for pod in self._listed} - {''})))
        store = MemoryClaimStore(lambda: NOW)
        store.report(found, NOW)
        engine = service.settings(CONF)
        context = Context(Cluster(), store, lambda: engine, lambda: NOW, random.Random(1))
        scheduler = Scheduler(context, service.rules(CONF))
        scheduler.state_sync.refresh()
        scheduler.loop.start()
        total = sum(one.inventories['MEMORY_MB'].total for one in found)
        asked = used = 0
        for number, pod in enumerate(arrivals(self._listed, total, self._seed)):
            milli = pod[2] * pod[3]
            asked += milli
            used += milli * self._place(scheduler, request(pod, number))
            self.marks.setdefault(int(100 * asked / total), 100 * used / total)
        scheduler.loop.stop()
        self.share = 100 * used / total

    def _place(self, scheduler, asked):
        """Whether the request was placed. Tables are made between two requests, not in a thread:
        a run is the same each time."""
        if scheduler.mix.learns and scheduler.mix.is_due:
            scheduler.mix.refresh()
        begin_s = time.process_time()
        try:
            return bool(scheduler.place([asked]))
        except errors.NoValidHost:
            return False
        finally:
            self.took_s.append(time.process_time() - begin_s)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--lists', nargs='+', default=['default', 'gpuspec33', 'gpushare100'])
    parser.add_argument('--policies', nargs='+', choices=POLICIES, default=list(POLICIES))
    parser.add_argument('--seeds', nargs='+', type=int, default=[100, 101, 102])
    arguments = parser.parse_args()
    CONF([], project='nova_sched', default_config_files=[])
    for name in arguments.lists:
        for policy in arguments.policies:
            runs = []
            for seed in arguments.seeds:
                runs.append(Run(pods(name), policy, seed)())
                _print(name, f'{policy}, seed {seed}', runs[-1:])
            _print(name, policy, runs)


def _print(name, what, runs):
    shares, took = [run.share for run in runs], [one for run in runs for one in run.took_s]
    spread = statistics.stdev(shares) if len(runs) > 1 else 0.0
    early = ' / '.join(f'{statistics.mean(run.marks[mark] for run in runs):.2f}' for mark in MARKS)
    print(
        f'{name}, {what}: {statistics.mean(shares):.2f} ± {spread:.2f} % allocated; {early} when '
        f'{" / ".join(map(str, MARKS))} % arrived; processor time of a request: p50 '
        f'{p50_ms(took):.2f}, p99 {p99_ms(took):.2f} ms',
        flush=True,
    )


if __name__ == '__main__':
    main()
