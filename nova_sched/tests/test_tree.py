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
"""The tree keeps its promises: licence, first sentences, entry points, bounds, help texts."""

import ast
import configparser
import importlib.metadata
import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from nova_sched import conf
from nova_sched.tests.rows import each
from nova_sched.tests.test_layers import PACKAGE, SOURCES, imports

ROOT = PACKAGE.parent
MODULES = sorted(
    [*PACKAGE.rglob('*.py'), *(ROOT / 'doc').rglob('*.py'), *(ROOT / 'releasenotes').rglob('*.py')]
)
# The tests with Nova's client, with Heat and with a stock cloud have environments of their own.
APART = {
    'extension_package',
    'heat_engine',
    'nova_client',
    'plugin_package',
    'stock_cloud',
}  # these run where something else is installed
TESTS = [
    path
    for path in (PACKAGE / 'tests').rglob('*.py')
    if APART.isdisjoint(path.relative_to(PACKAGE).parts)
]
TEXTS = sorted(
    path
    for folder in (
        '.ci',
        'doc/source',
        'etc',
        'nova_sched',
        'packaging',
        'releasenotes/notes',
        'releasenotes/source',
        'tools',
        '',
    )
    for path in (ROOT / folder).glob('**/*' if folder else '*')
    if path.is_file()
    and not any(
        part == '__pycache__' or (part.startswith('.') and part != '.ci')
        for part in path.relative_to(ROOT).parts[:-1]
    )
    and path.suffix not in {'.gz', '.png', '.xz'}
    and not path.name.startswith('.coverage')
    and path.name != '.git'  # a file, where a worktree of git says whose it is
)
LICENCE = """\
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
"""
# Words that the texts have given up, and what is said instead.
ENDED = {
    'signs? of life': 'heartbeats',
    '"""Returns': '"""Return',
    '"""Yields': '"""Yield',
}
ELSEWHERE = re.compile(r'/(?:home|root|work|tmp)/|pypi\.org|pythonhosted\.org')
# They make a class that was written for Nova fit into our chain; no configuration
# names them.
ADAPTERS = {'ForeignFilter', 'ForeignWeigher'}
SUFFIXES = {'nova_sched.filters': 'Filter', 'nova_sched.weighers': 'Weigher'}


def short(path):
    return str(path.relative_to(ROOT))


def entry_points(group):
    """Name to ``module:class`` for each entry point of the group, as setup.cfg declares them."""
    parser = configparser.ConfigParser(delimiters=['='])
    parser.optionxform = str
    parser.read(ROOT / 'setup.cfg')
    lines = parser['entry_points'][group].strip().splitlines()
    return dict(re.split(r'\s*=\s*', line, maxsplit=1) for line in lines)


def requirements(*names):
    lines = (line for name in names for line in (ROOT / name).read_text().splitlines())
    return [Requirement(line) for line in lines if line and not line.startswith('#')]


def extras():
    parser = configparser.ConfigParser(delimiters=['='])
    parser.read(ROOT / 'setup.cfg')
    return [
        Requirement(line)
        for lines in parser['options.extras_require'].values()
        for line in lines.split()
    ]


# One test looks at all files, and names those that are wrong: a test for each takes longer to
# collect than to run.


def test_a_module_has_its_licence_and_says_what_it_is_for():
    texts = {short(path): path.read_text() for path in MODULES}
    assert [name for name, text in texts.items() if not text.startswith(LICENCE)] == []
    assert [name for name, text in texts.items() if not ast.get_docstring(ast.parse(text))] == []


def test_every_folder_of_modules_is_a_package():
    """Without it, a build from a tree that is no git clone would leave the folder out.

    Migrations are alembic's scripts, not modules: setup.cfg has them as package data.
    """
    folders = {
        path.parent
        for path in PACKAGE.rglob('*.py')
        if 'migrations' not in path.relative_to(PACKAGE).parts
    }
    assert [
        short(folder) for folder in sorted(folders) if not (folder / '__init__.py').exists()
    ] == []


def test_no_path_or_host_of_one_machine():
    assert {
        short(path): found for path in TEXTS if (found := ELSEWHERE.findall(path.read_text()))
    } == {}


