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
"""How each error leaves: its status, its headers, and what its body tells and does not tell."""

import logging
import re

import pytest
from werkzeug.test import Client

from nova_sched import errors
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.unit.api.backend import TEMPLATE, Manager
from nova_sched.tests.unit.api.callers import ADMIN, RED, rest

SECRET = 'postgresql://nova_sched:secret@db/x'
WHY = {'core': ['app/spread'], 'contradicts': False}


# Error, and the status, the code and the facts of the answer.
ERRORS = {
    'a template': (
        errors.TemplateError('resources.web', 3, 7, 'there is no flavor m1'),
        400,
        'template',
        {'where': 'resources.web', 'line': 3, 'column': 7},
    ),
    'a template that has no lines': (
        errors.TemplateError('web', None, None, 'no'),
        400,
        'template',
        {'where': 'web', 'line': None, 'column': None},
    ),
    'a request': (errors.InvalidRequest('ttl', 'too long'), 400, 'invalid', {'where': 'ttl'}),
    'a message': (errors.MalformedObject('x', 'y'), 400, 'invalid', {}),
    'a group that left': (errors.GroupNotFound('x'), 404, 'not-found', {}),
    'a refused group': (errors.GroupRefused('Too many.', WHY), 409, 'refused', {'details': WHY}),
    'without details': (errors.GroupRefused('Too many.'), 409, 'refused', {'details': None}),
    'a quota': (
        errors.QuotaExceeded('red', 'group_members', 3, 8, 10),
        403,
        'quota-exceeded',
        {'project': 'red', 'resource': 'group_members', 'asked': 3, 'used': 8, 'limit': 10},
    ),
    'others were faster': (errors.TooManyConflicts(3), 409, 'refused', {}),
    'a changed group': (
        errors.GroupChanged('x', 1, 2),
        412,
        'changed',
        {'expected': 1, 'found': 2},
    ),
    'a flavor': (errors.FlavorExists('x', 'its vcpus is 4, not 8'), 409, 'exists', {}),
    'a broker that is away': (errors.BrokerUnavailable(SECRET), 503, 'unavailable', {}),
    'a busy database': (errors.StoreBusy(SECRET), 503, 'busy', {}),
    'a database that is away': (errors.StoreUnavailable(SECRET), 503, 'unavailable', {}),
    'a scheduler that is away': (errors.NoAnswer('create', SECRET), 503, 'unavailable', {}),
    'a full database': (errors.StoreFull(SECRET), 507, 'full', {}),
    'another of ours': (errors.BadMachineFacts('x', SECRET), 500, 'internal', {}),
    'a mistake': (ZeroDivisionError(SECRET), 500, 'internal', {}),
}


def test_an_error_of_the_backend(http, backend):
    found, expected = {}, {}
    for name, (error, status, code, facts) in ERRORS.items():
        backend.refusal = error
        answer = http.post('/v1/groups', json={'template': TEMPLATE}, headers=ADMIN)
        (told,) = answer.json['errors']
        assert told['request_id'] == answer.headers['X-Openstack-Request-Id']
        assert re.fullmatch(r'req-[0-9a-f-]{36}', told.pop('request_id'))
        assert told.pop('title') in answer.status.title()
        assert SECRET not in answer.text
        if status < 500:
            assert told['detail'] == str(error)
        found[name] = answer.status_code, answer.mimetype, told
        expected[name] = (
            status,
            'application/json',
            {
                'status': status,
                'code': f'nova_sched.{code}',
                'detail': told['detail'],
                'links': [{'rel': 'help', 'href': '/v1/openapi.json'}],
                **facts,
            },
        )
    assert found == expected


def test_when_to_ask_again(http, backend):
    waits_s = {
        errors.StoreBusy(''): 1,
        errors.StoreUnavailable(''): 10,
        errors.NoAnswer('', ''): 10,
        errors.StoreFull(''): None,
        errors.GroupRefused(''): None,
    }
    found = {}
    for error in waits_s:
        backend.refusal = error
        answer = http.get('/v1/groups', headers=RED)
        found[error] = answer.headers.get('Retry-After', type=int)
    assert found == waits_s


