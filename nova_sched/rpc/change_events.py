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

"""Change events of schedulers on the bus: a separate topic, on which each process sends to all
processes.

The sender and the listener work on threads of their own. The namespace is `news` 1.0.
"""

import itertools
import logging
import math
import threading

import oslo_messaging as messaging

from nova_sched import errors, rpc
from nova_sched.claims import plain
from nova_sched.engine.sync.changes import ChangeEvent, Commit
from nova_sched.rpc import words
from nova_sched.rpc.failures import expected
from nova_sched.state.report import LARGEST

LOG = logging.getLogger(__name__)

TOPIC = 'nova_sched_news'
UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
TIMEOUT_S = 1.0  # seconds that a starting server may take, before it is left alone
RETRY_S = 10.0  # seconds after which a refused topic is tried again

# The servers of one process need different names. Processes on one host may use the same names.
_numbers = itertools.count()


def to_plain(news):
    """The arguments of ``changed`` for ChangeEvent."""
    return {
        'made_s': news.made_s,
        'commits': [
            {
                'nodes': {uuid: list(generations) for uuid, generations in commit.nodes.items()},
                'consumers': list(commit.consumers),
                'claims': [plain.to_plain(claim) for claim in commit.claims],
            }
            for commit in news.commits
        ],
        'looks': dict(news.looks),
        'tables': news.tables,
    }


def from_plain(made_s, commits=(), looks=None, tables=False):
    """The ChangeEvent from the arguments of ``changed``.

    Raises InvalidRequest, or one of UNREADABLE.

    If this release cannot read a claim, the nodes of that claim are marked to be read from the
    store.
    """
    read, unread = [], {}
    for one in commits:
        nodes = {words.uuid(uuid, 'nodes'): (int(before), int(after))
                 for uuid, (before, after) in one['nodes'].items()}  # fmt: skip
        consumers = tuple(words.uuid(uuid, 'consumers') for uuid in one['consumers'])
        try:
            claims = tuple(_checked(plain.from_plain(claim)) for claim in one['claims'])
        except (TypeError, ValueError, errors.SchedError):
            unread |= {uuid: after for uuid, (_, after) in nodes.items()}
        else:
            read.append(Commit(nodes, consumers, claims))
    known = {
        words.uuid(uuid, 'looks'): None if one is None else int(one)
        for uuid, one in (looks or {}).items()
    }
    return ChangeEvent(float(made_s), tuple(read), unread | known, bool(tables))


def _checked(claim):
    """The claim itself, if every fact of it is of its type. Raises InvalidRequest."""
    for uuid in (claim.uuid, claim.consumer_uuid, claim.node_uuid, *claim.fences):
        words.uuid(uuid, 'claim')
    for name in ('group_uuid', 'top_group'):
        if getattr(claim, name) is not None:
            words.uuid(getattr(claim, name), name)
    for name in ('state', 'project_id', 'user_id', 'request_id', 'move', 'member'):
        if getattr(claim, name) is not None:
            words.name(getattr(claim, name), name)
    for name in ('created_s', 'changed_s', 'expires_s'):
        value = getattr(claim, name)
        if not _is_time(value) and not (name == 'expires_s' and value is None):
            raise errors.InvalidRequest(name, f'{words.short(value)} is no time')
    for name in ('counted', 'unseen'):
        if not isinstance(getattr(claim, name), bool):
            raise errors.InvalidRequest(name, f'{words.short(getattr(claim, name))} is no boolean')
    _check_mappings(claim.resources, claim.image_properties)
    return claim


def _check_mappings(amounts, properties):
    """Checks the amounts by resource class, and the image's properties. Raises InvalidRequest."""
    if not isinstance(amounts, dict) or not all(words.is_symbol(name) for name in amounts):
        raise errors.InvalidRequest(
            'resources', f'{words.short(amounts)} is no mapping of resource classes'
        )
    for name, amount in amounts.items():
        if type(amount) is not int or not 0 <= amount <= LARGEST:
            raise errors.InvalidRequest(name, f'{words.short(amount)} is no amount')
    if not isinstance(properties, dict) or not all(
        isinstance(one, str) for one in properties.values()
    ):
        raise errors.InvalidRequest(
            'image_properties', f'{words.short(properties)} is no mapping of texts'
        )


def _is_time(value):
    return type(value) in (int, float) and math.isfinite(value)


class ChangeEventClient:
    """Sends change events to the schedulers. ``origin`` is the UUID of this one, which receives
    its own events too."""

    def __init__(self, bus, origin):
        target = messaging.Target(
            exchange=rpc.EXCHANGE, topic=TOPIC, namespace='news', version='1.0', fanout=True
        )
        # All values are plain: no serializer has to walk through them. A call fails at once if the
        # bus does not answer.
        caller = messaging.get_rpc_client(bus, target, serializer=messaging.NoOpSerializer())
        self._caller = caller.prepare(retry=0)
        self._origin = origin

    def tell(self, news):
        """Raises NoAnswer if the bus does not take it."""
        try:
            self._caller.cast({}, 'changed', origin=self._origin, **to_plain(news))
        except (messaging.MessagingException, OSError) as error:
            raise errors.NoAnswer('changed', str(error)) from None


class ChangeEventEndpoint:
    target = messaging.Target(namespace='news', version='1.0')

    def __init__(self, scheduler):
        self._scheduler = scheduler

    @expected
    def changed(self, context, origin, **told):
        """A scheduler changed the store. It waits for no answer; an error in its change event is
        logged."""
        if origin == self._scheduler.uuid:
            return
        try:
            heard = from_plain(**told)
        except (errors.InvalidRequest, *UNREADABLE) as error:
            known = origin if words.is_name(origin) else words.short(origin)
            LOG.warning('Change event of scheduler %s cannot be read: %.300r', known, error)
        else:
            self._scheduler.receive(heard)


class ChangeListener:
    """Receives the change events of other schedulers in a separate thread. The scheduler works
    without them while the bus refuses the topic."""

    def __init__(self, bus, host, scheduler):
        number = next(_numbers)
        name, plain = f'{host}-{number}' if number else host, messaging.NoOpSerializer()
        self._make = lambda: rpc.server(bus, name, [ChangeEventEndpoint(scheduler)], TOPIC, plain)
        self._leaving, self._listening = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name='nova-sched-changes', daemon=True)

    def start(self):
        self._thread.start()

    def leave(self):
        """Receive no more events; does not wait."""
        self._leaving.set()

    def stop(self):
        """Receive no more events. A server that is still connecting to its bus cannot be stopped,
        and is left alone."""
        self.leave()
        if self._thread.is_alive():
            self._thread.join(None if self._listening.is_set() else TIMEOUT_S)

    def _run(self):
        server = self._listen()
        if server is not None:
            self._leaving.wait()
            server.stop()
            server.finish()

    def _listen(self):
        """Returns the server once it listens; None if this ends before."""
        told = False
        while not self._leaving.is_set():
            server = self._make()
            try:
                # One event after the other: after reordered events the nodes would be read from
                # the database.
                server.start(override_pool_size=1)
            except Exception as error:  # noqa: BLE001, each driver of the bus has other errors
                if not told:
                    LOG.warning(
                        'Change events of other schedulers are not received, and their '
                        'changes are seen late: %s',
                        error,
                    )
                told = True
                self._leaving.wait(RETRY_S)
            else:
                self._listening.set()
                return server
        return None
