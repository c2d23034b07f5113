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

import datetime
import types

import oslo_messaging as messaging
import pytest
from oslo_utils import timeutils

from nova_sched import errors
from nova_sched.rpc import endpoints
from nova_sched.rpc.endpoints import nova_source
from nova_sched.tests.builders import uuid_of

HOST, A = 'compute-1', uuid_of('a')


class Told:
    """A mirror that records what it is told."""

    def __init__(self):
        self.told, self.waits = [], False

    def aggregates_changed(self):
        self.told.append('aggregates')

    def host_changed(self, host):
        self.told.append(host)

    def waits_for_host(self, instance_uuids):
        self.told.append(instance_uuids)
        return self.waits


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
        ('update_aggregates', {'aggregates': []}, 'aggregates'),
        ('delete_aggregate', {'aggregate': None}, 'aggregates'),
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


def called(served, age_s, uuids):
    """What a call of that age fails with: the engine is missing."""
    made = timeutils.utcnow() - datetime.timedelta(seconds=age_s)
    context = types.SimpleNamespace(timestamp=None if age_s is None else made.isoformat())
    arguments = {'spec_obj': None, 'instance_uuids': uuids}
    return failure(lambda: served[None].select_destinations(context, **arguments))


@pytest.mark.parametrize(
    'age_s, uuids, waits, error',
    [
        pytest.param(5, [A], False, errors.InvalidRequest, id='a new call is decided'),
        pytest.param(500, [A], True, errors.InvalidRequest, id='an old one that Nova waits for'),
        pytest.param(500, [A], False, 'NoValidHost', id='an old one that it does not wait for'),
        pytest.param(500, [], False, errors.InvalidRequest, id='an old one that claims nothing'),
        pytest.param(500, ['x'], True, errors.InvalidRequest, id='no UUIDs'),
    ],
)
def test_an_old_call_is_decided_while_nova_waits(served, mirror, age_s, uuids, waits, error):
    mirror.waits = waits
    found = called(served, age_s, uuids)
    assert error in (type(found), type(found).__name__)
    assert mirror.told == ([{A}] if age_s > 60 and uuids == [A] else [])


@pytest.mark.parametrize('timestamp', [None, 'soon', 7])
def test_a_call_of_unknown_age_is_decided(served, mirror, timestamp):
    context = types.SimpleNamespace(timestamp=timestamp)
    call = served[None].select_destinations
    error = failure(lambda: call(context, spec_obj=None, instance_uuids=[A]))
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
