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
"""kombu with what it lacks: the broker's name is checked, and messages do not expand endlessly.

oslo.messaging uses kombu too, so ``install`` replaces these parts of kombu in the process.
"""

import bz2
import functools
import lzma
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import kombu.compression
from kombu import transport
from kombu.transport import pyamqp

from nova_sched import errors, words

MAX_BODY = 16 * 2**20  # bytes; also the longest message that RabbitMQ 4 takes by default
MAX_LZMA_MEMORY = 128 * 2**20  # bytes; its strongest level needs 65 MiB


class VerifyingTransport(pyamqp.Transport):
    """Compares the name in the certificate with the name of the broker that it connects to.

    kombu does so only if it is given a name, or None for the broker's own name. It replaces that
    None with the name of the first broker, in options that all brokers of a URL share, and then
    refuses the other brokers.
    """

    def establish_connection(self) -> Any:
        client: Any = self.client
        if client.ssl:
            options = dict(client.ssl) if isinstance(client.ssl, Mapping) else {}
            # With `ssl_version` and no authority, the certificate is not checked at all.
            if 'ca_certs' in options or 'ssl_version' not in options:
                host = client.hostname or self.default_connection_params['hostname']
                options['server_hostname'] = options.get('server_hostname') or host
            client.ssl = options
        return super().establish_connection()


# By kombu's names; `kombu_compression` of [oslo_messaging_rabbit] names gzip and bz2. What is not
# here cannot be limited, and is refused.
EXPANDERS: Mapping[str, Callable[[], Any]] = {
    'application/x-gzip': zlib.decompressobj,
    'application/x-bz2': bz2.BZ2Decompressor,
    'application/x-lzma': lambda: lzma.LZMADecompressor(memlimit=MAX_LZMA_MEMORY),
}


def expanded(body: bytes, how: Any) -> bytes:
    """Return the decompressed body of a message. ``how`` is its header. Raises InvalidRequest."""
    start = EXPANDERS.get(how) if isinstance(how, str) else None
    if start is None:
        raise errors.InvalidRequest('message', f'compression {words.short(how)} is not accepted')
    expander = start()
    try:
        content: bytes = expander.decompress(body, MAX_BODY + 1)
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise errors.InvalidRequest('message', f'it cannot be decompressed: {error}') from None
    if len(content) > MAX_BODY:
        raise errors.InvalidRequest('message', f'decompressed, it has more than {MAX_BODY} bytes')
    if not expander.eof:
        raise errors.InvalidRequest('message', 'its compressed body is cut')
    return content


def install() -> None:
    """Let kombu use these parts, also for oslo.messaging."""
    for name in kombu.compression.encoders():
        encode, _ = kombu.compression.get_encoder(name)
        kombu.compression.register(encode, functools.partial(expanded, how=name), name)
    for name in ('amqp', 'pyamqp'):
        transport.TRANSPORT_ALIASES[name] = f'{__name__}:{VerifyingTransport.__name__}'
        transport._transport_cache.pop(name, None)
