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
"""The dispatcher of the direct server."""

import types
from concurrent.futures import Future

import oslo_messaging as messaging
import pytest

from nova_sched import errors
from nova_sched.engine.loop import Deferred
from nova_sched.rpc.messages import (
    DirectDispatcher,
    Dispatcher,
    ServerSerializer,
    begins,
    expected,
    once,
)
from nova_sched.tracing import KEY, TRACER, Parent


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
