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
"""Rooms point down, and heavy packages stay in the room that needs them."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1]

# From the top of the house to the bottom; rooms on one floor do not see each other.
FLOORS = [
    # Extensions, which the core never imports.
    {'simulator', 'shadow', 'dashboard'},
    {'agent', 'optimize'},
    {'queues', 'openstackclient'},  # openstackclient: where the client is, the rest need not be
    # The core.
    {'cmd'},
    {'service'},
    {'nova_service'},
    {'api'},
    {'rpc', 'cloud', 'limits'},
    {'engine'},
    {'groups', 'claims'},
    {'filters', 'weighers'},
    {'state'},
    {'objects', 'db'},
    {'unified_limits'},
    {'claim', 'logs'},
    {'hardware'},
    {'words', 'urls'},
    {'conf', 'heat'},  # heat, an extension: it runs where Heat is
    {'measures', 'tracing', 'files'},
    {'extension'},
    {'errors'},
]
DEPTH = {room: depth for depth, floor in enumerate(FLOORS) for room in floor}

FENCES = {
    'alembic': {'db'},
    'waitress': {'cmd'},
    'cotyledon': {'cmd'},
    'eventlet': {'cmd'},
    'heat': {'heat'},
    'keystoneauth1': {
        'api',
        'cloud',
        'cmd',
        'conf',
        'dashboard',
        'heat',
        'openstackclient',
        'unified_limits',
    },
    'flask': {'api', 'dashboard'},
    'keystonemiddleware': {'api'},
    'kombu': {'rpc'},
    'openstack': {'unified_limits'},
    # Plug-ins read CONF through nova_sched.conf; rpc: only the defaults of oslo.messaging's
    # options.
    'oslo_config': {
        'conf',
        'cmd',
        'heat',
        'rpc',
        'agent',
        'dashboard',
        'optimize',
        'queues',
        'shadow',
    },
    'oslo_db': {'db', 'claims', 'conf'},  # conf: only the defaults of its options
    'oslo_limit': {'unified_limits'},
    'oslo_messaging': {'rpc', 'optimize', 'queues'},
    'oslo_middleware': {'api', 'dashboard'},
    'oslo_policy': {'api'},
    'oslo_service': {'service', 'queues', 'agent', 'shadow', 'cmd', 'conf'},  # as oslo_db
    'prometheus_client': {'cmd'},
    'opentelemetry': {'cmd'},
    'oslo_versionedobjects': {'objects'},
    'ortools': {'groups', 'optimize'},
    'psutil': {'agent', 'engine', 'cmd'},
    'sdnotify': {'cmd'},
    'osc_lib': {'openstackclient'},
    'sqlalchemy': {'db', 'claims', 'optimize'},  # optimize: its counts
}

EXTENSIONS = 'extensions'
OPTIONAL = {path.name for path in (PACKAGE / EXTENSIONS).iterdir()}

SOURCES = [
    path
    for path in sorted(PACKAGE.rglob('*.py'))
    if path.relative_to(PACKAGE).parts[0] != 'tests'
    and path not in (PACKAGE / '__init__.py', PACKAGE / EXTENSIONS / '__init__.py')
]


def room(names):
    """The room of a module, or of a file, by its names below the package."""
    return names[1] if names[0] == EXTENSIONS and len(names) > 1 else names[0]


def room_of(path):
    return room([name.removesuffix('.py') for name in path.relative_to(PACKAGE).parts])


def imports(source):
    """Every name that the source imports, wherever in it: ``nova_sched.state.columns``,
    ``numpy``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = '.' * node.level + (node.module or '')
            yield from (f'{module}.{alias.name}' for alias in node.names)


def faults(home, source):
    """What is wrong with the imports of a module in this room."""
    for name in imports(source):
        top, *rest = name.split('.')
        if not top:
            yield f'{name} is not absolute'
        elif home not in FENCES.get(top, {home}):
            yield f'{name} is for {sorted(FENCES[top])}'
        elif top == 'nova_sched' and room(rest) != home:
            if DEPTH.get(room(rest), -1) <= DEPTH[home]:
                yield f'{name} is not below {home}'
            elif rest[0] == EXTENSIONS and home not in OPTIONAL:
                yield f'{name} is an extension'


def test_imports_point_down():
    assert {
        str(path.relative_to(PACKAGE)): found
        for path in SOURCES
        if (found := list(faults(room_of(path), path.read_text())))
    } == {}


@pytest.mark.parametrize(
    'home, source, fault',
    [
        pytest.param('state', 'import nova_sched.engine.decide', 'not below', id='upwards'),
        pytest.param('filters', 'from nova_sched.weighers import ram', 'not below', id='sideways'),
        pytest.param('cmd', 'import nova_sched.extensions.agent', 'not below', id='extension'),
        pytest.param(
            'rpc', 'from nova_sched.extensions.heat import x', 'an extension', id='low extension'
        ),
        pytest.param(
            'state',
            'def f():\n    from nova_sched import service',
            'not below',
            id='in a function',
        ),
        pytest.param('engine', 'from nova_sched import tests', 'not below', id='tests'),
        pytest.param('engine', 'from nova_sched import CONF', 'not below', id='the bare package'),
        pytest.param('engine', 'from sqlalchemy import orm', 'is for', id='fenced package'),
        pytest.param(
            'engine', 'if x:\n    import eventlet.green.os', 'is for', id='fenced submodule'
        ),
        pytest.param('rpc', 'from . import client', 'not absolute', id='relative'),
        pytest.param('rpc', 'from ..state import columns', 'not absolute', id='relative upwards'),
    ],
)
def test_a_fault_is_found(home, source, fault):
    assert [fault in found for found in faults(home, source)] == [True]


@pytest.mark.parametrize(
    'home, source',
    [
        pytest.param('engine', 'from nova_sched.state import columns, vocab', id='downwards'),
        pytest.param('engine', 'from nova_sched import errors', id='a module of the package'),
        pytest.param('engine', 'from nova_sched.engine import decide', id='within a room'),
        pytest.param('claims', 'import sqlalchemy as sa', id='fenced package at home'),
        pytest.param('state', 'import numpy as np', id='anything else'),
    ],
)
def test_good_imports_pass(home, source):
    assert list(faults(home, source)) == []
