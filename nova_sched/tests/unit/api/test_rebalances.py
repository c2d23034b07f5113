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
"""Plans of moves, and rebalances, over HTTP."""

import pytest

from nova_sched import errors
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.unit.api.backend import PLAN, PLANNED
from nova_sched.tests.unit.api.callers import ADMIN, RED

PATH, PLANS = '/v1/rebalances', '/v1/rebalance/plan'
FIRST = f'{PATH}/{uuid_of("first")}'


def error_of(answer):
    return answer.json['errors'][0]


def test_a_plan(http, planner):
    asked = {'goal': 'drain:rack=r1,b', 'moves': '1.5%', 'zone': 'az', 'aggregate': None}
    answer = http.post(PLANS, json=asked, headers=ADMIN)
    assert (answer.status_code, answer.json) == (200, {'goal': asked['goal'], **PLAN})
    assert planner.calls == [asked]


def test_a_goal_alone(http, planner):
    assert http.post(PLANS, json={'goal': 'empty'}, headers=ADMIN).status_code == 200
    assert planner.calls == [{'goal': 'empty', 'moves': None, 'zone': None, 'aggregate': None}]


@pytest.mark.parametrize(
    'more, thorough_s',
    [
        ({'thorough': True}, 60),
        ({'thorough': True, 'time_limit': 5}, 5),
        ({'time_limit': 5}, None),
    ],
)
def test_a_thorough_plan(http, planner, more, thorough_s):
    assert http.post(PLANS, json={'goal': 'empty', **more}, headers=ADMIN).status_code == 200
    assert planner.calls[0].get('thorough_s') == thorough_s


BAD_PLANS = {
    'too long a search': ({'goal': 'empty', 'time_limit': 601}, 'time_limit'),
    'no goal': ({}, 'body'),
    'no such goal': ({'goal': 'full'}, 'goal'),
    'no name': ({'goal': 'drain:'}, 'goal'),
    'a name of blanks': ({'goal': 'drain: '}, 'goal'),
    'two flavors': ({'goal': 'fit:a,b'}, 'goal'),
    'no move': ({'goal': 'empty', 'moves': 0}, 'moves'),
    'no share': ({'goal': 'empty', 'moves': '0%'}, 'moves'),
    'a part of a move': ({'goal': 'empty', 'moves': 1.5}, 'moves'),
    'no zone': ({'goal': 'empty', 'zone': ''}, 'zone'),
    'an unknown key': ({'goal': 'empty', 'hosts': []}, 'body'),
}


def test_plans_that_make_no_sense(http):
    found, expected = {}, {}
    for name, (body, where) in BAD_PLANS.items():
        answer = http.post(PLANS, json=body, headers=ADMIN)
        found[name] = answer.status_code, error_of(answer)['code'], error_of(answer)['where']
        expected[name] = 400, 'nova_sched.invalid', where
    assert found == expected


def test_hosts_that_come_and_go_while_a_plan_is_made(http, planner):
    planner.refusal = errors.Outdated('The plan of moves', 'hosts came and went')
    answer = http.post(PLANS, json={'goal': 'empty'}, headers=ADMIN)
    assert (answer.status_code, error_of(answer)['code']) == (503, 'nova_sched.busy')
    assert 'hosts came and went' in error_of(answer)['detail']
    assert answer.headers['Retry-After']


def test_pages(http):
    answer = http.get(f'{PATH}?limit=3', headers=ADMIN).json
    uuids = [one['uuid'] for one in answer['rebalances']]
    assert uuids == [uuid_of('first'), uuid_of('second'), uuid_of('third')]
    assert 'plan' not in answer['rebalances'][0]
    (link,) = answer['links']
    last = http.get(link['href'].partition('localhost')[2], headers=ADMIN).json
    assert [one['uuid'] for one in last['rebalances']] == [uuid_of('fourth')]
    assert last['links'] == []


def test_a_marker_that_is_not_known(http):
    answer = http.get(f'{PATH}?marker={uuid_of("none")}', headers=ADMIN)
    assert (answer.status_code, error_of(answer)['where']) == (400, 'marker')


def test_a_rebalance(http):
    answer = http.get(FIRST, headers=ADMIN)
    assert answer.status_code == 200
    assert answer.json == {
        'uuid': uuid_of('first'),
        'goal': None,
        'periodic': False,
        'state': 'running',
        'moves': {'waiting': 1},
        'created_at': '2026-11-21T12:00:00Z',
        'stopped_at': None,
        'plan': [
            {
                'uuid': uuid_of('move 0'),
                **PLANNED,
                'state': 'waiting',
                'why': None,
                'started_at': None,
                'changed_at': '2026-11-21T12:00:00Z',
            }
        ],
        'links': [{'rel': 'self', 'href': f'http://localhost{FIRST}'}],
    }


def test_a_plan_is_carried_out(http, rebalances):
    answer = http.post(PATH, json={**PLAN, 'close': 60}, headers=ADMIN)
    assert answer.status_code == 201
    uuid = answer.json['uuid']
    assert answer.headers['Location'] == f'http://localhost{PATH}/{uuid}'
    assert list(rebalances.rows)[-1] == uuid
    assert [one['server'] for one in answer.json['plan']] == [PLANNED['server']]


BAD_MOVES = {
    'no moves': ({}, 'body'),
    'no move': ({'moves': [1]}, 'moves.0'),
    'no UUID': ({'moves': [{**PLANNED, 'server': 'a'}]}, 'moves.0.server'),
    'twice': ({'moves': [PLANNED, PLANNED]}, 'moves[1]'),
    'nowhere': ({'moves': [{**PLANNED, 'source': PLANNED['destination']}]}, 'moves[0]'),
    'no time': ({'moves': [], 'close': 0}, 'close'),
}


def test_moves_that_make_no_sense(http, rebalances):
    found = {}
    for name, (body, _) in BAD_MOVES.items():
        answer = http.post(PATH, json=body, headers=ADMIN)
        found[name] = answer.status_code, error_of(answer)['where']
    assert found == {name: (400, where) for name, (_, where) in BAD_MOVES.items()}
    assert len(rebalances.rows) == 4


def test_a_rebalance_is_stopped(http):
    answer = http.post(f'{FIRST}/stop', headers=ADMIN)
    assert (answer.status_code, answer.json['state']) == (200, 'stopped')
    assert answer.json['stopped_at'] == '2026-11-21T12:01:00Z'


@pytest.mark.parametrize('method, end', [('GET', ''), ('POST', '/stop')])
def test_a_rebalance_that_is_not_there(http, method, end):
    answer = http.open(f'{PATH}/{uuid_of("none")}{end}', method=method, headers=ADMIN)
    assert (answer.status_code, error_of(answer)['code']) == (404, 'nova_sched.not-found')


def test_no_tenant_moves_servers(http, planner, rebalances):
    for method, path, body in (
        ('POST', PLANS, {'goal': 'empty'}),
        ('GET', PATH, None),
        ('POST', PATH, PLAN),
        ('GET', FIRST, None),
        ('POST', f'{FIRST}/stop', None),
    ):
        answer = http.open(path, method=method, json=body, headers=RED)
        assert (answer.status_code, error_of(answer)['code']) == (403, 'nova_sched.forbidden')
    assert planner.calls == []
    assert len(rebalances.rows) == 4
