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
"""Two clusters in lockstep: one decides by kinds of requests, the other by full passes.

Random requests, claims, reports, aggregates, services, leaving nodes, time and options; each
decision must be the same on both: hosts, alternates and steps. A million of them:

    python -W ignore -m nova_sched.tests.unit.engine.twins --decisions 1000000
"""

import argparse
import dataclasses
import math
import random
import time

from nova_sched import errors, service
from nova_sched.claim import Claim
from nova_sched.conf import CONF
from nova_sched.engine import catalog
from nova_sched.engine.answer import selections
from nova_sched.engine.place import Placer
from nova_sched.hardware.machine import HardwareRequest
from nova_sched.state.cluster import Cluster
from nova_sched.state.report import Inventory, Report
from nova_sched.state.request import Request
from nova_sched.tests.bench.all_rules import METRICS, PINNED, PROJECT, VF, cells, devices, guest
from nova_sched.tests.builders import aggregate, settle, uuid_of
from nova_sched.tests.options import settings as options

NOW = 1_800_000_000.0
SIZES = (0, 1, 3, 20, 70, 200, 400)
FLAVORS = ((1, 512, 1), (2, 4096, 20), (4, 8192, 0), (8, 65536, 100))
FACTS = (
    {},
    {},
    {},
    {'required_traits': frozenset(['HW_A'])},
    {'availability_zone': 'zone-1'},
    {'image_properties': {'hw_architecture': 'x86_64', 'os_distro': 'debian'}},
    {'extra_specs': {'capabilities:hypervisor_type': 'QEMU'}},
    {'extra_specs': {'ssd': 'true'}},
    {'project_id': PROJECT},
    {'hints': {'different_host': [uuid_of('instance 1')]}},
    {'hints': {'query': ['[">=", "$free_ram_mb", 8192]']}},
    {'pieces': HardwareRequest(requests=(VF,))},
    {**PINNED, 'pieces': HardwareRequest(guest(vcpus=8, cells=2))},
)
METADATA = (
    {'availability_zone': 'zone-1'},
    {'availability_zone': 'zone-2', 'ssd': 'true'},
    {'ram_allocation_ratio': '1.5', 'max_io_ops_per_host': '5'},
    {'cpu_weight_multiplier': '-2.0'},
    {'filter_tenant_id': f'{PROJECT},other'},
    {'os_distro': 'debian'},
)
OPTIONS = {
    'filter_scheduler.max_io_ops_per_host': (8, 3),
    'filter_scheduler.ram_weight_multiplier': (1.0, -1.0, 0.0),
    'filter_scheduler.host_subset_size': (1, 1, 4),
    'filter_scheduler.shuffle_best_same_weighed_hosts': (False, True),
    'filter_scheduler.image_props_weight_multiplier': (0.0, 2.0),
}
ALL_RULES = {'metrics.required': False, 'metrics.weight_setting': ['cpu.frequency=1.0']}


