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
"""What the direct server reads of the bus, and the queues that it declares."""

import ssl

import pytest
from amqp.exceptions import NotFound, PreconditionFailed
from oslo_messaging._drivers import amqpdriver, impl_rabbit

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


# Queues.


@pytest.fixture
def made():
    """Make the three Subscriptions with options of [oslo_messaging_rabbit]."""
    bus = rpc.transport(CONF, 'rabbit://a/')

    def make(**values):
        with options({f'oslo_messaging_rabbit.{name}': value for name, value in values.items()}):
            rabbit = settings.of(bus).rabbit
            return settings.of_server(rabbit, 'nova', 'topic', 'host')

    yield make
    bus.cleanup()


LIMITS = {
    'rabbit_quorum_delivery_limit': 3,
    'rabbit_quorum_max_memory_length': 4,
    'rabbit_quorum_max_memory_bytes': 5,
}


@pytest.mark.parametrize(
    'values',
    [
        {},
        {'rabbit_quorum_queue': True},
        {'rabbit_quorum_queue': True, **LIMITS},
        {'rabbit_transient_quorum_queue': True, 'rabbit_transient_queues_ttl': 9, **LIMITS},
        {'rabbit_ha_queues': True},
        {
            'rabbit_stream_fanout': True,
            'rabbit_transient_quorum_queue': True,
            'rabbit_qos_prefetch_count': 1,
            'rabbit_transient_queues_ttl': 7,
        },
    ],
    ids=lambda values: ' '.join(values) or 'default',
)
def test_the_arguments_are_those_of_the_driver(made, values):
    found = [one.arguments for one in made(**values)]
    limits = impl_rabbit.QuorumMemConfig(*(values.get(name, 0) for name in LIMITS))
    is_mirrored = values.get('rabbit_ha_queues', False)
    shared = impl_rabbit._get_queue_arguments(
        is_mirrored, 0, values.get('rabbit_quorum_queue', False), limits, False
    )
    fanout = impl_rabbit._get_queue_arguments(
        is_mirrored,
        values.get('rabbit_transient_queues_ttl', 1800),
        values.get('rabbit_transient_quorum_queue', False),
        limits,
        values.get('rabbit_stream_fanout', False),
    )
    assert found == [shared, shared, fanout]


def test_names(made):
    topic, own, fanout = made()
    assert (topic.queue, own.queue) == ('topic', 'topic.host')
    assert fanout.queue.startswith('topic_fanout_')
    assert [one.exchange for one in (topic, own, fanout)] == ['nova', 'nova', 'topic_fanout']
    assert [one.is_own for one in (topic, own, fanout)] == [False, False, True]


def test_a_name_that_stays(made, monkeypatch):
    monkeypatch.setattr(amqpdriver.QManager, 'get', lambda self: f'{self.hostname}:1')
    values = {'use_queue_manager': True, 'hostname': 'unit', 'processname': 'direct'}
    fanout = made(**values)[2]
    assert fanout.queue == 'topic_fanout_unit:1'
    assert not fanout.is_own


class Connection:
    """Notes what is declared; the first declaration of a queue fails with ``error``."""

    def __init__(self, error=None):
        self.done, self._error = [], error

    def channel(self):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def exchange_declare(self, name, kind, durable, auto_delete):
        self.done.append(('exchange', name, kind, durable, auto_delete))

    def queue_declare(self, name, durable, auto_delete, arguments):
        error, self._error = self._error, None
        if error is not None:
            raise error
        self.done.append(('queue', name, durable, auto_delete, arguments))

    def queue_bind(self, *words):
        self.done.append(('bind', *words))

    def queue_delete(self, name):
        self.done.append(('delete', name))


def test_a_queue_is_declared_and_bound(made):
    connection = Connection()
    settings.declare(connection, made(amqp_durable_queues=True)[1])
    assert connection.done == [
        ('exchange', 'nova', 'topic', True, False),
        ('queue', 'topic.host', True, False, {}),
        ('bind', 'topic.host', 'nova', 'topic.host'),
    ]


def test_an_exchange_of_another_durability_stays(made):
    connection = Connection(PreconditionFailed("inequivalent arg 'durable' for exchange"))
    settings.declare(connection, made(amqp_durable_queues=True)[0])
    assert connection.done[1:] == [
        ('exchange', 'nova', 'topic', False, False),
        ('queue', 'topic', False, False, {}),
        ('bind', 'topic', 'nova', 'topic'),
    ]


def test_another_difference_is_an_error(made):
    with pytest.raises(PreconditionFailed):
        settings.declare(Connection(PreconditionFailed('x-expires')), made()[0])


def test_a_queue_on_a_lost_node_is_made_again(made):
    connection = Connection(NotFound('node is down'))
    settings.declare(connection, made()[0])
    assert [words[0] for words in connection.done] == [
        'exchange',
        'delete',
        'exchange',
        'queue',
        'bind',
    ]
