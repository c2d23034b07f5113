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

"""Jobs that a caller sees, by its rights and its project."""

import types

import flask
import pytest
from oslo_context.context import RequestContext

from nova_sched.extensions.dashboard import queues
from nova_sched.extensions.dashboard.parts import Clients, Parts

JOBS = {'red': ['job of red'], None: ['job of red', 'job of blue']}


class Policy:
    """Allows what is named."""

    def __init__(self, *rules):
        self.rules = rules

    def allows(self, context, rule, owner=None):
        return rule in self.rules

    def demand(self, context, rule, owner=None):
        assert rule in self.rules


class Table:
    def newest(self, limit, project_id=None):
        return JOBS[project_id]


def parts(*rules):
    conf = types.SimpleNamespace(api=types.SimpleNamespace(max_limit=10))
    clients = Clients(None, None, None)
    return Parts(conf, Policy(*rules), clients, types.SimpleNamespace(jobs=Table()))


@pytest.fixture
def caller():
    """Make the caller of the page one of a project."""
    with flask.Flask('test').test_request_context('/'):

        def made(project_id):
            flask.g.context = RequestContext(user_id='ann', project_id=project_id)

        yield made


@pytest.mark.parametrize(
    'rules, project_id, found',
    [
        ([queues.JOBS], 'red', ['job of red']),
        ([queues.JOBS], None, []),
        ([queues.JOBS, queues.ALL_JOBS], None, ['job of red', 'job of blue']),
        ([queues.ALL_JOBS], 'red', []),
    ],
)
def test_the_jobs_of_a_caller(caller, rules, project_id, found):
    caller(project_id)
    assert queues.QueuePages(parts(*rules))._jobs() == found
