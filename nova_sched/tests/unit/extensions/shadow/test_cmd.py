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
"""nova-sched-shadow as a program: a configuration that cannot work, and its report."""

import os
import subprocess
import sys

import pytest

from nova_sched.extensions.shadow import cmd as shadow
from nova_sched.extensions.shadow.comparison import OUTCOMES
from nova_sched.extensions.shadow.journal import summed

TIME = '2026-01-01T00:00:00.000+00:00'


def run(folder, lines, *words):
    """Run the program to its end: exit status and all that it said."""
    file = folder / 'nova.conf'
    file.write_text(f'[DEFAULT]\nstate_path = {folder}\n{lines}\n')
    env = {
        name: value for name, value in os.environ.items() if name != 'OS_DEFAULT__SERVICE_BACKEND'
    }
    done = subprocess.run(
        [sys.executable, '-m', shadow.__name__, *words, '--config-file', str(file)],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,  # the machine may be busy
    )
    return done.returncode, done.stdout + done.stderr


NOVA = '[api_database]\nconnection = sqlite:////nowhere/api\n'


NO_FOLDER = 'state_path = /no/such/folder\ntransport_url = rabbit://localhost:1/\n'


@pytest.mark.parametrize(
    'lines, words',
    [
        ('', '[cluster] source'),
        (f'transport_url = fake://\n{NOVA}', 'RabbitMQ only'),
        (f'{NO_FOLDER}{NOVA}', '[DEFAULT] state_path'),
    ],
)
def test_a_bad_configuration_ends_it_with_one_sentence(tmp_path, lines, words):
    status, said = run(tmp_path, lines)
    assert (status, len(said.splitlines())) == (os.EX_CONFIG, 1), said
    assert words in said


def test_a_report_without_any_calls(tmp_path):
    assert run(tmp_path, '', 'report') == (0, 'No calls were compared in this time.\n')


def test_a_wrong_time(tmp_path):
    status, said = run(tmp_path, '', 'report', '--since', 'yesterday')
    assert (status, 'length of time' in said) == (2, True)


def test_each_outcome_has_words():
    assert set(shadow.OUTCOMES) == set(OUTCOMES)


def test_the_page():
    servers = [{'outcome': 'passed', 'weigher': 'RAMWeigher'}]
    call = {'time': TIME, 'request_id': 'req-1', 'took_ms': 1.5}
    found = summed(
        [
            {**call, 'outcome': 'same', 'servers': [{'outcome': 'same'}]},
            {**call, 'outcome': 'passed', 'servers': servers, 'unreadable': ['Cell x']},
            {'time': TIME, 'missed': {'lost': 3}, 'hosts_left_out': {'cmp9': 'no inventory'}},
        ]
    )
    page = shadow._page(found)
    for words in (
        '2 calls for 2 servers',
        '1.5 ms (p50)',
        '|     1 | 50.0% | same host',
        '|       1 | weigher RAMWeigher | req-1',
        '| cmp9          | no inventory |',
        '1 call came while a part of the cloud could not be read.',
        'Not compared: 3 lost.',
    ):
        assert words in page, page
    assert 'refused' not in page
