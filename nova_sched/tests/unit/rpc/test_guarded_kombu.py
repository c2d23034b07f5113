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
"""The names of brokers, and the limit of compressed messages."""

import bz2
import lzma
import types
import zlib

import kombu
import pytest

from nova_sched import errors
from nova_sched.rpc import guarded_kombu
from nova_sched.rpc.guarded_kombu import MAX_BODY, expanded

GZIP, BZ2, LZMA = 'application/x-gzip', 'application/x-bz2', 'application/x-lzma'
FULL = bytes(MAX_BODY)


@pytest.mark.parametrize(
    'body, how, found',
    [
        (zlib.compress(b'{}'), GZIP, b'{}'),
        (bz2.compress(b'{}'), BZ2, b'{}'),
        (lzma.compress(b'{}'), LZMA, b'{}'),
        (zlib.compress(b''), GZIP, b''),
        (zlib.compress(FULL), GZIP, FULL),
        (bz2.compress(FULL), BZ2, FULL),
        (lzma.compress(FULL), LZMA, FULL),
        (zlib.compress(FULL + b'1'), GZIP, 'more than 16777216 bytes'),
        (bz2.compress(FULL + b'1'), BZ2, 'more than 16777216 bytes'),
        (lzma.compress(FULL + b'1'), LZMA, 'more than 16777216 bytes'),
        (zlib.compress(b'{}')[:-1], GZIP, 'is cut'),
        (bz2.compress(b'{}')[:-1], BZ2, 'is cut'),
        (lzma.compress(b'{}')[:-1], LZMA, 'is cut'),
        (b'', GZIP, 'is cut'),
        (b'{}', GZIP, 'cannot be decompressed'),
        (b'{}', BZ2, 'cannot be decompressed'),
        (b'{}', LZMA, 'cannot be decompressed'),
        (b'{}', 'application/zstd', "'application/zstd' is not accepted"),
        (b'{}', ['gzip'], 'is not accepted'),
    ],
    ids=lambda value: None if isinstance(value, str) else '-',
)
def test_bodies(body, how, found):
    """By our own reader, and by kombu's, which oslo.messaging uses."""
    guarded_kombu.install()
    headers = {'compression': how}
    message = kombu.transport.pyamqp.Message(
        types.SimpleNamespace(
            body=body,
            properties={'application_headers': headers},
            delivery_tag=1,
            delivery_info={},
        )
    )
    if isinstance(found, bytes):
        assert expanded(body, how) == found
        assert (message.body, message.errors) == (found, [])
        return
    with pytest.raises(errors.InvalidRequest, match=found):
        expanded(body, how)
    assert message.errors
    assert message.body == body


@pytest.mark.parametrize(
    'options, found',
    [
        (False, [False, False]),
        (True, [{'server_hostname': 'a'}, {'server_hostname': 'b'}]),
        (
            {'ca_certs': 'ca', 'server_hostname': None},
            [
                {'ca_certs': 'ca', 'server_hostname': 'a'},
                {'ca_certs': 'ca', 'server_hostname': 'b'},
            ],
        ),
        ({'server_hostname': 'mq'}, [{'server_hostname': 'mq'}] * 2),
        ({'ssl_version': 2}, [{'ssl_version': 2}] * 2),  # the certificate is not checked
    ],
)
def test_names_of_two_brokers(monkeypatch, options, found):
    guarded_kombu.install()
    used = []

    class Refusing:
        connection_errors = recoverable_connection_errors = (OSError,)

        def __init__(self, ssl, **_):
            used.append(ssl)

        def connect(self):
            raise OSError

    monkeypatch.setattr(guarded_kombu.VerifyingTransport, 'Connection', Refusing)
    shared = kombu.Connection('amqp://a;amqp://b', ssl=options)
    for _ in range(2):
        with pytest.raises(OSError):
            shared.transport.establish_connection()
        shared.maybe_switch_next()
    assert used == found
