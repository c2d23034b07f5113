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
"""The template language: ``read`` returns the Definition of a template.

::

    source      text -> values that know their line and column
    values      such values, their data, and the time limit
    scope       reads values: evaluates functions and checks types
    functions   the functions, which compute a value
    parameters  the inputs, and the constraints on them
    resources   the types of resources, the resources by name, and the conditions
    servers     servers, their flavors and images
    tree        members and groups by path
    policies    the policies on them
"""

import json
import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nova_sched.groups.definition import Definition
from nova_sched.groups.template import source
from nova_sched.groups.template.parameters import Parameters
from nova_sched.groups.template.policies import Policies
from nova_sched.groups.template.resources import SERVER_TYPE, UNSEEN, Conditions, Resources
from nova_sched.groups.template.scope import Literal, Scope, WorkBudget
from nova_sched.groups.template.servers import Servers, flavors_of
from nova_sched.groups.template.tree import MemberTree
from nova_sched.groups.template.values import Allowance

LEVELS = ('host', 'rack', 'room', 'zone')


def read(
    source: str | bytes | Mapping[str, Any],
    parameters: Mapping[str, Any] | None = None,
    flavors: Mapping[str, Mapping[str, Any]] | None = None,
    images: Mapping[str, Mapping[str, Any]] | None = None,
    levels: Iterable[str] = LEVELS,
    max_members: int = 1000,
    allowance: Allowance | None = None,
    catalogue: Mapping[str, Mapping[str, Any]] | None = None,
    is_operator: bool = True,
) -> Definition:
    """Return the Definition of a template.

    ``source`` is YAML or JSON text, or a mapping as from JSON. ``parameters`` by name. ``flavors``
    and ``images``: the named ones that the template may use, each as a template would define it.
    ``levels``: names that policies may use. ``allowance``: the time limit, a new one by default.
    ``catalogue``: the flavors of the cloud; a template may name those that it does not send along.
    Without ``is_operator``, an extra spec that is for operators is accepted only in a flavor that
    has it in the catalogue.

    Raises TemplateError; it has no line and column if the source is a mapping.
    """
    return TemplateReader(
        source,
        parameters,
        flavors,
        images,
        levels,
        max_members,
        allowance,
        catalogue,
        is_operator,
    ).definition()


def schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of a template: its form, not the meaning of names."""
    return json.loads(Path(__file__).with_name('schema.json').read_text('utf-8'))


SECTIONS = (
    'heat_template_version',
    'description',
    'parameter_groups',
    'parameters',
    'conditions',
    'resources',
    'outputs',
)
VERSIONS = (
    '2013-05-23',
    '2014-10-16',
    '2015-04-30',
    '2015-10-15',
    '2016-04-08',
    '2016-10-14',
    'newton',
    '2017-02-24',
    'ocata',
    '2017-09-01',
    'pike',
    '2018-03-02',
    'queens',
    '2018-08-31',
    'rocky',
    '2021-04-16',
    'wallaby',
)
DESCRIPTION = 65_535  # characters


class TemplateReader:
    """The object that functions query (``parameters``, ``conditions``, ``attribute``) during
    reading."""

    def __init__(
        self,
        text,
        parameters,
        flavors,
        images,
        levels,
        max_members,
        allowance,
        catalogue,
        is_operator,
    ):
        self._warnings: list[str] = []
        allowance = allowance or Allowance()
        work = WorkBudget(allowance)
        literal = Literal(work)
        # Weak, or each reading would leave all of its values in a cycle.
        self._scope = Scope(weakref.proxy(self), work)
        self._top = literal.mapping(source.values(text, allowance), SECTIONS)
        literal.word(literal.require(self._top, 'heat_template_version'), VERSIONS)
        self._levels = tuple(levels)
        self._most_members = max_members
        self._literal = literal
        self.parameters = Parameters(
            literal, self._section('parameters'), parameters, self._warnings
        )
        self.conditions = Conditions(self._scope, self._section('conditions'))
        self._resources = Resources(self._scope, literal, self._section('resources'))
        self.conditions.check()
        known = flavors_of(literal, flavors, catalogue, is_operator)
        self._servers = Servers(literal, known, images, self._resources, self._warnings)
        self._asked = []  # servers whose attributes are being evaluated

    def _section(self, name):
        section = self._literal.get(self._top, name)
        return None if section is None else self._literal.mapping(section)

    def definition(self):
        """Return the whole definition. Raises TemplateError."""
        described = self._literal.get(self._top, 'description')
        description = '' if described is None else self._literal.text(described, 0, DESCRIPTION)
        for name, resource in self._resources.present():
            if resource.type in UNSEEN:
                self._warnings.append(
                    f'resources.{name}: the servers of {resource.type} are not planned'
                )
        tree = MemberTree(self._resources, self._servers, self._scope, self._most_members)
        tree.grow()
        most = 4 * self._most_members + 100
        policies = Policies(
            tree, self._resources, self._scope, self._levels, most, self._warnings
        ).all()
        if not tree.members:
            raise self._top.wrong_key('resources', 'there is no member')
        return Definition(
            tree.members, policies, tree.groups, description, tuple(dict.fromkeys(self._warnings))
        )

    # queries by functions

    def is_known(self, name, at):
        """Return whether the resource will exist. Raises TemplateError for an unknown name."""
        return self._resources.is_known(name, at)

    def attribute(self, name, attribute, at):
        """Return an attribute of a resource as a plain value, from the template itself.

        Raises TemplateError.
        """
        resource = self._resources[name]
        if resource.type != SERVER_TYPE or attribute not in ('name', *ATTRIBUTES):
            raise at.wrong(f'{attribute} of {name} is not known before it is created')
        if attribute == 'name':
            return self._scope.text(
                self._scope.require(self._scope.mapping(resource.properties), 'name')
            )
        if name in self._asked:
            raise at.wrong(f'{name} is described by itself')
        self._asked.append(name)
        value = ATTRIBUTES[attribute](self._servers.server(self._scope, resource.properties)[0])
        self._asked.pop()
        return value


def _flavor(member):
    flavor = member.flavor
    return {
        'name': flavor.name,
        'vcpus': flavor.vcpus,
        'ram': flavor.memory_mb,
        'disk': flavor.root_gb,
        'ephemeral': flavor.ephemeral_gb,
        'swap': flavor.swap,
        'extra_specs': dict(flavor.extra_specs),
    }


def _image(member):
    image = member.image
    return image and {
        'id': image.id,
        'name': image.name,
        'disk_format': image.disk_format,
        'properties': dict(image.properties),
    }


ATTRIBUTES = {
    'flavor': _flavor,
    'image': _image,
    'availability_zone': lambda member: member.availability_zone,
}
