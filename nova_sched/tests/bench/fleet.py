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
"""The cluster that the benchmarks decide on: partly filled, with a few hosts down or switched
off."""

import dataclasses
import random
import time
import uuid

from nova_sched.claims import ServiceFacts
from nova_sched.engine.context import Context
from nova_sched.engine.sync.state_sync import StateSync
from nova_sched.state.cluster import Cluster
from nova_sched.state.report import Inventory, Report
from nova_sched.state.request import Request
from nova_sched.tests.stores import MemoryClaimStore

SUPPORTED = (('x86_64', 'kvm', 'hvm'), ('i686', 'kvm', 'hvm'))


def reports(count, seed=1):
    chance = random.Random(seed)
    for place in range(count):
        used = chance.randrange(28)
        yield Report(
            node_uuid=str(uuid.UUID(int=place + 1)),
            host=f'compute-{place:06}',
            nodename=f'compute-{place:06}',
            inventories={
                'VCPU': Inventory(32, 0, 4.0),
                'MEMORY_MB': Inventory(262144, 512),
                'DISK_GB': Inventory(2000),
            },
            used={'VCPU': used, 'MEMORY_MB': used * 4096, 'DISK_GB': used * 40},
            num_instances=used // 2,
            io_workload=chance.randrange(3),
            hypervisor_type='QEMU',
            hypervisor_version=8002001,
            supported_instances=SUPPORTED,
            stats={'num_instances': str(used // 2)},
        )


changed = dataclasses.replace


def filled_store(count, now_s=None, seed=1):
    """A store whose nodes all have reported; three in a hundred are off, two are not seen any
    more."""
    now_s = now_s or time.time()
    store, chance = MemoryClaimStore(), random.Random(seed)
    store.report(list(reports(count, seed)), now_s)
    for place in range(count):
        if chance.random() < 0.03:
            store.set_service(ServiceFacts(f'compute-{place:06}', disabled=True))
        elif chance.random() < 0.02:
            store.set_service(ServiceFacts(f'compute-{place:06}', forced_down=True))
    return store


def cluster(store, settings):
    """The cluster as a scheduler knows it after its start."""
    found = Cluster()
    StateSync(Context(found, store, lambda: settings, time.time)).refresh()
    found.hosts.now_s = time.time()
    return found


def request(vcpus=2, memory_mb=4096, disk_gb=20, **facts):
    return Request(
        instance_uuid=str(uuid.uuid4()),
        vcpus=vcpus,
        memory_mb=memory_mb,
        root_gb=disk_gb,
        resources={'VCPU': vcpus, 'MEMORY_MB': memory_mb, 'DISK_GB': disk_gb},
        **facts,
    )