@pytest.mark.parametrize(
    'error, level, logged',
    [
        (ZeroDivisionError('why'), logging.ERROR, 'A request failed'),
        (errors.NoAnswer('x', 'why'), logging.WARNING, 'why'),
        (errors.GroupRefused('why'), None, ''),
    ],
)
def test_what_the_log_tells_of_an_error(http, backend, caplog, error, level, logged):
    backend.refusal = error
    http.get('/v1/groups', headers=RED)
    found = [record for record in caplog.records if record.levelno > logging.INFO]
    assert [record.levelno for record in found] == ([level] if level else [])
    assert logged in caplog.text


def test_the_log_has_a_line_for_each_request(conf, backend, caplog):
    with caplog.at_level(logging.INFO, 'nova_sched.api.app'):
        Client(rest(conf, backend, Manager())).get('/v1/groups?name=x', headers=RED)
    assert re.search(r'GET /v1/groups: 200, \d+\.\d ms', caplog.text)


def test_an_address_makes_no_line_of_the_log(conf, backend, caplog):
    with caplog.at_level(logging.INFO, 'nova_sched.api.app'):
        forged = '/v1/flavors/x%0a2030-01-01 00:00:00.000 1 INFO forged'
        Client(rest(conf, backend, Manager())).get(forged, headers=RED)
    assert [one for one in caplog.messages if '\n' in one] == []
    assert 'GET /v1/flavors/x%0A2030-01-01%2000%3A00%3A00.000' in caplog.text


def test_a_long_sentence_is_cut(http, backend):
    backend.refusal = errors.GroupRefused('x' * 100_000)
    assert len(http.get('/v1/groups', headers=RED).json['errors'][0]['detail']) < 3000


# Method and path, and the status and the methods of the answer.
NO_ADDRESSES = {
    'no version': ('GET', '/v2', 404, None),
    'a slash too many': ('GET', '/v1/groups/', 404, None),
    'get of what is posted': ('GET', '/v1/groups/validate', 405, 'POST'),
    'patch': ('PATCH', f'/v1/groups/{uuid_of("app")}', 405, 'DELETE, GET, HEAD, PUT'),
    'options': ('OPTIONS', '/v1/groups', 405, 'GET, HEAD, POST'),
    'no token is needed to be told': ('POST', '/', 405, 'GET, HEAD'),
}


def test_an_address_or_method_that_is_none(http):
    found, expected = {}, {}
    for name, (method, path, status, allowed) in NO_ADDRESSES.items():
        answer = http.open(path, method=method, headers=RED)
        (told,) = answer.json['errors']
        assert told['request_id'] == answer.headers['X-Openstack-Request-Id']
        methods = answer.headers.get('Allow')
        methods = methods and ', '.join(sorted(methods.split(', ')))
        found[name] = answer.status_code, told['status'], methods
        expected[name] = status, status, allowed
    assert found == expected


@pytest.mark.parametrize('prefix', ['', '/scheduler'])
def test_addresses_where_the_api_is_below_another(http, prefix):
    place = {'SCRIPT_NAME': prefix, 'HTTP_HOST': 'cloud:8790'}
    answer = http.get(f'/v1/groups/{uuid_of("x")}', headers=RED, environ_overrides=place)
    assert answer.json['errors'][0]['links'][0]['href'] == f'{prefix}/v1/openapi.json'
    found = http.get(f'/v1/groups/{uuid_of("app")}', headers=RED, environ_overrides=place)
    assert (
        found.json['links'][0]['href'] == f'http://cloud:8790{prefix}/v1/groups/{uuid_of("app")}'
    )
    document = http.get('/v1/openapi.json', environ_overrides=place).json
    assert document['servers'] == [{'url': f'http://cloud:8790{prefix}'}]


@pytest.mark.parametrize('trusted, root', [(True, 'https://cloud'), (False, 'http://localhost')])
def test_addresses_behind_a_proxy(conf, backend, trusted, root):
    made = rest(conf, backend, Manager())
    conf.set_override('enable_proxy_headers_parsing', trusted, group='oslo_middleware')
    answer = Client(made).get(
        '/v1', headers={'X-Forwarded-Proto': 'https', 'X-Forwarded-Host': 'cloud'}
    )
    assert answer.json['version']['links'][0]['href'] == f'{root}/v1/'