def test_words_that_are_given_up():
    """Release notes keep the words of their time; this file names them."""
    ended = {re.compile(rf'(?<!\w){words}\b', re.I): instead for words, instead in ENDED.items()}
    texts = {
        short(path): ' '.join(path.read_text().split())
        for path in TEXTS
        if path != Path(__file__) and 'releasenotes' not in path.parts
    }
    assert {
        name: f'{match[0]!r}: say {instead!r}'
        for name, text in texts.items()
        for pattern, instead in ended.items()
        if (match := pattern.search(text.replace('_', ' ')))
    } == {}


def snake(name):
    """``ServerGroupAffinity`` -> ``server_group_affinity``; ``NUMATopology`` ->
    ``numa_topology``."""
    return re.sub(r'(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])', '_', name).lower()


@each(
    'group, name, target',
    [
        pytest.param(group, name, target, id=name)
        for group in SUFFIXES
        for name, target in entry_points(group).items()
        if not target.startswith('nova_sched.extensions.')
    ],
)
def test_a_plug_in_lives_in_the_file_named_after_it(group, name, target):
    module = f'{group}.{snake(name.removesuffix(SUFFIXES[group]))}'
    assert target == f'{module}:{name}'
    source = (ROOT / module.replace('.', '/')).with_suffix('.py').read_text()
    assert name in [node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]


@pytest.mark.parametrize('group', SUFFIXES)
def test_every_plug_in_is_an_entry_point(group):
    classes = [
        node.name
        for path in (ROOT / group.replace('.', '/')).glob('[!_]*.py')
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name.endswith((SUFFIXES[group], 'Isolation'))
    ]
    own = [
        name
        for name, target in entry_points(group).items()
        if not target.startswith('nova_sched.extensions.')
    ]
    assert sorted(set(classes) - ADAPTERS) == sorted(own)


@pytest.mark.parametrize('target', entry_points('console_scripts').values())
def test_a_command_has_its_main(target):
    module, function = target.split(':')
    path = ROOT / module.replace('.', '/')
    path = path / '__init__.py' if path.is_dir() else path.with_suffix('.py')
    body = ast.parse(path.read_text()).body
    assert function in [node.name for node in body if isinstance(node, ast.FunctionDef)]


def test_an_option_has_help():
    assert [
        f'{group}.{option.name}'
        for group, options in conf.list_opts()
        for option in options
        if not (option.help or '').strip().endswith('.')
    ] == []


@each(
    'requirement',
    [*requirements('requirements.txt', 'test-requirements.txt'), *extras()],
    ids=lambda requirement: requirement.name,
)
def test_a_dependency_has_both_bounds(requirement):
    assert {bound.operator for bound in requirement.specifier} == {'>=', '<'}


def test_the_lower_bounds_are_those_that_are_tested():
    tested = {
        canonicalize_name(r.name): str(r.specifier) for r in requirements('lower-constraints.txt')
    }
    declared = {
        canonicalize_name(requirement.name): bound.version
        for requirement in [*requirements('requirements.txt'), *extras()]
        for bound in requirement.specifier
        if bound.operator == '>='
    }
    assert {name: f'=={version}' for name, version in declared.items()} == {
        name: tested[name] for name in declared
    }


@pytest.mark.parametrize(
    'modules, files',
    [
        pytest.param(
            [path for path in SOURCES if path.parent.name != 'heat'],
            ['requirements.txt'],
            id='package',
        ),
        pytest.param(TESTS, ['requirements.txt', 'test-requirements.txt'], id='tests'),
    ],
)
def test_what_is_imported_is_required(modules, files):
    homes = importlib.metadata.packages_distributions()
    known = {canonicalize_name(r.name) for r in [*requirements(*files), *extras()]}
    tops = {name.partition('.')[0] for path in modules for name in imports(path.read_text())}
    foreign = tops - set(sys.stdlib_module_names) - {'nova_sched'}
    unknown = {
        top
        for top in foreign
        if not known & {canonicalize_name(home) for home in homes.get(top, [])}
    }
    assert unknown == set()
