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
"""Both RPC servers of the scheduler, on RabbitMQ."""

import pytest

from nova_sched.conf.scheduler import DIRECT, OSLO
from nova_sched.tests.cases import ONLY_THOROUGH
from nova_sched.tests.options import settings

SERVERS = (OSLO, DIRECT)


def _bus_url(usual, other):
    """A fixture: a virtual host of the module's own, for one of the servers. The other one answers
    alike, byte by byte (test_direct_wire.py), so that the gate leaves it out."""

    @pytest.fixture(
        name='bus_url', scope='module', params=[usual, pytest.param(other, marks=ONLY_THOROUGH)]
    )
    def bus_url(request, rabbitmq):
        with settings({'scheduler.rpc_server': request.param}):
            yield rabbitmq.fresh()

    return bus_url


mostly_oslo = _bus_url(OSLO, DIRECT)
mostly_direct = _bus_url(DIRECT, OSLO)


@pytest.fixture(params=SERVERS)
def cloud(request, cloud):
    """The cloud; its daemons have one server after the other."""
    cloud.options = {'scheduler.rpc_server': request.param}
    return cloud
