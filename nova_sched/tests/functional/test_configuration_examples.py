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
"""The configurations in the manual have only options of this release, with valid values."""

import re
import textwrap
from pathlib import Path

import pytest

from nova_sched.cmd.manage import config

MANUAL = Path(__file__).resolve().parents[3] / 'doc' / 'source'
# Literal blocks and blocks of code, as far as they are indented.
BLOCK = re.compile(r'(?:::|code-block:: ini)\n\n((?P<indent> +)\S.*\n(?:(?P=indent).*\n|\n)*)')
SECTION = re.compile(r'(?:#.*\n)*\[(?!Unit)\w+\]\n')


def examples():
    for path in sorted(set(MANUAL.rglob('*.rst')) - {MANUAL / 'heat.rst'}):  # that is heat.conf
        for number, found in enumerate(BLOCK.finditer(path.read_text()), 1):
            text = textwrap.dedent(found[1]).strip() + '\n'
            if SECTION.match(text):
                yield pytest.param(text, id=f'{path.relative_to(MANUAL)}-{number}')


EXAMPLES = list(examples())


@pytest.fixture(scope='module')
def known():
    return config.known_options()


def problems(text, tmp_path, known):
    file = tmp_path / 'nova_sched.conf'
    file.write_text(text)
    return [
        f'{one.where}: {one.problem}' for one in config.values(config.words([str(file)]), known)
    ]


@pytest.mark.parametrize('text', EXAMPLES)
def test_each_option_is_known_and_valid(text, tmp_path, known):
    assert problems(text, tmp_path, known) == []


def test_the_examples_are_found():
    names = {one.id.rpartition('-')[0] for one in EXAMPLES}
    assert names >= {'tls.rst', 'high-availability.rst', 'sizing.rst', 'queues.rst', 'run.rst'}


def test_a_mistake_is_found(tmp_path, known):
    text = '[scheduler]\nworker = 2\nworkers = many\n'
    assert [one.partition(':')[0] for one in problems(text, tmp_path, known)] == [
        '[scheduler] worker',
        '[scheduler] workers',
    ]
