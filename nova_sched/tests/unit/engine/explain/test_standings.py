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
"""How each node stood when a request was decided."""

import numpy as np
import pytest

from nova_sched.engine.explain.standings import Standing
from nova_sched.tests.builders import report, request, uuid_of
from nova_sched.tests.rows import each
from nova_sched.tests.unit.engine.world import Named, Score, World, picture, rules


def node(host):
    return uuid_of(f'node {host}')


def standings(filters=(), weighers=(), hosts=4, **asked):
    """The Standings of these hosts; and that the question changed nothing."""
    made = World(chain=rules(filters, weighers))
    made.report(*(report(f'host-{row}') for row in range(hosts)))
    before = picture(made.cluster)
    found = made.call(made.scheduler.questions.standings, request(**asked))
    assert picture(made.cluster) == before
    return found


@each(
    'host, standing',
    [
        pytest.param('host-0', Standing('ignore_hosts'), id='left out by the request'),
        pytest.param('host-1', Standing('Second'), id='removed by a filter'),
        pytest.param('host-2', Standing(rank=2, of=2), id='passes'),
        pytest.param('host-3', Standing(rank=1, of=2), id='best'),
        pytest.param('host-9', None, id='unknown'),
    ],
)
def test_a_node(host, standing):
    chain = [Named('host-1', 'host-2', 'host-3'), Named('host-2', 'host-3', name='Second')]
    found = standings(chain, [Score(9, 9, 1, 2)], ignore_hosts=frozenset(['host-0']))
    assert found.of(node(host)) == standing


def test_equal_nodes_have_the_same_rank():
    found = standings((), [Score(5, 7, 7, 1)])
    assert [found.of(node(f'host-{row}')).rank for row in range(4)] == [3, 1, 1, 4]


def test_after_the_last_host_no_filter_is_asked():
    after = Named('host-0', name='After')
    found = standings([Named(), after])
    assert {found.of(node(f'host-{row}')).filter for row in range(4)} == {'Named'}
    assert after.asked == 0


class Disk(Score):
    """Another weigher."""


@each(
    'better, worse, found',
    [
        pytest.param('host-3', 'host-1', ('Score', 2.0), id='the one that prefers it most'),
        pytest.param('host-1', 'host-3', ('Disk', 1.0), id='the other way round'),
        pytest.param('host-1', 'host-1', None, id='the same node'),
        pytest.param('host-3', 'host-0', None, id='a node that did not pass'),
        pytest.param('host-9', 'host-3', None, id='an unknown node'),
    ],
)
def test_what_makes_the_difference(better, worse, found):
    weighers = [Score(0, 0, 1, 4, multiplier=2.0), Disk(0, 1, 0, 0)]
    made = standings([Named('host-1', 'host-2', 'host-3')], weighers)
    assert made.decisive(node(better), node(worse)) == found


def test_a_weigher_to_which_all_are_equal_is_not_kept():
    found = standings((), [Score(3, 3, 3, 3), Disk(1, 2, 3, 4)])
    assert list(found.parts) == ['Disk']
    assert found.parts['Disk'].dtype == np.float32
