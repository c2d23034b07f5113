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
"""What the direct server reads of the bus."""

import ssl

import pytest

from nova_sched import errors, rpc
from nova_sched.conf import CONF
from nova_sched.rpc.direct import settings
from nova_sched.tests.options import settings as options


def of(url, **values):
    bus = rpc.transport(CONF, url)
    try:
        with options({f'oslo_messaging_rabbit.{name}': value for name, value in values.items()}):
            return settings.of(bus)
    finally:
        bus.cleanup()


@pytest.mark.parametrize('url', ['fake://', 'kombu+memory://'])
def test_other_buses_are_refused(url):
    with pytest.raises(errors.BadConfig, match=r'\[scheduler\] rpc_server.*RabbitMQ only'):
        of(url)


def test_several_brokers():
    found = of('rabbit://me:se%2Fcret@a:5671,you:x@b:5672/cloud').cluster
    assert {(one.name, one.port, one.user, one.password) for one in found.hosts} == {
        ('a', 5671, 'me', 'se/cret'),
        ('b', 5672, 'you', 'x'),
    }
    assert (found.virtual_host, found.tls, found.login_method) == ('cloud', False, 'AMQPLAIN')


def test_a_url_without_anything():
    found = of('rabbit://').cluster
    assert [(one.name, one.user) for one in found.hosts] == [('localhost', None)]
    assert found.virtual_host == '/'


def test_options_in_the_url_come_first():
    found = of('rabbit://a/?heartbeat_timeout_threshold=9&rabbit_quorum_queue=true').rabbit
    assert (found.heartbeat_timeout_threshold, found.rabbit_quorum_queue) == (9, True)


@pytest.mark.parametrize(
    'url, values, tls',
    [
        ('rabbit://a/', {'ssl': True}, True),
        (
            'rabbit://a/',
            {'ssl': True, 'ssl_ca_file': 'ca'},
            {'ca_certs': 'ca', 'cert_reqs': ssl.CERT_REQUIRED},
        ),
        (
            'rabbit://a,b/',
            {'ssl': True, 'ssl_ca_file': 'ca', 'ssl_key_file': 'k', 'ssl_cert_file': 'c'},
            {
                'ca_certs': 'ca',
                'cert_reqs': ssl.CERT_REQUIRED,
                'keyfile': 'k',
                'certfile': 'c',
            },
        ),
        ('rabbit://a/', {'ssl': True, 'ssl_version': 'SSLv23'}, {'ssl_version': ssl.PROTOCOL_TLS}),
    ],
)
def test_tls(url, values, tls):
    assert of(url, **values).cluster.tls == tls


@pytest.mark.parametrize(
    'values, why',
    [
        ({'rabbit_quorum_queue': True, 'rabbit_ha_queues': True}, 'both'),
        ({'rabbit_stream_fanout': True}, 'rabbit_qos_prefetch_count'),
        (
            {'rabbit_stream_fanout': True, 'rabbit_qos_prefetch_count': 1},
            'rabbit_transient_quorum_queue',
        ),
        ({'ssl': True, 'ssl_version': 'none'}, 'tlsv1'),
    ],
)
def test_contradictions_are_refused(values, why):
    with pytest.raises(errors.BadConfig, match=why):
        of('rabbit://a/', **values)
