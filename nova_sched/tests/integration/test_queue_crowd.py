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
"""A crowd at the queues, as small as it can be, with two kills and a restart of the broker; and
its audit."""

import collections
import inspect
import json

import pytest
import sqlalchemy as sa

from nova_sched.extensions.queues.drivers import fake
from nova_sched.extensions.queues.manager import fallback, upkeep
from nova_sched.extensions.queues.node import work
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.cases import ONLY_THOROUGH
from nova_sched.tests.functional.test_agent import conf
from nova_sched.tests.integration import audit, audit_queues, queue_crowd, queue_figures, stage

__all__ = ['conf']
A, B = map(uuid_of, 'ab')


@pytest.mark.timeout(600)
@pytest.mark.parametrize('database', ['postgresql', pytest.param('mariadb', marks=ONLY_THOROUGH)])
def test_servers_come_and_go_while_workers_die(conf, database, request, rabbitmq, tmp_path):
    plan = queue_crowd.Plan(
        10, 300, processes=2, callers=12, kills=2, pause_s=4.0, quiet_s=16.0, fallback_after_s=5
    )
    url = stage.upgraded(request.getfixturevalue(database))
    figures, wrong = queue_crowd.run(plan, tmp_path, rabbitmq, url, tell=lambda *_: None)
    assert {about: found for about, found in wrong.items() if found} == {}
    assert (figures['processes killed'], figures['broker restarts']) == (
        '2, with 5 workers each',
        1,
    )
    assert figures['servers at the end'] > 10
    find_what_is_spoiled(url, tmp_path)


# What gets worse, and by what: :one to :four are servers, :there is the node of :two, and not that
# of :one.
SPOILS = [
    ('quotas', "UPDATE quota_usage SET used = '{}' WHERE project_id = :project"),
    (
        'jobs',
        (
            "INSERT INTO settled_jobs SELECT uuid, 'queued', "
            'state FROM jobs WHERE instance_uuid = :one'
        ),
    ),
    ('jobs', "UPDATE jobs SET state = 'queued' WHERE instance_uuid = :three"),
    ('quotas', 'DELETE FROM quota_holds WHERE instance_uuid = :one'),
    ('nodes', "UPDATE nodes SET used = '{}' WHERE uuid = :there"),
    ('nodes', """UPDATE claims SET resources = '{"VCPU": 17}' WHERE consumer_uuid = :one"""),
    ('claims', "UPDATE claims SET state = 'pending' WHERE consumer_uuid = :one"),
    ('lists', 'UPDATE claims SET node_uuid = :there WHERE consumer_uuid = :one'),
    ('claims', 'DELETE FROM claims WHERE consumer_uuid = :two'),
    ('answers', "UPDATE jobs SET state = 'failed' WHERE instance_uuid = :four"),
]


def find_what_is_spoiled(database, home):
    """Spoil what a crowd has left bit by bit: the audit, which has found nothing, finds each of
    them."""
    (claims,) = audit.rows(database, 'claims')
    one, *others = claims
    two = next(claim for claim in others if claim['node_uuid'] != one['node_uuid'])
    three, four = [claim for claim in others if claim is not two][:2]
    facts = {'one': one, 'two': two, 'three': three, 'four': four}
    facts = {name: claim['consumer_uuid'] for name, claim in facts.items()}
    facts |= {'there': two['node_uuid'], 'project': one['project_id']}
    engine = sa.create_engine(database, poolclass=sa.NullPool)
    before = collections.Counter()
    for about, statement in SPOILS:
        with engine.begin() as session:
            spoil = sa.text(statement)
            session.execute(spoil, {name: facts[name] for name in spoil.compile().params})
        wrong = queue_crowd.audited(database, home, {})
        found = collections.Counter({about: len(faults) for about, faults in wrong.items()})
        assert found[about] > before[about], statement
        before = found


@pytest.mark.parametrize('words', [words for _, words in queue_figures.SAID.values()])
def test_what_is_counted_in_logs_is_what_is_said(words):
    sources = [inspect.getsource(one) for one in (fake, fallback, upkeep, work)]
    assert any(words in source for source in sources)


def job(kind='create', instance=A, state='done', created_s=1.0, source=None):
    message = json.dumps({'nova_object.data': {'source': source}})
    return {
        'uuid': uuid_of(f'{kind} {instance} {created_s}'),
        'kind': kind,
        'instance_uuid': instance,
        'project_id': 'p',
        'state': state,
        'created_s': created_s,
        'message': message,
    }


DELETE = job('delete', created_s=2.0)


