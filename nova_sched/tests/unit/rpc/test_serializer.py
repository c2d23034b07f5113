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
"""Objects and contexts on their way over the bus."""

import logging

import oslo_messaging as messaging
import pytest
from oslo_context.context import RequestContext

from nova_sched import errors, objects
from nova_sched.rpc.messages import PlainSerializer, Serializer, ServerSerializer
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.reference import wire
from nova_sched.tracing import KEY, TRACER, Parent, read

CONTEXT = wire('select_destinations-boot-1')['context']
SELECTION = objects.Selection(compute_node_uuid=uuid_of('node'), service_host='a')


def test_objects_travel_in_any_nest():
    there = Serializer().serialize_entity(None, {'found': [[SELECTION], ()], 'n': {1}})
    assert there['found'][0][0]['nova_object.name'] == 'Selection'
    back = Serializer().deserialize_entity(None, there)
    assert back['found'][0][0].service_host == 'a'
    assert back['n'] == [1]


def test_plain_values_are_sent_as_they_are():
    plain = {'found': [1]}
    assert PlainSerializer().serialize_entity(None, plain) is plain
    assert PlainSerializer().serialize_context(CONTEXT) == Serializer().serialize_context(CONTEXT)


@pytest.mark.parametrize(
    'serializer', [Serializer(), ServerSerializer()], ids=lambda one: type(one).__name__
)
def test_a_context_as_nova_sends_it(serializer):
    context = serializer.deserialize_context(CONTEXT)
    assert isinstance(context, RequestContext)
    assert (context.request_id, context.project_id, context.user_id, context.roles) == (
        CONTEXT['request_id'],
        CONTEXT['project_id'],
        CONTEXT['user_id'],
        CONTEXT['roles'],
    )


def test_unknown_keys_of_a_context_are_passed_over():
    context = Serializer().deserialize_context(
        {**CONTEXT, 'trace_info': {'hmac_key': 'x'}, 'mood': [1]}
    )
    assert context.request_id == CONTEXT['request_id']
    assert not hasattr(context, 'mood')


def test_our_own_context_comes_back_as_it_left():
    there = RequestContext(user_id='u', project_id='p', overwrite=False)
    back = Serializer().deserialize_context(Serializer().serialize_context(there))
    assert (back.request_id, back.user_id, back.project_id) == (there.request_id, 'u', 'p')


@pytest.mark.parametrize('context', [None, {}, {'a': 1}], ids=['none', 'empty', 'plain'])
def test_a_plain_context_is_sent_as_it_is(context):
    assert Serializer().serialize_context(context) == (context or {})


def test_an_empty_context_gets_a_request_id():
    assert Serializer().deserialize_context({}).request_id.startswith('req-')


@pytest.mark.parametrize(
    'request_id',
    [
        pytest.param('x' * 256, id='too long'),
        pytest.param('two\nlines', id='two lines'),
        pytest.param(['x'], id='a list'),
        pytest.param('', id='empty'),
    ],
)
def test_a_request_id_that_no_log_and_no_database_can_hold_is_replaced(request_id):
    context = Serializer().deserialize_context({**CONTEXT, 'request_id': request_id})
    assert context.request_id.startswith('req-')


def test_the_token_of_a_context_is_in_no_log(caplog):
    caplog.set_level(logging.DEBUG)
    context = ServerSerializer().deserialize_context({**CONTEXT, 'auth_token': 'a-secret'})
    logging.getLogger('nova_sched').warning('a line', extra={'context': context})
    assert 'a-secret' not in caplog.text
    assert all('a-secret' not in str(value) for value in context.get_logging_values().values())


BAD = [
    pytest.param({'nova_object.name': 'Selection'}, errors.MalformedObject, id='malformed'),
    pytest.param(
        {**SELECTION.obj_to_primitive(), 'nova_object.version': '2.0'},
        errors.IncompatibleObject,
        id='newer major',
    ),
]


@pytest.mark.parametrize('primitive, error', BAD)
def test_a_caller_is_told_of_a_bad_answer(primitive, error):
    with pytest.raises(error):
        Serializer().deserialize_entity(None, [primitive])


@pytest.mark.parametrize('primitive, error', BAD)
def test_a_sender_is_told_of_a_bad_argument(caplog, primitive, error):
    with pytest.raises(messaging.ExpectedException) as expected:
        ServerSerializer().deserialize_entity(None, [primitive])
    assert type(expected.value.exc_info[1]) is error
    (record,) = caplog.records
    assert record.getMessage().startswith('A message refused: ')
    assert record.exc_info is None


def test_a_message_continues_the_trace_of_its_thread(monkeypatch):
    monkeypatch.setattr(TRACER, 'sink', lambda _: None)
    sent = Serializer().serialize_context({})
    assert KEY not in sent
    with TRACER.following(Parent(7, 9)):
        sent = Serializer().serialize_context({})
    assert read(sent) == Parent(7, 9)
    assert ServerSerializer().deserialize_context(sent).request_id
