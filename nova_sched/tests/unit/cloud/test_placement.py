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
"""The client of Placement: requests, answers and errors; and the survey of all providers."""

import pytest

from nova_sched import errors
from nova_sched.cloud.node_reader import FEW, Survey
from nova_sched.cloud.placement import ConsumerAllocations, NodeProviders, ProviderSummary
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.fake_placement import Fault, client_of, served
from nova_sched.tests.rows import each_afresh

NODE, CHILD, A, B = (uuid_of(name) for name in ('node', 'child', 'a', 'b'))
OWNER = {'project_id': 'p', 'user_id': 'u'}


def some(amount, generation=None, node=NODE):
    return ConsumerAllocations({node: {'VCPU': amount}}, generation, **OWNER)


@pytest.fixture
def fake():
    with served() as made:
        made.add(NODE, VCPU=4)
        made.add(CHILD, root=NODE, CUSTOM_GPU=2)
        yield made


@pytest.fixture
def placement(fake):
    return client_of(fake)


def test_a_node_and_its_providers(placement):
    placement.write({A: some(1)})
    inventories = {'inventories': {'VCPU': {'total': 4}}, 'traits': ['OWNER_NOVA']}
    gpus = {'inventories': {'CUSTOM_GPU': {'total': 2}}, 'traits': ['OWNER_NOVA']}
    found = placement.node(NODE)
    assert found == NodeProviders(
        NODE,
        {
            NODE: {'parent_provider_uuid': None, **inventories},
            CHILD: {'parent_provider_uuid': NODE, **gpus},
        },
        {NODE: 2, CHILD: 1},
        {NODE: {A: {'VCPU': 1}}, CHILD: {}},
    )
    assert found.held == {A: {'VCPU': 1}}


def test_a_node_without_a_provider(placement):
    assert placement.node(B) == NodeProviders(B)
    assert placement.root_of(B) is None


def test_what_is_read(placement):
    placement.write({A: some(3)})
    (tree,) = placement.provider_trees().values()
    found = {
        one['uuid']: (one['generation'], one['parent_provider_uuid']) for one in tree.values()
    }
    assert found == {NODE: (2, None), CHILD: (1, NODE)}
    assert placement.inventories(NODE) == {'VCPU': {'total': 4}}
    assert placement.root_of(CHILD) == NODE
    assert placement.usages(NODE) == {'VCPU': 3}
    assert placement.allocations_of(A) == some(3, generation=1)
    assert placement.allocations_of(B) == ConsumerAllocations()
    query = {'resources': 'VCPU:1', 'limit': '1000'}
    assert placement.allocation_candidates(query)['asked'] == query


def test_a_summary_of_all_providers(fake, placement):
    fake.add(A, VCPU=1, MEMORY_MB=8)
    fake.consumers[B] = [1, {A: {'MEMORY_MB': 8}}, 'p', 'u']
    assert placement.summaries() == {}
    fake.consumers[B] = [1, {A: {'MEMORY_MB': 3}}, 'p', 'u']
    used = {'VCPU': 0, 'MEMORY_MB': 3}
    assert placement.summaries() == {A: ProviderSummary(used, ['OWNER_NOVA'])}


def test_what_is_used_is_the_sum_of_the_allocations():
    held = {NODE: {A: {'VCPU': 1, 'DISK_GB': 5}, B: {'VCPU': 2}}}
    assert NodeProviders(NODE, allocations=held).used(NODE) == {'VCPU': 3, 'DISK_GB': 5}
    assert NodeProviders(NODE, allocations=held).used(CHILD) == {}
    found = NodeProviders(NODE, allocations={NODE: {A: {}}}, sums={NODE: {'VCPU': 3}})
    assert (found.used(NODE), found.used(CHILD)) == ({'VCPU': 3}, {})


def test_what_each_consumer_holds_of_the_root():
    held = {NODE: {A: {'VCPU': 1}}, CHILD: {A: {'CUSTOM_GPU': 1}, B: {'CUSTOM_GPU': 2}}}
    assert NodeProviders(NODE, allocations=held).held == {A: {'VCPU': 1}, B: {}}


