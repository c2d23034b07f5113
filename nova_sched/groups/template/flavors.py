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
"""Flavors, by name or defined where they are used."""

from nova_sched.groups.definition import Flavor
from nova_sched.groups.template.scope import Scope, meant
from nova_sched.groups.template.values import Value, from_plain

# Name in a template -> name in a Flavor. Some fields may also have the names that nova_sched's
# objects use.
COUNTS = {
    'vcpus': 'vcpus',
    'ram': 'memory_mb',
    'memory_mb': 'memory_mb',
    'disk': 'root_gb',
    'root_gb': 'root_gb',
    'ephemeral': 'ephemeral_gb',
    'ephemeral_gb': 'ephemeral_gb',
    'swap': 'swap',
}
LEAST = {'vcpus': 1, 'memory_mb': 1}
LONGEST = 255  # characters of an extra spec's name and of its text, as Nova's API has it
FIELDS = (*COUNTS, 'name', 'extra_specs')


class Flavors:
    """The flavors that a template may name: plain mappings by name, each read when first used."""

    def __init__(self, scope, catalogue):
        self._scope = scope
        self._catalogue = catalogue or {}
        self._known = {}

    def flavor(self, scope: Scope, value: Value) -> Flavor:
        """Returns the flavor that a server asks for. Raises TemplateError."""
        value = scope.head(value)
        if isinstance(value.data, dict):
            return _read(scope, value)
        name = scope.text(value)
        if name not in self._known:
            if name not in self._catalogue:
                raise value.wrong(
                    f'there is no flavor {name} here{meant(name, [*self._catalogue])}'
                )
            described = from_plain(self._catalogue[name], f'flavors.{name}', literal=True)
            self._known[name] = _read(self._scope, described, name)
        return self._known[name]


def _read(scope, value, name=None):
    value = scope.mapping(value, FIELDS)
    counts = {}
    for key, field in COUNTS.items():
        if (found := scope.get(value, key)) is not None:
            if field in counts:
                raise value.wrong_key(key, f'{key} sets the same property as another key')
            counts[field] = scope.integer(found, LEAST.get(field, 0))
    for field, key in (('vcpus', 'vcpus'), ('memory_mb', 'ram')):
        if field not in counts:
            raise value.wrong(f'{key} is missing')
    named, specs = scope.get(value, 'name'), scope.get(value, 'extra_specs')
    return Flavor(
        **counts,
        name=name if named is None else scope.text(named),
        extra_specs={} if specs is None else _specs(scope, specs),
    )


def _specs(scope, value):
    """Returns the extra specs as strings, as Nova stores them: numbers and booleans are
    converted."""
    specs = {}
    for key, item in scope.mapping(value).data.items():
        if len(key) > LONGEST:
            raise value.wrong_key(
                key, f'the name of an extra spec has at most {LONGEST} characters'
            )
        plain = scope.plain(item)
        if isinstance(plain, list | dict | None):
            raise item.wrong(f'an extra spec is text, not {scope.head(item).kind}')
        specs[key] = str(plain).lower() if isinstance(plain, bool) else str(plain)
        if len(specs[key]) > LONGEST:
            raise item.wrong(f'an extra spec has at most {LONGEST} characters')
    return specs
