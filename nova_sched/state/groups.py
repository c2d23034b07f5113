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
"""Resources and traits that flavors and ports request: from the node, or in groups that are each
served by one provider.

Extra specs `resources:CLASS` and `trait:NAME` apply to the node as a whole. With a suffix, as in
`resources1:CLASS` and `trait1:NAME`, they make a group. Ports and devices add groups.
"""

import re
from collections import Counter

from nova_sched import words
from nova_sched.claim import DISK_GB, MEMORY_MB, PCPU, VCPU
from nova_sched.hardware.numa.topology import DEDICATED, MIXED
from nova_sched.hardware.providers import ResourceGroup
from nova_sched.state import fields
from nova_sched.state.fields import cpu_policy, extra_specs, flavor, read
from nova_sched.state.report import MAX_AMOUNT
from nova_sched.state.traits import encrypts_memory

RESOURCES, TRAIT = 'resources', 'trait'
REQUIRED, FORBIDDEN = 'required', 'forbidden'
NONE, ISOLATE = 'none', 'isolate'  # group policies

KEY = re.compile(r'(resources|trait)([a-zA-Z0-9_-]{1,64})?:([A-Z0-9_]{1,255})')
ACCELERATOR, DEVICE_PROFILE = 'accel:', 'accel:device_profile'
OF_PROFILE = 'device_profile_'  # how the requester_id of a group of Cyborg begins


def parts(spec, kind):
    """Return the valid extra specs of a kind: (suffix, name, value); the suffix may be empty."""
    for key, value in extra_specs(spec).items():
        if key.startswith(kind) and (match := KEY.fullmatch(key)) and match[1] == kind:
            yield match[2] or '', match[3], value


def amount(name, value):
    """Return the units of a class. Raises ValueError."""
    try:
        return words.whole(value, most=MAX_AMOUNT)
    except ValueError as error:
        raise ValueError(f'{name}: {error}') from None


def _amounts(spec):
    """Return the units by class, of each suffix, including zeros."""
    amounts: dict[str, dict[str, int]] = {}
    for suffix, name, value in parts(spec, RESOURCES):
        amounts.setdefault(suffix, {})[name] = amount(name, value)
    return amounts


def named_traits(spec, verdict):
    """Return the traits of each suffix that have this verdict."""
    by_suffix: dict[str, set[str]] = {}
    for suffix, name, value in parts(spec, TRAIT):
        if value == verdict:
            by_suffix.setdefault(suffix, set()).add(name)
    return by_suffix


def _requested(spec):
    """Return the groups of ports and devices, as objects."""
    return read(spec, 'requested_resources') or ()


# Groups.


def groups(spec):
    """Return all groups, those of the flavor first. Raises ValueError for two of one name."""
    all_groups = [*_of_flavor(spec), *map(_of_port, _requested(spec))]
    twice = [
        suffix
        for suffix, count in Counter(group.suffix for group in all_groups).items()
        if count > 1
    ]
    if twice:
        raise ValueError(f'two groups are called {twice[0]}')
    return tuple(
        group for group in all_groups if group.resources or group.required or group.forbidden
    )


def _of_flavor(spec):
    amounts = _amounts(spec)
    required = named_traits(spec, REQUIRED)
    forbidden = named_traits(spec, FORBIDDEN)
    for suffix in dict.fromkeys([*amounts, *required, *forbidden]):
        if suffix:
            yield _group(
                suffix, amounts.get(suffix, {}), required.get(suffix), forbidden.get(suffix)
            )


def _of_port(group):
    resources = {
        name: amount(name, value) for name, value in (read(group, 'resources') or {}).items()
    }
    traits = read(group, 'required_traits'), read(group, 'forbidden_traits')
    return _group(read(group, 'requester_id') or '', resources, *traits, read(group, 'in_tree'))


def _group(suffix, amounts, required, forbidden, in_tree=None):
    resources = tuple(sorted((name, units) for name, units in amounts.items() if units))
    return ResourceGroup(
        suffix, resources, frozenset(required or ()), frozenset(forbidden or ()), in_tree
    )


def group_policy(spec):
    """Whether several groups may share a provider: `none`, or `isolate`; None: not set.

    A flavor with two groups must set it. Groups that a port adds to a single group may share.
    """
    policy = extra_specs(spec).get('group_policy')
    if policy in (NONE, ISOLATE):
        return policy
    of_flavor = {
        suffix for kind in (RESOURCES, TRAIT) for suffix, _, _ in parts(spec, kind) if suffix
    }
    return NONE if len(of_flavor) <= 1 and len(groups(spec)) > 1 else None


