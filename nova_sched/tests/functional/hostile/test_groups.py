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
"""A member of one project tries to take the cloud from another one, by the REST API."""

import re

import pytest

from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.test_api import call, template  # noqa: F401
from nova_sched.tests.unit.api.callers import ADMIN, BLUE, RED


def closing(level):
    """Two servers that keep all others out of their domains."""
    made = template(2)
    policies = made['resources']['web']['properties']['policies']
    policies.append({'type': 'exclusive', 'level': level})
    return made


pytestmark = pytest.mark.usefixtures('two_hosts')


@pytest.mark.parametrize('level', ['host', 'rack', 'zone'])
def test_a_member_cannot_close_a_domain(call, level):  # noqa: F811
    status, _, said = call('POST', '/v1/groups', {'template': closing(level)})
    (error,) = said['errors']
    assert (status, error['code']) == (403, 'nova_sched.forbidden')
    assert f'closes a whole {level} to other servers' in error['detail']
    status, _, said = call('POST', '/v1/groups?dry_run=true', {'template': closing(level)})
    assert status == 403
    status, _, group = call('POST', '/v1/groups', {'template': template(1)})
    assert status == 201
    path = f'/v1/groups/{group["uuid"]}'
    changed = {'template': closing(level)}
    status, _, said = call('PUT', path, changed, If_Match='*')
    assert status == 403
    assert call('DELETE', path)[0] == 204


@pytest.mark.parametrize('level', ['host', 'rack'])
def test_an_operator_may(call, level):  # noqa: F811
    status, _, said = call('POST', '/v1/groups?dry_run=true', {'template': closing(level)}, ADMIN)
    assert status in (200, 409), said


def many(count, hints=None, **flavor):
    """So many servers, each described in full."""
    server = {
        'flavor': {'vcpus': 1, 'ram': 1, 'disk': 0, **flavor},
        'scheduler_hints': hints or {},
    }
    each = {'type': 'OS::Nova::Server', 'properties': server}
    group = {
        'type': 'OS::Heat::ResourceGroup',
        'properties': {'count': count, 'resource_def': each},
    }
    return {'heat_template_version': '2021-04-16', 'resources': {'all': group}}


def test_what_a_project_may_hold_by_default(call, started):  # noqa: F811
    """Refused before anything is searched for, with the limit."""
    before = started.table('claims'), call('GET', '/v1/groups')[2]
    wrong = []
    for asked, resource, limit in (
        (many(101), 'planned_servers', 100),
        (many(2, vcpus=201), 'planned_class:VCPU', 400),
        (
            many(2, vcpus=201, extra_specs={'hw:cpu_policy': 'dedicated'}),
            'planned_class:PCPU',
            400,
        ),
        (many(2, ram=819201), 'planned_class:MEMORY_MB', 1638400),
        (many(2, disk=5001), 'planned_class:DISK_GB', 10000),
        (many(501), 'group_members', 500),
        (
            many(99, extra_specs={f'x:{number}': 'y' * 255 for number in range(180)}),
            'group_bytes',
            4194304,
        ),
    ):
        for query in ('', '?dry_run=true'):
            status, _, said = call('POST', f'/v1/groups{query}', {'template': asked})
            error = said['errors'][0] if status == 403 else {}
            found = error.get('code'), error.get('resource'), error.get('limit')
            if found != ('nova_sched.quota-exceeded', resource, limit):
                wrong.append((query, resource, status, said))
    assert wrong == []
    # Members share a hint, and each has its own in the stored text.
    shared = many(99, extra_specs={'x': 'y'}, hints={'shared': 'y' * 900_000})
    status, _, said = call('POST', '/v1/groups', {'template': shared})
    assert (status, said['errors'][0]['code']) == (400, 'nova_sched.template')
    assert (started.table('claims'), call('GET', '/v1/groups')[2]) == before


