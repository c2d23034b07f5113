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
"""The template language of placement groups."""

import textwrap

import pytest

from nova_sched import errors
from nova_sched.groups import template

MARK = '\N{CARET}'
FLAVORS = {'small': {'vcpus': 1, 'ram': 512}, 'large': {'vcpus': 8, 'ram': 16384, 'disk': 80}}
IMAGES = {'ubuntu': {'properties': {'hw_architecture': 'x86_64'}, 'disk_format': 'qcow2'}}
SERVER = {'type': 'OS::Nova::Server', 'properties': {'flavor': 'small'}}


def text(body):
    """A template with this body: its first line is line 2. A mark in it is taken out."""
    return _with_mark(body).replace(MARK, '')


def place(body):
    """(line, column) of the mark in the template with this body."""
    before, mark, _after = _with_mark(body).partition(MARK)
    assert mark
    return before.count('\n') + 1, len(before) - before.rfind('\n')


def _with_mark(body):
    return 'heat_template_version: 2021-04-16\n' + textwrap.dedent(body).lstrip('\n')


def read(body, **given):
    """The Definition of a body (text), or of resources (a mapping), with some flavors and images
    to name."""
    source = (
        text(body)
        if isinstance(body, str)
        else {'heat_template_version': 'wallaby', 'resources': body}
    )
    return template.read(source, **{'flavors': FLAVORS, 'images': IMAGES, **given})


def refused(body, **given):
    """(line, column, where, why) of the refusal."""
    with pytest.raises(errors.TemplateError) as caught:
        read(body, **given)
    error = caught.value
    return error.line, error.column, error.where, error.why


def server(**properties):
    """A server, small unless said otherwise."""
    return {'type': 'OS::Nova::Server', 'properties': {'flavor': 'small', **properties}}


def repeated(count, definition=SERVER, **properties):
    return {
        'type': 'OS::Heat::ResourceGroup',
        'properties': {'count': count, 'resource_def': definition, **properties},
    }


def group(*members, **properties):
    return {'type': 'OS::NovaSched::Group', 'properties': {'members': list(members), **properties}}


def relation(kind, level='rack', **properties):
    return {
        'type': 'OS::NovaSched::Relation',
        'properties': {'type': kind, 'level': level, **properties},
    }