class Twins:
    """The two clusters, and what happens to both. ``run`` raises AssertionError at the first
    difference."""

    def __init__(self, seed):
        self._chance = random.Random(seed)
        self._options = dict.fromkeys(OPTIONS)
        self.decisions = self.kept = self.refused = 0

    def run(self, decisions):
        chance = self._chance
        everything = chance.random() < 0.3
        names = sorted(catalog.known('nova_sched.filters'))
        chosen = {'filter_scheduler.enabled_filters': names, **ALL_RULES} if everything else {}
        chosen |= {name: chance.choice(values) for name, values in OPTIONS.items()}
        with options(chosen):
            self._start(chance.choice(SIZES))
            for _ in range(decisions):
                if chance.random() < 0.01:
                    self._reload()
                for _ in range(chance.choice((0, 0, 1, 1, 2, 5))):
                    chance.choice(self._events)()
                self._decide()

    def _start(self, size):
        chance = self._chance
        self._nodes = {}
        self._made = 0
        self._claims = []
        self._uniform = chance.random() < 0.3
        self._kinds = chance.sample(FACTS, chance.randrange(1, 6))
        self._clusters = Cluster(), Cluster()
        for cluster in self._clusters:
            cluster.hosts.now_s = NOW
        self._settings = dataclasses.replace(
            service.settings(CONF), schedulers=chance.choice((1, 1, 3)), alternates=3
        )
        self._placers = [
            Placer(cluster, service.rules(CONF), random.Random(0)) for cluster in self._clusters
        ]
        for _ in range(size):
            self._add()
        self._events = (
            *[self._report] * 4,
            *[self._release] * 3,
            self._add,
            self._leave,
            self._aggregate,
            self._service,
            self._heartbeat,
            self._wait,
            self._tell,
            self._close,
            self._other_claim,
            self._confirm,
        )

    def _both(self, change):
        for cluster in self._clusters:
            change(cluster)

    # What happens.

    def _report_of(self, name):
        chance = self._chance
        used = 4 if self._uniform else chance.randrange(28)
        plain = self._uniform or chance.random() < 0.7
        return Report(
            node_uuid=uuid_of(name),
            host=name,
            nodename=name,
            cell_uuid=uuid_of('cell 2') if chance.random() < 0.05 else uuid_of('cell 1'),
            inventories={
                'VCPU': Inventory(32, 0, 4.0 if plain else 1.0),
                'MEMORY_MB': Inventory(262144, 512),
                'DISK_GB': Inventory(2000),
                **({} if plain else {'PCPU': Inventory(32)}),
            },
            used={'VCPU': used, 'MEMORY_MB': used * 8192, 'DISK_GB': used * 40},
            io_workload=0 if plain else chance.randrange(6),
            failed_builds=int(chance.random() < 0.02),
            hypervisor_type='QEMU' if chance.random() < 0.95 else 'ironic',
            hypervisor_version=8002001,
            supported_instances=(('x86_64', 'kvm', 'hvm'),),
            traits=frozenset(['HW_A'] if chance.random() < 0.5 else []),
            stats={'boost': '1'} if chance.random() < 0.1 else {},
            numa_topology=None if plain else cells(chance),
            pci_pools=None if plain else devices(chance),
            metrics=None if plain else METRICS,
        )

    def _put(self, report):
        def put(cluster):
            node = cluster.node(report.node_uuid)
            held = tuple(node.claims.values()) if node else ()
            settled = settle(report, {claim.consumer_uuid: claim for claim in held})
            cluster.put(
                report,
                held,
                settled.foreign,
                settled.foreign_instances,
                seen_s=cluster.hosts.now_s,
                fences=node.fences if node else frozenset(),
            )

        self._nodes[report.host] = report
        self._both(put)

    def _add(self):
        self._made += 1
        self._put(self._report_of(f'host-{self._made}'))

    def _report(self):
        if self._nodes:
            name = self._chance.choice(list(self._nodes))
            if self._chance.random() < 0.1:
                self._put(self._report_of(name))
            else:
                workload = self._chance.randrange(4)
                self._put(dataclasses.replace(self._nodes[name], io_workload=workload))

    def _leave(self):
        if len(self._nodes) > 1 and self._chance.random() < 0.1:
            name = self._chance.choice(list(self._nodes))
            del self._nodes[name]
            self._both(lambda cluster: cluster.remove(uuid_of(name)))

    def _aggregate(self):
        if self._chance.random() < 0.1:
            number = self._chance.randrange(4)
            names = self._chance.sample(list(self._nodes), len(self._nodes) // 3)
            made = aggregate(number, names, **self._chance.choice(METADATA))
            made = made if self._chance.random() < 0.5 else None
            self._both(lambda cluster: cluster.set_aggregate(number, made))

    def _service(self):
        if self._nodes:
            name = self._chance.choice(list(self._nodes))
            disabled, down = self._chance.random() < 0.3, self._chance.random() < 0.2
            self._both(lambda cluster: cluster.set_service(name, disabled, None, down))

    def _heartbeat(self):
        """Heartbeats, of which some are of a clock that is ahead or behind."""
        for name in self._chance.sample(list(self._nodes), len(self._nodes) // 2):
            ahead_s = self._chance.choice((0, 0, 0, -30, 90))
            for cluster in self._clusters:
                cluster.see(name, cluster.hosts.now_s + ahead_s)

    def _wait(self):
        step_s = self._chance.choice((0.1, 1, 10, 25, -0.5))
        for cluster in self._clusters:
            cluster.hosts.now_s += step_s

    def _tell(self):
        if self._nodes:
            name = self._chance.choice(list(self._nodes))
            some = [uuid_of('instance 1')][: self._chance.randrange(2)]
            self._both(lambda cluster: cluster.tell(name, some))

    def _close(self):
        if self._nodes:
            name = self._chance.choice(list(self._nodes))
            tokens = frozenset(['domain'] if self._chance.random() < 0.3 else [])
            self._both(lambda cluster: cluster.set_tokens(cluster.node(uuid_of(name)), tokens))

    def _other_claim(self):
        """A claim of another scheduler."""
        if self._nodes:
            name = self._chance.choice(list(self._nodes))
            sizes = {'VCPU': 2, 'MEMORY_MB': 2048, 'DISK_GB': 10}
            claim = Claim(
                self._new(), uuid_of(name), sizes, image_properties={'os_distro': 'debian'}
            )
            self._both(lambda cluster: cluster.add(claim))
            self._claims.append((claim, claim))

    def _release(self):
        if self._claims:
            place = self._chance.randrange(len(self._claims))
            for cluster, claim in zip(self._clusters, self._claims.pop(place), strict=True):
                cluster.drop(claim)

    def _confirm(self):
        if self._claims:
            place = self._chance.randrange(len(self._claims))
            made = [dataclasses.replace(claim, state='confirmed') for claim in self._claims[place]]
            for cluster, old, new in zip(self._clusters, self._claims[place], made, strict=True):
                if cluster.node(old.node_uuid) is not None:
                    cluster.drop(old)
                    cluster.add(new)
            self._claims[place] = tuple(made)

    def _reload(self):
        name = self._chance.choice(list(OPTIONS))
        CONF.set_override(
            name.split('.')[1], self._chance.choice(OPTIONS[name]), 'filter_scheduler'
        )
        self._settings = dataclasses.replace(
            service.settings(CONF), schedulers=self._settings.schedulers, alternates=3
        )
        for placer in self._placers:
            placer.follow(service.rules(CONF))

    # The decision.

    def _new(self):
        return uuid_of(str(self._chance.random()))

    def _request(self):
        vcpus, memory_mb, disk_gb = self._chance.choice(FLAVORS)
        facts = dict(self._chance.choice(self._kinds))
        vcpus = facts.pop('vcpus', vcpus)
        memory_mb = facts.pop('memory_mb', memory_mb)
        pieces = facts.get('pieces')
        name = 'PCPU' if pieces and pieces.guest else 'VCPU'
        return Request(
            instance_uuid=self._new(),
            vcpus=vcpus,
            memory_mb=memory_mb,
            root_gb=disk_gb,
            resources={name: vcpus, 'MEMORY_MB': memory_mb, 'DISK_GB': disk_gb},
            **facts,
        )

    def _decide(self):
        first = self._request()
        count = self._chance.choice((1, 1, 1, 2, 5))
        asked = [dataclasses.replace(first, instance_uuid=self._new()) for _ in range(count)]
        asked[0] = first
        seed = self._chance.random()
        ours, theirs = [
            self._decide_on(placer, asked, kept, seed)
            for placer, kept in zip(self._placers, (True, False), strict=True)
        ]
        assert ours[:-1] == theirs[:-1], (ours[:-1], theirs[:-1])
        self.decisions += 1
        if ours[-1] is None:
            self.refused += 1
        elif self._chance.random() < 0.8:
            self._claims += zip(ours[-1].claims, theirs[-1].claims, strict=True)
        else:
            for placer, (*_, decision) in zip(self._placers, (ours, theirs), strict=True):
                placer.undo(decision)

    def _decide_on(self, placer, asked, kept, seed):
        """The answer, what it is explained by, and the Decision."""
        placer._random.seed(seed)
        placer.kinds.fewest = 0 if kept else math.inf
        try:
            decision = placer.decide(asked, self._settings, want_alternates=True)
        except errors.NoValidHost as error:
            return 'refused', error.reason, error.steps, None
        self.kept += decision.kind is not None
        answer = selections(placer, decision, self._settings, want_alternates=True)
        return answer, decision.first, decision.steps, decision


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--decisions', type=int, default=1_000_000)
    parser.add_argument('--seed', type=int, default=0)
    chosen = parser.parse_args()
    CONF([], project='nova_sched', default_config_files=[])
    begin, total, kept, refused, seed = time.monotonic(), 0, 0, 0, chosen.seed
    while total < chosen.decisions:
        twins = Twins(seed)
        try:
            twins.run(random.Random(seed).choice((50, 200, 1000)))
        except Exception as error:
            raise SystemExit(f'seed {seed}, decision {twins.decisions}: {error!r}') from error
        total, kept, refused = (
            total + twins.decisions,
            kept + twins.kept,
            refused + twins.refused,
        )
        seed += 1
    took_s = time.monotonic() - begin
    print(f'{total:,} decisions in {took_s:,.0f} s: {kept:,} by kinds, {refused:,} refused; equal')


if __name__ == '__main__':
    main()
