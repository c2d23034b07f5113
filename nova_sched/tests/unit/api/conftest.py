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
"""The API under test, over a backend with three groups."""

import pytest
from werkzeug.test import Client

from nova_sched.tests.unit.api.backend import (
    Backend,
    Manager,
    Planner,
    Ranker,
    Rebalances,
    group,
)
from nova_sched.tests.unit.api.callers import configuration, rest


@pytest.fixture
def conf():
    return configuration(max_body_size=4096, max_limit=3)


@pytest.fixture
def backend():
    return Backend(group('app'), group('db'), group('other', project_id='blue', user_id='bob'))


@pytest.fixture
def manager():
    return Manager('tiny', 'large', 'huge', 'odd/ näme')


@pytest.fixture
def ranker():
    return Ranker()


@pytest.fixture
def planner():
    return Planner()


@pytest.fixture
def rebalances():
    return Rebalances('first', 'second', 'third', 'fourth')


@pytest.fixture
def http(conf, backend, manager, ranker, planner, rebalances):
    made = rest(
        conf,
        backend,
        manager,
        rank=ranker.rank_hosts,
        plan=planner.plan_moves,
        rebalances=rebalances,
    )
    return Client(made)
