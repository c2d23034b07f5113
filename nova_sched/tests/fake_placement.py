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
"""A Placement in memory, over real HTTP: providers, consumers with generations, and faults.

It answers the requests of nova_sched.cloud.placement as Placement 1.36 does.
"""

import collections
import contextlib
import dataclasses
import http.server
import json
import socket
import threading
import time
from urllib.parse import parse_qsl, urlsplit

from keystoneauth1 import adapter, session, token_endpoint

from nova_sched.cloud.placement import MICROVERSION, PlacementClient
from nova_sched.tests.fixtures.web import serving

CONCURRENT, UNDEFINED = 'placement.concurrent_update', 'placement.undefined_code'


@dataclasses.dataclass
class Fault:
    """What happens to one request: an answer with the error ``status``, or a wait of ``delay_s``
    before it is done. ``lost``: the connection is closed after it was done; ``cut``: before."""

    status: int = 0
    text: str = 'out of order'
    code: str = UNDEFINED
    delay_s: float = 0.0
    lost: bool = False
    cut: bool = False


class Refused(Exception):
    def __init__(self, status, detail, code=UNDEFINED):
        super().__init__(detail)
        self.status, self.detail, self.code = status, detail, code


class FakePlacement:
    """``providers``: UUID -> (root UUID, inventories: class -> total). ``consumers``: UUID ->
    [generation, allocations: provider -> class -> amount, project, user]. ``shares``: root UUID ->
    UUIDs of providers that share with its tree. ``traits``: UUID -> names.
    ``aggregates``: UUID -> aggregate UUIDs. ``fields``: UUID -> class -> fields of its inventory
    beside the total. ``foreign`` are the UUIDs of providers that are not Nova's.

    ``faults`` is a function of (method, path) that returns a Fault or None; ``requests`` has the
    method and the path of each request, ``bodies`` what was written, ``asked`` the queries of
    candidates.
    """

    def __init__(self):
        self.providers, self.consumers = {}, {}
        self.shares, self.traits, self.aggregates = {}, {}, {}
        self.fields, self.foreign = {}, set()
        self.generations = collections.Counter()  # of providers
        self.faults = lambda method, path: None
        self.requests, self.bodies, self.lock = [], [], threading.Lock()
        self.asked = []
        self.url = None

    def add(self, uuid, root=None, **totals):
        self.providers[uuid] = (root or uuid, totals)

    def used(self, provider, name, but=()):
        return sum(
            one[1].get(provider, {}).get(name, 0)
            for consumer, one in self.consumers.items()
            if consumer not in but
        )

    def allocated(self):
        """Consumer -> provider -> class -> amount."""
        return {consumer: one[1] for consumer, one in self.consumers.items() if one[1]}

    def handle(self, method, path, query, body):
        """Return the document of the answer, None for an empty one."""
        parts = path.strip('/').split('/')
        with self.lock:
            if method == 'GET':
                return self._read(parts, query)
            written = body if method == 'POST' else {parts[1]: body}
            self.bodies.append(written)
            return self._write(written)

    def _read(self, parts, query):
        if parts == ['resource_providers']:
            wanted = query.get('in_tree')
            root = self.providers.get(wanted, (None,))[0]
            return {
                'resource_providers': [
                    {
                        'uuid': uuid,
                        'generation': 1 + self.generations[uuid],
                        'root_provider_uuid': top,
                        'parent_provider_uuid': None if top == uuid else top,
                    }
                    for uuid, (top, _) in self.providers.items()
                    if wanted is None or top == root
                ]
            }
        if parts[0] == 'allocations':
            generation, held, project, user = self.consumers.get(parts[1], (None, {}, None, None))
            found = {uuid: {'generation': 1, 'resources': some} for uuid, some in held.items()}
            owner = {'project_id': project, 'user_id': user, 'consumer_generation': generation}
            return {'allocations': found, **(owner if held else {})}
        if parts[0] == 'allocation_candidates':
            self.asked.append(query)
            return {**self._candidates(query), 'asked': query}
        uuid = parts[1]
        if parts[2] == 'aggregates':
            return {'aggregates': self.aggregates.get(uuid, [])}
        if uuid not in self.providers:
            raise Refused(404, f'No resource provider with uuid {uuid} found')
        totals = self.providers[uuid][1]
        return {
            'inventories': {
                name: {'total': total} | self.fields.get(uuid, {}).get(name, {})
                for name, total in totals.items()
            },
            'traits': [*self._owner(uuid), *self.traits.get(uuid, ())],
            'usages': {name: self.used(uuid, name) for name in totals},
            'allocations': {
                consumer: {'resources': one[1][uuid]}
                for consumer, one in self.consumers.items()
                if uuid in one[1]
            },
        }

    def _owner(self, uuid):
        return [] if uuid in self.foreign else ['OWNER_NOVA']

    def _candidates(self, query):
        """The candidates of a request without groups and traits, of root and sharing providers."""
        asked = [one.split(':') for one in query['resources'].split(',')]
        found = []
        tree = query.get('in_tree')
        for root in {top for top, _ in self.providers.values()}:
            if tree not in (None, root):
                continue
            taken = collections.defaultdict(dict)
            for name, amount in asked:
                for uuid in (root, *(() if tree else self.shares.get(root, ()))):
                    total = self.providers[uuid][1].get(name, 0)
                    if self.used(uuid, name) + int(amount) <= total:
                        taken[uuid][name] = int(amount)
                        break
            if root in taken and sum(map(len, taken.values())) == len(asked):
                allocations = {uuid: {'resources': some} for uuid, some in taken.items()}
                found.append({'allocations': allocations, 'mappings': {'': list(taken)}})
        used = {uuid for one in found for uuid in one['allocations']}
        roots = {self.providers[uuid][0] for uuid in used}
        return {'allocation_requests': found, 'provider_summaries': self._summaries(roots)}

    def _summaries(self, roots):
        """Of all providers of these trees."""
        return {
            uuid: {
                'root_provider_uuid': root,
                'resources': {
                    one: {'capacity': total, 'used': self.used(uuid, one)}
                    for one, total in totals.items()
                },
                'traits': self._owner(uuid),
            }
            for uuid, (root, totals) in self.providers.items()
            if root in roots
        }

    def _write(self, written):
        if not all(written.values()):
            raise Refused(400, "JSON does not validate: 'allocations' is a required property")
        for consumer, body in written.items():
            held = self.consumers.get(consumer)
            generation = held[0] if held else None
            if body['consumer_generation'] != generation:
                raise Refused(
                    409,
                    f'consumer generation conflict - expected {generation} but got '
                    f'{body["consumer_generation"]}',
                    CONCURRENT,
                )
        wanted = {
            consumer: {uuid: one['resources'] for uuid, one in body['allocations'].items()}
            for consumer, body in written.items()
        }
        unknown = {uuid for held in wanted.values() for uuid in held} - self.providers.keys()
        if unknown:
            # The consumers were made before, and stay.
            for consumer in wanted:
                self.consumers.setdefault(consumer, [0, {}, 'p', 'u'])
            raise Refused(400, f'Allocation for resource provider {unknown} that does not exist.')
        self._check(wanted)
        for consumer, body in written.items():
            held = self.consumers.get(consumer, (None, {}))[1]
            # A provider that only loses allocations keeps its generation.
            self.generations.update([*(wanted[consumer] or held)])
            generation = (body['consumer_generation'] or 0) + 1
            owner = body['project_id'], body['user_id']
            self.consumers[consumer] = [generation, wanted[consumer], *owner]
            if not wanted[consumer]:
                del self.consumers[consumer]

    def _check(self, wanted):
        for provider in {uuid for held in wanted.values() for uuid in held}:
            totals = self.providers[provider][1]
            asked = collections.Counter()
            for held in wanted.values():
                asked.update(held.get(provider, {}))
            for name, amount in asked.items():
                if self.used(provider, name, wanted) + amount > totals.get(name, 0):
                    raise Refused(409, f'Unable to allocate inventory: {name} on {provider}')


