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
"""Shells complete nouns, verbs and options."""

import os
import shutil
import subprocess
import sys

import pytest

PROGRAM = 'from nova_sched.cmd.manage import main; main()'


@pytest.mark.parametrize('shell', ['bash', 'zsh', 'fish'])
def test_the_script_of_a_shell(manage, shell):
    status, out, err = manage(f'completion {shell}')
    assert (status, err) == (0, '')
    assert 'nova-sched-manage' in out


BASH = """
source <(nova-sched-manage completion bash)
COMP_LINE='nova-sched-manage host dis' COMP_POINT=26 COMP_TYPE=9
COMP_WORDS=(nova-sched-manage host dis) COMP_CWORD=2
$(complete -p nova-sched-manage | sed 's/.*-F \\([^ ]*\\) .*/\\1/') nova-sched-manage dis host
echo "${COMPREPLY[@]}"
"""
FISH = """
nova-sched-manage completion fish | source
complete -C 'nova-sched-manage host dis'
"""
ZSH = """
autoload -U compinit; compinit -u -D
source <(nova-sched-manage completion zsh)
echo ${_comps[nova-sched-manage]:+disable}
"""


@pytest.mark.parametrize(
    'shell, script',
    [
        pytest.param('bash', BASH, id='bash'),
        pytest.param('fish', FISH, id='fish'),
        pytest.param('zsh', ZSH, id='zsh'),
    ],
)
def test_a_shell_completes(tmp_path, shell, script):
    """bash and fish give the words; of zsh, which gives none without a terminal, that it has the
    function."""
    assert shutil.which(shell), f'install {shell}, as bindep.txt lists it'
    path = f'{os.path.dirname(sys.executable)}:{os.environ["PATH"]}'
    done = subprocess.run(
        [shell, '-c', script],
        # With LC_ALL=C, fish finds nothing in a folder with an umlaut.
        env={**os.environ, 'PATH': path, 'HOME': str(tmp_path), 'LC_ALL': 'C.UTF-8'},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split()[:1] == ['disable'], done.stderr


@pytest.mark.parametrize(
    'line, words',
    [
        pytest.param('nova-sched-manage sch', {'scheduler'}, id='noun'),
        pytest.param('nova-sched-manage host dis', {'disable'}, id='verb'),
        pytest.param('nova-sched-manage claim list --st', {'--state'}, id='option'),
        pytest.param('nova-sched-manage host list --format y', {'yaml'}, id='value'),
    ],
)
def test_words_that_may_come_next(tmp_path, line, words):
    file = tmp_path / 'words'
    asked = {
        '_ARGCOMPLETE': '1',
        'COMP_LINE': line,
        'COMP_POINT': str(len(line)),
        '_ARGCOMPLETE_STDOUT_FILENAME': str(file),
        '_ARGCOMPLETE_IFS': '\n',
    }
    subprocess.run([sys.executable, '-c', PROGRAM], env={**os.environ, **asked}, check=False)
    assert {word.strip() for word in file.read_text().split('\n')} == words
