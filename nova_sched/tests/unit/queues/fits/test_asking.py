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
"""Which queues a rule need not be asked about, and that they ask for what their own Requests
do."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nova_sched.queues.fits.asking import (
    EVERYTHING,
    FACTS,
    NOBODY,
    Asked,
    Question,
    Requests,
    fact,
)
from nova_sched.state.request import Request
from nova_sched.tests.unit.queues.catalogues import (
    FLAVORS,
    SPECIALS,
    catalogue,
    catalogues,
    flavor,
)

WHOLE = catalogue(*FLAVORS, specials=SPECIALS)
WORDS = sorted(FACTS | {'resources:VCPU', 'resources:CUSTOM_GOLD', 'resources:VGPU'})


def value(request, name):
    """A fact as it can be compared."""
    if name.startswith('resources:'):
        return request.resources.get(name.partition(':')[2])
    found = getattr(request, name)
    return found.key if name == 'pieces' else (set(found) if name == 'resources' else found)


@pytest.mark.parametrize('queue', WHOLE.queues, ids=str)
def test_each_fact_is_that_of_the_request_of_the_queue(queue):
    request, asked = WHOLE.request(queue), Asked(WHOLE, queue.flavor, queue.special)
    for name in FACTS:
        found = fact(WHOLE, queue.flavor, queue.special, name)
        own = getattr(request, name)
        assert (
            (found.key, getattr(asked, name).key) == (own.key,) * 2
            if name == 'pieces'
            else found == own
        ), name
        assert dict(asked.resources) == request.resources
    assert asked.instance_uuid == NOBODY


def test_facts_are_all_fields_of_a_request_but_the_instance_and_the_message():
    fields = {field.name for field in dataclasses.fields(Request)}
    assert fields - FACTS == {'instance_uuid', 'spec'}


@pytest.mark.parametrize(
    'reader, read',
    [
        pytest.param(lambda one: one.vcpus, {'vcpus'}, id='a number'),
        pytest.param(
            lambda one: one.hint('x') or one.forced or one.is_rebuild,
            set(),
            id='what no queue asks for',
        ),
        pytest.param(lambda one: one.instance_uuid, set(), id='an instance that is nowhere'),
        pytest.param(lambda one: list(one.resources), {'resources'}, id='which classes'),
        pytest.param(lambda one: 'VCPU' in one.resources, {'resources'}, id='whether one of them'),
        pytest.param(
            lambda one: one.resources['VCPU'],
            {'resources', 'resources:VCPU'},
            id='how much of one',
        ),
        pytest.param(
            lambda one: sorted(one.resources.items()),
            {'resources', 'resources:VCPU', 'resources:MEMORY_MB', 'resources:DISK_GB'},
            id='how much of all',
        ),
        pytest.param(lambda one: one.spec.flavor.vcpus, {EVERYTHING}, id='the message'),
        pytest.param(lambda one: one.__class__ is not None, set(), id='what every object has'),
    ],
)
def test_what_was_read(reader, read):
    asked = Asked(WHOLE, WHOLE.flavors[0], None)
    reader(asked)
    assert asked.read == read


@given(catalogues, st.frozensets(st.sampled_from(WORDS), max_size=3))
@settings(max_examples=40)
def test_queues_of_one_kind_are_equal_in_its_facts(found, facts):
    kinds = Requests(found).kinds(facts)
    seen = {}
    for place, queue in enumerate(found.queues):
        kind = 0 if kinds.of is None else int(kinds.of[place])
        request = found.request(queue)
        values = [value(request, name) for name in sorted(facts)]
        assert seen.setdefault(kind, values) == values
    assert len(seen) == (len(kinds) if found.queues else 0)


def test_queues_that_differ_elsewhere_are_of_one_kind():
    found = catalogue(
        *(flavor(f'f{number}', 1 + number % 2) for number in range(6)),
        specials=['zone:a', 'trait:HW_A'],
    )
    requests = Requests(found)
    sizes = {
        facts: len(requests.kinds(frozenset(facts.split())))
        for facts in (
            '',
            'vcpus',
            'availability_zone',
            'vcpus required_traits',
            'flavor_name',
            '*',
        )
    }
    assert sizes == {
        '': 1,
        'vcpus': 2,
        'availability_zone': 2,
        'vcpus required_traits': 4,
        'flavor_name': 6,
        '*': 18,
    }


def test_a_question_that_reads_more_as_it_goes():
    found = catalogue('tiny', flavor('big', 4), specials=['zone:a', 'zone:b'])
    question, asked = Question(Requests(found)), []

    def answer(one):
        asked.append(one)
        return 1 if one.vcpus == 1 else 2 + (one.availability_zone == 'b')

    everything = np.ones(len(found.queues), bool)
    assert question.answers(answer, everything).tolist() == [1, 1, 1, 2, 2, 3]
    asked.clear()
    assert question.answers(answer, everything).tolist() == [1, 1, 1, 2, 2, 3]
    assert len(asked) == 6
    some = np.array([True, False, False, False, False, True])
    assert question.answers(answer, some)[some].tolist() == [1, 3]


def test_a_question_about_nothing_has_one_answer():
    question = Question(Requests(catalogue('tiny', 'big')))
    assert question.answers(lambda one: 7, np.ones(2, bool)).tolist() == 7