@contextlib.contextmanager
def served(fake=None):
    """Serve a FakePlacement on the loopback as long as the block runs; yields it."""
    fake = fake or FakePlacement()
    with serving(_handler(fake)) as fake.url:
        yield fake


def client_of(fake, timeouts_s=(10.0, 30.0)):
    """A PlacementClient for it, which logs in nowhere."""
    auth = token_endpoint.Token(fake.url, 'admin')
    made = adapter.Adapter(
        session.Session(auth), service_type='placement', default_microversion=MICROVERSION
    )
    return PlacementClient(made, timeouts_s)


def _handler(fake):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = 'HTTP/1.1'
        disable_nagle_algorithm = True

        def do_GET(self):
            self._do('GET')

        def do_PUT(self):
            self._do('PUT')

        def do_POST(self):
            self._do('POST')

        def _do(self, method):
            size = int(self.headers.get('Content-Length') or 0)
            body = json.loads(self.rfile.read(size) or 'null')
            place = urlsplit(self.path)
            fake.requests.append((method, place.path))
            fault = fake.faults(method, place.path) or Fault()
            time.sleep(fault.delay_s)
            if fault.cut:
                self._cut()
                return
            if fault.status:
                self._send(fault.status, _error(fault.status, fault.text, fault.code))
                return
            try:
                found = fake.handle(method, place.path, dict(parse_qsl(place.query)), body)
                answer = (204, None) if found is None else (200, found)
            except Refused as error:
                answer = error.status, _error(error.status, error.detail, error.code)
            if fault.lost:
                self._cut()
            else:
                self._send(*answer)

        def _cut(self):
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

        def _send(self, status, document):
            body = b'' if document is None else json.dumps(document).encode()
            with contextlib.suppress(OSError):  # the client has gone
                self.send_response(status)
                self.send_header('Content-Type', 'application/json')
                self.send_header('Content-Length', str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_):
            """No test reads it."""

    return Handler


def _error(status, detail, code):
    return {'errors': [{'status': status, 'title': 'x', 'detail': detail, 'code': code}]}
