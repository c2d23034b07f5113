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
"""A member of one project calls every operation of the REST API, with all that it may send.

Operations and parameters are those of the OpenAPI document, so that a new one is called too.
"""

import itertools
import json

import pytest
from werkzeug.test import Client

from nova_sched.api.document import OPERATIONS, resolved
from nova_sched.db import engine as db_engine
from nova_sched.db.jobs import SqlJobTable
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import spec
from nova_sched.tests.functional.test_api import serving, template
from nova_sched.tests.unit.api.backend import Backend, Manager, group
from nova_sched.tests.unit.api.callers import ADMIN, BLUE, configuration, rest

EVIL = {'X-Auth-Token': 'eve:evil', 'If-Match': '*'}
HOSTS = [f'hidden-{number}' for number in range(6)]
# The limits of project evil: it may hold two servers of two vCPUs, and one host alone.
LIMITS = {
    'planned_servers': 2,
    'planned_class:VCPU': 4,
    'group_members': 4,
    'exclusive_domains': 1,
}
LOST = LIMITS['planned_class:VCPU'] + 8  # vCPUs: those, and the whole of one host


def alone(count):
    """Servers that keep other servers off their hosts."""
    made = template(count)
    made['resources']['web']['properties']['policies'].append(
        {'type': 'exclusive', 'level': 'host'}
    )
    return made


TEMPLATES = [template(1), template(2), alone(1), alone(2), template(6), alone(6)]
# Bodies by the name of their schema.
BODIES = {
    'NewGroup': [{'template': one, 'ttl': 86400} for one in TEMPLATES],
    'NewDefinition': [{'template': one, 'ttl': 86400} for one in TEMPLATES],
    'Description': [{'template': one} for one in TEMPLATES],
    'Renewal': [{'ttl': 86400}, {}],
    'NewFlavor': [{'name': 'evil', 'vcpus': 1, 'memory_mb': 1}],
    'HostRequest': [{'spec': {}, 'hosts': [{'host': name} for name in HOSTS]}],
    'PlanRequest': [{'goal': goal} for goal in ('empty', 'spread', f'drain:{HOSTS[0]}')],
    'NewRebalance': [
        {'moves': [{word: uuid_of(word) for word in ('server', 'source', 'destination')}]}
    ],
}


def values(name, schema, victim):
    """What is tried for a query parameter; None leaves it out."""
    schema = resolved(schema)
    known = {'project_id': ['blue', ''], 'marker': [victim], 'name': ['secret']}
    if schema['type'] == 'boolean':
        return [None, 'true']
    if schema['type'] == 'integer':
        return [None, '1']
    return [None, *known.get(name, schema.get('enum', ()))]


def requests(operation, victim, own):
    """(path, body) of all requests to an operation; ``victim`` and ``own`` are UUIDs of groups."""
    paths = [
        operation.path.replace('{uuid}', uuid).replace('{name}', 'tiny')
        for uuid in ([victim, own] if '{uuid}' in operation.path else [victim])
    ]
    names = list(operation.query)
    given = itertools.product(*(values(name, operation.query[name], victim) for name in names))
    queries = [
        '&'.join(f'{name}={one}' for name, one in zip(names, some, strict=True) if one is not None)
        for some in given
    ]
    media = operation.media.get('application/json')
    bodies = [None] if media is None else BODIES[media['$ref'].rpartition('/')[2]]
    for path, query, body in itertools.product(paths, queries, bodies):
        yield f'{path}?{query}' if query else path, body


@pytest.fixture(scope='module')
def call(started, tmp_path_factory):
    """The API, without a limit of the rate."""
    with serving(started, tmp_path_factory.mktemp('queues')) as caller:
        yield caller


@pytest.fixture(scope='module')
def limited(started):
    """The database has the limits of project evil."""
    engine = db_engine.create(f'sqlite:///{started.database}')
    for resource, limit in LIMITS.items():
        SqlJobTable(engine).set_limit('evil', resource, limit)
    engine.dispose()


