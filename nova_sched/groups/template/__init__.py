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
"""The language of top groups: an extension of Heat's HOT, read into a Definition.

source    text -> values that know their line and column
values    such values and their data
parameters, constraints, functions    the inputs and functions that compute a value
resources, servers, flavors, images    the resources of a template
tree      members and groups by path
policies  the policies on them
"""

import functools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nova_sched.groups.definition import Definition
from nova_sched.groups.limits import Allowance
from nova_sched.groups.template import reading

LEVELS = ('host', 'rack', 'room', 'zone')


def read(
    source: str | bytes | Mapping[str, Any],
    parameters: Mapping[str, Any] | None = None,
    flavors: Mapping[str, Mapping[str, Any]] | None = None,
    images: Mapping[str, Mapping[str, Any]] | None = None,
    levels: Iterable[str] = LEVELS,
    max_members: int = 1000,
    allowance: Allowance | None = None,
) -> Definition:
    """Returns the Definition of a template.

    ``source`` is YAML or JSON text, or a mapping as from JSON. ``parameters`` by name. ``flavors``
    and ``images``: the named ones that the template may use, each as a template would define it.
    ``levels``: names that policies may use. ``allowance``: the time limit, a new one by default.
    Raises TemplateError; it has no line and column if the source is a mapping.
    """
    return reading.Reading(
        source, parameters, flavors, images, levels, max_members, allowance
    ).definition()


@functools.cache
def _schema_text():
    return Path(__file__).with_name('schema.json').read_text('utf-8')


def schema() -> dict[str, Any]:
    """Returns the JSON schema (draft 2020-12) of a template: its form, not the meaning of
    names."""
    return json.loads(_schema_text())
