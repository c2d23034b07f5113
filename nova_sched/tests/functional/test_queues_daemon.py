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
"""nova-sched-queues as a process: what it says, and how it ends."""

import os
import signal

import pytest

from nova_sched.tests.functional.test_agent_daemon import Daemon


@pytest.fixture
def daemon(tmp_path):
    made = Daemon(tmp_path, module='queues')
    yield made
    made.kill()


@pytest.fixture
def database(tmp_path):
    return f'[database]\nconnection = sqlite:///{tmp_path}/db.sqlite'


def test_it_works_until_it_is_told_to_end(daemon, database):
    daemon.configure(database, '[queues]', 'specials = zone:north')
    daemon.start()
    daemon.says('Managing queues on host cmp1')
    daemon.says('The catalogue is at version 0, with 0 queues')
    daemon.tell(signal.SIGTERM)
    assert daemon.status() == 0
    assert 'Stopped' in daemon.log
    assert 'ERROR' not in daemon.log


@pytest.mark.parametrize(
    'line, why',
    [
        pytest.param('specials = gpu', '[queues] specials', id='a special thing of no kind'),
        pytest.param(
            'specials = pci:gpu', 'there is no such alias', id='an alias that is not there'
        ),
        pytest.param(
            'transport_url = strange://', 'transport_url', id='a broker of no known kind'
        ),
        pytest.param('fallback_after = soon', 'fallback_after', id='a word for a number'),
    ],
)
def test_a_daemon_that_cannot_work_says_why(daemon, database, line, why):
    daemon.configure(database, '[queues]', line)
    daemon.start()
    assert daemon.status() == os.EX_CONFIG
    assert why in daemon.log
    assert 'Traceback' not in daemon.log
