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

from nova_sched.tests.builders import uuid_of
from nova_sched.tests.rows import each
from nova_sched.tests.unit.api.backend import TEMPLATE
from nova_sched.tests.unit.api.callers import RED

APP = f'/v1/groups/{uuid_of("app")}'
JSON = {**RED, 'Content-Type': 'application/json'}
YAML = {**RED, 'Content-Type': 'application/yaml'}


# Query, and the parameter and the reason that the error names.
BAD_QUERIES = {
    'a name that is none': ('dryrun=true', 'dryrun', 'no such parameter'),
    'twice': ('limit=2&limit=3', 'limit', 'more than once'),
    'no page': ('limit=0', 'limit', 'minimum'),
    'too large a page': ('limit=3000000000', 'limit', 'maximum'),
    'no number': ('limit=two', 'limit', 'integer'),
    'nothing': ('limit=', 'limit', 'integer'),
    'no whole number': ('limit=1e2', 'limit', 'integer'),
    'an endless number': ('limit=' + '9' * 5000, 'limit', 'integer'),
    'no boolean': ('all_projects=1', 'all_projects', 'boolean'),
    'no UUID': ('marker=app', 'marker', 'match'),
    'a UUID and a new line': (f'marker={uuid_of("app")}%0A', 'marker', ''),
    'a marker that is not there': (f'marker={uuid_of("nowhere")}', 'marker', 'no group'),
    'no status': ('status=fine', 'status', 'one of'),
    'an empty name': ('name=', 'name', ''),
    'a name with a NUL': ('name=a%00b', 'name', 'match'),
    'a long name': ('name=' + 'a' * 256, 'name', ''),
}


def test_a_parameter_that_cannot_be(http):
    found, expected = {}, {}
    for name, (query, where, why) in BAD_QUERIES.items():
        answer = http.get(f'/v1/groups?{query}', headers=RED)
        (error,) = answer.json['errors']
        said = why if why in error['detail'] else error['detail']
        found[name] = answer.status_code, error['code'], error['where'], said
        expected[name] = 400, 'nova_sched.invalid', where, why
    assert found == expected


def test_a_parameter_where_there_is_none(http, backend):
    places = [
        ('GET', APP),
        ('GET', f'{APP}/plan'),
        ('POST', '/v1/groups/validate'),
        ('GET', '/v1/schema'),
    ]
    for method, path in places:
        answer = http.open(f'{path}?dry_run=true', method=method, headers=JSON, data='{}')
        found = answer.status_code, answer.json['errors'][0]['where']
        assert found == (400, 'dry_run'), (method, path)
    assert backend.calls == []


# Body, and the place and the reason that the error names.
BAD_BODIES = {
    'nothing': ('', 'body', 'there is none'),
    # With 90,000 names, a look through all of them for each of them took minutes.
    'a name twice, among many': (
        f'{{{",".join(f""" "{name}": 0""" for name in range(100))}, "99": 0}}',
        'body',
        "'99' is given twice",
    ),
    'a space': (' ', 'body', 'not a JSON'),
    'half of it': ('{', 'body', 'not a JSON'),
    'a list': ('[]', 'body', "type 'object'"),
    'null': ('null', 'body', "type 'object'"),
    'no template': ('{}', 'body', "'template' is a required"),
    'an empty template': ({'template': ''}, 'template', 'valid'),
    'a number for a template': ({'template': 3}, 'template', 'valid'),
    'a word that is none': ({'template': 'x', 'tll': 3}, 'body', "'tll'"),
    'no time': ({'template': 'x', 'ttl': 0}, 'ttl', 'valid'),
    'half a second': ({'template': 'x', 'ttl': 1.5}, 'ttl', 'valid'),
    'for ever': ({'template': 'x', 'ttl': 10**9}, 'ttl', 'valid'),
    'a name with a NUL': ({'template': 'x', 'name': 'a\0b'}, 'name', 'valid'),
    'an empty name': ({'template': 'x', 'name': ''}, 'name', 'valid'),
    'a list of flavors': ({'template': 'x', 'flavors': []}, 'flavors', 'type'),
    'a flavor that is none': ({'template': 'x', 'flavors': {'f': 1}}, 'flavors.f', 'type'),
    'parameters as text': ({'template': 'x', 'parameters': 'n=1'}, 'parameters', 'type'),
    'not a number': ('{"template": "x", "ttl": NaN}', 'body', 'NaN'),
    'too large a number': ('{"template": "x", "ttl": 1e999}', 'body', 'not a JSON'),
    'half a character': ('{"template": "\\ud800"}', 'body', 'not a JSON'),
    'no UTF-8': (b'{"template": "\xff"}', 'body', 'UTF-8'),
    'too deep a template': (
        '{"template": {"properties": ' + '[' * 101 + ']' * 101 + '}}',
        'body',
        'nest more than 100 deep',
    ),
    'a deep hole': ('{"template": ' + '[' * 2000 + ']' * 2000 + '}', '', ''),
}


def test_a_body_that_cannot_be(http, backend):
    found, expected = {}, {}
    for name, (body, where, why) in BAD_BODIES.items():
        data = body if isinstance(body, str | bytes) else json.dumps(body)
        answer = http.post('/v1/groups', data=data, headers=JSON)
        (error,) = answer.json['errors']
        assert len(error['detail']) < 500
        place = where if where in error['where'] else error['where']
        said = why if why in error['detail'] else error['detail']
        found[name] = answer.status_code, error['code'], place, said
        expected[name] = 400, 'nova_sched.invalid', where, why
    assert found == expected
    assert backend.calls == []


TYPES = {
    'another type': ('POST', '/v1/groups', 'text/plain', 415),
    'no type': ('POST', '/v1/groups', None, 415),
    'the type of yesterday': ('POST', '/v1/groups', 'application/x-yaml', 415),
    'a charset': ('POST', '/v1/groups', 'application/json; charset=utf-8', 201),
    'validate': ('POST', '/v1/groups/validate', 'text/plain', 415),
    'put': ('PUT', APP, 'text/plain', 415),
    'a template where there is none': ('POST', f'{APP}/renew', 'application/yaml', 415),
}


def test_types_of_bodies(http):
    found = {}
    for name, (method, path, kind, _) in TYPES.items():
        headers = {**RED, 'If-Match': '*', **({'Content-Type': kind} if kind else {})}
        answer = http.open(
            path, method=method, data=json.dumps({'template': TEMPLATE}), headers=headers
        )
        found[name] = answer.status_code
    assert found == {name: status for name, (*_, status) in TYPES.items()}


@each('size, status', [(4096, 201), (4097, 413)])
@each('ends', [{}, {'content_length': None, 'environ_overrides': {'wsgi.input_terminated': True}}])
def test_a_body_may_be_so_large(http, size, status, ends):
    """With a length and without."""
    answer = http.post('/v1/groups', data=b'a: b'.ljust(size), headers=YAML, **ends)
    assert answer.status_code == status


@each('data', [b'\xff', b''])
def test_a_template_that_is_no_text(http, data):
    answer = http.post('/v1/groups', data=data, headers=YAML)
    assert (answer.status_code, answer.json['errors'][0]['where']) == (400, 'body')


@each('more, status', [(0, 400), (1, 413), (10**6, 413)])
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
