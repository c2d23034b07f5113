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

import contextlib
import dataclasses
import functools
import re

from oslo_utils import strutils

from nova_sched import errors, objects, words
from nova_sched.hardware.numa.topology import (
    ANY,
    DEDICATED,
    ISOLATE,
    LARGE,
    MIXED,
    PREFER,
    REQUIRE,
    SHARED,
    SMALL,
)

MAX_CPUS = 4096  # of one guest, as many as KVM supports
MAX_CELLS = 128  # the limit of QEMU, and of Nova for hw:numa_cpus.N and hw:numa_mem.N
PAGE_WORDS = {'small': SMALL, 'large': LARGE, 'any': ANY}


def topology(vcpus, memory_mb, extra_specs, image):
    """Return the cells of a server of this flavor and image, as InstanceNUMATopology.

    Return None if they ask for none. ``image`` is an ImageMetaProps. Raises InvalidRequest if
    Nova's API would refuse the server.
    """
    settings = GuestSettings(vcpus, memory_mb, extra_specs, image)
    guest = Cpus.of(settings)
    cells, page_kb = _count(settings), _page_kb(settings)
    _check_locked(settings)
    has_pmem = any(label.strip() for label in (extra_specs.get('hw:pmem') or '').split(','))
    if not (cells or page_kb or has_pmem or guest.policy in (DEDICATED, MIXED)):
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
            for number, (cpus, memory) in enumerate(_cells(settings, cells or 1))
        ],
        emulator_threads_policy=guest.emulators,
    )


# Memory.


def _page_kb(settings):
    """Return the page size in KiB, or a word for several sizes; None if any size will do."""
    flavor, image = settings.both('mem_page_size')
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
        size_kb = (
            text if text.isdecimal() else strutils.string_to_bytes(text, return_int=True) // 1024
        )
        return words.whole(size_kb)
    except (ValueError, OverflowError):
        known = ', '.join(PAGE_WORDS)
        raise refused(
            where, f'{words.short(text)} is not a size in KiB or such as 2MB, nor one of {known}'
        ) from None


def _check_locked(settings):
    """Memory can be locked only if a page size is requested."""
    flavor, image = settings.both('locked_memory')
    locked = strutils.bool_from_string(flavor) if flavor is not None else image
    if flavor is not None and image not in (None, locked):
        raise refused('hw_locked_memory', f'the image wants {image}, the flavor is {flavor}')
    if locked and not any(settings.both('mem_page_size')):
        raise refused('hw:locked_memory', 'it needs hw:mem_page_size')


# Cells.


def _count(settings):
    """Return the number of cells that is requested; None if it is not set."""
    flavor, image = settings.both('numa_nodes')
    if flavor and image:
        raise refused('hw_numa_nodes', 'the flavor says that already')
    count = flavor or image
    return None if count is None else _whole(count, 'hw:numa_nodes', 1, MAX_CELLS)


def _cells(settings, number):
    """Return the CPUs and the memory (MiB) of each cell."""
    cpus = _of_cells(settings, 'numa_cpus', cpu_ids)
    memory = _of_cells(settings, 'numa_mem', _whole)
    if cpus is None and memory is None:
        each, memory_mb = len(settings.cpus) // number, settings.memory_mb // number
        if each * number != settings.vcpus or memory_mb * number != settings.memory_mb:
            why = (
                f'{settings.vcpus} CPUs and {settings.memory_mb} MiB do not make '
                f'{number} equal cells'
            )
            raise refused('hw:numa_nodes', why)
        return [
            (frozenset(range(cell * each, (cell + 1) * each)), memory_mb) for cell in range(number)
        ]
    if cpus is None or memory is None or not len(cpus) == len(memory) == number:
        raise refused(
            'hw:numa_cpus, hw:numa_mem', f'both are needed of each of the {number} cells, or none'
        )
    if sorted(cpu for ids in cpus for cpu in ids) != sorted(settings.cpus):
        why = f'each of the CPUs 0 to {settings.vcpus - 1} has to be in one cell, and no other'
        raise refused('hw:numa_cpus', why)
    if sum(memory) != settings.memory_mb:
        why = f'the cells have {sum(memory)} MiB in all, the flavor {settings.memory_mb}'
        raise refused('hw:numa_mem', why)
    return list(zip(cpus, memory, strict=True))