def same_subtree(spec):
    """Return sets of groups, by suffix, whose providers must be in the same subtree."""
    return tuple(map(frozenset, read(read(spec, 'request_level_params'), 'same_subtree') or ()))


# The node as a whole.


def resources(spec):
    """Return the amount by resource class, outside of groups: the flavor's, as far as extra specs
    do not replace it."""
    policy, vcpus = cpu_policy(spec), flavor(spec, 'vcpus')
    amounts = dict(_amounts(spec).get('', {}))
    if policy in (DEDICATED, MIXED):
        dedicated = dedicated_cpus(spec, vcpus)
        # Emulator threads that are isolated from the guest's CPUs get a CPU.
        isolated = extra_specs(spec).get('hw:emulator_threads_policy') == 'isolate'
        amounts[PCPU] = dedicated + isolated
        if policy == MIXED:
            amounts[VCPU] = vcpus - dedicated
    return _completed(spec, amounts)


def fallback_vcpus(spec):
    """Return the vCPUs that replace dedicated CPUs on a node that reports none separately; 0:
    none do.

    Such a node has the configuration from before PCPU: its NUMA cells report which CPUs are free.
    """
    if cpu_policy(spec) != DEDICATED:
        return 0
    amounts = _completed(spec, dict(_amounts(spec).get('', {})))
    return 0 if PCPU in amounts else amounts.get(VCPU, 0)


def _completed(spec, amounts):
    """Add the requirements of the flavor's own fields, and of its image, to those by name;
    removes zeros."""
    named = {*amounts, *(name for _, name, _ in parts(spec, RESOURCES))}
    named.update(name for group in _requested(spec) for name in read(group, 'resources') or ())
    own = {MEMORY_MB: flavor(spec, 'memory_mb'), DISK_GB: fields.disk_gb(spec)}
    if not named & {VCPU, PCPU}:
        own = {VCPU: flavor(spec, 'vcpus'), **own}
    amounts |= {name: units for name, units in own.items() if name not in named}
    if encrypts_memory(spec):
        amounts['MEM_ENCRYPTION_CONTEXT'] = 1
    if labels := extra_specs(spec).get('hw:pmem'):
        amounts |= Counter(map(_pmem_class, filter(str.strip, labels.split(','))))
    return {name: units for name, units in amounts.items() if units}


def _pmem_class(label):
    """The resource class of persistent memory with that label."""
    return f'CUSTOM_PMEM_NAMESPACE_{re.sub("[^A-Z0-9]+", "_", label.strip().upper())}'


def dedicated_cpus(spec, vcpus):
    """Return the number of dedicated CPUs of the guest."""
    policy = cpu_policy(spec)
    if policy == DEDICATED:
        return vcpus
    if policy == MIXED:
        cells = read(read(spec, 'numa_topology'), 'cells', ()) or ()
        return sum(len(read(cell, 'pcpuset', ()) or ()) for cell in cells)
    return 0


# Unsupported keys.


def unsupported(spec):
    """Return the keys of the request that no rule here supports, and that must not be ignored."""
    keys = [word for key, value in extra_specs(spec).items() if (word := _strange(key, value))]
    for group in _requested(spec):
        unknown = [name for name in ('aggregates', 'forbidden_aggregates') if read(group, name)]
        if not read(group, 'use_same_provider', True):
            unknown.append('use_same_provider=False')
        if not read(group, 'requester_id'):
            unknown.append('without requester_id')
        keys += [f'requested_resources {word}' for word in unknown]
    # The caller reads the groups of the flavor's device profile in Cyborg.
    if DEVICE_PROFILE in extra_specs(spec) and not any(
        (read(group, 'requester_id') or '').startswith(OF_PROFILE) for group in _requested(spec)
    ):
        keys.append(DEVICE_PROFILE)
    if known := groups(spec):
        near = frozenset().union(*same_subtree(spec))
        # Traits alone only describe where the other groups of a subtree are.
        keys += [f'group {group.suffix} without resources' for group in known
                 if not group.resources and group.suffix not in near]  # fmt: skip
        keys += [
            f'same_subtree {suffix}' for suffix in sorted(near - {group.suffix for group in known})
        ]
    return tuple(keys)


def _strange(key, value):
    """Return the text to refuse an extra spec with; None if it is supported, or not relevant
    here."""
    if key == DEVICE_PROFILE:
        return None
    if key.startswith(ACCELERATOR) or key == 'same_subtree':
        return key
    if key == 'group_policy':
        return None if value in (NONE, ISOLATE) else f'{key}={value}'
    if not key.startswith((RESOURCES, TRAIT)):
        return None
    match = KEY.fullmatch(key)
    if match is None:
        return key
    return f'{key}={value}' if match[1] == TRAIT and value not in (REQUIRED, FORBIDDEN) else None