@pytest.mark.parametrize(
    'jobs, there',
    [
        pytest.param([job()], {A: 'p'}, id='created'),
        pytest.param([job(), DELETE], {}, id='deleted'),
        pytest.param([DELETE, job()], {}, id='in any order'),
        pytest.param(
            [job(), job('delete', state='failed', created_s=2.0)], {A: 'p'}, id='not deleted'
        ),
        pytest.param(
            [job(), job('delete', source='here', created_s=2.0)], {A: 'p'}, id='left a host'
        ),
        pytest.param([job(state='failed')], {}, id='failed'),
        pytest.param([job(), DELETE, job(created_s=3.0)], {A: 'p'}, id='created again'),
    ],
)
def test_which_servers_are_there(jobs, there):
    assert audit_queues.alive(jobs) == there


def settled(*changes):
    return [
        {'uuid': job()['uuid'], 'before_state': before, 'after_state': after}
        for before, after in changes
    ]


DONE = 'queued', 'done'
HERE = (A, 'here', 'confirmed')


def usage(**used):
    return [{'project_id': 'p', 'used': json.dumps(used)}]


def hold(instance=A, **amounts):
    return [{'instance_uuid': instance, 'project_id': 'p', 'amounts': json.dumps(amounts)}]


CLAIM = [{'consumer_uuid': A, 'resources': json.dumps({'VCPU': 1})}]
SIZE = {'servers': 1, 'class:VCPU': 1}
TOLD = {'uuid': A, 'created': 'here', 'deleted': False}


@pytest.mark.parametrize(
    'found, words',
    [
        pytest.param(audit_queues.unsettled([job()], settled(DONE)), None, id='settled once'),
        pytest.param(
            audit_queues.unsettled([job()], settled(DONE, DONE)), 'its changes', id='settled twice'
        ),
        pytest.param(
            audit_queues.unsettled([job(state='queued')], []), 'is queued', id='not settled'
        ),
        pytest.param(
            audit_queues.unsettled([], settled(DONE)), 'is not there', id='settled, unknown'
        ),
        pytest.param(audit_queues.misplaced({A: 'p'}, [HERE]), None, id='one claim'),
        pytest.param(audit_queues.misplaced({A: 'p'}, []), 'its claims are []', id='no claim'),
        pytest.param(
            audit_queues.misplaced({A: 'p'}, [HERE, (A, 'there', 'confirmed')]),
            'there',
            id='two claims',
        ),
        pytest.param(
            audit_queues.misplaced({A: 'p'}, [(A, 'here', 'pending')]), 'pending', id='unconfirmed'
        ),
        pytest.param(audit_queues.misplaced({}, [HERE]), 'does not run', id='a claim of none'),
        pytest.param(audit_queues.unlisted([HERE], {'here': {A: False}}), None, id='in the list'),
        pytest.param(audit_queues.unlisted([HERE], {'here': {A: True}}), 'is hidden', id='hidden'),
        pytest.param(
            audit_queues.unlisted([HERE], {'here': {}}), 'not in its list', id='not in the list'
        ),
        pytest.param(
            audit_queues.unlisted([], {'here': {A: False}}), 'no claim there', id='unclaimed'
        ),
        pytest.param(
            audit_queues.uncounted({A: 'p'}, CLAIM, usage(**SIZE), hold(**SIZE)),
            None,
            id='counted',
        ),
        pytest.param(audit_queues.uncounted({}, [], usage(), []), None, id='nothing to count'),
        pytest.param(
            audit_queues.uncounted({}, [], usage(servers=1), []), 'p has {}', id='use of none'
        ),
        pytest.param(
            audit_queues.uncounted({}, [], [], hold(servers=1)), 'is held', id='a hold of none'
        ),
        pytest.param(
            audit_queues.uncounted({A: 'p'}, CLAIM, usage(servers=1), hold(**SIZE)),
            'is counted',
            id='less',
        ),
        pytest.param(audit_queues.untrue({A: 'p'}, [HERE], [TOLD]), None, id='told so'),
        pytest.param(
            audit_queues.untrue({A: 'p'}, [HERE], [TOLD | {'created': 'there'}]),
            'is on',
            id='told elsewhere',
        ),
        pytest.param(
            audit_queues.untrue({A: 'p'}, [HERE], [TOLD | {'deleted': True}]),
            'runs: True',
            id='told gone',
        ),
        pytest.param(audit_queues.untrue({}, [], [TOLD]), 'runs: False', id='told there'),
        pytest.param(
            audit_queues.untrue({A: 'p'}, [HERE], []), 'without a request', id='of nobody'
        ),
    ],
)
def test_what_the_audit_finds(found, words):
    found = list(found)
    assert bool(found) == bool(words)
    assert all(words in one for one in found[:1])