def test_one_consumer_is_put_and_several_are_posted(fake, placement):
    placement.write({A: some(1)})
    placement.write({A: some(2, generation=1), B: some(2)})
    assert fake.allocated() == {A: {NODE: {'VCPU': 2}}, B: {NODE: {'VCPU': 2}}}
    assert fake.requests == [('PUT', f'/allocations/{A}'), ('POST', '/allocations')]
    assert fake.bodies[0][A] == {
        'allocations': {NODE: {'resources': {'VCPU': 1}}},
        'consumer_generation': None,
        **OWNER,
    }


def test_mappings_are_written(fake, placement):
    wanted = ConsumerAllocations({NODE: {'VCPU': 1}}, None, 'p', 'u', {'': [NODE]})
    placement.write({A: wanted})
    assert fake.bodies[0][A]['mappings'] == {'': [NODE]}


@each_afresh('generation, removed', {'as read': (1, True), 'newer': (0, False)})
def test_allocations_are_removed_as_they_were_read(fake, placement, generation, removed):
    placement.write({A: some(1)})
    assert placement.remove(A, some(1, generation)) is removed
    assert (A in fake.allocated()) is not removed


def test_there_is_nothing_to_remove(fake, placement):
    assert placement.remove(A, ConsumerAllocations())
    assert fake.requests == []


@each_afresh(
    'wanted, about_consumer, concurrent',
    {
        'another generation': (some(1, generation=7), True, True),
        'no capacity': (some(5), False, False),
        'no inventory': (some(1, node=CHILD), False, False),
    },
)
def test_a_conflict(placement, wanted, about_consumer, concurrent):
    with pytest.raises(errors.PlacementConflict) as raised:
        placement.write({A: wanted})
    assert raised.value.is_about_consumer == about_consumer
    assert raised.value.is_concurrent == concurrent


@each_afresh(
    'fault, kind, words',
    {
        '500': (Fault(500), errors.PlacementUnavailable, '500: out of order'),
        '503': (Fault(503), errors.PlacementUnavailable, '503'),
        'too many requests': (Fault(429), errors.PlacementUnavailable, '429'),
        '400': (Fault(400), errors.PlacementRefused, '400: out of order'),
        '401': (Fault(401), errors.PlacementRefused, '401'),
        '403': (Fault(403), errors.PlacementRefused, '403'),
        '409': (Fault(409, code='placement.concurrent_update'), errors.PlacementConflict, '409'),
        'lost answer': (Fault(lost=True), errors.PlacementUnavailable, 'Unable'),
        'late': (Fault(delay_s=0.5), errors.PlacementUnavailable, 'timed out'),
    },
)
def test_an_error(fake, fault, kind, words):
    fake.faults = lambda method, path: fault
    with pytest.raises(kind, match=words) as raised:
        client_of(fake, (1.0, 0.2)).write({A: some(1)})
    assert type(raised.value) is kind
    assert f'PUT /allocations/{A}' in str(raised.value)


def test_answers_about_all_providers_may_take_longer(fake):
    fake.faults = lambda method, path: Fault(delay_s=0.5)
    placement = client_of(fake, (10.0, 0.3))
    assert placement.provider_trees().keys() == {NODE}
    assert placement.summaries() == {}


def test_an_answer_that_is_no_json(fake, placement):
    fake.handle = lambda *_: 'x' * 3
    assert placement._get('/x') == 'xxx'
    fake.faults = lambda method, path: Fault(502, text='<html>')
    with pytest.raises(errors.PlacementUnavailable, match='502: <html>'):
        placement.usages(NODE)


TREE = {
    'resource_providers': [
        {'uuid': NODE, 'root_provider_uuid': NODE, 'parent_provider_uuid': None, 'generation': 1}
    ]
}
SOUND = {
    '/resource_providers': TREE,
    f'/resource_providers/{NODE}/inventories': {'inventories': {'VCPU': {'total': 4}}},
    f'/resource_providers/{NODE}/traits': {'traits': ['HW_CPU_X86_AVX']},
    f'/resource_providers/{NODE}/allocations': {
        'allocations': {A: {'resources': {'VCPU': 1}}},
    },
}