def _of_cells(settings, name, read):
    """Return the setting of each cell, from the first to the last; None if there is none."""
    of_image = settings.image.get(f'hw_{name}')
    keys = [f'hw:{name}.{cell}' for cell in range(MAX_CELLS)]
    count = next(
        (cell for cell, key in enumerate(keys) if key not in settings.extra_specs), MAX_CELLS
    )
    if not count:
        return of_image
    if of_image is not None:
        raise refused(f'hw_{name}', 'the flavor says that already')
    return [read(settings.extra_specs[key], key) for key in keys[:count]]


def _whole(value, where, least=0, most=words.MAX_WHOLE):
    try:
        return words.whole(value, least, most)
    except ValueError as error:
        raise refused(where, str(error)) from None


MAX_ERROR = 300  # characters of an error

# CPU policy of the flavor -> policies that the image may not have in addition.
AGAINST = {
    DEDICATED: frozenset(),
    MIXED: frozenset([DEDICATED]),
    SHARED: frozenset([DEDICATED, MIXED]),
}
THREADS = (PREFER, ISOLATE, REQUIRE)
EMULATORS = (ISOLATE, 'share')
# The trait of simultaneous multithreading, expressed as a thread policy.
THREADS_BY_TRAIT = {'required': REQUIRE, 'forbidden': ISOLATE}

_RESOURCE = re.compile(r'resources(?:[1-9][0-9]*)?:([VP]CPU)')
_SIBLINGS = re.compile(r'trait(?:[1-9][0-9]*)?:HW_CPU_HYPERTHREADING')


class GuestSettings:
    """The values of a flavor and an image."""

    def __init__(self, vcpus, memory_mb, extra_specs, image):
        self.vcpus, self.memory_mb = vcpus, memory_mb
        self.extra_specs, self.image = extra_specs, image

    @functools.cached_property
    def cpus(self):
        """The ids of all CPUs; used only for a guest with NUMA cells or dedicated CPUs.

        Raises InvalidRequest.
        """
        if self.vcpus > MAX_CPUS:
            why = (
                f'{self.vcpus} CPUs; a guest with NUMA cells or dedicated CPUs has at most '
                f'{MAX_CPUS}'
            )
            raise refused('flavor.vcpus', why)
        return frozenset(range(self.vcpus))

    def both(self, name):
        """Return the values of the flavor and of the image; None if unset."""
        return self.extra_specs.get(f'hw:{name}') or None, self.image.get(f'hw_{name}')


def refused(where, why):
    return errors.InvalidRequest(where, why if len(why) <= MAX_ERROR else f'{why[:MAX_ERROR]}...')


def _word(value, known, where):
    """Return the value if it is one of these words, or None if unset. Raises InvalidRequest."""
    if value and value not in known:
        raise refused(where, f'{value!r} is not one of {", ".join(known)}')
    return value or None


@dataclasses.dataclass(frozen=True, slots=True)
class Cpus:
    """The CPUs of the guest by kind; policies are None if neither flavor nor image sets them."""

    policy: str | None
    threads: str | None
    emulators: str | None
    dedicated: frozenset[int]

    @classmethod
    def of(cls, settings):
        """Raise InvalidRequest."""
        key = 'hw:emulator_threads_policy'
        emulators = _word(settings.extra_specs.get(key), EMULATORS, key)
        policy, threads = _policies(settings, emulators)
        return cls(policy, threads, emulators, _dedicated(settings, policy, threads, emulators))


def _policies(settings, emulators):
    """Return the CPU policy and the thread policy. The flavor has priority, as far as Nova lets
    the image differ."""
    flavor, image = settings.both('cpu_policy')
    _word(flavor, tuple(AGAINST), 'hw:cpu_policy')
    if flavor and image in AGAINST[flavor]:
        raise refused('hw_cpu_policy', f'the image wants {image}, the flavor is {flavor}')
    policy = flavor or image
    flavor, image = settings.both('cpu_thread_policy')
    _word(flavor, THREADS, 'hw:cpu_thread_policy')
    if flavor not in (None, PREFER) and image not in (None, flavor):
        raise refused('hw_cpu_thread_policy', f'the image wants {image}, the flavor is {flavor}')
    threads = flavor or image
    units = _cpu_resources(settings)
    if units and policy:
        raise refused('resources:VCPU, resources:PCPU', 'a CPU policy says that already')
    if len(units) > 1:
        raise refused('resources:VCPU, resources:PCPU', 'one of them at most')
    if 'PCPU' in units:
        needed = settings.vcpus + (emulators == ISOLATE)
        if units['PCPU'] != needed:
            raise refused('resources:PCPU', f'{units["PCPU"]} of them; the guest needs {needed}')
        policy = DEDICATED
    elif 'VCPU' in units:
        policy = SHARED
    if by_trait := _siblings(settings):
        if threads:
            raise refused('trait:HW_CPU_HYPERTHREADING', 'a thread policy says that already')
        threads = THREADS_BY_TRAIT.get(by_trait)
    return policy, threads


