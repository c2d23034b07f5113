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
"""The whole way of a group: HTTP, the bus, the scheduler, the database, and back."""

import contextlib
import http.client
import json
import threading
import urllib.parse

import pytest

from nova_sched import objects
from nova_sched.cmd import api
from nova_sched.conf import CONF
from nova_sched.extensions.queues import service as queue_service
from nova_sched.rpc import client
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import TIMEOUT_S, spec
from nova_sched.tests.options import settings
from nova_sched.tests.rows import each
from nova_sched.tests.unit.api.callers import ADMIN, BLUE, RED, configuration, rest

SERVER = {
    'type': 'OS::Nova::Server',
    'properties': {'flavor': {'vcpus': 2, 'ram': 512, 'disk': 0}},
}


# As text: its errors have lines.
HUG = """heat_template_version: 2021-04-16
resources:
  a: {type: OS::NovaSched::Group, properties: {members: [], policies: [{type: hug, level: rack}]}}
"""


def template(count=2, level='host', **policy):
    """So many servers, each on a host of its own."""
    return {
        'heat_template_version': '2021-04-16',
        'resources': {
            'web': {
                'type': 'OS::NovaSched::Group',
                'properties': {
                    'members': [{'get_resource': f's{number}'} for number in range(count)],
                    'policies': [{'type': 'anti-affinity', 'level': level, **policy}],
                },
            },
            **{f's{number}': SERVER for number in range(count)},
        },
    }


class Caller:
    """An HTTP client of one server."""

    def __init__(self, port):
        self._port = port

    def __call__(self, method, path, body=None, who=RED, **headers):
        """Status, headers and document; names of headers are written with _ for -."""
        words = {name.replace('_', '-'): value for name, value in headers.items()}
        data = None if body is None else json.dumps(body)
        connection = http.client.HTTPConnection('127.0.0.1', self._port, timeout=TIMEOUT_S)
        with contextlib.closing(connection):
            connection.request(
                method, path, data, {**who, 'Content-Type': 'application/json', **words}
            )
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, answer.headers, json.loads(text) if text else None


@pytest.fixture(scope='module')
def call(started, tmp_path_factory):
    """The API on a port of its own, over the daemon's bus, with a manager of queues."""
    with serving(started, tmp_path_factory.mktemp('queues')) as caller:
        yield caller


@contextlib.contextmanager
def serving(daemon, folder, **options):
    """A Caller of the API with these options of [api], as ``call`` is one."""
    conf = configuration(port=0, shutdown_timeout=5, **options)
    groups = client.GroupsClient(daemon.bus, timeout_s=TIMEOUT_S)
    queues = client.QueuesClient(daemon.bus, timeout_s=TIMEOUT_S)
    rank = client.ExplainClient(daemon.bus, conf.api.external_scheduler_timeout).rank_hosts
    made = rest(
        conf,
        groups,
        queues,
        rank=rank,
        plan=client.ExplainClient(daemon.bus, timeout_s=TIMEOUT_S).plan_moves,
        rebalances=client.RebalancesClient(daemon.bus, timeout_s=TIMEOUT_S),
    )
    served = api.server(conf, made)
    thread = threading.Thread(target=served.serve, daemon=True)
    thread.start()
    try:
        with managed(daemon.bus, folder):
            yield Caller(served.bind_addr[1])
    finally:
        served.stop()
        thread.join(TIMEOUT_S)


@contextlib.contextmanager
def managed(bus, folder):
    """A manager of queues with a database of its own."""
    queue_service.in_process.cache_clear()
    where = {
        'database.connection': f'sqlite:///{folder}/db.sqlite',
        'queues.transport_url': 'fake://',
    }
    with settings(where):
        manager = queue_service.QueueService(CONF, bus)
        manager.start()
        try:
            yield
        finally:
            manager.stop()


@pytest.fixture
def hosts(daemon):
    """Three hosts with room for four servers each."""
    names = ['a', 'b', 'c']
    daemon.add(*names, instances=[])
    return names


