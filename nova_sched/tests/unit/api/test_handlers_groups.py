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
"""Placement groups over HTTP: what is asked of the backend, and what the caller gets."""

import json

import pytest
import yaml

from nova_sched.tests.builders import uuid_of
from nova_sched.tests.rows import each
from nova_sched.tests.unit.api.backend import TEMPLATE, group, member
from nova_sched.tests.unit.api.callers import ADMIN, BLUE, RED

APP, OTHER = f'/v1/groups/{uuid_of("app")}', f'/v1/groups/{uuid_of("other")}'
YAML = {**RED, 'Content-Type': 'application/yaml'}
TEXT = yaml.safe_dump(TEMPLATE)
ANY = {**RED, 'If-Match': '*'}


def asked(backend, method):
    """What the backend was asked by this method, each time."""
    return [words for name, words in backend.calls if name == method]


# Create.


def test_a_group_is_created(http, backend):
    sent = {
        'name': 'shop',
        'template': TEMPLATE,
        'parameters': {'n': 2},
        'flavors': {'f': {'vcpus': 1}},
        'images': {'i': {'id': 'x'}},
        'ttl': 60,
    }
    answer = http.post('/v1/groups', json=sent, headers=RED)
    assert answer.status_code == 201
    assert asked(backend, 'create') == [{**sent, 'dry_run': False}]
    assert answer.headers['Location'] == f'http://localhost/v1/groups/{answer.json["uuid"]}'
    assert answer.headers['ETag'].startswith('"1-')
    assert (answer.json['name'], answer.json['project_id'], answer.json['user_id']) == (
        'shop',
        'red',
        'ann',
    )
    assert answer.json['parameters'] == {'n': 2}
    assert http.get(answer.headers['Location'], headers=RED).json == answer.json


def test_a_dry_run_keeps_nothing(http, backend):
    before = dict(backend.groups)
    answer = http.post('/v1/groups?dry_run=true', json={'template': TEMPLATE}, headers=RED)
    assert (answer.status_code, answer.json['dry_run'], answer.json['links']) == (200, True, [])
    assert {'Location', 'ETag'}.isdisjoint(answer.headers.keys())
    assert asked(backend, 'create') == [{'template': TEMPLATE, 'dry_run': True}]
    assert backend.groups == before


@each('query, name', [('', None), ('?name=shop', 'shop')])
def test_a_template_alone_is_a_body(http, query, name):
    answer = http.post(f'/v1/groups{query}', data=TEXT, headers=YAML)
    assert (answer.status_code, answer.json['name'], answer.json['template']) == (201, name, TEXT)


@each('named, name', [({'name': 'db'}, 'db'), ({}, 'shop')])
def test_a_name_in_the_query(http, named, name):
    """That of the body goes first."""
    answer = http.post('/v1/groups?name=shop', json={'template': TEMPLATE, **named}, headers=RED)
    assert (answer.status_code, answer.json['name']) == (201, name)


def test_the_bus_carries_who_asks_and_under_which_id(http, backend):
    outer = 'req-11111111-2222-3333-4444-555555555555'
    answer = http.get('/v1/groups', headers={**RED, 'X-Openstack-Request-Id': outer})
    (context,) = backend.contexts
    assert (context.user_id, context.project_id) == ('ann', 'red')
    assert context.request_id == answer.headers['X-Openstack-Request-Id'] != outer
    assert context.global_request_id == outer


# Read.


def test_what_is_told_of_a_group(http):
    told = http.get(APP, headers=RED).json
    assert told == {
        'uuid': uuid_of('app'),
        'name': 'app',
        'project_id': 'red',
        'user_id': 'ann',
        'status': 'planned',
        'generation': 1,
        'serial': 1,
        'warnings': [],
        'dry_run': False,
        'template': json.dumps(TEMPLATE),
        'parameters': {'size': 3},
        'moves': [],
        'created_at': '2026-11-21T12:00:00Z',
        'updated_at': '2026-11-21T12:00:00Z',
        'expires_at': '2026-11-21T13:00:00Z',
        'links': [
            {'rel': 'self', 'href': f'http://localhost{APP}'},
            {'rel': 'plan', 'href': f'http://localhost{APP}/plan'},
        ],
        'members': [
            {
                'path': 'web',
                'state': 'planned',
                'member_uuid': uuid_of('web'),
                'instance_uuid': None,
                'host': None,
                'nodename': None,
                'compute_node_uuid': None,
                'availability_zone': 'az-1',
                'domains': {'rack': 'rack-1'},
            }
        ],
    }


