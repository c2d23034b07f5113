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
"""What a crowd asks for, and hosts that have room for nearly all of it: the same for the same
seed.

An order is one call, as plain values:

* ``number``, ``kind`` (a word for reports), ``instances`` (UUIDs);
* ``asks``, of each instance: ``resources`` (amount by resource class), ``cpus`` (dedicated ones,
  in one NUMA cell), ``pages`` (of ``PAGE_KB``, in that cell), ``devices`` (in that cell, if it
  asks for one);
* ``extra_specs``;
* ``group``: None, or ``uuid``, ``policy``, ``most`` (members on a host) and ``members`` (those it
  names).
"""

import collections
import math
import random
import uuid

from nova_sched.tests.functional.harness import compute_node
from nova_sched.tests.hardware_objects import node_fields
from nova_sched.tests.unit.hardware.builders import cell, machine, pool

PAGE_KB = 2048
CELLS = 2  # of each host that has any
OPEN = 3  # groups of a kind that grow at the same time

# kind: share of the orders, instances of one, dedicated CPUs or not, devices of one instance.
KINDS = {
    'plain': (36, (1,), False, 0),
    'several plain': (8, (2, 3, 4), False, 0),
    'anti-affinity': (14, (1, 1, 1, 2), False, 0),
    'affinity': (10, (1, 1, 1, 2), False, 0),
    'soft-anti-affinity': (4, (1,), False, 0),
    'soft-affinity': (4, (1,), False, 0),
    'numa': (10, (1,), True, 0),
    'several numa': (3, (2, 3), True, 0),
    'numa and device': (7, (1,), True, 1),
    'device': (4, (1, 1, 2), False, 1),
}
SIZES = {
    'anti-affinity': range(3, 9),
    'affinity': range(2, 6),
}  # members of a group; soft ones are alike


def crowd(count, seed=0):
    """That many orders of all kinds, in the order in which they are called."""
    dice = random.Random(seed)
    groups, kinds, shares = Groups(dice), list(KINDS), [share for share, *_ in KINDS.values()]
    return [_order(number, kind, groups, dice)
            for number, kind in enumerate(dice.choices(kinds, shares, k=count))]  # fmt: skip


def _order(number, kind, groups, dice):
    _, counts, pinned, devices = KINDS[kind]
    instances = [new_uuid(dice) for _ in range(dice.choice(counts))]
    size = (
        dice.choice((2, 2, 4))
        if pinned
        else 1
        if kind.endswith('affinity')
        else dice.choice((1, 1, 2, 4))
    )
    group = groups.join(kind, instances) if kind.endswith('affinity') else None
    return order(number, kind, instances, asks(size, pinned, devices), group)


def order(number, kind, instances, asked, group=None, **extra_specs):
    extra_specs |= {'hw:cpu_policy': 'dedicated'} if asked['cpus'] else {}
    return {
        'number': number,
        'kind': kind,
        'instances': instances,
        'asks': asked,
        'extra_specs': extra_specs,
        'group': group,
    }


def asks(size, pinned=False, devices=0):
    """What one instance of that many CPUs asks for."""
    memory_mb = (128 if pinned else 512) * size
    return {
        'resources': {'PCPU' if pinned else 'VCPU': size, 'MEMORY_MB': memory_mb, 'DISK_GB': 1},
        'cpus': size if pinned else 0,
        'pages': memory_mb * 1024 // PAGE_KB if pinned else 0,
        'devices': devices,
    }


def new_uuid(dice):
    return str(uuid.UUID(int=dice.getrandbits(128), version=4))


class Groups:
    """Server groups that orders join; a full one makes room for a new one."""

    def __init__(self, dice):
        self._dice = dice
        self._open = collections.defaultdict(list)

    def join(self, kind, instances):
        """The group of a new order, as it is for that order.

        In every other group an order names only its own instances: who asked at the same time does
        not know of the others.
        """
        dice, growing = self._dice, self._open[kind]
        if len(growing) < OPEN:
            size = dice.choice(SIZES[kind.removeprefix('soft-')])
            most = 2 if kind == 'anti-affinity' and dice.random() < 0.2 else 1
            growing.append((new_group(kind, dice, most), size, dice.random() < 0.5, []))
        chosen = dice.choice(growing)
        group, size, told, members = chosen
        members += instances
        if len(members) >= size:
            growing.remove(chosen)
        return {**group, 'members': list(members if told else instances)}


def new_group(policy, dice, most=1):
    return {'uuid': new_uuid(dice), 'policy': policy, 'most': most}


def hosts_for(orders, count, room=0.95):
    """ComputeNodes that have CPUs and devices for that share of what is asked, and memory for all
    of it.

    Each third host has NUMA cells with dedicated CPUs, huge pages and devices; every other host
    oversells its CPUs.
    """
    wanted = collections.Counter()
    for one in orders:
        for _ in one['instances']:
            wanted.update(one['asks']['resources'])
            wanted['pages'] += one['asks']['pages']
            wanted['devices'] += one['asks']['devices']
    cells = CELLS * len(range(0, count, 3))
    each_host = {name: math.ceil(wanted[name] * room / count) for name in ('VCPU', 'MEMORY_MB')}
    each_cell = {name: round(wanted[name] * room / cells) for name in ('PCPU', 'pages', 'devices')}
    for number in range(count):
        yield compute_node(
            f'host-{number}',
            vcpus=math.ceil(each_host['VCPU'] / (1 + number % 2)),
            cpu_allocation_ratio=1.0 + number % 2,
            memory_mb=math.ceil(each_host['MEMORY_MB'] * 1.2),
            local_gb=10_000,
            **({} if number % 3 else node_fields(_machine(each_cell))),
        )


def _machine(each):
    """Cells of so many dedicated CPUs, pages of PAGE_KB and devices."""
    cpus, memory_mb = each['PCPU'], each['pages'] * PAGE_KB // 1024
    cells = [
        cell(
            number,
            [],
            range(cpus * number, cpus * (number + 1)),
            memory_mb=2 * memory_mb,
            pages=[(4, memory_mb * 256), (PAGE_KB, each['pages'])],
        )
        for number in range(CELLS)
    ]
    return machine(*cells, pools=[pool(each['devices'], number) for number in range(CELLS)])