def _cpu_resources(settings):
    """Return the units of VCPU and PCPU that the flavor asks for by name, without zeros."""
    units: dict[str, int] = {}
    for key, value in settings.extra_specs.items():
        # A value that is not a number is refused with the amounts of all other classes.
        with contextlib.suppress(ValueError):
            if (match := _RESOURCE.fullmatch(key)) and (amount := words.whole(value)):
                units[match[1]] = units.get(match[1], 0) + amount
    return units


def _siblings(settings):
    """Return the trait of simultaneous multithreading, `required` or `forbidden`.

    Return None if neither flavor nor image names it.
    """
    verdicts = [value for key, value in settings.extra_specs.items() if _SIBLINGS.fullmatch(key)]
    if not verdicts and 'HW_CPU_HYPERTHREADING' in (settings.image.get('traits_required') or ()):
        return 'required'
    return verdicts[0] if verdicts else None


def _dedicated(settings, policy, threads, emulators):
    """Return the guest CPUs that get a dedicated host CPU."""
    masked, realtime = _mask(settings), _realtime(settings, emulators)
    if policy not in (DEDICATED, MIXED):
        for where, value in (
            ('hw:cpu_thread_policy', threads),
            ('hw:emulator_threads_policy', emulators == ISOLATE),
            ('hw:cpu_realtime', realtime),
        ):
            if value:
                raise refused(where, 'it needs dedicated CPUs')
    if masked and policy != MIXED:
        raise refused('hw:cpu_dedicated_mask', 'it needs the CPU policy mixed')
    if policy == MIXED and bool(masked) == bool(realtime):
        why = 'the CPU policy mixed needs either it or hw:cpu_realtime_mask'
        raise refused('hw:cpu_dedicated_mask', why)
    if policy == DEDICATED:
        return settings.cpus
    return masked or realtime or frozenset()


def _mask(settings):
    """Return the CPUs of `hw:cpu_dedicated_mask`: a proper subset; empty without a mask."""
    mask = settings.extra_specs.get('hw:cpu_dedicated_mask')
    if not mask:
        return frozenset()
    cpus = _masked(settings, mask, 'hw:cpu_dedicated_mask')
    if not cpus < settings.cpus or not cpus:
        raise refused(
            'hw:cpu_dedicated_mask', f'{mask!r} is not some of the {settings.vcpus} CPUs'
        )
    return cpus


def _realtime(settings, emulators):
    """Return the CPUs for real time; empty without any."""
    if not strutils.bool_from_string(settings.extra_specs.get('hw:cpu_realtime')):
        return frozenset()
    flavor, image = settings.both('cpu_realtime_mask')
    mask = image or flavor
    cpus = _masked(settings, mask, 'hw:cpu_realtime_mask') if mask else settings.cpus
    if not cpus or not cpus <= settings.cpus:
        raise refused('hw:cpu_realtime_mask', f'{mask!r} names none of the {settings.vcpus} CPUs')
    if cpus == settings.cpus and not emulators:
        raise refused(
            'hw:cpu_realtime_mask',
            'it leaves no CPU for other work, and no emulator policy is set',
        )
    return cpus


def _masked(settings, mask, where):
    """Return the CPUs of a mask. If the mask starts with an exclusion, it applies to all CPUs."""
    every = f'0-{max(settings.cpus)},' if mask.strip().startswith('^') else ''
    return cpu_ids(every + mask, where)


def cpu_ids(text, where):
    """Return the ids in a text like ``0-3,^2``. Raises InvalidRequest."""
    try:
        return words.cpu_ids(text)
    except ValueError as error:
        raise refused(where, str(error)) from None