def test_the_life_of_a_group(call, hosts):
    status, _, account = call('POST', '/v1/groups/validate', {'template': template(2)})
    assert (status, account['contradiction'], len(account['members'])) == (200, None, 2)
    status, headers, made = call('POST', '/v1/groups', {'name': 'shop', 'template': template(2)})
    assert (status, made['status'], made['project_id']) == (201, 'planned', 'red'), made
    at = f'/v1/groups/{made["uuid"]}'
    assert headers['Location'].endswith(at)

    status, headers, seen = call('GET', at, who=ADMIN)
    assert len({one['host'] for one in seen['members']} & set(hosts)) == 2
    tag = headers['ETag']
    assert call('GET', at, who=ADMIN, If_None_Match=tag)[0] == 304

    status, _, plan = call('GET', f'{at}/plan', who=ADMIN)
    assert [one['domains']['host'] for one in plan['members']] == [
        one['host'] for one in seen['members']
    ]

    status, _, tried = call('PUT', f'{at}?dry_run=true', {'template': template(3)}, If_Match=tag)
    assert (status, tried['dry_run'], len(tried['members'])) == (200, True, 3)
    status, headers, grown = call('PUT', at, {'template': template(3)}, If_Match=tag)
    assert (status, grown['generation'], len(grown['members'])) == (200, 2, 3)
    assert call('PUT', at, {'template': template(2)}, If_Match=tag)[0] == 412
    assert call('PUT', at, {'template': template(2)})[0] == 428

    assert call('POST', f'{at}/renew', {'ttl': 9000})[0] == 200
    assert call('POST', f'{at}/plan')[0] == 200
    assert call('DELETE', f'{at}?dry_run=true')[0] == 200
    assert call('DELETE', at, If_Match=headers['ETag'])[0] == 204
    assert call('GET', at)[0] == 404


def test_a_group_that_does_not_fit(call, hosts):
    """Four servers apart on three hosts: nothing is changed, and the answer says why."""
    status, _, refusal = call('POST', '/v1/groups', {'template': template(4)})
    (error,) = refusal['errors']
    assert (status, error['code']) == (409, 'nova_sched.refused')
    assert error['details']
    assert call('GET', '/v1/groups')[2]['groups'] == []


@each('path', ['/v1/groups', '/v1/groups/validate'])
@each('template_, where', [(template(2, level='galaxy'), 'galaxy'), (HUG, 'hug')])
def test_a_template_that_makes_no_sense(call, daemon, path, template_, where):
    status, _, refusal = call('POST', path, {'template': template_})
    (error,) = refusal['errors']
    assert (status, error['code']) == (400, 'nova_sched.template')
    assert where in error['detail']
    if isinstance(template_, str):
        assert error['line'] == 3


def test_projects_see_their_own(call, hosts):
    made = [
        call('POST', '/v1/groups', {'name': f'g{number}', 'template': template(1)}, who=who)[2][
            'uuid'
        ]
        for number, who in enumerate([RED, RED, RED, BLUE])
    ]
    assert [one['uuid'] for one in call('GET', '/v1/groups')[2]['groups']] == made[:3]
    assert [
        one['uuid'] for one in call('GET', '/v1/groups?all_projects=true', who=ADMIN)[2]['groups']
    ] == made
    _, _, first = call('GET', '/v1/groups?limit=2')
    _, path, query = first['links'][0]['href'].partition('/v1/groups')
    assert [one['uuid'] for one in call('GET', path + query)[2]['groups']] == made[2:3]
    # A group of another project, as one that does not exist.
    for marker in (uuid_of('nowhere'), made[3]):
        status, _, refusal = call('GET', f'/v1/groups?marker={marker}')
        detail = refusal['errors'][0]['detail']
        assert (status, detail.partition(': ')[2]) == (400, f'there is no group {marker}')
    assert call('DELETE', f'/v1/groups/{made[3]}')[0] == 404
    for uuid in made:
        assert call('DELETE', f'/v1/groups/{uuid}', who=ADMIN)[0] == 204


@each('name', ['tiny', 'a/b', 'a%2Fb', '//', 'größe 8', 'a?b#c'])
def test_the_life_of_a_flavor(call, name):
    """Whatever it is called; it is a queue as soon as it is there."""
    at = f'/v1/flavors/{urllib.parse.quote(name, safe="")}'
    before = call('GET', '/v1/flavors')[2]['version']
    flavor = {'name': name, 'vcpus': 2, 'memory_mb': 512}
    assert call('POST', '/v1/flavors', flavor)[0] == 403
    status, headers, made = call('POST', '/v1/flavors', flavor, who=ADMIN)
    assert (status, headers['Location'].endswith(at)) == (201, True), made
    assert call('POST', '/v1/flavors', flavor, who=ADMIN)[2] == made
    assert call('POST', '/v1/flavors', {**flavor, 'vcpus': 3}, who=ADMIN)[0] == 409
    assert call('GET', '/v1/flavors')[2] == {'version': before + 1, 'flavors': [made]}
    assert call('GET', at)[2] == made
    queues = call('GET', '/v1/queues?marker=results', who=ADMIN)[2]['queues']
    assert [(one['name'], one['ready'], one['consumers']) for one in queues] == [(name, 0, 0)]
    assert call('DELETE', at, who=ADMIN)[0] == 204
    assert call('DELETE', at, who=ADMIN)[0] == call('GET', at)[0] == 404
    assert call('GET', '/v1/queues?marker=results', who=ADMIN)[2]['queues'] == []


