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
from hypothesis import given, settings
from hypothesis import strategies as st

from nova_sched.extensions.queues.requests import NO_INSTANCE, Question, Requests, fact
from nova_sched.state.facts import fact_of
from nova_sched.state.request import Request
from nova_sched.tests.cases import cases
from nova_sched.tests.rows import each
from nova_sched.tests.unit.extensions.queues.catalogues import (
    FLAVORS,
    SPECIALS,
    catalogue,
    catalogues,
    flavor,
)

WHOLE = catalogue(*FLAVORS, specials=SPECIALS)
FIELDS = {field.name for field in dataclasses.fields(Request)} - {'spec', 'instance_uuid'}
WORDS = sorted(
    FIELDS | {'resource_classes', 'resources:VCPU', 'resources:CUSTOM_GOLD', 'resources:VGPU'}
)


@each('place', range(len(WHOLE.queues)))
@each('with_message', [False, True])
def test_each_fact_is_that_of_the_request_of_the_queue(place, with_message):
    queue = WHOLE.queues[place]
    request, asked = WHOLE.request(queue), Requests(WHOLE).request(place, with_message)
    for name in FIELDS:
        found = fact(WHOLE, queue.flavor, queue.special, name)
        own = getattr(request, name)
        assert (
            (found.key, asked.pieces.key) == (own.key,) * 2
            if name == 'pieces'
            else found == own == getattr(asked, name)
        ), name
    assert asked.instance_uuid == NO_INSTANCE
    assert (asked.spec is not None) is with_message


@given(catalogues, st.frozensets(st.sampled_from(WORDS), max_size=3))
@settings(max_examples=cases(40))
def test_queues_of_one_kind_are_equal_in_its_facts(found, facts):
    kinds = Requests(found).kinds(facts)
    seen = {}
    for place, queue in enumerate(found.queues):
        kind = 0 if kinds.of is None else int(kinds.of[place])
        request = found.request(queue)
        values = [fact_of(request, name) for name in sorted(facts)]
        assert seen.setdefault(kind, values) == values
    assert len(seen) == (len(kinds) if found.queues else 0)


def test_queues_that_differ_elsewhere_are_of_one_kind():
    found = catalogue(
        *(flavor(f'f{number}', 1 + number % 2) for number in range(6)),
        specials=['zone:a', 'trait:HW_A'],
    )
    requests = Requests(found)
    sizes = {
        facts: len(requests.kinds(None if facts == '*' else frozenset(facts.split())))
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


def test_a_question_that_needs_more_as_it_goes():
    found = catalogue('tiny', flavor('big', 4), specials=['zone:a', 'zone:b'])
    question, asked = Question(Requests(found)), []

    def needs(one):
        return ('vcpus',) if one.vcpus == 1 else ('vcpus', 'availability_zone')

    def answer(one):
        asked.append(one)
        return 1 if one.vcpus == 1 else 2 + (one.availability_zone == 'b')

    everything = np.ones(len(found.queues), bool)
    assert question.answers(answer, needs, everything).tolist() == [1, 1, 1, 2, 2, 3]
    asked.clear()
    assert question.answers(answer, needs, everything).tolist() == [1, 1, 1, 2, 2, 3]
    assert len(asked) == 6
    some = np.array([True, False, False, False, False, True])
    assert question.answers(answer, needs, some)[some].tolist() == [1, 3]


def test_a_question_that_needs_everything_gets_the_message():
    found = catalogue('tiny', flavor('big', 4), specials=['zone:a'])
    answers = Question(Requests(found)).answers(
        lambda one: one.spec.flavor.vcpus, lambda one: None, np.ones(4, bool)
    )
    assert answers.tolist() == [1, 1, 4, 4]


def test_a_question_about_nothing_has_one_answer():
    question = Question(Requests(catalogue('tiny', 'big')))
    assert question.answers(lambda one: 7, lambda one: (), np.ones(2, bool)).tolist() == 7
