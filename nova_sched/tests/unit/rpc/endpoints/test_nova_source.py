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
from concurrent.futures import Future

import oslo_messaging as messaging
import pytest
from oslo_utils import timeutils

from nova_sched import errors, objects
from nova_sched.engine.loop import Deferred
from nova_sched.rpc import endpoints
from nova_sched.rpc.endpoints import nova_source
from nova_sched.rpc.messages import answered
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.options import told_all
from nova_sched.tests.reference import scenario
from nova_sched.tracing import TRACER

HOST, A = 'compute-1', uuid_of('a')


class Told:
    """A mirror that records what it is told."""

    def __init__(self):
        self.told, self.waits = [], False

    def aggregates_changed(self):
        self.told.append('aggregates')

    def host_told(self, host):
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
    """What a call of that age fails with: it has no spec."""
    made = timeutils.utcnow() - datetime.timedelta(seconds=age_s)
    context = types.SimpleNamespace(timestamp=made.isoformat(), request_id='req-1')
    arguments = {'spec_obj': None, 'instance_uuids': uuids}

    def call():
        found = served[None].select_destinations(context, **arguments)
        with answered('select_destinations'):
            found.result()

    return failure(call)


@pytest.mark.parametrize(
    'age_s, uuids, waits, reason',
    [
        pytest.param(5, [A], False, 'spec_obj', id='a new call is decided'),
        pytest.param(500, [A], True, 'spec_obj', id='an old one that Nova waits for'),
        pytest.param(500, [A], False, '500 s old', id='an old one that it does not wait for'),
        pytest.param(500, [], False, 'spec_obj', id='an old one that claims nothing'),
        pytest.param(500, ['x'], True, 'instance', id='no UUIDs'),
    ],
)
def test_an_old_call_is_decided_while_nova_waits(served, mirror, age_s, uuids, waits, reason):
    mirror.waits = waits
    found = called(served, age_s, uuids)
    assert type(found).__name__ == 'NoValidHost'
    assert reason in str(found)
    assert mirror.told == ([{A}] if age_s > 60 and uuids == [A] else [])


@pytest.mark.parametrize('waits', [True, False])
def test_databases_are_not_read_before_the_result_of_an_old_call_is_made(
    mirror, waits, monkeypatch
):
    """The thread that takes the message must not wait. The decision belongs to its trace."""
    monkeypatch.setattr(TRACER, 'sink', lambda trace: None)

    class Engine:
        begun = ()

        def begin_place(self, *_, **__):
            self.begun = (*self.begun, TRACER.parent)
            future = Future()
            future.set_result([])
            return Deferred(future, future.result)

    engine, mirror.waits = Engine(), waits
    made = endpoints.all_of(engine, mirror)[0]
    context = types.SimpleNamespace(timestamp='2020-01-01T00:00:00', request_id='req-1')
    with TRACER.following('a span'):
        found = made.select_destinations(context, spec_obj=scenario('boot-1'), instance_uuids=[A])
    assert (mirror.told, engine.begun) == ([], ())
    assert found.future.done()
    assert found.waits()
    if waits:
        assert found.result() == []
    else:
        with pytest.raises(errors.NoValidHost, match='does not wait'):
            found.result()
    assert (mirror.told, engine.begun) == ([{A}], ('a span',) * waits)


@pytest.mark.parametrize('timestamp', [None, 'soon', 7])
def test_a_call_of_unknown_age_is_decided(served, mirror, timestamp):
    context = types.SimpleNamespace(timestamp=timestamp)
    call = served[None].select_destinations
    error = failure(lambda: call(context, spec_obj=None, instance_uuids=[A]))
    assert 'spec_obj' in str(error)
    assert mirror.told == []