@pytest.fixture
def victim(call, daemon, limited):
    """The group of project blue, on hosts that no tenant may know."""
    daemon.add(*HOSTS, instances=[], vcpus=8)
    sent = {'template': template(2), 'name': 'secret'}
    status, _, made = call('POST', '/v1/groups', sent, BLUE)
    assert status == 201
    yield made['uuid']
    for one in call('GET', '/v1/groups?all_projects=true', who=ADMIN)[2]['groups']:
        call('DELETE', f'/v1/groups/{one["uuid"]}', who=ADMIN)


@pytest.fixture
def own(call, victim):
    """A group of project evil."""
    status, _, made = call('POST', '/v1/groups', {'template': template(1)}, EVIL)
    assert status == 201, made
    return made['uuid']


def room(daemon):
    """How many servers of one vCPU another project could have."""
    return daemon.explain.capacity(spec(vcpus=1, memory_mb=1))['total']


def picture(call, daemon, victim):
    """All that project blue has, and what is counted for it."""
    claims = [row for row in daemon.table('claims') if 'blue' in row]
    return claims, call('GET', f'/v1/groups/{victim}', who=BLUE)[2]


CALLED = [name for name, one in OPERATIONS.items() if not one.is_open]


@pytest.mark.parametrize('name', CALLED)
def test_an_operation(call, daemon, victim, own, name):
    operation = OPERATIONS[name]
    before, free = picture(call, daemon, victim), room(daemon)
    nodes = {row[0] for row in daemon.table('nodes')}
    hidden = {*HOSTS, *nodes, 'secret', 'bob', 'blue'}
    for path, body in requests(operation, victim, own):
        status, _, said = call(operation.method.upper(), path, body, EVIL)
        assert status < 500, (path, said)
        answer = json.dumps(said).replace(json.dumps(path)[1:-1], '')
        # What the caller has sent may come back.
        sent = {word for word in hidden if word in path}
        assert [word for word in hidden - sent if word in answer] == [], (path, said)
        if victim in path.partition('?')[0]:
            assert status in (403, 404), (path, said)
    assert picture(call, daemon, victim) == before
    assert room(daemon) >= free - LOST


def test_all_together(call, daemon, victim):
    """Whatever it does in whichever order, it holds no more than its quota."""
    free = room(daemon)
    mine = []
    for body in BODIES['NewGroup'] * 2:
        status, _, said = call('POST', '/v1/groups', body, EVIL)
        assert status in (201, 403), said
        if status == 201:
            mine.append(said['uuid'])
        else:
            (error,) = said['errors']
            if error['code'] == 'nova_sched.forbidden':
                assert 'closes a whole host to other servers' in error['detail']
                continue
            assert (error['code'], error['project']) == ('nova_sched.quota-exceeded', 'evil')
            assert error['used'] + error['asked'] > error['limit'] == LIMITS[error['resource']]
        for uuid, changed in itertools.product(mine, BODIES['NewDefinition']):
            assert call('PUT', f'/v1/groups/{uuid}', changed, EVIL)[0] in (200, 403)
        for uuid in mine:
            assert call('POST', f'/v1/groups/{uuid}/plan', None, EVIL)[0] == 200
            assert call('POST', f'/v1/groups/{uuid}/renew', {'ttl': 86400}, EVIL)[0] == 200
    assert mine
    assert room(daemon) >= free - LOST


PLANNING = [
    name
    for name in CALLED
    if OPERATIONS[name].tag == 'groups' and OPERATIONS[name].method in ('post', 'put')
]


@pytest.mark.parametrize('name', PLANNING)
def test_what_plans_is_counted(name):
    """A change of a group has to be computed; the rest reads, or deletes."""
    app = group('app', project_id='evil', user_id='eve')
    made = rest(configuration(plan_rate='1/hour'), Backend(app), Manager())
    body = next(requests(OPERATIONS[name], app.uuid, app.uuid))[1]
    path = OPERATIONS[name].path.replace('{uuid}', app.uuid)
    answers = [
        Client(made).open(path, method=OPERATIONS[name].method, json=body, headers=EVIL)
        for _ in range(2)
    ]
    assert answers[0].status_code < 300
    assert answers[1].status_code == 429
    assert answers[1].json['errors'][0]['code'] == 'nova_sched.rate-limited'
    assert 0 < int(answers[1].headers['Retry-After']) <= 3600