@each('path', ['', '/plan'])
def test_hosts_are_for_operators(http, backend, path):
    at = f'{APP}{path}'
    (seen,) = http.get(at, headers=ADMIN).json['members']
    assert (seen['host'], seen['nodename'], seen['compute_node_uuid']) == (
        'host-1', 'node-1', uuid_of('node-1'),
    )  # fmt: skip
    assert seen['domains'] == {'host': 'host-1', 'rack': 'rack-1'}
    # A domain that is named after its host.
    domains = {'host': 'host-1', 'rack': 'host-1', 'room': 'host-1', 'zone': 'az-1'}
    backend.groups[uuid_of('app')] = group('app', members=[member(domains=domains)])
    answers = [http.get(at, headers=who) for who in (RED, ADMIN)]
    assert [answer.json['members'][0]['domains'] for answer in answers] == [
        {'rack': None, 'room': None, 'zone': 'az-1'},
        domains,
    ]
    assert 'host-1' not in answers[0].text
    backend.groups[uuid_of('app')] = group('app')


def test_a_plan_has_members_and_no_template(http, backend):
    plan = http.get(f'{APP}/plan', headers=RED).json
    assert [row['path'] for row in plan['members']] == ['web']
    assert 'template' not in plan
    assert asked(backend, 'plan') == [{'project_id': 'red', 'replan': False, 'dry_run': False}]


@each('path', ['', '/plan'])
def test_what_a_caller_has_is_not_sent(http, backend, path):
    at = f'{APP}{path}'
    whole, head = http.get(at, headers=RED), http.head(at, headers=RED)
    tag = whole.headers['ETag']
    assert (head.status_code, head.data, head.headers['ETag']) == (200, b'', tag)
    again = http.get(at, headers={**RED, 'If-None-Match': tag})
    assert (again.status_code, again.data, again.headers['ETag']) == (304, b'', tag)
    # The definition is the same, but a member is built: its generation alone would hide that.
    backend.groups[uuid_of('app')] = group('app', members=[member(state='confirmed')])
    assert http.get(at, headers={**RED, 'If-None-Match': tag}).status_code == 200
    backend.groups[uuid_of('app')] = group('app')


# Lists.


def names(answer):
    return [one['name'] for one in answer.json['groups']]


# Caller and query, and the names of the groups.
LISTS = {
    'of the own project': (RED, '', ['app', 'db']),
    "another's": (BLUE, '', ['other']),
    "an operator's own": (ADMIN, '', []),
    'of all projects': (ADMIN, 'all_projects=true', ['app', 'db', 'other']),
    'not of all projects': (ADMIN, 'all_projects=false', []),
    'of one project': (ADMIN, 'project_id=blue', ['other']),
    'of the own project, by name': (RED, 'project_id=red', ['app', 'db']),
    'of a name': (RED, 'name=db', ['db']),
    'of a status': (RED, 'status=planned', ['app', 'db']),
    'of a status that none has': (RED, 'status=built', []),
    'after a marker': (RED, f'marker={uuid_of("app")}', ['db']),
    'after a marker in capitals': (RED, f'marker={uuid_of("app").upper()}', ['db']),
}


def test_a_list(http):
    answers = {
        name: http.get(f'/v1/groups?{query}', headers=who)
        for name, (who, query, _) in LISTS.items()
    }
    found = {name: (answer.status_code, names(answer)) for name, answer in answers.items()}
    assert found == {name: (200, listed) for name, (*_, listed) in LISTS.items()}


def test_a_list_tells_no_members(http):
    (first, _) = http.get('/v1/groups', headers=RED).json['groups']
    assert {'members', 'template', 'parameters', 'moves'}.isdisjoint(first)
    assert (first['uuid'], first['links'][0]['href']) == (uuid_of('app'), f'http://localhost{APP}')