@pytest.mark.parametrize('malformed', [None, [], 'x', {}, {'traits': None}, {'traits': [1]}])
@pytest.mark.parametrize('path', SOUND)
def test_a_malformed_answer_about_a_node(placement, path, malformed):
    answers = {**SOUND, path: malformed}
    placement._get = lambda asked, **_: answers[asked]
    with pytest.raises(errors.PlacementUnavailable, match=f'{NODE}.* is malformed'):
        placement.node(NODE)


@pytest.mark.parametrize(
    'read, malformed',
    [
        (lambda client: client.allocations(NODE), {'allocations': {A: {}}}),
        (lambda client: client.allocations(NODE), {'allocations': {A: {'resources': {'V': '1'}}}}),
        (lambda client: client.inventories(NODE), {'inventories': {'VCPU': 4}}),
        (lambda client: client.usages(NODE), {'usages': {'VCPU': None}}),
        (lambda client: client.aggregates(NODE), {'aggregates': 'x'}),
        (lambda client: client.root_of(NODE), {'resource_providers': [{'uuid': NODE}]}),
        (lambda client: client.provider_trees(), {'resource_providers': [{'uuid': NODE}]}),
        (lambda client: client.summaries(), {'provider_summaries': {NODE: {'resources': {}}}}),
        (lambda client: client.allocations_of(NODE), {'allocations': {A: None}}),
    ],
)
def test_a_malformed_answer_names_what_it_is_about(placement, read, malformed):
    placement._get = lambda *_, **__: malformed
    with pytest.raises(errors.PlacementUnavailable, match=f'{NODE}.* is malformed: .*Error'):
        read(placement)


def test_a_provider_that_is_gone(fake, placement):
    with pytest.raises(errors.PlacementRefused, match='does not exist'):
        placement.write({A: some(1, node=B)})
    assert fake.allocated() == {}


def test_aggregates(fake, placement):
    fake.aggregates[NODE] = [A]
    assert placement.aggregates(NODE) == [A]


FULL, NONE = uuid_of('full'), uuid_of('none')
MANY = FEW + 1


@pytest.fixture
def surveyed():
    with served() as made:
        made.add(NODE, VCPU=4, MEMORY_MB=100)
        made.add(CHILD, root=NODE, CUSTOM_GPU=2)
        made.add(FULL, VCPU=4, MEMORY_MB=100)
        made.consumers[uuid_of('b')] = [1, {FULL: {'MEMORY_MB': 100}}, 'p', 'u']
        made.consumers[A] = [1, {NODE: {'VCPU': 1}, CHILD: {'CUSTOM_GPU': 2}}, 'p', 'u']
        yield made


@pytest.fixture
def survey(surveyed):
    return Survey(client_of(surveyed), {NODE: 7})


def test_generations_are_known_without_a_summary(surveyed, survey):
    assert survey.seen == {NODE: 7}
    assert survey.generations(NODE) == {NODE: 1, CHILD: 1}
    assert survey.generations(NONE) == {}
    assert surveyed.requests == [('GET', '/resource_providers')]
    assert survey.used(NODE) is None


@each_afresh(
    'uuid, used',
    {
        'memory left': (NODE, {'VCPU': 1}),
        'no memory left': (FULL, None),
        'no provider': (NONE, None),
    },
)
def test_the_summary_has_trees_with_memory_left(survey, uuid, used):
    survey.summarize(MANY)
    assert survey.used(uuid) == used


def test_few_nodes_cost_less_without_a_summary(surveyed, survey):
    survey.summarize(FEW)
    assert survey.used(NODE) is None
    for _ in range(2):
        survey.summarize(MANY)
    assert survey.used(NODE) == {'VCPU': 1}
    assert [path for _, path in surveyed.requests] == [
        '/resource_providers',
        '/allocation_candidates',
    ]


def test_a_node_costs_one_request_for_each_provider(surveyed, survey):
    survey.summarize(MANY)
    surveyed.requests.clear()
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
    assert len(surveyed.requests) == 2
