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
"""ComputeCapabilitiesFilter."""

import collections
import functools
import json
import operator
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from nova_sched.filters import Filter, reasons
from nova_sched.filters.extra_specs import matches
from nova_sched.state.facts import EVERYTHING, LASTING, HostFacts
from nova_sched.state.host_state import CAPABILITIES, attribute
from nova_sched.state.report import LASTING_FIELDS
from nova_sched.state.spec import CAPABILITY_SCOPE

ADDRESS_BITS = 'hw:maxphysaddr_bits'
ADDRESS_BITS_PATH = f'{CAPABILITY_SCOPE}:cpu_info:maxphysaddr:bits'


class Capability(NamedTuple):
    """One extra spec about the host: an attribute, the path inside it, and the condition on the
    value.

    ``scoped``: the key states that it is about the host. Without a scope, it judges only hosts
    that have the attribute.
    """

    key: str
    name: str
    path: tuple[str, ...]
    text: str
    scoped: bool

    def met_by(self, value, opened):
        """Return whether the value at the path meets the condition: in the value of the attribute
        itself, or with a path in what that is when it is ``opened``."""
        if self.path:
            value = walk(part(opened, self.path[0]), self.path[1:])
        return value is not None and matches(str(value), self.text, self.key)


def meets(conditions, value):
    """Return whether the value of an attribute meets all Capabilities of it."""
    opened = open_text(value) if any(condition.path for condition in conditions) else value
    # All are compared: one that makes no sense is refused, whatever the others say.
    verdicts = [condition.met_by(value, opened) for condition in conditions]
    return all(verdicts)


def capabilities(extra_specs):
    """Yield the extra specs that may be about the host: of the scope `capabilities`, or without a
    scope."""
    specs = dict(extra_specs)
    if ADDRESS_BITS in specs:
        specs[ADDRESS_BITS_PATH] = f'>= {specs[ADDRESS_BITS]}'
    for key, text in specs.items():
        scope, *path = key.split(':')
        if path and scope == CAPABILITY_SCOPE:
            yield Capability(key, path[0], tuple(path[1:]), text, scoped=True)
        elif not path:
            yield Capability(key, key, (), text, scoped=False)


def walk(value, path):
    """Return the value at a path, step by step; intermediate text is JSON. None: a step does not
    exist."""
    for step in path:
        value = part(open_text(value), step)
        if value is None:
            return None
    return value


def open_text(value):
    """Return what a text is as JSON, None if it is none; any other value as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def part(value, name):
    """Return what a mapping or an object has under a name, else None."""
    return value.get(name) if isinstance(value, Mapping) else attribute(value, name)


class ComputeCapabilitiesFilter(Filter):
    """The capabilities of the host meet the flavor's extra specs.

    `capabilities:cpu_info:topology:cores` names the attribute and the path inside its JSON text;
    `hw:maxphysaddr_bits` is short for a path. A key without a scope counts where a host has an
    attribute or a stat of that name. Keys of any other scope are not about the host. The host's
    servers, aggregates and service are no capabilities.
    """

    for_tenants = 'they do not have the capabilities that the flavor asks for'
    run_filter_once_per_request = True
    request_facts = ('extra_specs',)

    def mask(self, hosts, request):
        by_attribute = collections.defaultdict(list)
        for capability in capabilities(request.extra_specs):
            by_attribute[capability.name, capability.scoped].append(capability)
        verdicts = [_met(hosts, conditions) for conditions in by_attribute.values()]
        return functools.reduce(operator.and_, verdicts, True)

    def depends_on(self, request):
        conditions = frozenset(
            (capability.key, capability.text) for capability in capabilities(request.extra_specs)
        )
        names = {capability.name for capability in capabilities(request.extra_specs)}
        return conditions if names.issubset(LASTING_FIELDS) else None

    def host_facts_for(self, request):
        names = {capability.name for capability in capabilities(request.extra_specs)}
        if names.difference(LASTING_FIELDS) & CAPABILITIES:
            return EVERYTHING
        return LASTING | HostFacts.REPORTED  # entries of stats at most

    def why(self, hosts, request, rows):
        failures = []
        for capability in capabilities(request.extra_specs):
            met = _met(hosts, [capability])
            if met is not True and (missing := np.count_nonzero(~met[rows])):
                condition = f'extra spec {capability.key} asks for {capability.text!r}'
                failures.append((missing, f'{condition}, {_elsewhere(met, rows)}'))
        return '; '.join(
            text if number == len(rows) else f'{text} ({reasons.count(number, "host")} not)'
            for number, text in failures
        )


def _met(hosts, conditions):
    """Return which rows meet Capabilities that are about one attribute, scoped or not; True: they
    are not about hosts."""
    name, is_scoped = conditions[0].name, conditions[0].scoped
    without = False if is_scoped else ~hosts.has_capability(name)
    if np.all(without):
        return True
    question = CAPABILITY_SCOPE, tuple(conditions)
    return hosts.map_capability(name, question, functools.partial(meets, conditions)) | without


def _elsewhere(met, rows):
    if len(rows) == 1:
        return 'the host is not so'
    number = np.count_nonzero(met)
    return f'{number} of all {len(met)} hosts are so' if number else 'no host is so'
