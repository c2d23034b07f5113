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
"""`health check` of agents and managers of queues, in this process."""

import json

import pytest

from nova_sched.tests.functional.manage import runner
from nova_sched.tests.functional.test_agent import conf
from nova_sched.tests.functional.test_queues import cloud

__all__ = ['cloud', 'conf']


@pytest.fixture
def check(cloud, tmp_path, capsys):
    """``check('--part', 'agent', …)``: the exit status, and what is said of the part."""
    run = runner('health', tmp_path, capsys)

    def checked(*words):
        status, out, _ = run('check', '--format', 'json', *words)
        ((part,),) = (json.loads(out),)
        return status, part['detail']

    return checked


def test_an_agent(cloud, check):
    cloud.worker('cmp1')
    words = 'that of host cmp1 answers; it has 0 instances'
    assert check('--part', 'agent', '--host', 'cmp1') == (0, words)


def test_a_manager_of_queues(check):
    assert check('--part', 'queues') == (0, 'a manager answers')