def test_places_are_not_held_for_years(call):  # noqa: F811
    sent = {'template': template(1), 'ttl': 365 * 86400}
    status, _, said = call('POST', '/v1/groups', sent)
    assert (status, said['errors'][0]['where']) == (400, 'ttl')
    status, _, group = call('POST', '/v1/groups', {**sent, 'ttl': 60})
    path = f'/v1/groups/{group["uuid"]}'
    assert call('POST', f'{path}/renew', {'ttl': 365 * 86400})[0] == 400
    assert call('DELETE', path)[0] == 204


@pytest.mark.parametrize(
    'method, tail, body',
    [
        ('GET', '', None),
        ('PUT', '', {'template': template(1)}),
        ('DELETE', '', None),
        ('GET', '/plan', None),
        ('POST', '/plan', None),
        ('POST', '/renew', {'ttl': 60}),
    ],
)
def test_the_group_of_another_project_is_not_there(call, method, tail, body):  # noqa: F811
    _, _, group = call('POST', '/v1/groups', {'template': template(1), 'name': 'secret'}, BLUE)
    path = f'/v1/groups/{group["uuid"]}'
    status, _, said = call(method, path + tail, body, If_Match='*')
    gone, _, _ = call(method, f'/v1/groups/{uuid_of("none")}{tail}', body, If_Match='*')
    assert status == gone == 404
    assert 'secret' not in str(said)
    assert call('GET', path, who=BLUE)[0] == 200
    assert call('DELETE', path, who=BLUE)[0] == 204


def test_no_list_has_other_projects(call):  # noqa: F811
    _, _, group = call('POST', '/v1/groups', {'template': template(1), 'name': 'secret'}, BLUE)
    for query in ('', '?name=secret', '?all_projects=true', '?project_id=blue'):
        _, _, said = call('GET', f'/v1/groups{query}', who=RED)
        assert 'secret' not in str(said)
    assert call('DELETE', f'/v1/groups/{group["uuid"]}', who=BLUE)[0] == 204


NO_CAPACITY = re.compile(r'largest|Of \d+ hosts|\d+ of \d+|fits|held|asked')


def greedy(**flavor):
    made = template(2)
    made['resources']['s0'] = {
        'type': 'OS::Nova::Server',
        'properties': {'flavor': {'vcpus': 1, 'ram': 512, 'disk': 0, **flavor}},
    }
    return made


@pytest.mark.parametrize(
    'sent, words',
    [
        pytest.param(template(100), 'web: anti-affinity at host', id='more members than hosts'),
        pytest.param(greedy(vcpus=390), 'no host passes ResourceCapacity', id='a large server'),
    ],
)
def test_a_refusal_tells_nothing_of_the_capacity(call, sent, words):  # noqa: F811
    for query in ('', '?dry_run=true'):
        status, _, said = call('POST', f'/v1/groups{query}', {'template': sent})
        (error,) = said['errors']
        assert (status, error['code']) == (409, 'nova_sched.refused')
        assert words in error['detail']
        assert not NO_CAPACITY.search(str({**error, 'request_id': None}))
        _, _, whole = call('POST', f'/v1/groups{query}', {'template': sent}, ADMIN)
        assert NO_CAPACITY.search(str(whole))


def test_answers_have_no_names_of_hosts(call):  # noqa: F811
    _, _, group = call('POST', '/v1/groups', {'template': template(2)})
    path = f'/v1/groups/{group["uuid"]}'
    for told in (group, call('GET', path)[2], call('GET', f'{path}/plan')[2]):
        assert [one['host'] for one in told['members']] == [None, None]
        assert all('host' not in one['domains'] for one in told['members'])
    (first, _) = call('GET', path, who=ADMIN)[2]['members']
    assert first['host'] is not None
    assert call('DELETE', path)[0] == 204


def test_an_unknown_trait_is_an_error(call):  # noqa: F811
    sent = greedy(extra_specs={'trait:CUSTOM_SECRET': 'required'})
    status, _, said = call('POST', '/v1/groups?dry_run=true', {'template': sent})
    (error,) = said['errors']
    assert (status, error['code']) == (400, 'nova_sched.template')
    assert error['where'] == 'web/s0.flavor.extra_specs.trait:CUSTOM_SECRET'
    assert error['detail'].endswith('no host has the trait CUSTOM_SECRET')
