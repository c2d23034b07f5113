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
"""Random NUMA cells and PCI devices: what hosts have, and what guests ask for. All objects are
Nova's."""

from nova import objects

PHYSNETS = ('lan', 'wan', 'san')
TAGS = {
    'dev_type': ('type-PCI', 'type-PF', 'type-VF', 'vdpa'),
    'physical_network': (*PHYSNETS, None),
    'remote_managed': ('true', 'false'),
    'managed': ('true', 'false'),
    'live_migratable': ('true', 'false'),
    'slot': ('1', 'A'),
}
SHARES = dict(zip(TAGS, (0.7, 0.3, 0.3, 0.15, 0.2, 0.2), strict=True))
POLICIES = (None, 'legacy', 'required', 'preferred', 'socket')


def host_topology(dice):
    """The NUMA cells of a host: one to three, with sibling threads of several kinds, pages and
    networks."""
    count, cpus = dice.choice((1, 2, 2, 3)), dice.choice((2, 4, 4, 8))
    return objects.NUMATopology(
        cells=[_host_cell(dice, number, count, cpus) for number in range(count)]
    )


def _host_cell(dice, number, count, cpus):
    cores = _cores(dice, range(number * cpus, (number + 1) * cpus), count * cpus)
    threads = sorted(thread for core in cores for thread in core)
    shared, dedicated = _division(dice, threads)
    memory = dice.choice((512, 1024, 4096))
    return objects.NUMACell(
        id=number,
        cpuset=set(shared),
        pcpuset=set(dedicated),
        memory=memory,
        cpu_usage=dice.choice((0, 0, 1, len(shared))),
        memory_usage=dice.choice((0, 0, memory // 2, memory + 10)),
        pinned_cpus={cpu for cpu in dedicated if dice.maybe(0.3)},
        siblings=[set(core) for core in cores],
        mempages=_pages(dice, memory),
        network_metadata=objects.NetworkMetadata(
            physnets=set(dice.some(PHYSNETS, 2)), tunneled=dice.maybe(0.3)
        ),
        socket=dice.choice((0, 1, None)),
    )


def _cores(dice, cpus, offset):
    """Threads by core: alone, side by side, four together, or the second half far away."""
    style = dice.choice(('alone', 'pairs', 'pairs', 'far', 'four'))
    if style == 'far':
        return [(cpu, cpu + offset) for cpu in cpus]
    step = {'alone': 1, 'pairs': 2, 'four': 4}[style]
    return [tuple(cpus[start : start + step]) for start in range(0, len(cpus), step)]


def _division(dice, threads):
    """Which CPUs are shared, and which dedicated: all of them both, or some these and some
    those."""
    if dice.maybe(0.4):
        return threads, threads
    mixed = dice.sample(threads, len(threads)) if dice.maybe(0.3) else threads
    place = dice.randint(0, len(mixed))
    return mixed[:place], mixed[place:]


def _pages(dice, memory):
    sizes = [
        (4, memory * 256, dice.choice((0, memory * 64))),
        (2048, memory // 4, dice.choice((0, 3))),
    ]
    if dice.maybe(0.3):
        sizes.append((1048576, 4, dice.choice((0, 4))))
    return [
        objects.NUMAPagesTopology(
            size_kb=size, total=total, used=used, reserved=dice.choice((0, 0, 2))
        )
        for size, total, used in sizes[: dice.choice((0, 1, 3, 3))]
    ]


def guest_topology(dice):
    """The NUMA cells that a guest asks for."""
    policy = dice.choice((None, 'shared', 'dedicated', 'dedicated', 'mixed'))
    pins = policy in ('dedicated', 'mixed')
    threads = dice.choice((None, 'prefer', 'isolate', 'isolate', 'require')) if pins else None
    emulator = dice.choice((None, 'isolate', 'isolate', 'share')) if pins else None
    page_kb = dice.choice((None, None, None, -1, -2, -3, 4, 2048, 1048576))
    cells, first = [], 0
    for number in range(dice.choice((1, 1, 2, 2, 3))):
        cpus = range(first, first + dice.choice((1, 1, 2, 3, 4)))
        first = cpus.stop
        pinned = {'dedicated': cpus, 'mixed': dice.some(cpus, len(cpus))}.get(policy, ())
        cells.append(
            objects.InstanceNUMACell(
                id=number,
                cpuset=set(cpus) - set(pinned),
                pcpuset=set(pinned),
                memory=dice.choice((1, 128, 256, 300, 512)),
                pagesize=page_kb,
                cpu_policy=policy,
                cpu_thread_policy=threads,
            )
        )
    return objects.InstanceNUMATopology(cells=cells, emulator_threads_policy=emulator)


def networks(dice):
    """Which networks the guest's ports are on, for NUMA affinity of its virtual switch."""
    return objects.NetworkMetadata(
        physnets=set(dice.some((*PHYSNETS, 'far'), 2)), tunneled=dice.maybe(0.3)
    )


def pools(dice):
    """The free PCI devices of a host, by pool."""
    found = {}
    for _ in range(dice.choice((0, 1, 2, 3, 5))):
        pool = objects.PciDevicePool(
            vendor_id=dice.choice(('8086', '8086', '10de', '10DE')),
            product_id=dice.choice(('1572', '20b0')),
            numa_node=dice.choice((0, 1, 2, None)),
            tags={
                tag: dice.choice(values) for tag, values in TAGS.items() if dice.maybe(SHARES[tag])
            },
            count=dice.choice((1, 1, 2, 5)),
        )
        words = (
            pool.vendor_id,
            pool.product_id,
            pool.numa_node,
            *sorted(pool.tags.items(), key=str),
        )
        found[words] = pool
    return objects.PciDevicePoolList(objects=list(found.values()))


def pci_requests(dice, most=3):
    """The PCI devices that a guest asks for, by alias or for a port."""
    made = [_pci_request(dice, dice.uuid()) for _ in range(dice.randint(1, most))]
    return objects.InstancePCIRequests(requests=made)


def _pci_request(dice, uuid):
    by_alias = dice.maybe(0.6)
    return objects.InstancePCIRequest(
        count=dice.choice((1, 1, 1, 2, 3)),
        spec=[_device(dice) for _ in range(dice.choice((1, 1, 2)))],
        numa_policy=dice.choice(POLICIES),
        request_id=uuid,
        alias_name='card' if by_alias else None,
        requester_id=None if by_alias else uuid,
    )


def _device(dice):
    asked = {
        tag: dice.choice(values) for tag, values in TAGS.items() if dice.maybe(SHARES[tag] / 2)
    }
    if dice.maybe(0.6):
        asked['vendor_id'] = dice.choice(('8086', '8086', '10de'))
    if dice.maybe(0.3):
        asked['product_id'] = dice.choice(('1572', '20B0'))
    return asked
