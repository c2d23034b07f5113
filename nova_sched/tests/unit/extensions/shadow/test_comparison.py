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
"""A decision of the shadow, compared with what the cloud did."""

import dataclasses
import json

import pytest

from nova_sched.extensions.shadow.choices import PLACED, REFUSED, UNKNOWN, Choice
from nova_sched.extensions.shadow.comparison import OUTCOMES, ShadowDecision, compared, moment
from nova_sched.tests.builders import NOW, report, request, uuid_of
from nova_sched.tests.unit.engine.world import Named, Score, World, rules

A, B, C = (uuid_of(name) for name in 'abc')


def node(host):
    return uuid_of(f'node {host}')


def standings():
    """host-0 is removed by a filter; host-1 is best, host-2 is the next, host-3 the last."""
    made = World(chain=rules([Named('host-1', 'host-2', 'host-3')], [Score(9, 8, 7, 1)]))
    made.report(*(report(f'host-{row}') for row in range(4)))
    return made.call(made.scheduler.questions.standings, request())


def decision(*hosts, instances=(A,), **words):
    """Of these hosts; a refusal without any."""
    known = {
        'request_id': 'req-1',
        'project_id': 'project',
        'flavor': 'small',
        'instances': instances,
        'ignored': frozenset(),
        'is_check': False,
        'time_s': NOW,
        'took_s': 0.0021,
        'chosen': tuple((node(host), host) for host in hosts),
        'reason': None if hosts else 'There are not enough hosts available.',
        'standings': standings(),
    }
    return ShadowDecision(**{**known, **words})


def placed(host):
    return Choice(PLACED, node(host), host)


def server(found):
    (one,) = found['servers']
    return {name: value for name, value in one.items() if name != 'instance_uuid'}


# Hosts of the shadow, the choice of the cloud, and what the comparison says.
SERVERS = {
    'same host': (['host-1'], placed('host-1'), {'outcome': 'same'}),
    'a worse host': (
        ['host-1'],
        placed('host-3'),
        {'outcome': 'passed', 'rank': 3, 'of': 3, 'weigher': 'Score', 'lead': 1.0},
    ),
    'the shadow has taken the second best': (
        ['host-2'],
        placed('host-1'),
        {'outcome': 'among_best', 'rank': 1, 'of': 3},
    ),
    'a host that a filter removes': (
        ['host-1'],
        placed('host-0'),
        {'outcome': 'filtered', 'filter': 'Named'},
    ),
    'a host that is left out': (
        ['host-1'],
        placed('host-9'),
        {'outcome': 'left_out', 'why': 'no inventory'},
    ),
    'an unknown host': (
        ['host-1'],
        placed('host-8'),
        {'outcome': 'left_out', 'why': 'its node was not known'},
    ),
    'refused': (['host-1'], Choice(REFUSED), {'outcome': 'cloud_refused'}),
    'refused by both': ([], Choice(REFUSED), {'outcome': 'both_refused'}),
    'refused by the shadow': (
        [],
        placed('host-0'),
        {'outcome': 'shadow_refused', 'filter': 'Named'},
    ),
    'refused by the shadow, and gone': (
        [],
        Choice(PLACED, None, 'host-1'),
        {'outcome': 'shadow_refused'},
    ),
    'same host, which the server has left': (
        ['host-1'],
        Choice(PLACED, None, 'host-1'),
        {'outcome': 'same'},
    ),
    'unknown': (['host-1'], Choice(UNKNOWN), {'outcome': 'not_known'}),
    'not found in time': (['host-1'], None, {'outcome': 'not_known'}),
}


def test_one_server():
    found, calls, lines = {}, {}, {}
    for name, (ours, cloud, _) in SERVERS.items():
        choices = {} if cloud is None else {A: cloud}
        line = compared(decision(*ours), choices, {'host-9': 'no inventory'})
        found[name], calls[name], lines[name] = server(line), line['outcome'], line
    assert found == {
        name: {'shadow': ours[0] if ours else None, 'cloud': cloud and cloud.host, **expected}
        for name, (ours, cloud, expected) in SERVERS.items()
    }
    assert calls == {name: expected['outcome'] for name, (*_, expected) in SERVERS.items()}
    assert json.loads(json.dumps(lines)) == lines


def test_a_host_that_is_left_out_since_it_was_known():
    found = compared(decision('host-1'), {A: placed('host-0')}, {'host-0': 'no mapping'})
    assert server(found)['outcome'] == 'left_out'


def test_a_node_without_a_known_host_has_its_uuid():
    found = compared(decision('host-1'), {A: Choice(PLACED, node('host-8'))}, {})
    assert server(found)['cloud'] == node('host-8')


def test_the_best_are_as_many_as_the_scheduler_chooses_from():
    found = compared(decision('host-1', best=2), {A: placed('host-2')}, {})
    assert found['outcome'] == 'among_best'


def test_without_standings_nothing_is_said_of_another_host():
    found = compared(decision('host-1', standings=None), {A: placed('host-2')}, {})
    assert found['outcome'] == 'not_known'


@pytest.mark.parametrize(
    'ours, cloud, outcomes',
    [
        pytest.param('1 2', '2 1', ['same', 'same'], id='in another order'),
        pytest.param('1 1', '1 2', ['same', 'passed'], id='one differs'),
        pytest.param('1 1', '1 1', ['same', 'same'], id='twice the same'),
        pytest.param('1 2', '0 1', ['filtered', 'same'], id='the first differs'),
    ],
)
def test_servers_of_one_call_are_alike(ours, cloud, outcomes):
    made = decision(*(f'host-{name}' for name in ours.split()), instances=(A, B))
    choices = {
        uuid: placed(f'host-{name}') for uuid, name in zip((A, B), cloud.split(), strict=True)
    }
    found = compared(made, choices, {})
    assert [one['outcome'] for one in found['servers']] == outcomes
    assert found['outcome'] == max(outcomes, key=OUTCOMES.index)


def test_the_line_of_a_call():
    made = decision('host-1', unreadable=('Cell x',))
    found = compared(made, {A: placed('host-1')}, {})
    del found['servers']
    assert found == {
        'time': moment(NOW),
        'request_id': 'req-1',
        'project_id': 'project',
        'flavor': 'small',
        'outcome': 'same',
        'took_ms': 2.1,
        'reason': None,
        'unreadable': ['Cell x'],
    }
    whole = dataclasses.replace(made, unreadable=())
    assert 'unreadable' not in compared(whole, {}, {})