@each(
    'query, pages',
    [
        ('', ['g0 g1 g2', 'g3 g4 g5', 'g6']),  # max_limit
        ('limit=99', ['g0 g1 g2', 'g3 g4 g5', 'g6']),
        ('limit=2', ['g0 g1', 'g2 g3', 'g4 g5', 'g6']),
        ('limit=2&status=built', ['g1 g3', 'g5']),
        ('limit=1&status=built&name=g5', ['g5']),  # a full last page
    ],
)
def test_pages(http, backend, query, pages):
    backend.groups = {
        uuid_of(name): group(name, status='built' if number % 2 else 'planned')
        for number, name in enumerate(f'g{number}' for number in range(7))
    }
    found, following = [], f'/v1/groups?{query}'
    while following:
        answer = http.get(following, headers=RED)
        found.append(names(answer))
        following = next(
            (link['href'] for link in answer.json['links'] if link['rel'] == 'next'), None
        )
    assert found == [page.split() for page in pages]


def test_a_page_of_a_rare_status_ends_after_a_few_reads(http, backend):
    backend.groups = {
        uuid_of(name): group(name, status='built' if name == 'g15' else 'planned')
        for name in map('g{}'.format, range(17))
    }
    found, following = [], '/v1/groups?limit=1&status=built'
    while following:
        backend.calls.clear()
        answer = http.get(following, headers=RED)
        assert [name for name, *_ in backend.calls] in (['list'] * 3, ['list'] * 2)
        found.append(names(answer))
        following = next((link['href'] for link in answer.json['links']), None)
    assert found == [[], ['g15']]


# Change.


@pytest.mark.parametrize(
    'tag, seen',
    [('*', None), ('"1"', 1), ('"1-0123456789abcdef"', 1), ('"7", "1"', 1)],
)
@pytest.mark.parametrize('method', ['put', 'delete'])
def test_a_change_on_what_was_seen(http, backend, method, tag, seen):
    answer = http.open(
        APP, method=method.upper(), json={'template': TEMPLATE}, headers={**RED, 'If-Match': tag}
    )
    assert answer.status_code == {'put': 200, 'delete': 204}[method]
    (words,) = asked(backend, {'put': 'update', 'delete': 'delete'}[method])
    assert words.get('generation') == seen
    assert words['project_id'] == 'red'


NOT_SEEN = [
    ('"2"', 412),
    ('"2-0123456789abcdef", "3"', 412),
    ('W/"1"', 412),  # weak
    *((tag, 400) for tag in ('abc', '"one"', 'W/"one"', '"9999999999999999999999"', '""', '')),
]


@each('method', ['PUT', 'DELETE'])
@each('tag, status', NOT_SEEN)
def test_no_change_on_something_else(http, backend, method, tag, status):
    """Or on a tag that this API never gave."""
    answer = http.open(
        APP, method=method, json={'template': TEMPLATE}, headers={**RED, 'If-Match': tag}
    )
    (error,) = answer.json['errors']
    assert answer.status_code == status
    if status == 412:
        assert error['found'] == 1
    else:
        assert error['where'] == 'If-Match'
        assert f"'{tag}' is not an ETag of this API" in error['detail']
    assert asked(backend, 'update') == asked(backend, 'delete') == []


def test_the_backend_has_the_last_word_on_who_was_first(http, backend):
    """Another request changes the group between our read and our change."""
    show = backend.show

    def show_then_change(*args, **words):
        seen = show(*args, **words)
        backend.groups[seen.uuid] = group('app', generation=2)
        return seen

    backend.show = show_then_change
    answer = http.put(APP, json={'template': TEMPLATE}, headers={**RED, 'If-Match': '"1"'})
    assert answer.status_code == 412
    assert (answer.json['errors'][0]['expected'], answer.json['errors'][0]['found']) == (1, 2)


def test_two_writers(http):
    """Both have read generation 1; the second to write is told so."""
    blind = http.put(APP, json={'template': TEMPLATE}, headers=RED)
    assert blind.status_code == 428
    assert blind.json['errors'][0]['code'] == 'nova_sched.precondition-required'
    tag = http.get(APP, headers=RED).headers['ETag']
    first, second = (
        http.put(APP, json={'template': TEMPLATE}, headers={**RED, 'If-Match': tag})
        for _ in range(2)
    )
    assert (first.status_code, second.status_code) == (200, 412)
    assert first.headers['ETag'].startswith('"2-')


