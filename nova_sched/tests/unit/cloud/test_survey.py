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
"""A survey of all providers, and nodes that need only one request more."""

import pytest

from nova_sched.cloud.placement import NodeProviders
from nova_sched.cloud.survey import FEW, Survey
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.fake_placement import client_of, served

NODE, CHILD, FULL, NONE, A = (uuid_of(name) for name in ('node', 'child', 'full', 'none', 'a'))

MANY = FEW + 1


@pytest.fixture
def fake():
    with served() as made:
        made.add(NODE, VCPU=4, MEMORY_MB=100)
        made.add(CHILD, root=NODE, CUSTOM_GPU=2)
        made.add(FULL, VCPU=4, MEMORY_MB=100)
        made.consumers[uuid_of('b')] = [1, {FULL: {'MEMORY_MB': 100}}, 'p', 'u']
        made.consumers[A] = [1, {NODE: {'VCPU': 1}, CHILD: {'CUSTOM_GPU': 2}}, 'p', 'u']
        yield made


@pytest.fixture
def survey(fake):
    return Survey(client_of(fake), {NODE: 7})


def test_generations_are_known_without_a_summary(fake, survey):
    assert survey.seen == {NODE: 7}
    assert survey.generations(NODE) == {NODE: 1, CHILD: 1}
    assert survey.generations(NONE) == {}
    assert fake.requests == [('GET', '/resource_providers')]
    assert survey.used(NODE) is None


@pytest.mark.parametrize(
    'uuid, used',
    [
        pytest.param(NODE, {'VCPU': 1}, id='memory left'),
        pytest.param(FULL, None, id='no memory left'),
        pytest.param(NONE, None, id='no provider'),
    ],
)
def test_the_summary_has_trees_with_memory_left(survey, uuid, used):
    survey.summarize(MANY)
    assert survey.used(uuid) == used


def test_few_nodes_cost_less_without_a_summary(fake, survey):
    survey.summarize(FEW)
    assert survey.used(NODE) is None
    for _ in range(2):
        survey.summarize(MANY)
    assert survey.used(NODE) == {'VCPU': 1}
    assert [path for _, path in fake.requests] == ['/resource_providers', '/allocation_candidates']


def test_a_node_costs_one_request_for_each_provider(fake, survey):
    survey.summarize(MANY)
    fake.requests.clear()
    found = survey.node(NODE, {A: {'VCPU': 1}})
    inventories = {'VCPU': {'total': 4}, 'MEMORY_MB': {'total': 100}}
    own, gpus = (
        {'parent_provider_uuid': parent, 'inventories': some, 'traits': ['OWNER_NOVA']}
        for parent, some in ((None, inventories), (NODE, {'CUSTOM_GPU': {'total': 2}}))
    )
    assert found == NodeProviders(
        NODE,
        {NODE: own, CHILD: gpus},
        {NODE: 1, CHILD: 1},
        {NODE: {A: {'VCPU': 1}}},
        sums={NODE: {'VCPU': 1, 'MEMORY_MB': 0}, CHILD: {'CUSTOM_GPU': 2}},
    )
    assert len(fake.requests) == 2
