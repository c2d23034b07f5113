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

"""The NUMA cells of a planned server, computed as Nova's API does when it creates the server.

Extra spec `hw:NAME` of the flavor and property `hw_NAME` of the image set the same value. Nova
defines which one has priority and which combinations it refuses. Sources: Nova's documentation of
CPU topologies, huge pages and real time; the tests contain recorded answers of Nova.
"""

from oslo_utils import strutils

from nova_sched import objects
from nova_sched.groups.members.guest_cpus import Asked, Cpus, cpu_ids, refused
from nova_sched.hardware.numa.guest import ANY, DEDICATED, LARGE, MIXED, SMALL

MOST_CELLS = 128  # the limit of QEMU, and of Nova for hw:numa_cpus.N and hw:numa_mem.N
PAGE_WORDS = {'small': SMALL, 'large': LARGE, 'any': ANY}


def topology(vcpus, memory_mb, extra_specs, image):
    """Returns the cells of a server of this flavor and image, as InstanceNUMATopology.

    Returns None if they ask for none. ``image`` is an ImageMetaProps. Raises InvalidRequest if
    Nova's API would refuse the server.
    """
    asked = Asked(vcpus, memory_mb, extra_specs, image)
    guest = Cpus.of(asked)
    cells, page_kb = _count(asked), _page_kb(asked)
    _check_locked(asked)
    if not (cells or page_kb or _has_pmem(asked) or guest.policy in (DEDICATED, MIXED)):
        return None
    return objects.InstanceNUMATopology(
        cells=[
            objects.InstanceNUMACell(
                id=number,
                cpuset=set(cpus - guest.dedicated),
                pcpuset=set(cpus & guest.dedicated),
                memory=memory,
                pagesize=page_kb,
                cpu_policy=guest.policy,
                cpu_thread_policy=guest.threads,
            )
            for number, (cpus, memory) in enumerate(_cells(asked, cells or 1))
        ],
        emulator_threads_policy=guest.emulators,
    )


# Memory.


def _page_kb(asked):
    """Returns the page size in KiB, or a word for several sizes; None if any size will do."""
    flavor, image = asked.both('mem_page_size')
    wanted = _pages(flavor, 'hw:mem_page_size') if flavor else None
    if not image:
        return wanted
    if wanted not in (ANY, LARGE):
        raise refused(
            'hw_mem_page_size',
            f'the flavor leaves no choice of pages to the image: it says {flavor}',
        )
    return _pages(image, 'hw_mem_page_size')


def _pages(text, where):
    if text in PAGE_WORDS:
        return PAGE_WORDS[text]
    try:
        return (
            int(text)
            if text.isdecimal()
            else strutils.string_to_bytes(text, return_int=True) // 1024
        )
    except ValueError:
        words = ', '.join(PAGE_WORDS)
        raise refused(
            where, f'{text!r} is no size in KiB or such as 2MB, nor one of {words}'
        ) from None


def _check_locked(asked):
    """Memory can be locked only if a page size is requested."""
    flavor, image = asked.both('locked_memory')
    locked = strutils.bool_from_string(flavor) if flavor is not None else image
    if flavor is not None and image not in (None, locked):
        raise refused('hw_locked_memory', f'the image wants {image}, the flavor is {flavor}')
    if locked and not any(asked.both('mem_page_size')):
        raise refused('hw:locked_memory', 'it needs hw:mem_page_size')


def _has_pmem(asked):
    return any(label.strip() for label in (asked.extra_specs.get('hw:pmem') or '').split(','))


# Cells.


def _count(asked):
    """Returns the number of cells that is requested; None if it is not set."""
    flavor, image = asked.both('numa_nodes')
    if flavor and image:
        raise refused('hw_numa_nodes', 'the flavor says that already')
    said = flavor or image
    if said is None:
        return None
    if not strutils.is_int_like(said) or not 1 <= int(said) <= MOST_CELLS:
        raise refused('hw:numa_nodes', f'{said!r:.40} is no number from 1 to {MOST_CELLS}')
    return int(said)


def _cells(asked, number):
    """Returns the CPUs and the memory (MiB) of each cell."""
    cpus = _of_cells(asked, 'numa_cpus', cpu_ids)
    memory = _of_cells(asked, 'numa_mem', _amount)
    if cpus is None and memory is None:
        return _equal(asked, number)
    if cpus is None or memory is None or not len(cpus) == len(memory) == number:
        raise refused(
            'hw:numa_cpus, hw:numa_mem', f'both are needed of each of the {number} cells, or none'
        )
    _check_cells(asked, cpus, memory)
    return list(zip(cpus, memory, strict=True))


def _of_cells(asked, name, read):
    """Returns the setting of each cell, from the first to the last; None if there is none."""
    of_image = asked.image.get(f'hw_{name}')
    keys = [f'hw:{name}.{cell}' for cell in range(MOST_CELLS)]
    said = next(
        (cell for cell, key in enumerate(keys) if key not in asked.extra_specs), MOST_CELLS
    )
    if not said:
        return of_image
    if of_image is not None:
        raise refused(f'hw_{name}', 'the flavor says that already')
    return [read(asked.extra_specs[key], key) for key in keys[:said]]


def _amount(text, where):
    if not strutils.is_int_like(text):
        raise refused(where, f'{text!r} is no whole number of MiB')
    return int(text)


def _equal(asked, number):
    """Returns cells of equal size."""
    each, memory = len(asked.cpus) // number, asked.memory_mb // number
    if each * number != asked.vcpus or memory * number != asked.memory_mb:
        why = f'{asked.vcpus} CPUs and {asked.memory_mb} MiB do not make {number} equal cells'
        raise refused('hw:numa_nodes', why)
    return [(frozenset(range(cell * each, (cell + 1) * each)), memory) for cell in range(number)]


def _check_cells(asked, cpus, memory):
    """Checks that each CPU is in exactly one cell, and that the memory adds up."""
    named = [cpu for ids in cpus for cpu in ids]
    if sorted(named) != sorted(asked.cpus):
        why = f'each of the CPUs 0 to {asked.vcpus - 1} has to be in one cell, and no other'
        raise refused('hw:numa_cpus', why)
    if sum(memory) != asked.memory_mb:
        why = f'the cells have {sum(memory)} MiB in all, the flavor {asked.memory_mb}'
        raise refused('hw:numa_mem', why)
