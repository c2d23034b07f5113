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
"""Requests that make no sense: each is refused with the reason, and does not reach the backend."""

import io
import json

import pytest

from nova_sched.tests.builders import uuid_of
from nova_sched.tests.rows import each
from nova_sched.tests.unit.api.backend import TEMPLATE
from nova_sched.tests.unit.api.callers import RED

APP = f'/v1/groups/{uuid_of("app")}'
JSON = {**RED, 'Content-Type': 'application/json'}
YAML = {**RED, 'Content-Type': 'application/yaml'}


@pytest.mark.parametrize(
    'query, where, why',
    [
        pytest.param('dryrun=true', 'dryrun', 'no such parameter', id='a name that is none'),
        pytest.param('limit=2&limit=3', 'limit', 'more than once', id='twice'),
        pytest.param('limit=0', 'limit', 'minimum', id='no page'),
        pytest.param('limit=3000000000', 'limit', 'maximum', id='too large a page'),
        pytest.param('limit=two', 'limit', 'integer', id='no number'),
        pytest.param('limit=', 'limit', 'integer', id='nothing'),
        pytest.param('limit=1e2', 'limit', 'integer', id='no whole number'),
        pytest.param('limit=' + '9' * 5000, 'limit', 'integer', id='an endless number'),
        pytest.param('all_projects=1', 'all_projects', 'boolean', id='no boolean'),
        pytest.param('marker=app', 'marker', 'match', id='no UUID'),
        pytest.param(f'marker={uuid_of("app")}%0A', 'marker', '', id='a UUID and a new line'),
        pytest.param(
            f'marker={uuid_of("nowhere")}', 'marker', 'no group', id='a marker that is not there'
        ),
        pytest.param('status=fine', 'status', 'one of', id='no status'),
        pytest.param('name=', 'name', '', id='an empty name'),
        pytest.param('name=a%00b', 'name', 'match', id='a name with a NUL'),
        pytest.param('name=' + 'a' * 256, 'name', '', id='a long name'),
    ],
)
def test_a_parameter_that_cannot_be(http, query, where, why):
    answer = http.get(f'/v1/groups?{query}', headers=RED)
    (error,) = answer.json['errors']
    assert (answer.status_code, error['code'], error['where']) == (
        400,
        'nova_sched.invalid',
        where,
    )
    assert why in error['detail']


@pytest.mark.parametrize(
    'method, path',
    [
        pytest.param('GET', APP, id='show'),
        pytest.param('GET', f'{APP}/plan', id='plan'),
        pytest.param('POST', '/v1/groups/validate', id='validate'),
        pytest.param('GET', '/v1/schema', id='schema'),
    ],
)
def test_a_parameter_where_there_is_none(http, backend, method, path):
    answer = http.open(f'{path}?dry_run=true', method=method, headers=JSON, data='{}')
    assert (answer.status_code, answer.json['errors'][0]['where']) == (400, 'dry_run')
    assert backend.calls == []