class TestFailures:
    """Each call that fails is refused."""

    CONTEXT = types.SimpleNamespace(timestamp=None, request_id='req-1')

    def refusal(self, mirror, error, begins):
        """What a conductor is told if the engine fails, before or after it has begun."""

        class Engine:
            def begin_place(self, *_, **__):
                if begins:
                    return Deferred(future, future.result)
                raise error

            def for_caller(self, refusal, context):
                return refusal

        future = Future()
        future.set_exception(error)
        made = endpoints.all_of(Engine(), mirror)[0]

        def call():
            found = made.select_destinations(
                self.CONTEXT, spec_obj=scenario('boot-1'), instance_uuids=[A]
            )
            with answered('select_destinations'):
                found.result()

        return failure(call)

    @pytest.mark.parametrize('begins', [True, False])
    @pytest.mark.parametrize(
        'error, reason, is_logged',
        [
            pytest.param(KeyError('colour'), nova_source.FAILED, True, id='a fault'),
            pytest.param(errors.StoreUnavailable('x'), nova_source.FAILED, True, id='no store'),
            pytest.param(RuntimeError('stopped'), nova_source.FAILED, True, id='stopped'),
            pytest.param(errors.Outdated('The call', 5.0), nova_source.FAILED, True, id='late'),
            pytest.param(errors.InvalidRequest('x', 'odd'), 'odd', False, id='a wrong message'),
            pytest.param(errors.NoValidHost('full'), 'full', False, id='a refusal'),
        ],
    )
    def test_a_failure(self, mirror, caplog, begins, error, reason, is_logged):
        found = self.refusal(mirror, error, begins)
        assert type(found).__name__ == 'NoValidHost'
        assert reason in str(found)
        assert ('req-1' in str(found)) == is_logged
        logged = [one for one in caplog.records if one.name == nova_source.__name__]
        assert [bool(one.exc_info) for one in logged] == [True] * is_logged

    def test_callers_may_be_told_all(self, mirror):
        with told_all():
            found = self.refusal(mirror, KeyError('colour'), True)
        assert "KeyError: 'colour'" in str(found)


class TestNetworks:
    """With routed networks, hosts have to be in their aggregates."""

    class Networks:
        def __init__(self, found):
            self.future, self.asked = Future(), []
            if isinstance(found, Exception):
                self.future.set_exception(found)
            else:
                self.future.set_result(found)

        def begin(self, networks):
            self.asked.append(networks)
            return self.future

    def placed(self, mirror, networks, **fields):
        """The aggregates of the request that the engine gets."""
        got = []

        class Engine:
            def begin_place(self, requests, **_):
                got.extend(requests)
                future = Future()
                future.set_result([])
                return Deferred(future, future.result)

        spec = scenario('boot-1')
        for name, value in fields.items():
            setattr(spec, name, value)
        made = endpoints.all_of(Engine(), mirror, networks=networks)[0]
        context = types.SimpleNamespace(timestamp=None, request_id='req-1')
        with answered('select_destinations'):
            made.select_destinations(context, spec_obj=spec, instance_uuids=[A]).result()
        return [one.destination and one.destination.aggregates for one in got]

    @pytest.fixture
    def asked(self):
        ports = [objects.NetworkRequest(port_id=A), objects.NetworkRequest(network_id='net')]
        return objects.NetworkRequestList(objects=[*ports, objects.NetworkRequest(tag='x')])

    def test_the_host_is_in_their_aggregates(self, mirror, asked):
        networks = self.Networks((frozenset('P'), frozenset('QR')))
        found = self.placed(mirror, networks, requested_networks=asked)
        assert found == [(frozenset('P'), frozenset('QR'))]
        assert networks.asked == [[(A, None), (None, 'net')]]

    def test_those_of_the_caller_stay(self, mirror, asked):
        networks = self.Networks((frozenset('P'),))
        destination = objects.Destination(aggregates=['S'])
        found = self.placed(
            mirror, networks, requested_networks=asked, requested_destination=destination
        )
        assert found == [(frozenset('S'), frozenset('P'))]

    @pytest.mark.parametrize(
        'fields',
        [
            pytest.param({}, id='no networks'),
            pytest.param(
                {
                    'scheduler_hints': {'_nova_check_type': ['rebuild']},
                    'force_hosts': ['a'],
                    'force_nodes': ['a'],
                },
                id='a rebuild',
            ),
        ],
    )
    def test_calls_without_a_choice(self, mirror, asked, fields):
        fields = {**fields, 'requested_networks': asked} if fields else fields
        networks = self.Networks(())
        assert self.placed(mirror, networks, **fields) == [None]
        assert networks.asked == []

    def test_neutron_does_not_tell(self, mirror, asked):
        networks = self.Networks(errors.NoValidHost('secret', for_tenants='not known'))
        error = failure(lambda: self.placed(mirror, networks, requested_networks=asked))
        assert 'not known' in str(error)
        assert 'secret' not in str(error)


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