def test_a_flavor_that_makes_no_sense(call):
    flavor = {'name': 'x', 'vcpus': 2, 'memory_mb': 512, 'extra_specs': {'resources:VCPU': 'many'}}
    status, _, refusal = call('POST', '/v1/flavors', flavor, who=ADMIN)
    (error,) = refusal['errors']
    assert (status, error['where']) == (400, 'flavor x, resources')
    assert 'many' in error['detail']


def test_hosts_for_another_scheduler(call, daemon):
    daemon.add('small', vcpus=1)
    daemon.add('good', vcpus=8, memory_mb=2**14)
    daemon.add('better', vcpus=8, memory_mb=2**15)
    offered = [{'host': name, 'hypervisor_hostname': name} for name in ('small', 'good', 'better')]
    body = {
        'spec': objects.to_primitive(spec(vcpus=2)),
        'rebuild': False,
        'resize': False,
        'live': False,
        'vmware': False,
        'hosts': [*offered, {'host': 'unknown'}],
        'weights': {'small': 3.0, 'good': 2.0, 'better': 1.0},
    }
    before = daemon.state()
    at = '/v1/external-scheduler'
    assert call('POST', at, body, ADMIN)[::2] == (200, {'hosts': ['better', 'good']})
    assert call('POST', at, {**body, 'hosts': offered[:2]}, ADMIN)[2] == {'hosts': ['good']}
    assert daemon.state() == before
    status, _, said = call('POST', at, {**body, 'live': True}, ADMIN)
    assert (status, said['errors'][0]['where']) == (400, 'spec')
    odd = {**body['spec'], 'nova_object.data': {'flavor': 7}}
    assert call('POST', at, {**body, 'spec': odd}, ADMIN)[0] == 400


def test_an_order_of_hosts_that_comes_too_late(call, daemon):
    body = {'spec': objects.to_primitive(spec()), 'hosts': [{'host': 'a'}]}
    going, held = threading.Event(), threading.Event()

    def hold():
        going.set()
        held.wait(TIMEOUT_S)

    daemon.service.scheduler.loop.send('call', (hold, ()))
    assert going.wait(TIMEOUT_S)
    try:
        status, _, said = call('POST', '/v1/external-scheduler', body, ADMIN)
    finally:
        held.set()
    assert (status, said['errors'][0]['code']) == (504, 'nova_sched.deadline')


def test_moves_from_their_plan_to_their_end(call, daemon):
    """A plan is made and carried out; without a conductor its move waits until it is stopped."""
    for name, host in (('one', 'a'), ('two', 'a'), ('three', 'b')):
        daemon.add(host)
        daemon.claims.instance_claim(spec(), uuid_of(name), host, host)
        daemon.claims.confirm_claim(uuid_of(name), host)
    status, _, plan = call('POST', '/v1/rebalance/plan', {'goal': 'empty', 'moves': 1}, who=ADMIN)
    assert (status, plan['goal'], plan['before'], plan['after']) == (200, 'empty', 0, 1)
    (move,) = plan['moves']
    assert (move['server'], move['source_host']) == (uuid_of('three'), 'b')
    assert plan['bound'] == 1

    status, headers, made = call('POST', '/v1/rebalances', plan, who=ADMIN)
    assert (status, made['state']) == (201, 'running')
    at = urllib.parse.urlparse(headers['Location']).path
    status, _, stopped = call('POST', f'{at}/stop', who=ADMIN)
    assert (status, stopped['plan'][0]['server']) == (200, uuid_of('three'))
    assert call('GET', at, who=ADMIN)[2]['stopped_at'] is not None
    assert made['uuid'] in [
        one['uuid'] for one in call('GET', '/v1/rebalances', who=ADMIN)[2]['rebalances']
    ]


@each(
    'body, told',
    [
        ({'goal': 'drain:nowhere'}, 'nowhere is not a host'),
        ({'goal': 'fit:none'}, 'none'),
        ({'goal': 'empty', 'zone': 'moon'}, 'moon'),
        ({'goal': 'empty', 'moves': '200%'}, '200%'),
    ],
)
def test_a_plan_of_what_is_not_known(call, hosts, body, told):
    status, _, refusal = call('POST', '/v1/rebalance/plan', body, who=ADMIN)
    (error,) = refusal['errors']
    assert (status, error['code'], told in error['detail']) == (400, 'nova_sched.invalid', True)
