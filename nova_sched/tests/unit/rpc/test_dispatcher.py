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
"""The dispatcher: a message of another shape than RPC gives it is refused, and leaves no thread
behind."""

import threading
import types
from concurrent.futures import Future

import oslo_messaging as messaging
import pytest

from nova_sched import errors
from nova_sched.engine.loop import Deferred
from nova_sched.rpc.endpoints.scheduler import BaseApiEndpoint
from nova_sched.rpc.messages import (
    DirectDispatcher,
    Dispatcher,
    ServerSerializer,
    begins,
    expected,
    once,
)
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.functional.harness import PATIENCE_S
from nova_sched.tests.options import settings
from nova_sched.tests.rows import each
from nova_sched.tracing import KEY, TRACER, Parent

PING = {'method': 'ping', 'namespace': 'baseapi', 'version': '1.0', 'args': {'arg': 'x'}}


def dispatched(message, context=None, timeout=3600):
    """The answer; raises what would be sent to the caller."""
    dispatcher = Dispatcher(
        [BaseApiEndpoint()], ServerSerializer(), messaging.ExplicitRPCAccessPolicy
    )
    incoming = types.SimpleNamespace(
        message=message,
        ctxt={} if context is None else context,
        client_timeout=timeout,
        heartbeat=list,
    )
    try:
        return dispatcher.dispatch(incoming)
    except messaging.ExpectedException as failure:
        raise failure.exc_info[1] from None


