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
"""What a tenant may try with the REST API: odd documents, words, and limits that are reached in
more than one way."""

import concurrent.futures
import contextlib
import http.client
import json

import pytest

from nova_sched.db import engine as db_engine
from nova_sched.db.jobs import SqlJobTable
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import TIMEOUT_S
from nova_sched.tests.functional.test_api import call, template  # noqa: F401
from nova_sched.tests.unit.api.callers import BLUE, RED

pytestmark = pytest.mark.usefixtures('two_hosts')

EVE = {'X-Auth-Token': 'eve:evil'}
HEAD = 'heat_template_version: 2021-04-16\n'
SERVER = '{type: OS::Nova::Server, properties: {flavor: %s, %s}}'
TINY = '{vcpus: 1, ram: 1, disk: 0}'


def yaml(flavor=TINY, more='name: a', head=HEAD):
    """A template of one server as text."""
    return f'{head}resources: {{a: {SERVER % (flavor, more)}}}\n'


def specs(**given):
    return f'{{vcpus: 1, ram: 1, disk: 0, extra_specs: {json.dumps(given)}}}'


def hint(name, value='rebuild'):
    return f'scheduler_hints: {json.dumps({name: value})}'


def raw(call, method, path, body, media='application/json', **headers):  # noqa: F811
    """The status and the text of an answer to any bytes."""
    connection = http.client.HTTPConnection('127.0.0.1', call._port, timeout=TIMEOUT_S)
    with contextlib.closing(connection):
        words = {name.replace('_', '-'): value for name, value in headers.items()}
        connection.request(method, path, body, {**EVE, 'Content-Type': media, **words})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


# What is sent to POST /v1/groups/validate as a document, and what the answer says.
DOCUMENTS = [
    ('no UTF-8', b'{"template": "\xff"}', 400, 'it is not UTF-8'),
    ('UTF-16', '{"template": "a"}'.encode('utf-16'), 400, 'it is not UTF-8'),
    ('half of a character', b'{"template": "\\ud800"}', 400, 'it is not a JSON document'),
    ('NaN', b'{"template": NaN}', 400, 'NaN is not a number'),
    ('a number without end', b'{"template": ' + b'9' * 5000 + b'}', 400, 'not a JSON document'),
    ('beyond numbers', b'{"template": {"a": 1e999}}', 400, 'it is not a JSON document'),
    ('a deep one', b'{"template": ' + b'[' * 50000 + b']' * 50000 + b'}', 400, 'JSON|nest'),
    ('a list', b'[]', 400, 'object'),
    ('a name twice', b'{"template": {}, "template": "x"}', 400, 'twice'),
    ('a name twice within', b'{"template": {"a": 1, "a": 2}}', 400, 'twice'),
    ('another field', b'{"template": {}, "project_id": "blue"}', 400, 'project_id'),
    ('levels of exclusive domains', b'{"template": {}, "exclusive_levels": ["host"]}', 400,
     'exclusive_levels'),
    ('rights to extra specs', b'{"template": {}, "operator_specs": true}', 400,
     'operator_specs'),
    ('a caller', b'{"template": {}, "context": {"is_admin": true}}', 400, 'context'),
    ('a generation', b'{"template": {}, "generation": 1}', 400, 'generation'),
    ('a dry run', b'{"template": {}, "dry_run": false}', 400, 'dry_run'),
]  # fmt: skip
# Templates as text.
TEMPLATES = [
    ('a Python object', 'a: !!python/object/apply:os.system [x]\n' + yaml(), 'the tag'),
    ('bytes', yaml(more='name: !!binary "////"'), 'the tag'),
    ('a set', HEAD + 'resources: !!set {a, b}', 'the tag'),
    ('itself', HEAD + 'resources: &r {a: *r}', 'nothing before it is named'),
    ('a merge of itself', HEAD + 'resources: &r {<<: *r}', 'nothing before it is named'),
    ('two documents', f'{yaml()}---\n{yaml()}', 'a second document'),
    ('another YAML', f'%YAML 9.9\n---\n{yaml()}', 'incompatible YAML'),
    ('a flavor twice', HEAD + 'resources: {a: {type: OS::Nova::Server, properties: {flavor: a, '
     'flavor: b}}}', 'given twice'),
    ('a number of base sixty', yaml('{vcpus: 1%s, ram: 1, disk: 0}' % (':59' * 5000)),
     'a whole number is wanted'),
    ('a hexadecimal number', yaml('{vcpus: 0x%s, ram: 1, disk: 0}' % ('f' * 5000)),
     'a whole number is wanted'),
    ('no number', yaml('{vcpus: .nan, ram: .inf, disk: 0}'), 'not finite'),
    ('a word merged in', yaml(more='scheduler_hints: {<<: {_nova_check_type: rebuild}}'),
     'for internal use'),
    ('a word in escapes', yaml(more='scheduler_hints: {"_n\\u006fva_check_type": a}'),
     'for internal use'),
    ('a word by an alias', yaml(more='metadata: &m {_nova_a: b}, scheduler_hints: *m'),
     'for internal use'),
    ('a trait with a suffix', yaml(specs(**{'trait_x:OWNER_NOVA': 'forbidden'})),
     'for internal use'),
    ('a trait of another server', yaml(
        '{get_attr: [b, flavor]}', head=yaml(specs(**{'trait:OWNER_NOVA': 'forbidden'})).replace(
            '{a:', '{b:').replace('}}}\n', '}}')).replace('resources: {a:', ',a:') + '\n',
     'for internal use'),
    ('a trait of an image', yaml(more='image: {properties: {"trait7:OWNER_NOVA": required}}'),
     'for internal use'),
    ('the name of a host', yaml(specs(**{'capabilities:host': 's== host-1'})), 'is for operators'),
    ('the servers of a host', yaml(specs(**{'capabilities:instances': '<in> a'})),
     'is for operators'),
    ('the metadata of aggregates', yaml(specs(**{
        'aggregate_instance_extra_specs:filter_tenant_id': '<in> a'})), 'is for operators'),
    ('what is free', yaml(specs(free_ram_mb='>= 5')), 'is for operators'),
    ('less than no resource', yaml(specs(**{'resources:VCPU': '-4'})), 'is not within'),
    ('resources in words', yaml(specs(**{'resources:VCPU': '1e3'})), 'is not a whole number'),
    ('thousands of extra specs', yaml(specs(**{
        f'resources{number}:CUSTOM_A': '1' for number in range(5000)})), 'at most 1024'),
    ('versions without end', yaml(more=(
        f'image: {{properties: {{img_hv_requested_version: "{">=1.0," * 8000}>=1.0"}}}}')),
     'at most 255'),
    ('a host', yaml(more='availability_zone: "nova:a"'), 'names a host'),
    ('a name with an escape', yaml(more='availability_zone: "a\\e[2J"'), 'invisible'),
    ('a pattern without end', yaml(head=f'{HEAD}parameters: {{p: {{type: string, default: '
     f'{"a" * 5000}b, constraints: [{{allowed_pattern: "(a+)+$"}}]}}}}\n'),
     'takes too long|does not match'),
]  # fmt: skip


