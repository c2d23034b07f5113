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
"""URLs of RabbitMQ: its hosts, and TLS."""

import pytest

from nova_sched import errors
from nova_sched.rpc.rabbit import Host, cluster
from nova_sched.tests.rows import each


@each(
    'url, hosts, virtual_host',
    [
        pytest.param('rabbit://', [Host('localhost', None, None, None)], '/', id='nothing'),
        pytest.param(
            'rabbit://me:pw@mq:5673/cloud', [Host('mq', 5673, 'me', 'pw')], 'cloud', id='all'
        ),
        pytest.param(
            'rabbit://me:pw@mq//', [Host('mq', None, 'me', 'pw')], '/', id='root as it is'
        ),
        pytest.param(
            'rabbit://me:pw@mq/', [Host('mq', None, 'me', 'pw')], '/', id='root left out'
        ),
        pytest.param(
            'rabbit://a:b@one:1,c:d@two:2/v',
            [Host('one', 1, 'a', 'b'), Host('two', 2, 'c', 'd')],
            'v',
            id='two hosts',
        ),
        pytest.param(
            'rabbit://m%40e:p%3A%2F%2Cw@mq/a%2Fb',
            [Host('mq', None, 'm@e', 'p:/,w')],
            'a/b',
            id='quoted',
        ),
        pytest.param('kombu://me:pw@[::1]:5672', [Host('::1', 5672, 'me', 'pw')], '/', id='IPv6'),
    ],
)
def test_urls(url, hosts, virtual_host):
    found = cluster(url)
    assert (list(found.hosts), found.virtual_host, found.tls) == (hosts, virtual_host, False)


def test_passwords_are_not_shown():
    assert 'secret' not in repr(cluster('rabbit://me:secret@mq'))


@each('url', ['', 'fake://', 'http://mq', 'rabbit://me:secret@mq:port', 'rabbit://[::1'])
def test_a_bad_url_is_refused_without_its_password(url):
    with pytest.raises(errors.BadConfig) as refused:
        cluster(url)
    assert 'secret' not in str(refused.value)


@each(
    'query, options, tls',
    [
        pytest.param('', {'ssl': False, 'ssl_ca_file': 'ca'}, False, id='off'),
        pytest.param('', {'ssl': True, 'ssl_ca_file': ''}, True, id='on'),
        pytest.param('?ssl=1', {'ssl': False}, True, id='the URL is stronger'),
        pytest.param('?ssl=0', {'ssl': True}, False, id='the URL turns it off'),
        pytest.param(
            '',
            {'ssl': True, 'ssl_ca_file': 'ca', 'ssl_cert_file': 'crt', 'ssl_key_file': 'key'},
            {'ca_certs': 'ca', 'certfile': 'crt', 'keyfile': 'key'},
            id='files',
        ),
        pytest.param(
            '?ssl=true&ssl_ca_file=ca',
            {'ssl_server_hostname': 'mq'},
            {'ca_certs': 'ca', 'server_hostname': 'mq'},
            id='name of the host',
        ),
    ],
)
def test_tls(query, options, tls):
    assert cluster(f'rabbit://mq/{query}', options).tls == tls
