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
"""Flavors and queues over HTTP: what a manager of queues is asked, and what the caller gets."""

import urllib.parse

from nova_sched import errors
from nova_sched.tests.rows import each
from nova_sched.tests.unit.api.callers import ADMIN, RED

TINY = {
    'name': 'tiny',
    'flavorid': 'tiny',
    'vcpus': 1,
    'memory_mb': 512,
    'root_gb': 0,
    'ephemeral_gb': 0,
    'swap': 0,
    'extra_specs': {},
    'created_at': '2026-11-21T12:00:00Z',
    'links': [{'rel': 'self', 'href': 'http://localhost/v1/flavors/tiny'}],
}
NEW = {'name': 'new', 'vcpus': 2, 'memory_mb': 1024}
ODD = ['a/b', '/', '//a//b/', 'a%2Fb', 'größe 8 🚀', 'a?b#c&d;e', '...']


def address(name):
    return f'/v1/flavors/{urllib.parse.quote(name, safe="")}'


def test_flavors_are_listed_with_the_version(http):
    told = http.get('/v1/flavors', headers=RED).json
    assert told['version'] == 7
    assert [one['name'] for one in told['flavors']] == ['huge', 'large', 'odd/ näme', 'tiny']
    assert told['flavors'][-1] == TINY == http.get('/v1/flavors/tiny', headers=RED).json


def test_every_address_that_is_told_is_right(http):
    for one in http.get('/v1/flavors', headers=RED).json['flavors']:
        assert http.get(one['links'][0]['href'], headers=RED).json == one


def test_a_flavor_comes_and_goes(http, manager):
    sent = {**NEW, 'flavorid': '42', 'swap': 5, 'extra_specs': {'trait:CUSTOM_SSD': 'required'}}
    answer = http.post('/v1/flavors', json=sent, headers=ADMIN)
    assert answer.status_code == 201
    assert {name: answer.json[name] for name in sent} == sent
    assert answer.headers['Location'] == 'http://localhost/v1/flavors/new'
    assert http.get(answer.headers['Location'], headers=RED).json == answer.json
    assert http.delete('/v1/flavors/new', headers=ADMIN).status_code == 204
    assert http.get('/v1/flavors/new', headers=RED).status_code == 404
    assert 'new' not in manager.flavors


@each('name', ODD)
def test_an_odd_name_is_as_good_as_any(http, manager, name):
    made = http.post('/v1/flavors', json={**NEW, 'name': name}, headers=ADMIN)
    assert made.status_code == 201
    assert made.headers['Location'] == f'http://localhost{address(name)}'
    assert http.get(address(name), headers=RED).json['name'] == name
    assert http.delete(address(name), headers=ADMIN).status_code == 204
    assert name not in manager.flavors


# Changes of a flavor, and the place and the reason that the error names.
BAD_FLAVORS = {
    'a step up': ({'name': '..'}, 'name', 'cannot stand in an address'),
    'not printable': ({'name': 'a\u2028b'}, 'flavor name', 'printable'),
    'a blank': ({'name': ' a'}, 'flavor name', 'blanks'),
    'no name': ({'name': ''}, 'name', ''),
    'no CPU': ({'vcpus': 0}, 'vcpus', 'minimum of 1'),
    'too many CPUs': ({'vcpus': 2**16 + 1}, 'vcpus', 'maximum of 65536'),
    'no number': ({'memory_mb': '1'}, 'memory_mb', 'integer'),
    'a number with a point': ({'vcpus': 1.0}, 'flavor new, vcpus', 'whole number'),
    'what nobody knows': ({'ram': 1}, 'body', "'ram' was unexpected"),
    'an extra spec': ({'extra_specs': {'a': 1}}, 'extra_specs.a', 'string'),
    'an extra spec of no sense': (
        {'extra_specs': {'resources:VCPU': 'many'}},
        'flavor new, resources',
        'many',
    ),
}


def test_what_makes_no_sense_is_refused_with_where_and_why(http, manager):
    known = {*manager.flavors}
    found, expected = {}, {}
    for name, (changes, where, why) in BAD_FLAVORS.items():
        answer = http.post('/v1/flavors', json={**NEW, **changes}, headers=ADMIN)
        (told,) = answer.json['errors']
        place = where if where in told['where'] else told['where']
        said = why if why in told['detail'] else told['detail']
        found[name] = answer.status_code, told['code'], place, said
        expected[name] = 400, 'nova_sched.invalid', where, why
    assert found == expected
    assert manager.flavors.keys() == known


def test_another_flavor_of_that_name(http):
    assert http.post('/v1/flavors', json=NEW, headers=ADMIN).status_code == 201
    assert http.post('/v1/flavors', json=NEW, headers=ADMIN).status_code == 201
    answer = http.post('/v1/flavors', json={**NEW, 'vcpus': 3}, headers=ADMIN)
    (told,) = answer.json['errors']
    assert (answer.status_code, told['code']) == (409, 'nova_sched.exists')
    assert 'new' in told['detail']


NO_FLAVORS = {
    'show': ('GET', '/v1/flavors/nobody', 404),
    'delete': ('DELETE', '/v1/flavors/nobody', 404),
    'delete what is no name': ('DELETE', '/v1/flavors/a%00b', 404),
    'show what is no name': ('GET', '/v1/flavors/a%0Ab', 404),
    'show without a name': ('GET', '/v1/flavors/', 404),
    'change': ('PUT', '/v1/flavors/tiny', 405),
}


def test_a_flavor_that_is_not_there(http):
    found = {
        name: http.open(path, method=method, headers=ADMIN).status_code
        for name, (method, path, _) in NO_FLAVORS.items()
    }
    assert found == {name: status for name, (*_, status) in NO_FLAVORS.items()}


def test_queues_page_by_page(http):
    """The configuration lets a page have three."""
    first = http.get('/v1/queues', headers=ADMIN).json
    assert first['queues'][0] == {
        'name': 'huge',
        'queue': 'flavor.huge',
        'ready': 2,
        'consumers': None,
    }
    assert [one['name'] for one in first['queues']] == ['huge', 'large', 'odd/ näme']
    rest = http.get(first['links'][0]['href'], headers=ADMIN).json
    assert ([one['name'] for one in rest['queues']], rest['links']) == (['tiny'], [])
    assert len(http.get('/v1/queues?limit=2', headers=ADMIN).json['queues']) == 2


@each('query', ['marker=flavor.gone', 'limit=0', 'sort=name'])
def test_a_page_that_is_none(http, query):
    answer = http.get(f'/v1/queues?{query}', headers=ADMIN)
    (told,) = answer.json['errors']
    assert (answer.status_code, told['where']) == (400, query.partition('=')[0])


@each('path', ['/v1/flavors', '/v1/flavors/tiny', '/v1/queues'])
def test_no_manager_answers(http, manager, path):
    manager.refusal = errors.NoAnswer('facts', 'nobody is there')
    answer = http.get(path, headers=ADMIN)
    (told,) = answer.json['errors']
    assert (answer.status_code, told['code']) == (503, 'nova_sched.unavailable')
    assert answer.headers['Retry-After'] == '10'


def test_the_bus_carries_who_asks_and_under_which_id(http, manager):
    answer = http.delete('/v1/flavors/tiny', headers=ADMIN)
    (context,) = manager.contexts
    assert (context.user_id, context.request_id) == (
        'admin',
        answer.headers['X-Openstack-Request-Id'],
    )