def test_all_of_a_definition_is_passed_on(http, backend):
    sent = {
        'template': TEMPLATE,
        'parameters': {'n': 2},
        'flavors': {'f': {}},
        'images': {'i': {}},
        'ttl': 60,
    }
    assert http.put(APP, json=sent, headers=ANY).status_code == 200
    assert asked(backend, 'update') == [{**sent, 'dry_run': False, 'project_id': 'red'}]


def test_moves_are_told(http):
    answer = http.put(APP, data=TEXT, headers={**YAML, 'If-Match': '*'})
    assert answer.json['moves'] == [
        {
            'path': 'web',
            'instance_uuid': uuid_of('i'),
            'from_host': None,
            'to_host': None,
            'reason': 'anti-affinity',
        }
    ]


@each('method, status', [('PUT', 'planned'), ('DELETE', 'deleting')])
def test_a_change_that_is_only_tried(http, backend, method, status):
    before = dict(backend.groups)
    answer = http.open(
        f'{APP}?dry_run=true', method=method, json={'template': TEMPLATE}, headers=ANY
    )
    shown = answer.json
    assert (answer.status_code, shown['dry_run'], shown['status']) == (200, True, status)
    assert 'ETag' not in answer.headers
    assert backend.groups == before


def test_delete_needs_no_condition(http, backend):
    answer = http.delete(APP, headers=RED)
    assert (answer.status_code, answer.data, 'Content-Type' in answer.headers) == (204, b'', False)
    assert http.get(APP, headers=RED).status_code == 404


def test_members_without_a_place_are_planned_again(http, backend):
    assert http.post(f'{APP}/plan', headers=RED).status_code == 200
    assert http.post(f'{APP}/plan?dry_run=true', headers=RED).json['dry_run'] is True
    assert asked(backend, 'plan') == [
        {'project_id': 'red', 'replan': True, 'dry_run': trial} for trial in (False, True)
    ]


@pytest.mark.parametrize(
    'body, ttl', [({'json': {'ttl': 7200}}, 7200), ({'json': {}}, None), ({}, None)]
)
def test_a_plan_is_renewed(http, backend, body, ttl):
    answer = http.post(f'{APP}/renew', headers=RED, **body)
    assert answer.status_code == 200
    told = {'project_id': 'red', 'dry_run': False, **({} if ttl is None else {'ttl': ttl})}
    assert asked(backend, 'renew') == [told]
    assert answer.json['expires_at'] == ('2026-11-21T14:00:00Z' if ttl else '2026-11-21T13:00:00Z')


@each('words', [{'json': {'template': TEMPLATE}, 'headers': RED}, {'data': TEXT, 'headers': YAML}])
def test_validate(http, words):
    answer = http.post('/v1/groups/validate', **words)
    account = {'members': ['web'], 'policies': [], 'warnings': [], 'contradiction': None}
    assert (answer.status_code, answer.json) == (200, account)


@pytest.mark.parametrize(
    'at, who',
    [
        (OTHER, ANY),  # another project's
        (f'/v1/groups/{uuid_of("nowhere")}', {**ADMIN, 'If-Match': '*'}),
        ('/v1/groups/app', ANY),
    ],
)
def test_a_group_that_is_not_there_for_the_caller(http, backend, at, who):
    operations = {
        'show': ('GET', '', {}),
        'plan': ('GET', '/plan', {}),
        'replan': ('POST', '/plan', {}),
        'renew': ('POST', '/renew', {}),
        'update': ('PUT', '', {'json': {'template': TEMPLATE}}),
        'delete': ('DELETE', '', {}),
    }
    found = {}
    for name, (method, path, words) in operations.items():
        answer = http.open(f'{at}{path}', method=method, headers=who, **words)
        found[name] = answer.status_code, answer.json['errors'][0]['code']
    assert found == dict.fromkeys(operations, (404, 'nova_sched.not-found'))
    assert {name for name, _ in backend.calls} <= {'show'}
