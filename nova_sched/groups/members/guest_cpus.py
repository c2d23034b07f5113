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

"""The CPUs of a planned server that are pinned to host CPUs, and their policies.

Both follow from the flavor and the image.
"""

import dataclasses
import functools
import re

from oslo_utils import strutils

from nova_sched import errors
from nova_sched.hardware.numa.guest import DEDICATED, ISOLATE, MIXED, PREFER, REQUIRE, SHARED
from nova_sched.objects.image_names import MOST_CPUS, MOST_IDS

LONGEST = 300  # characters of an error

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
_CPUS = re.compile(r'(\^?)\s*([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?')


class Asked:
    """The values of a flavor and an image."""

    def __init__(self, vcpus, memory_mb, extra_specs, image):
        self.vcpus, self.memory_mb = vcpus, memory_mb
        self.extra_specs, self.image = extra_specs, image

    @functools.cached_property
    def cpus(self):
        """The ids of all CPUs; used only for a guest with NUMA cells or dedicated CPUs.

        Raises InvalidRequest.
        """
        if self.vcpus > MOST_CPUS:
            why = (
                f'{self.vcpus} CPUs; a guest with NUMA cells or dedicated CPUs has at most '
                f'{MOST_CPUS}'
            )
            raise refused('flavor.vcpus', why)
        return frozenset(range(self.vcpus))

    def both(self, name):
        """Returns the values of the flavor and of the image; None if unset."""
        return self.extra_specs.get(f'hw:{name}') or None, self.image.get(f'hw_{name}')


def refused(where, why):
    return errors.InvalidRequest(where, why if len(why) <= LONGEST else f'{why[:LONGEST]}...')


def _word(value, words, where):
    """Returns the value if it is one of these words, or None if unset. Raises InvalidRequest."""
    if value and value not in words:
        raise refused(where, f'{value!r} is none of {", ".join(words)}')
    return value or None


@dataclasses.dataclass(frozen=True, slots=True)
class Cpus:
    """The CPUs of the guest by kind; policies are None if neither flavor nor image sets them."""

    policy: str | None
    threads: str | None
    emulators: str | None
    dedicated: frozenset[int]

    @classmethod
    def of(cls, asked):
        """Raises InvalidRequest."""
        key = 'hw:emulator_threads_policy'
        emulators = _word(asked.extra_specs.get(key), EMULATORS, key)
        policy, threads = _policies(asked, emulators)
        return cls(policy, threads, emulators, _dedicated(asked, policy, threads, emulators))


def _policies(asked, emulators):
    policy, threads = _cpu_policy(asked), _thread_policy(asked)
    units = _cpu_resources(asked)
    if units and policy:
        raise refused('resources:VCPU, resources:PCPU', 'a CPU policy says that already')
    if len(units) > 1:
        raise refused('resources:VCPU, resources:PCPU', 'one of them at most')
    if 'PCPU' in units:
        needed = asked.vcpus + (emulators == ISOLATE)
        if units['PCPU'] != needed:
            raise refused('resources:PCPU', f'{units["PCPU"]} of them; the guest needs {needed}')
        policy = DEDICATED
    elif 'VCPU' in units:
        policy = SHARED
    if by_trait := _siblings(asked):
        if threads:
            raise refused('trait:HW_CPU_HYPERTHREADING', 'a thread policy says that already')
        threads = THREADS_BY_TRAIT.get(by_trait)
    return policy, threads


def _cpu_policy(asked):
    flavor, image = asked.both('cpu_policy')
    _word(flavor, tuple(AGAINST), 'hw:cpu_policy')
    if flavor and image in AGAINST[flavor]:
        raise refused('hw_cpu_policy', f'the image wants {image}, the flavor is {flavor}')
    return flavor or image


def _thread_policy(asked):
    flavor, image = asked.both('cpu_thread_policy')
    _word(flavor, THREADS, 'hw:cpu_thread_policy')
    if flavor not in (None, PREFER) and image not in (None, flavor):
        raise refused('hw_cpu_thread_policy', f'the image wants {image}, the flavor is {flavor}')
    return flavor or image


def _cpu_resources(asked):
    """Returns the units of VCPU and PCPU that the flavor asks for by name, without zeros."""
    units: dict[str, int] = {}
    for key, value in asked.extra_specs.items():
        if (found := _RESOURCE.fullmatch(key)) and str(value).isdecimal() and int(value):
            units[found[1]] = units.get(found[1], 0) + int(value)
    return units


def _siblings(asked):
    """Returns the trait of simultaneous multithreading, `required` or `forbidden`.

    Returns None if neither flavor nor image names it.
    """
    verdicts = [value for key, value in asked.extra_specs.items() if _SIBLINGS.fullmatch(key)]
    if not verdicts and 'HW_CPU_HYPERTHREADING' in (asked.image.get('traits_required') or ()):
        return 'required'
    return verdicts[0] if verdicts else None


def _dedicated(asked, policy, threads, emulators):
    """Returns the guest CPUs that get a dedicated host CPU."""
    masked, realtime = _mask(asked), _realtime(asked, emulators)
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
        return asked.cpus
    return masked or realtime or frozenset()


def _mask(asked):
    """Returns the CPUs of `hw:cpu_dedicated_mask`: a proper subset; empty without a mask."""
    mask = asked.extra_specs.get('hw:cpu_dedicated_mask')
    if not mask:
        return frozenset()
    cpus = _masked(asked, mask, 'hw:cpu_dedicated_mask')
    if not cpus < asked.cpus or not cpus:
        raise refused('hw:cpu_dedicated_mask', f'{mask!r} is not some of the {asked.vcpus} CPUs')
    return cpus


def _realtime(asked, emulators):
    """Returns the CPUs for real time; empty without any."""
    if not strutils.bool_from_string(asked.extra_specs.get('hw:cpu_realtime')):
        return frozenset()
    flavor, image = asked.both('cpu_realtime_mask')
    mask = image or flavor
    cpus = _masked(asked, mask, 'hw:cpu_realtime_mask') if mask else asked.cpus
    if not cpus or not cpus <= asked.cpus:
        raise refused('hw:cpu_realtime_mask', f'{mask!r} is none of the {asked.vcpus} CPUs')
    if cpus == asked.cpus and not emulators:
        raise refused(
            'hw:cpu_realtime_mask',
            'it leaves no CPU for other work, and no emulator policy is set',
        )
    return cpus


def _masked(asked, mask, where):
    """Returns the CPUs of a mask. If the mask starts with an exclusion, it applies to all CPUs."""
    every = f'0-{max(asked.cpus)},' if mask.strip().startswith('^') else ''
    return cpu_ids(every + mask, where)


def cpu_ids(text, where):
    """Returns the ids in a text like ``0-3,^2``. Raises InvalidRequest."""
    kept: set[int] = set()
    left_out: set[int] = set()
    left = MOST_IDS
    for part in filter(None, (part.strip() for part in text.split(','))):
        found = _CPUS.fullmatch(part)
        first, last = (int(found[2]), int(found[3] or found[2])) if found else (0, -1)
        if not found or not 0 <= last - first < MOST_CPUS:
            raise refused(where, f'{part[:40]!r} is no range of CPUs such as 0-3 or ^2')
        left -= last - first + 1
        if left < 0:
            raise refused(where, f'it names more than {MOST_IDS} CPUs')
        (left_out if found[1] else kept).update(range(first, last + 1))
    return frozenset(kept - left_out)
