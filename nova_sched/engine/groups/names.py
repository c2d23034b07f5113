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
"""The names in a template that only the hosts know: zones and traits.

A request with an unknown trait is refused by the filters, as in Nova, and an unknown zone
restricts nothing. In a template both are errors: they are found before anything is planned.
"""

import dataclasses

from nova_sched import errors
from nova_sched.engine.calls import pausable
from nova_sched.state.groups import KEY
from nova_sched.state.host_aggregate import zones
from nova_sched.state.traits import suggested
from nova_sched.suggestion import suggestion

REQUIRED, FORBIDDEN = 'required', 'forbidden'


@pausable
def checked(definition, paths, hosts, default_zone):
    """The definition, with a warning for each forbidden trait that no host has.

    Raises TemplateError for a zone that no aggregate names, and for a required trait that no host
    has; only members in ``paths`` are checked. A cluster without hosts knows no names.
    """
    if not len(hosts):
        return definition
    warnings, seen, known = [], set(), _Known(hosts, default_zone)
    for path in paths:
        member = definition.members[path]
        if member.availability_zone is not None:
            known.check_zone(f'{path}.availability_zone', member.availability_zone)
        for where, trait, verdict in _traits(member):
            if (trait, verdict) in seen:
                continue
            seen.add((trait, verdict))
            if not known.has_trait(trait):
                why = f'no host has the trait {trait}{suggested(trait, hosts.trait_names())}'
                if verdict == REQUIRED:
                    raise errors.TemplateError(f'{path}.{where}', None, None, why)
                warnings.append(f'{path}.{where}: {why}')
    return dataclasses.replace(definition, warnings=(*definition.warnings, *warnings))


class _Known:
    def __init__(self, hosts, default_zone):
        self._hosts = hosts
        self._zones = {*zones(hosts.aggregates), default_zone}

    def has_trait(self, trait):
        hosts = self._hosts
        return hosts.has_trait(trait).any() or hosts.has_trait_below(trait).any()

    def check_zone(self, where, zone):
        if zone not in self._zones:
            why = f'there is no availability zone {zone}{suggestion(zone, self._zones)}'
            raise errors.TemplateError(where, None, None, why)


def _traits(member):
    """Yields (where, trait, verdict) for each trait that the member names."""
    named = {'flavor.extra_specs': member.flavor.extra_specs}
    if member.image is not None:
        named['image.properties'] = member.image.properties
    for where, words in named.items():
        for key, verdict in words.items():
            found = KEY.fullmatch(key)
            if found and found[1] == 'trait' and verdict in (REQUIRED, FORBIDDEN):
                yield f'{where}.{key}', found[3], verdict
