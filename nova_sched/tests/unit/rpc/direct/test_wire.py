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
"""oslo.messaging's messages, as its driver reads and writes them."""

import json

import amqp
import pytest
from oslo_messaging._drivers import common

from nova_sched import errors
from nova_sched.rpc.direct import wire


def received(body, **headers):
    return amqp.Message(body, application_headers=headers)


def test_a_message_is_read():
    text = json.dumps(common.serialize_msg({'method': 'ping', 'args': {'a': 'ß'}})).encode()
    assert wire.read(received(text)) == {'method': 'ping', 'args': {'a': 'ß'}}


def test_a_message_without_an_envelope_is_read():
    assert wire.read(received(b'{"method": "ping"}')) == {'method': 'ping'}


@pytest.mark.parametrize('how', ['gzip', 'bzip2'])
def test_a_compressed_message(how):
    made = wire.to_amqp(b'{"method": "ping"}', how)
    assert (made.body != b'{"method": "ping"}', wire.read(made)) == (True, {'method': 'ping'})


@pytest.mark.parametrize(
    'body',
    [b'', b'x', b'[]', b'7', b'"ping"', b'\xff', b'{"oslo.version": "3.0", "oslo.message": "{}"}'],
)
def test_what_is_no_message(body):
    with pytest.raises((ValueError, common.RPCException)):
        wire.read(received(body))


def test_the_words_of_the_driver_are_taken_out():
    message = {'method': 'ping', '_context_user': 'u', '_timeout': 60, '_msg_id': 'a'}
    context = {'user': 'u', 'client_timeout': 60}
    assert wire.split(message) == (context, 'a', None, None)
    assert message == {'method': 'ping'}


@pytest.mark.parametrize('word', ['_msg_id', '_reply_q', '_unique_id'])
@pytest.mark.parametrize('value', [7, True, ['x'], {}, 'x' * 256, 'ß' * 128, '\ud800'])
def test_names_that_the_broker_cannot_have(word, value):
    with pytest.raises(ValueError):
        wire.split({'method': 'ping', word: value})


@pytest.mark.parametrize('value', ['', 'x' * 255, 'ß' * 127])
def test_names_that_the_broker_can_have(value):
    assert wire.split({'_reply_q': value})[2] == value


def test_an_answer_is_what_the_driver_makes():
    text = wire.answer('id', {'a': [1, None, 'ß']})
    inner = common.deserialize_msg(json.loads(text))
    unique_id = inner['_unique_id']
    told = {'result': {'a': [1, None, 'ß']}, 'failure': None, 'ending': True, '_msg_id': 'id'}
    assert inner == {**told, '_unique_id': unique_id}
    assert text.decode() == json.dumps(common.serialize_msg(inner))


def test_a_failure_is_what_the_driver_makes():
    try:
        raise errors.NodeNotFound('a')
    except errors.NodeNotFound as error:
        info = type(error), error, error.__traceback__
        inner = common.deserialize_msg(json.loads(wire.answer('id', failure=info)))
    assert inner['failure'] == common.serialize_remote_exception(info)
    assert (inner['result'], inner['ending']) == (None, True)


def test_a_heartbeat_does_not_end_the_call():
    inner = common.deserialize_msg(json.loads(wire.answer('id', ending=False)))
    assert (inner['ending'], inner['result'], inner['failure']) == (False, None, None)


class Session:
    def __init__(self):
        self.settled = []

    def settle(self, tag):
        self.settled.append(tag)


def message(**words):
    return {'method': 'ping', 'args': {}, '_context_user': 'me', '_unique_id': 'u', **words}


def test_the_parts_of_a_call():
    call = wire.Call(message(_msg_id='m', _reply_q='q', _timeout=8))
    assert call.message == {'method': 'ping', 'args': {}}
    assert call.ctxt == {'user': 'me', 'client_timeout': 8}
    assert (call.msg_id, call.reply_q, call.unique_id) == ('m', 'q', 'u')
    assert (call.client_timeout, call.beat_s) == (8, 4.0)


@pytest.mark.parametrize(
    'timeout, interval_s',
    [
        *(
            (value, None)
            for value in (None, 0, 1, 1.9, -4, True, 'soon', [], float('inf'), 10**30)
        ),
        (2, 1.0),
        (5.9, 2.5),
        (60, 30.0),
    ],
)
def test_the_interval_of_its_heartbeats(timeout, interval_s):
    assert wire.Call(message(_timeout=timeout)).beat_s == interval_s


def test_deliveries_of_another_connection_are_not_acknowledged():
    call, old, new = wire.Call(message()), Session(), Session()
    call.tags += [(old, 3), (new, 1), (new, 2)]
    call.settle(new)
    assert (old.settled, new.settled, call.tags) == ([], [1, 2], [])
