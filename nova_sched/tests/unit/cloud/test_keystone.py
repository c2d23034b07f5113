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
"""How long a service is waited for that accepts connections and does not answer."""

import socket
import threading
import time

import pytest
from keystoneauth1 import exceptions, loading
from oslo_config import cfg

from nova_sched.cloud import keystone
from nova_sched.conf import placement as options

HANG_S = 10.0  # so long a request takes that has no limit


@pytest.fixture
def url():
    """Of a service that never answers, until it breaks the connections."""
    with socket.create_server(('127.0.0.1', 0)) as silent:
        ends = threading.Timer(HANG_S, silent.shutdown, (socket.SHUT_RDWR,))
        ends.start()
        yield f'http://127.0.0.1:{silent.getsockname()[1]}/v3'
        ends.cancel()
        ends.join()


def adapter(timeouts_s, **values):
    conf = cfg.ConfigOpts()
    options.register_keystone_opts(conf)
    conf([])
    # After the files, because some are required.
    conf.register_opts(loading.get_auth_plugin_conf_options('v3password'), 'placement')
    for name, value in values.items():
        conf.set_override(name, value, 'placement')
    return keystone.adapter(conf, 'placement', 1, timeouts_s)


@pytest.mark.parametrize('words', [{}, {'timeout': 2 * HANG_S}], ids=['default', 'its own'])
def test_a_log_in_that_keystone_does_not_answer(url, words):
    """It keeps the time of the options, even for a request that may take longer."""
    account = {'username': 'nova', 'password': 'x', 'user_domain_id': 'default'}
    made = adapter((3.0, 0.1), auth_type='v3password', auth_url=url, system_scope='all', **account)
    began_s = time.monotonic()
    with pytest.raises(exceptions.ConnectTimeout):
        made.get('/', **words)
    assert time.monotonic() - began_s < HANG_S


def test_a_request_has_its_own_limit(url):
    made = adapter((3.0, 2 * HANG_S), auth_type='none', endpoint_override=url)
    with pytest.raises(exceptions.ConnectTimeout):
        made.get('/', timeout=0.1)
