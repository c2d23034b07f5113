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
"""What the clients of Nova, Neutron and Placement share: options, accounts, and time limits."""

import socket
import threading
import time
import types

import pytest
from keystoneauth1 import exceptions, loading
from oslo_config import cfg

from nova_sched import errors
from nova_sched.cloud import compute_api, keystone, neutron, placement
from nova_sched.conf import services
from nova_sched.tests import fake_neutron, fake_nova, fake_placement
from nova_sched.tests import keystone as keystone_stub
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.rows import each, each_afresh, table

UUID = uuid_of('any')
HANG_S = 10.0  # so long a request takes that has no limit
ACCOUNT = {'username': 'nova', 'password': 'x', 'user_domain_id': 'default', 'system_scope': 'all'}
NOVA = types.SimpleNamespace(
    client=compute_api.client,
    group='nova_api',
    fake=fake_nova,
    ask=lambda client: client.live_migrations(UUID),
    away=errors.NovaUnavailable,
    refused=errors.NovaRefused,
)
NEUTRON = types.SimpleNamespace(
    client=neutron.client,
    group='neutron',
    fake=fake_neutron,
    ask=lambda client: client.segments_of(UUID),
    away=errors.NeutronError,
    refused=errors.NeutronError,
)
PLACEMENT = types.SimpleNamespace(
    client=placement.client,
    group='placement',
    fake=fake_placement,
    ask=lambda client: client.provider_trees(),
    away=errors.PlacementUnavailable,
    refused=errors.PlacementRefused,
)
SERVICES = [NOVA, NEUTRON, PLACEMENT]


def group(service):
    return service.group


def configured(service, **values):
    conf = cfg.ConfigOpts()
    conf.register_opts(services.OPTS[service.group], group=service.group)
    services.register_keystone_opts(conf, service.group)
    conf([])
    # After the files, because some are required.
    conf.register_opts(loading.get_auth_plugin_conf_options('v3password'), service.group)
    for name, value in values.items():
        conf.set_override(name, value, service.group)
    return conf


def logging_in(service, auth_url):
    """A client that has to get a token there first."""
    conf = configured(service, auth_type='v3password', auth_url=auth_url, **ACCOUNT)
    return service.client(conf)


@each('service', SERVICES, ids=group)
def test_a_client_of_the_options(service):
    with service.fake.served() as fake:
        conf = configured(service, auth_type='none', endpoint_override=fake.url)
        assert not service.ask(service.client(conf))


@each('service', SERVICES, ids=group)
def test_no_account(service):
    with pytest.raises(errors.BadConfig, match=rf'\[{service.group}\] auth_type'):
        service.client(configured(service))
    with pytest.raises(errors.BadConfig, match='x'):
        service.client(configured(service, auth_type='x'))


@each('service', SERVICES, ids=group)
@table(
    'values, timeouts',
    {
        'default': ({}, (3.0, 20.0)),
        'timeout of keystoneauth': ({'timeout': 7}, (7, 7)),
        'both': ({'connect_timeout': 1.5, 'read_timeout': 9.0}, (1.5, 9.0)),
    },
)
def test_timeouts(service, values, timeouts):
    if service is NEUTRON and 'read_timeout' in values:
        return
    made = service.client(configured(service, auth_type='none', **values))
    assert made._timeouts_s == made._adapter.session.timeout == timeouts


@table(
    'values, is_set',
    {
        'none': ({}, False),
        'its own': ({'auth_type': 'none'}, True),
        'of another group': ({'auth_section': 'placement'}, True),
    },
)
def test_whether_there_is_an_account_of_nova(values, is_set):
    assert services.has_nova_account(configured(NOVA, **values)) is is_set


@each('service', SERVICES, ids=group)
def test_no_server(service):
    with service.fake.served() as gone:
        pass
    for client in (service.fake.client_of(gone), logging_in(service, gone.url)):
        with pytest.raises(service.away, match='Unable to establish connection'):
            service.ask(client)


@each('service', SERVICES, ids=group)
@table('status', {'wrong password': 401, 'out of order': 503})
def test_keystone_answers_with_an_error(service, status):
    """The service was not asked."""
    with fake_placement.served() as fake:
        fake.faults = lambda method, path: fake_placement.Fault(status)
        kind = service.refused if status == 401 else service.away
        with pytest.raises(kind, match=f'Keystone: .*{status}') as raised:
            service.ask(logging_in(service, fake.url))
    assert type(raised.value) is kind


@each('service', SERVICES, ids=group)
def test_the_catalog_does_not_have_the_service(service):
    with (
        keystone_stub.served(keystone_stub.Keystone()) as there,
        pytest.raises(service.refused, match='check the options of'),
    ):
        service.ask(logging_in(service, there.url))


@pytest.fixture
def url():
    """Of a service that never answers, until it breaks the connections."""
    with socket.create_server(('127.0.0.1', 0)) as silent:
        ends = threading.Timer(HANG_S, silent.shutdown, (socket.SHUT_RDWR,))
        ends.start()
        yield f'http://127.0.0.1:{silent.getsockname()[1]}/v3'
        ends.cancel()
        ends.join()


@each_afresh('words', {'default': {}, 'its own': {'timeout': 2 * HANG_S}})
def test_a_log_in_that_keystone_does_not_answer(url, words):
    """It keeps the time of the options, even for a request that may take longer."""
    conf = configured(PLACEMENT, auth_type='v3password', auth_url=url, **ACCOUNT)
    made = keystone.adapter(conf, 'placement', 1, (3.0, 0.1))
    began_s = time.monotonic()
    with pytest.raises(exceptions.ConnectTimeout):
        made.get('/', **words)
    assert time.monotonic() - began_s < HANG_S


def test_a_request_has_its_own_limit(url):
    conf = configured(PLACEMENT, auth_type='none', endpoint_override=url)
    made = keystone.adapter(conf, 'placement', 1, (3.0, 2 * HANG_S))
    with pytest.raises(exceptions.ConnectTimeout):
        made.get('/', timeout=0.1)
