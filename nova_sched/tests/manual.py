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
"""The code blocks of the manual, as its pages have them."""

import dataclasses
import re
import shlex
import textwrap
from pathlib import Path

MANUAL = Path(__file__).resolve().parents[2] / 'doc' / 'source'
DIRECTIVE = re.compile(r'(?P<indent> *)\.\. code-block::(?: (?P<language>\w+))?$')
PROMPT = '$ '
# Examples in Python: a page, and a text that only this one of its examples has.
BOOT = 'conductors.rst', 'boot(spec, instance_uuids'
MOVE = 'conductors.rst', 'conductor.move'
CANDIDATES = 'conductors.rst', 'select_candidates'
MEMBERS = 'conductors.rst', 'groups.create'
REPORT = 'compute-nodes.rst', 'update_resource_stats'
ROUTER = 'conductors.rst', 'Routing'
AGGREGATES = 'groups.rst', 'update_aggregates'


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """``page`` is its path below the manual, ``number`` counts the blocks of the page from 1.

    ``language`` is None for a block that names none.
    """

    page: str
    number: int
    language: str | None
    text: str

    @property
    def commands(self):
        """The command lines of a block for a shell: those after a prompt, or all of them.

        A line that a backslash continues is one command.
        """
        whole = re.sub(r'\\\n\s*', '', self.text)
        lines = [line for line in whole.splitlines() if line and not line.startswith('#')]
        if self.language == 'sh':
            return lines
        return [line.removeprefix(PROMPT) for line in lines if line.startswith(PROMPT)]


def blocks():
    """All blocks of all pages."""
    return [
        block for path in sorted(MANUAL.rglob('*.rst')) for block in of(path.relative_to(MANUAL))
    ]


def of(page):
    """The blocks of one page."""
    lines, found = (MANUAL / page).read_text('utf-8').splitlines(), []
    for number, line in enumerate(lines):
        if start := DIRECTIVE.match(line):
            language = start['language']
        elif line.endswith('::') and not line.lstrip().startswith('..'):
            language = None
        else:
            continue
        text = _below(lines[number + 1 :], len(line) - len(line.lstrip()))
        found.append(Block(str(page), len(found) + 1, language, text))
    return found


def _below(lines, indent):
    """What follows and is indented more, without options of the directive."""
    body = []
    for line in lines:
        if line and len(line) - len(line.lstrip()) <= indent:
            break
        body.append(line)
    while body and (not body[0] or re.match(r' +:[\w-]+:', body[0])):
        del body[0]
    return textwrap.dedent('\n'.join(body)).strip() + '\n'


def programs(command):
    """The programs that a command line runs, each with its arguments, without redirections."""
    found, into_file = [[]], False
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    for word in lexer:
        if set(word) <= set('|&<>();'):
            into_file = word in ('<', '>')
            found += [] if into_file else [[]]
        elif into_file or (re.match('[A-Z_]+=', word) and not found[-1]):
            into_file = False
        else:
            found[-1].append(word)
    return [words for words in found if words]


def python(example):
    """The block of an example in Python."""
    page, text = example
    (found,) = (one for one in of(page) if one.language == 'python' and text in one.text)
    return found


def run(example, **names):
    """Run an example in Python with these names. Returns all of its names after that."""
    exec(compile(python(example).text, example[0], 'exec'), names)
    return names
