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
"""ExclusiveDomain."""

import numpy as np
import pytest

from nova_sched.filters.exclusive_domain import ExclusiveDomain
from nova_sched.tests.builders import cluster, request
from nova_sched.tests.rows import each


def with_tokens(*fences):
    """Hosts with these tokens, each as a string of letters."""
    made = cluster(len(fences))
    for node, tokens in zip(list(made), fences, strict=True):
        made.set_tokens(node, frozenset(tokens))
    return made.hosts


@each(
    'own, fences, mask',
    [
        pytest.param('', ['', 'a', ''], [True, False, True], id='an outsider'),
        pytest.param('a', ['', 'a', 'b'], [True, True, False], id='a member'),
        pytest.param('a', ['ab', 'a'], [False, True], id='of one policy, where there are two'),
        pytest.param('abc', ['ab', 'c'], [True, True], id='of more policies'),
    ],
)
def test_the_mask(own, fences, mask):
    found = ExclusiveDomain().mask(with_tokens(*fences), request(fences=frozenset(own)))
    assert found.tolist() == mask


def test_without_fences_there_is_no_opinion():
    assert ExclusiveDomain().mask(with_tokens('', ''), request()) is True


def test_what_was_a_fence_is_none_any_more():
    made = cluster(1)
    (node,) = made
    made.set_tokens(node, frozenset('a'))
    made.set_tokens(node, frozenset())
    assert np.all(ExclusiveDomain().mask(made.hosts, request()))


def test_why():
    hosts = with_tokens('a', 'a')
    assert ExclusiveDomain().why(hosts, request(), np.array([0])) == 'it is kept for another group'
    assert (
        ExclusiveDomain().why(hosts, request(), np.array([0, 1]))
        == 'all are kept for another group'
    )
