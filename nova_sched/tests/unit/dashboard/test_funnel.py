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

"""The drawings of a decision."""

import pytest

from nova_sched.dashboard.funnel import THIN, WIDTH, funnel, stacks


def step(name, seen, left):
    return {'filter': name, 'seen': seen, 'left': left}


def candidate(host, *weights, alternates=()):
    named = [{'weigher': f'W{number}', 'weight': weight} for number, weight in enumerate(weights)]
    total = sum(weight or 0 for weight in weights)
    return {'host': host, 'weight': total, 'weights': named, 'alternates': list(alternates)}


def test_a_funnel():
    found = funnel({'hosts': 1000, 'filters': [step('A', 1000, 1000), step('B', 1000, 1)]})
    assert found['idle'] == ['A']
    (one,) = found['steps']
    assert (one['gone'], one['seen_width'], one['left_width']) == (999, WIDTH, THIN)


def test_the_last_host_has_no_bar():
    (one,) = funnel({'hosts': 2, 'filters': [step('A', 2, 0)]})['steps']
    assert one['left_width'] == 0


@pytest.mark.parametrize('placed', [[], [{'host': 'a', 'alternates': []}]], ids=['none', 'alone'])
def test_nothing_was_weighed(placed):
    assert stacks(placed) is None


def test_stacks():
    found = stacks([candidate('a', 1.0, -1.0, alternates=[candidate('b', 0.5, None)])])
    best, other = found['rows']
    assert found['zero'] == WIDTH / 2
    assert [(bar['x'], bar['width']) for bar in best['bars']] == [(500, 500), (0, 500)]
    assert [(bar['x'], bar['width']) for bar in other['bars']] == [(500, 250)]
    assert [name for name, _ in found['legend']] == ['W0', 'W1']


def test_weights_of_zero():
    assert stacks([candidate('a', 0.0)])['rows'][0]['bars'] == []
