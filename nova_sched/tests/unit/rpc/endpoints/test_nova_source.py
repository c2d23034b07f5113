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
"""The endpoints of a scheduler that reads its hosts from Nova."""

import oslo_messaging as messaging
import pytest

from nova_sched import errors
from nova_sched.rpc import endpoints
from nova_sched.rpc.endpoints import nova_source

HOST = 'compute-1'


class Told:
    """A mirror that records what it is told."""

    def __init__(self):
        self.told = []

    def compare_soon(self):
        self.told.append('all')

    def host_changed(self, host):
        self.told.append(host)


@pytest.fixture
def mirror():
    return Told()


@pytest.fixture
def served(mirror):
    """Endpoints by namespace; any use of the engine fails."""
    made = endpoints.all_of(None, mirror)
    return {one.target.namespace: one for one in made}


def failure(call):
    with pytest.raises(messaging.ExpectedException) as caught:
        call()
    _, error, _ = caught.value.exc_info
    return error


@pytest.mark.parametrize(
    'method, arguments, told',
    [
        ('update_aggregates', {'aggregates': []}, 'all'),
        ('delete_aggregate', {'aggregate': None}, 'all'),
        ('update_instance_info', {'host_name': HOST, 'instance_info': None}, HOST),
        ('delete_instance_info', {'host_name': HOST, 'instance_uuid': 'x'}, HOST),
        ('sync_instance_info', {'host_name': HOST, 'instance_uuids': []}, HOST),
    ],
)
def test_a_cast_makes_the_mirror_read(served, mirror, method, arguments, told):
    assert getattr(served[None], method)({}, **arguments) is None
    assert mirror.told == [told]


def test_a_host_that_is_no_name_is_refused(served, mirror):
    call = served[None].sync_instance_info
    error = failure(lambda: call({}, host_name=['x'], instance_uuids=[]))
    assert isinstance(error, errors.InvalidRequest)
    assert mirror.told == []


@pytest.mark.parametrize(
    'namespace, method',
    [
        *(('claims', name) for name in nova_source.CLAIMING),
        *(('stats', name) for name in nova_source.REPORTING),
        ('candidates', 'claim_candidate'),
    ],
)
def test_methods_that_claim_without_placement_are_refused(served, namespace, method):
    error = failure(lambda: getattr(served[namespace], method)({}, anything=1))
    assert isinstance(error, errors.InvalidRequest)
    assert method in str(error)
    assert 'claims in Placement' in str(error)


def test_every_namespace_is_served(served):
    usual = {one.target.namespace: one.target.version for one in endpoints.all_of(None)}
    assert {name: one.target.version for name, one in served.items()} == usual