def test_documents_and_templates(call):  # noqa: F811
    wrong = {}
    sent = [
        *(
            (name, body, 'application/json', status, words)
            for name, body, status, words in DOCUMENTS
        ),
        *(
            (name, text.encode(), 'application/yaml', 400, words)
            for name, text, words in TEMPLATES
        ),
        ('a form', b'template=a', 'application/x-www-form-urlencoded', 415, 'may be'),
        ('parts', b'--a\r\n\r\n--a--', 'multipart/form-data; boundary=a', 415, 'may be'),
    ]
    for name, body, media, status, words in sent:
        found, said = raw(call, 'POST', '/v1/groups/validate', body, media)
        if found != status or not any(word in said for word in words.split('|')):
            wrong[name] = found, said[:400]
    assert wrong == {}


PATHS = [
    ('GET', '/v1/groups?limit=%D9%A1', 400), ('GET', '/v1/groups?limit=1e3', 400),
    ('GET', '/v1/groups?limit=' + '9' * 5000, 400), ('GET', '/v1/groups?limit=-1', 400),
    ('GET', '/v1/groups?limit=1&limit=2', 400), ('GET', '/v1/groups?marker=%00', 400),
    ('GET', '/v1/groups?name=%00', 400), ('GET', '/v1/groups?name=%25', 200),
    ('GET', "/v1/groups?name=' OR 1=1 --".replace(' ', '%20'), 200),
    ('GET', '/v1/groups?all_projects=TRUE', 400), ('GET', '/v1/groups?all_projects=1', 400),
    ('GET', '/v1/groups?project_id=evil%00', 400), ('GET', '/v1/groups?project_id=EVIL', 403),
    ('GET', '/v1/groups/..%2f..%2fetc', 404), ('GET', '/v1/groups/%00', 404),
    ('GET', '/v1/flavors/%ff', 404), ('GET', '/v1/flavors/%0d%0aX:%20y', 404),
    ('GET', '/v1//groups', 404), ('GET', '/V1/groups', 404), ('GET', '/v1/groups/', 404),
    ('TRACE', '/v1/groups', 405), ('PATCH', '/v1/groups', 405),
    ('PUT', f'/v1/groups/{uuid_of("none")}', 428),
]  # fmt: skip


def test_addresses(call):  # noqa: F811
    wrong = {}
    for method, path, status in PATHS:
        found, said = raw(call, method, path, b'' if method == 'GET' else b'{}')
        if found != status:
            wrong[method, path[:60]] = found, said[:300]
    for tag in ('"' + '9' * 5000 + '-a"', '"-1"', '"\u00b2"', '*, "1"', 'W/"1"', '"', 'x' * 5000):
        path = f'/v1/groups/{uuid_of("none")}'
        found, said = raw(call, 'PUT', path, b'{}', If_Match=tag.encode())
        if found not in (400, 404, 412):
            wrong[tag[:20]] = found, said[:300]
    assert wrong == {}