@each(
    'body, where, why',
    [
        pytest.param('', 'body', 'there is none', id='nothing'),
        # With 90,000 names, a look through all of them for each of them took minutes.
        pytest.param(
            f'{{{",".join(f""" "{name}": 0""" for name in range(100))}, "99": 0}}',
            'body',
            "'99' is given twice",
            id='a name twice, among many',
        ),
        pytest.param(' ', 'body', 'no JSON', id='a space'),
        pytest.param('{', 'body', 'no JSON', id='half of it'),
        pytest.param('[]', 'body', "type 'object'", id='a list'),
        pytest.param('null', 'body', "type 'object'", id='null'),
        pytest.param('{}', 'body', "'template' is a required", id='no template'),
        pytest.param({'template': ''}, 'template', 'valid', id='an empty template'),
        pytest.param({'template': 3}, 'template', 'valid', id='a number for a template'),
        pytest.param({'template': 'x', 'tll': 3}, 'body', "'tll'", id='a word that is none'),
        pytest.param({'template': 'x', 'ttl': 0}, 'ttl', 'valid', id='no time'),
        pytest.param({'template': 'x', 'ttl': 1.5}, 'ttl', 'valid', id='half a second'),
        pytest.param({'template': 'x', 'ttl': 10**9}, 'ttl', 'valid', id='for ever'),
        pytest.param({'template': 'x', 'name': 'a\0b'}, 'name', 'valid', id='a name with a NUL'),
        pytest.param({'template': 'x', 'name': ''}, 'name', 'valid', id='an empty name'),
        pytest.param({'template': 'x', 'flavors': []}, 'flavors', 'type', id='a list of flavors'),
        pytest.param(
            {'template': 'x', 'flavors': {'f': 1}}, 'flavors.f', 'type', id='a flavor that is none'
        ),
        pytest.param(
            {'template': 'x', 'parameters': 'n=1'}, 'parameters', 'type', id='parameters as text'
        ),
        pytest.param('{"template": "x", "ttl": NaN}', 'body', 'NaN', id='not a number'),
        pytest.param(
            '{"template": "x", "ttl": 1e999}', 'body', 'no JSON', id='too large a number'
        ),
        pytest.param('{"template": "\\ud800"}', 'body', 'no JSON', id='half a character'),
        pytest.param(b'{"template": "\xff"}', 'body', 'UTF-8', id='no UTF-8'),
        pytest.param(
            '{"template": {"properties": ' + '[' * 101 + ']' * 101 + '}}',
            'body',
            'nest more than 100 deep',
            id='too deep a template',
        ),
        pytest.param('{"template": ' + '[' * 2000 + ']' * 2000 + '}', '', '', id='a deep hole'),
    ],
)
def test_a_body_that_cannot_be(http, backend, body, where, why):
    data = body if isinstance(body, str | bytes) else json.dumps(body)
    answer = http.post('/v1/groups', data=data, headers=JSON)
    (error,) = answer.json['errors']
    assert (answer.status_code, error['code']) == (400, 'nova_sched.invalid')
    assert where in error['where']
    assert why in error['detail']
    assert len(error['detail']) < 500
    assert backend.calls == []


@pytest.mark.parametrize(
    'method, path, kind, status',
    [
        pytest.param('POST', '/v1/groups', 'text/plain', 415, id='another type'),
        pytest.param('POST', '/v1/groups', None, 415, id='no type'),
        pytest.param('POST', '/v1/groups', 'application/x-yaml', 415, id='the type of yesterday'),
        pytest.param('POST', '/v1/groups', 'application/json; charset=utf-8', 201, id='a charset'),
        pytest.param('POST', '/v1/groups/validate', 'text/plain', 415, id='validate'),
        pytest.param('PUT', APP, 'text/plain', 415, id='put'),
        pytest.param(
            'POST', f'{APP}/renew', 'application/yaml', 415, id='a template where there is none'
        ),
    ],
)
def test_types_of_bodies(http, method, path, kind, status):
    headers = {**RED, 'If-Match': '*', **({'Content-Type': kind} if kind else {})}
    answer = http.open(
        path, method=method, data=json.dumps({'template': TEMPLATE}), headers=headers
    )
    assert answer.status_code == status


@pytest.mark.parametrize(
    'size, status',
    [pytest.param(4096, 201, id='as large as may be'), pytest.param(4097, 413, id='larger')],
)
@pytest.mark.parametrize('with_length', [True, False], ids=['a length', 'no length'])
def test_a_body_may_be_so_large(http, size, status, with_length):
    data = b'a: b'.ljust(size)
    words = (
        {}
        if with_length
        else {'content_length': None, 'environ_overrides': {'wsgi.input_terminated': True}}
    )
    answer = http.post('/v1/groups', data=data, headers=YAML, **words)
    assert answer.status_code == status


@pytest.mark.parametrize(
    'data', [pytest.param(b'\xff', id='no UTF-8'), pytest.param(b'', id='nothing')]
)
def test_a_template_that_is_no_text(http, data):
    answer = http.post('/v1/groups', data=data, headers=YAML)
    assert (answer.status_code, answer.json['errors'][0]['where']) == (400, 'body')


@pytest.mark.parametrize('more, status', [(0, 400), (1, 413), (10**6, 413)])
def test_a_body_in_chunks_is_read_whole_or_refused(http, more, status):
    """A web server gives it without a length, up to its end."""
    body = b'#' * (4096 + more)  # no template
    answer = http.open(
        '/v1/groups',
        method='POST',
        input_stream=io.BytesIO(body),
        content_type='application/yaml',
        headers=RED,
        environ_overrides={'wsgi.input_terminated': True},
    )
    assert answer.status_code == status, answer.text
