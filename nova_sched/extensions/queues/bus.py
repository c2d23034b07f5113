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
"""The queue model on the bus: managers answer calls, and routers hold a copy of the catalogue.

A change of the catalogue is cast to agents, managers and routers, and each reads it again.
"""

import logging
import threading
import time

import oslo_messaging as messaging

from nova_sched import errors, rpc
from nova_sched.extensions.queues.catalogue import Catalogue
from nova_sched.extensions.queues.endpoints import CatalogueEndpoint, QueuesEndpoint
from nova_sched.rpc import agent, servers
from nova_sched.rpc.messages import Serializer

LOG = logging.getLogger(__name__)

TOPIC = 'nova_sched_queues'
NEWS = 'nova_sched_catalogue'


def manager_server(bus, host, register):
    """The RPC server of a manager, on which it also receives the changes of other managers."""
    return servers.server(
        bus, host, [QueuesEndpoint(register), CatalogueEndpoint(register.hear)], TOPIC
    )


def router_server(bus, name, hear):
    """An RPC server on which a router receives changes; it calls ``hear(version)`` from its
    threads."""
    return servers.server(bus, name, [CatalogueEndpoint(hear)], NEWS)


KEPT_S = 60.0  # seconds after which a copy is read again, in case a cast was lost
RETRY_S = 2.0

# Topic, namespace and version for all processes that keep a copy.
LISTENERS = (
    (agent.TOPIC, 'agent', '1.1'),
    (TOPIC, 'catalogue', '1.0'),
    (NEWS, 'catalogue', '1.0'),
)


class Announcer:
    """Sends changes to all agents, managers and routers."""

    def __init__(self, bus):
        self._callers = [self._caller(bus, *listener) for listener in LISTENERS]

    @staticmethod
    def _caller(bus, topic, namespace, version):
        target = messaging.Target(
            exchange=rpc.EXCHANGE, topic=topic, namespace=namespace, version=version, fanout=True
        )
        # A cast fails at once if the bus does not answer.
        return messaging.get_rpc_client(bus, target, serializer=Serializer()).prepare(retry=0)

    def tell(self, version):
        """Raises NoAnswer if the bus does not take it."""
        try:
            for caller in self._callers:
                caller.cast({}, 'catalogue_changed', version=version)
        except (messaging.MessagingException, OSError) as error:
            raise errors.NoAnswer('catalogue_changed', str(error)) from None


class CatalogueCopy:
    """A copy of the managers' catalogue, for a router. May be used from any thread.

    ``queues`` is a QueuesClient. While no manager answers, the last copy is used. A job that it
    does not know goes to the scheduler, and so does a job that a newer copy would not know.
    """

    def __init__(self, queues, clock=time.monotonic):
        self._queues, self._clock = queues, clock
        self._turn = threading.Lock()
        self._copy = None
        self._due_s = clock()

    def hear(self, version):
        """The catalogue has changed to that version."""
        if self._copy is None or version > self._copy.version:
            self._due_s = self._clock()

    @property
    def catalogue(self):
        """Raises NoAnswer if it was never read."""
        # One thread reads it again; the other threads use the last copy in the meantime, if there
        # is one.
        if self._is_due() and self._turn.acquire(blocking=self._copy is None):
            try:
                if self._is_due():
                    self._read()
            finally:
                self._turn.release()
        return self._copy

    def _is_due(self):
        return self._copy is None or self._clock() >= self._due_s

    def _read(self):
        self._due_s = (
            self._clock() + KEPT_S
        )  # set before the read: a change during the read counts as new
        try:
            read = Catalogue.from_plain(self._queues.catalogue())
        except errors.SchedError as error:
            self._due_s = self._clock() + RETRY_S
            if self._copy is None:
                raise
            LOG.warning(
                'The catalogue of queues cannot be read; the last copy stays in use: %s', error
            )
        else:
            if self._copy is None or read.version >= self._copy.version:
                self._copy = read