@pytest.fixture
def limited(started):
    """The project evil may plan two servers."""
    engine = db_engine.create(f'sqlite:///{started.database}')
    table = SqlJobTable(engine)
    table.set_limit('evil', 'planned_servers', 2)
    yield
    table.set_limit('evil', 'planned_servers', -1)
    engine.dispose()


def planned(started):
    return sum('evil' in row and 'planned' in row for row in started.table('claims'))


def test_a_limit_is_not_got_around(call, started, limited):  # noqa: F811
    """By many calls at once, by changes of groups at once, by the name of the project in other
    letters, or by plans for the group of another."""
    one = {'template': template(1)}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: call('POST', '/v1/groups', one, EVE), range(8)))
    assert sorted({status for status, *_ in made} - {201, 403, 503}) == []
    mine = [said['uuid'] for status, _, said in made if status == 201]
    assert len(mine) <= 2
    assert planned(started) == len(mine)
    while len(mine) < 2:
        mine.append(call('POST', '/v1/groups', one, EVE)[2]['uuid'])

    def grow(uuid):
        return call('PUT', f'/v1/groups/{uuid}', {'template': template(2)}, EVE, If_Match='*')[0]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert set(pool.map(grow, mine * 4)) <= {403, 412, 503}
    assert planned(started) == 2
    for uuid in mine:
        assert call('POST', f'/v1/groups/{uuid}/renew', {'ttl': 60}, EVE)[0] == 200
        assert call('POST', f'/v1/groups/{uuid}/plan', None, EVE)[0] == 200
    assert planned(started) == 2
    status, _, blue = call('POST', '/v1/groups', one, BLUE)
    assert status == 201
    for method, tail, body in (('POST', '/plan', None), ('PUT', '', one), ('POST', '/renew', {})):
        path = f'/v1/groups/{blue["uuid"]}{tail}'
        assert call(method, path, body, EVE, If_Match='*')[0] == 404
    for uuid in mine:
        assert call('DELETE', f'/v1/groups/{uuid}', who=EVE)[0] == 204
    assert call('DELETE', f'/v1/groups/{blue["uuid"]}', who=BLUE)[0] == 204
    assert planned(started) == 0


@pytest.mark.parametrize(
    'headers',
    [
        {'X_Is_Admin': 'True', 'X_Is_Admin_Project': 'True', 'X_Tenant_Id': 'blue'},
        {'X_Forwarded_Host': 'evil.example', 'X_Forwarded_Prefix': '/evil'},
        {'X_HTTP_Method_Override': 'DELETE'},
        {'X_Original_URL': '/v1/flavors', 'X_Rewrite_URL': '/v1/flavors'},
        {'OpenStack_API_Version': 'placement 1.39', 'X_OpenStack_Request_ID': 'req-\u00ff'},
    ],
)
def test_headers_change_nothing(call, headers):  # noqa: F811
    usual = raw(call, 'GET', '/v1/groups', b'')
    assert raw(call, 'GET', '/v1/groups', b'', **headers) == usual
    assert usual[0] == 200


def test_what_a_template_asks_of_another_project_is_not_told(call):  # noqa: F811
    """A zone that is not there, and the server group of another, are no way to other hosts."""
    _, _, group = call('POST', '/v1/groups', {'template': template(1), 'name': 'secret'}, RED)
    for more in (hint('group', group['uuid']), hint('same_host', uuid_of('s0'))):
        status, said = raw(
            call, 'POST', '/v1/groups?dry_run=true', yaml(more=more).encode(), 'application/yaml'
        )
        assert status in (200, 400, 409), said
        assert 'secret' not in said
    assert call('DELETE', f'/v1/groups/{group["uuid"]}', who=RED)[0] == 204


def test_the_reader_of_a_template_keeps_nothing_of_the_last_one(call):  # noqa: F811
    """One process reads for all projects: flavors, images, parameters and anchors of one are not
    there for the next, nor are they suggested."""
    mine = {
        'template': f'{HEAD}parameters: {{hidden: {{type: string}}}}\n'
        'resources: {a: {type: OS::Nova::Server, '
        'properties: &hidden {flavor: hidden, image: hidden, name: {get_param: hidden}}}}\n',
        'parameters': {'hidden': 'hidden-name'},
        'flavors': {'hidden': {'vcpus': 1, 'ram': 1, 'disk': 0}},
        'images': {'hidden': {'properties': {'os_distro': 'hidden'}}},
    }
    wrong = {}
    for flavor, more in (
        ('hidde', 'name: a'),
        ('hidden', 'name: a'),
        (TINY, 'availability_zone: {get_param: hidden}'),
        (TINY, 'image: hidden, metadata: *hidden'),
    ):
        assert call('POST', '/v1/groups/validate', mine, RED)[0] == 200
        text = yaml(flavor, more)
        status, said = raw(call, 'POST', '/v1/groups/validate', text.encode(), 'application/yaml')
        told = said.replace('no flavor hidden', '').replace('parameter hidden', '')
        told = told.replace('is named &hidden', '')
        if status != 400 or 'hidden' in told:
            wrong[flavor, more] = status, said
    assert wrong == {}
