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
"""Facts of a request as values, and the cache of answers."""

import numpy as np

from nova_sched.state.facts import CLAIMED, EVERYTHING, NOTHING, AnswerCache, HostFacts, fact_of
from nova_sched.tests.builders import request
from nova_sched.tests.rows import table


@table(
    'name, one, other',
    {
        'a number': ('vcpus', {'vcpus': 1}, {'vcpus': 2}),
        'a mapping': ('extra_specs', {'extra_specs': {'a': '1'}}, {'extra_specs': {'a': '2'}}),
        'one amount': ('resources:VCPU', {'vcpus': 1}, {'vcpus': 2}),
        'the classes': ('resource_classes', {}, {'extra_specs': {'resources:VGPU': '1'}}),
        'hardware': (
            'pieces',
            {},
            {'extra_specs': {'hw:cpu_policy': 'dedicated', 'hw:cpu_thread_policy': 'require'}},
        ),
    },
)
def test_equal_facts_are_equal_values(name, one, other):
    found, same, different = (fact_of(request(**words), name) for words in (one, one, other))
    assert found == same != different
    assert len({found, same, different}) == 2


def test_an_amount_that_is_not_asked_for_is_0():
    assert fact_of(request(), 'resources:CUSTOM_GOLD') == 0


def test_everything_is_all_that_there_is():
    assert all(fact in EVERYTHING and not fact & NOTHING for fact in HostFacts)
    assert EVERYTHING & CLAIMED == CLAIMED


def test_answers_are_cached_until_facts_change():
    cache, asked = AnswerCache(most=2), []

    def ask():
        asked.append(1)
        return np.zeros(2)

    first = cache.get('a', ask)
    assert cache.get('a', ask) is first
    assert not first.flags.writeable
    cache.get('b', ask)
    cache.get('a', ask)
    cache.get('c', ask)  # in place of b, which was used least recently
    assert (len(cache), len(asked)) == (2, 3)
    assert cache.get('a', ask) is first
    cache.forget()
    assert cache.get('a', ask) is not first