@pytest.fixture(autouse=True)
def no_thread_is_left():
    """Nor does one end with an error: that is a warning, and warnings are errors."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), thread


@pytest.mark.parametrize(
    'timeout', [None, 1800, 2.5, 0, -1, 'soon', [], {}, True, float('inf'), 10**30]
)
def test_a_sound_message_is_answered_whatever_its_timeout(timeout):
    assert dispatched(PING, timeout=timeout) == {'service': 'scheduler', 'arg': 'x'}


@each(
    'changes, where',
    [
        *(
            pytest.param({name: value}, name, id=f'{name} {type(value).__name__}')
            for name in ('method', 'namespace')
            for value in (1, ['ping'], {'ping': 1}, True, '', 'a' * 256, 'a\0b', 'half \ud800')
        ),
        pytest.param({'method': None}, 'method', id='method none'),
        *(
            pytest.param({'version': value}, 'version', id=f'version {value!r}')
            for value in (
                None,
                1,
                1.0,
                ['1', '0'],
                {'1': 0},
                '',
                '1',
                '1.x',
                '-1.0',
                '1.0.0.0',
                '9' * 5000,
            )
        ),
        *(
            pytest.param({'args': value}, 'args', id=f'args {value!r}')
            for value in (None, 1, 'x', ['x'], False)
        ),
    ],
)
def test_a_message_of_another_shape(changes, where):
    with pytest.raises(errors.InvalidRequest) as refused:
        dispatched({**PING, **changes})
    assert refused.value.where == where
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize('message', [[], 'ping', 7], ids=repr)
def test_no_message_at_all(message):
    with pytest.raises(errors.InvalidRequest, match='is not a mapping'):
        dispatched(message)


def test_a_context_that_is_none():
    with pytest.raises(errors.InvalidRequest, match='context'):
        dispatched(PING, context=['admin'])


@pytest.mark.parametrize(
    'args, why',
    [
        pytest.param({}, 'arg', id='one less'),
        pytest.param({'arg': 1, 'b': 2}, "'b'", id='one more'),
        pytest.param({'arg': ['a', {'b': 'half \ud800'}]}, 'not text', id='half of a character'),
        pytest.param({'arg': {'a\0': 1}}, 'not text', id='a key with NUL'),
    ],
)
def test_arguments(args, why):
    with pytest.raises(errors.InvalidRequest, match=why):
        dispatched({**PING, 'args': args})


@pytest.mark.parametrize(
    'changes, kind',
    [
        pytest.param({'method': 'pong'}, messaging.NoSuchMethod, id='method'),
        pytest.param({'method': '__init__'}, messaging.NoSuchMethod, id='an inner one'),
        pytest.param({'version': '2.0'}, messaging.UnsupportedVersion, id='version'),
        pytest.param({'namespace': uuid_of('x')}, messaging.UnsupportedVersion, id='namespace'),
        pytest.param({'namespace': None}, messaging.UnsupportedVersion, id='no namespace'),
    ],
)
def test_what_there_is_not(changes, kind):
    with pytest.raises(kind):
        dispatched({**PING, **changes})


class TestPing:
    """Of oslo.messaging, with [DEFAULT] rpc_ping_enabled."""

    MESSAGE = {'method': 'oslo_rpc_server_ping', 'version': '1.0', 'args': {}}

    def test_it_is_answered(self):
        dispatched(PING)  # it registers the option
        with settings({'default.rpc_ping_enabled': True}):
            assert dispatched(self.MESSAGE) == 'pong'
            assert dispatched(PING)['service'] == 'scheduler'
            with pytest.raises(messaging.NoSuchMethod):
                dispatched({**self.MESSAGE, 'method': 'other'})

    def test_it_is_off_by_default(self):
        with pytest.raises(messaging.UnsupportedVersion):
            dispatched(self.MESSAGE)


# Of the direct server.


class Endpoint:
    target = messaging.Target(version='1.0')

    def __init__(self):
        self.future = Future()

    @expected
    @begins
    def later(self, context):
        return Deferred(self.future, lambda: self.future.result() + '!')

    @expected
    def now(self, context):
        return 'now'

    @expected
    @once
    def dear(self, context):
        return 'dear'


class Other:
    target = messaging.Target(namespace='other', version='1.0')

    @expected
    def later(self, context):
        return 'other'


@pytest.fixture
def endpoint():
    return Endpoint()


def made(endpoint, kind=DirectDispatcher):
    return kind([endpoint, Other()], ServerSerializer(), messaging.ExplicitRPCAccessPolicy)


def incoming(method, namespace=None):
    message = {'method': method, 'args': {}, 'namespace': namespace, 'version': '1.0'}
    return types.SimpleNamespace(message=message, ctxt={}, client_timeout=60)


def test_an_answer_at_once(endpoint):
    assert made(endpoint).dispatch(incoming('now')) == 'now'


def test_a_later_answer(endpoint):
    found = made(endpoint).dispatch(incoming('later'))
    assert found.waits()
    endpoint.future.set_result('late')
    assert (found.waits(), found.result()) == (False, 'late!')


def test_a_later_refusal_is_expected(endpoint):
    found = made(endpoint).dispatch(incoming('later'))
    endpoint.future.set_exception(errors.NoValidHost('full'))
    with pytest.raises(messaging.ExpectedException) as failed:
        found.result()
    assert failed.value.exc_info[0].__name__ == 'NoValidHost'


def test_the_dispatcher_of_oslo_messaging_waits_for_it(endpoint):
    endpoint.future.set_result('late')
    message = incoming('later')
    message.client_timeout = None
    assert made(endpoint, Dispatcher).dispatch(message) == 'late!'


@pytest.mark.parametrize('kind', [Dispatcher, DirectDispatcher])
def test_a_later_answer_continues_the_trace(kind, monkeypatch):
    ended = []
    monkeypatch.setattr(TRACER, 'sink', ended.append)
    monkeypatch.setattr(TRACER, 'share', 1.0)

    class Planning(Endpoint):
        @expected
        @begins
        def later(self, context):
            return Deferred(self.future, self.plan)

        def plan(self):
            with TRACER.traced('plan group'):
                return 'planned'

    endpoint = Planning()
    endpoint.future.set_result(None)
    message = incoming('later')
    message.ctxt, message.client_timeout = {KEY: Parent(7, 9).text}, None
    found = made(endpoint, kind).dispatch(message)
    assert (found if kind is Dispatcher else found.result()) == 'planned'
    assert [one.parent for one in ended] == [Parent(7, 9)]


@pytest.mark.parametrize(
    'method, namespace, is_quick, is_dear',
    [
        ('later', None, True, False),
        ('now', None, False, False),
        ('dear', None, False, True),
        ('later', 'other', False, False),
        ('missing', None, False, False),
        (['later'], None, False, False),
    ],
)
def test_marks(endpoint, method, namespace, is_quick, is_dear):
    dispatcher, message = made(endpoint), {'method': method, 'namespace': namespace}
    assert (dispatcher.begins(message), dispatcher.is_once(message)) == (is_quick, is_dear)
