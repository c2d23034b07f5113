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
"""Every RPC server of the scheduler, on RabbitMQ."""

import pytest

from nova_sched.conf.scheduler import DIRECT, OSLO
from nova_sched.tests.cases import ONLY_THOROUGH
from nova_sched.tests.options import settings

SERVERS = (OSLO, DIRECT)


def _bus_url(request, rabbitmq):
    """A virtual host of our own, with one server after the other."""
    with settings({'scheduler.rpc_server': request.param}):
        yield rabbitmq.fresh()


bus_url = pytest.fixture(scope='module', params=SERVERS)(_bus_url)
# For the tests of the RPC methods, which both servers pass on alike: the gate runs them on one.
# test_direct_server.py, test_direct_wire.py and the modules with bus_url test the direct server.
mostly_oslo = pytest.fixture(
    name='bus_url', scope='module', params=[OSLO, pytest.param(DIRECT, marks=ONLY_THOROUGH)]
)(_bus_url)


@pytest.fixture(params=SERVERS)
def cloud(request, cloud):
    """The cloud; its daemons have one server after the other."""
    cloud.options = {'scheduler.rpc_server': request.param}
    return cloud
