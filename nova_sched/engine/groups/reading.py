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
"""Reads a template and the data sent with it, to a definition and the requests of its members.

A tenant writes these, and they may be made to cost much. ``TemplateReaders`` runs ``read`` and
``account`` in child processes. ``checked`` needs the host state: it runs in the loop.
"""

import dataclasses
import json
from collections.abc import Collection, Mapping
from typing import Any

from nova_sched import errors, words
from nova_sched.engine.calls import pausable
from nova_sched.engine.groups.member_state import MemberRequests
from nova_sched.groups import template, why
from nova_sched.groups.definition import Definition
from nova_sched.groups.members import pci_aliases
from nova_sched.groups.template.servers import flavors_of_file
from nova_sched.groups.template.values import ROOT, Allowance
from nova_sched.state.groups import KEY
from nova_sched.state.host_aggregate import zones
from nova_sched.state.traits import suggested
from nova_sched.words import suggestion

MAX_SOURCE = 2**20  # characters of a template and of all data sent with it, as JSON
MAX_DEFINITION = 2**23  # characters of a definition: a short template may repeat a long hint


@dataclasses.dataclass(frozen=True, slots=True)
class Given:
    """What a caller sends: the template, and the data that it uses.

    ``is_operator``: it may write extra specs that are for operators.
    """

    template: Any
    parameters: Any = None
    flavors: Any = None
    images: Any = None
    is_operator: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class ReadingRules:
    """What the cloud has for templates: ``levels``, the names that policies may use, ``flavors``
    by name, and ``aliases`` of PCI devices. ``seconds`` are of processor time for one reading."""

    levels: tuple[str, ...]
    max_members: int
    flavors: Mapping[str, Mapping[str, Any]]
    aliases: Mapping[str, Any]
    seconds: float

    @classmethod
    def of(cls, options, levels):
        """Those of the options of the group [groups], and of [pci] alias. Raises BadConfig."""
        return cls(
            levels=tuple(levels),
            max_members=options.max_members,
            flavors=flavors_of_file(options.flavors),
            aliases=pci_aliases.configured(),
            seconds=options.read_seconds,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """``source``: the plain values to keep. ``requests``: those of the members."""

    definition: Definition
    source: Mapping[str, Any]
    requests: MemberRequests


def read(given: Given, rules: ReadingRules, seconds: float) -> Reading:
    """Return what a caller has given.

    Raises TemplateError, also for a definition that would be too long as text, and InvalidRequest
    for other data or a member that Nova would refuse.
    """
    allowance = Allowance(seconds)
    source = _source(given)
    definition = template.read(
        given.template,
        source['parameters'],
        source['flavors'],
        source['images'],
        levels=rules.levels,
        max_members=rules.max_members,
        allowance=allowance,
        catalogue=rules.flavors,
        is_operator=given.is_operator,
    )
    requests = MemberRequests.of(definition, allowance, rules.aliases)
    # Its size as text, which is not written for that: members share what they have.
    lists = [*definition.groups.values()]
    lists += [side for policy in definition.policies for side in (policy.a, policy.b)]
    size = sum(len(path) + len(kind) for path, kind in requests.kinds.items())
    size += sum(len(path) for paths in lists for path in paths)
    if size > MAX_DEFINITION:
        text = f'its members and policies have {size} characters, more than {MAX_DEFINITION}'
        raise errors.TemplateError(ROOT, None, None, text)
    return Reading(definition, source, requests)


def account(given: Given, rules: ReadingRules, nests: Collection, seconds: float) -> tuple:
    """Return ``Definition.summary``, and ``why.suspected`` of the definition."""
    definition = read(given, rules, seconds).definition
    return definition.summary(), why.suspected(definition, rules.levels, nests)


def _source(given):
    """Return the source of a definition, as plain values: the text, and the mappings sent with
    it."""
    text = given.template
    if not isinstance(text, (str, dict)):
        raise errors.InvalidRequest(
            'template', f'it must be text or a mapping, not {words.kind(text)}'
        )
    source = {
        'template': text if isinstance(text, str) else json.dumps(words.plain(text, 'template')),
        'parameters': _mapping(given.parameters, 'parameters'),
        'flavors': _mapping(given.flavors, 'flavors'),
        'images': _mapping(given.images, 'images'),
    }
    if len(json.dumps(source)) > MAX_SOURCE:
        raise errors.InvalidRequest(
            'template', f'with all data sent with it, it has more than {MAX_SOURCE} characters'
        )
    return source


def _mapping(value, where):
    """Return a mapping by names; None is an empty one. Raises InvalidRequest."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise errors.InvalidRequest(where, f'{words.short(value)} is not a mapping')
    return {
        words.name(name, where): words.plain(item, f'{where}.{name}')
        for name, item in value.items()
    }


REQUIRED, FORBIDDEN = 'required', 'forbidden'


@pausable
def checked(definition, paths, hosts, default_zone):
    """Return the definition, with a warning for each forbidden trait that no host has.

    Raises TemplateError for a zone that no aggregate names, and for a required trait that no host
    has; only members in ``paths`` are checked. A cluster without hosts knows no names. In a
    request, as in Nova, an unknown zone restricts nothing, and the filters refuse an unknown
    trait. Here both are found before anything is planned.
    """
    if not len(hosts):
        return definition
    warnings, seen, known_zones = [], set(), {*zones(hosts.aggregates), default_zone}
    for path in paths:
        member = definition.members[path]
        zone = member.availability_zone
        if zone is not None and zone not in known_zones:
            why = f'there is no availability zone {zone}{suggestion(zone, known_zones)}'
            raise errors.TemplateError(f'{path}.availability_zone', None, None, why)
        for where, trait, verdict in _traits(member):
            if (trait, verdict) in seen:
                continue
            seen.add((trait, verdict))
            if not (hosts.has_trait(trait).any() or hosts.has_trait_below(trait).any()):
                why = f'no host has the trait {trait}{suggested(trait, hosts.trait_names())}'
                if verdict == REQUIRED:
                    raise errors.TemplateError(f'{path}.{where}', None, None, why)
                warnings.append(f'{path}.{where}: {why}')
    return dataclasses.replace(definition, warnings=(*definition.warnings, *warnings))


def _traits(member):
    """Yield (where, trait, verdict) for each trait that the member names."""
    named = {'flavor.extra_specs': member.flavor.extra_specs}
    if member.image is not None:
        named['image.properties'] = member.image.properties
    for where, named_here in named.items():
        for key, verdict in named_here.items():
            match = KEY.fullmatch(key)
            if match and match[1] == 'trait' and verdict in (REQUIRED, FORBIDDEN):
                yield f'{where}.{key}', match[3], verdict
