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
"""`rebalance run`, `list`, `show` and `stop`, from a plan to what the store has."""

import json
import re

import pytest

from nova_sched import errors
from nova_sched.db.rebalances import REFUSED, SqlRebalances
from nova_sched.extensions.optimize import rebalance_verbs as rebalance
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.rows import each

ONE = {name: uuid_of(name) for name in ('server', 'source', 'destination')}
TWO = {**ONE, 'server': uuid_of('another server')}


@pytest.fixture
def run(manage, database, tmp_path):
    """``run('rebalance list', ...)`` on this database."""

    def run(words, *more):
        return manage(
            words, *more, config=f'[database]\nconnection = sqlite:///{tmp_path}/db.sqlite\n'
        )

    return run


@pytest.fixture
def plan(tmp_path):
    """A function that writes a plan of these moves; its path."""

    def write(*moves, **more):
        path = tmp_path / 'plan.json'
        path.write_text(json.dumps({'moves': moves, **more}))
        return str(path)

    return write


def test_a_rebalance_from_its_plan_to_its_end(run, plan, database):
    status, out, _ = run('rebalance run', plan(ONE, {**TWO, 'host': 'a'}, goal='empty'),
                         '--format', 'json')  # fmt: skip
    shown = json.loads(out)
    assert status == 0
    assert (shown['state'], shown['moves']['waiting'], shown['periodic']) == ('running', 2, False)
    assert {one['server'] for one in shown['plan']} == {ONE['server'], TWO['server']}
    uuid = shown['rebalance_uuid']
    rebalances = SqlRebalances(database)
    assert rebalances.end(rebalances.take(1), REFUSED, 'it is gone')
    status, out, _ = run('rebalance stop', uuid)
    assert (status, 'stopped' in out, 'it is gone' in out) == (0, True, True)
    status, out, _ = run('rebalance list')
    assert (status, uuid in out, 'a plan' in out) == (0, True, True)
    assert run('rebalance show', uuid)[0] == 0


def test_the_age_of_a_rebalance_is_by_the_clock_of_the_database(run, plan, an_hour_ahead):
    run('rebalance run', plan(ONE))
    assert re.search(r'\d+ s ago', run('rebalance list').out)


def test_a_goal_in_place_of_a_plan(run, monkeypatch):
    answer = {'moves': [{**ONE, 'source_host': 'a', 'destination_host': 'b'}]}
    monkeypatch.setattr(rebalance, 'planned', lambda args, conf: answer)
    status, out, _ = run('rebalance run', '--goal', 'drain:a', '--format', 'json')
    shown = json.loads(out)
    assert (status, shown['goal'], len(shown['plan'])) == (0, 'drain:a', 1)


@pytest.mark.parametrize(
    'account, told',
    [
        ('', '[nova_api] auth_type: it is not set'),
        ('[nova_api]\nauth_section = placement\n', None),
    ],
    ids=['no account', 'an account'],
)
def test_a_nova_cloud(manage, database, tmp_path, plan, account, told):
    connection = f'connection = sqlite:///{tmp_path}/db.sqlite\n'
    config = (
        f'[claims]\n{connection}[api_database]\nconnection = sqlite:///{tmp_path}/nova.sqlite\n'
    )
    status, _, err = manage('rebalance run', plan(ONE), config=config + account)
    assert (status, told is None or told in err) == (0 if told is None else 1, True), err
    assert len(SqlRebalances(database).list()) == (told is None)


def test_what_does_not_fit_together(run):
    for words in (), ('plan.json', '--goal', 'empty'):
        status, _, err = run('rebalance run', *words)
        assert (status, 'give either PLAN or --goal' in err) == (1, True)
    for verb in ('show', 'stop'):
        status, _, err = run(f'rebalance {verb}', uuid_of('none'))
        assert (status, 'There is no rebalance' in err) == (1, True)


@each(
    'text, told',
    [
        (None, 'cannot be read'),
        ('{', 'is not JSON'),
        ('[' * 100_000, 'is not JSON'),
        ('[]', "no list 'moves'"),
        ('{"moves": {}}', "no list 'moves'"),
        ('{"moves": [1]}', r'moves\[0\]: 1 is not an object'),
        (json.dumps({'moves': [ONE, {}]}), r'moves\[1\].server'),
        (json.dumps({'moves': [ONE, ONE]}), 'an earlier move'),
        (json.dumps({'moves': [ONE | {'source': ONE['destination']}]}), 'is its destination'),
    ],
)
def test_a_plan_that_makes_no_sense(tmp_path, text, told):
    path = tmp_path / 'plan'
    if text is not None:
        path.write_text(text)
    with pytest.raises(errors.InvalidRequest, match=told):
        rebalance.read(str(path))
