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

from nova_sched import errors, rpc, words
from nova_sched.extensions.queues.catalogue import Catalogue
from nova_sched.rpc import agent
from nova_sched.rpc.messages import Serializer, expected

LOG = logging.getLogger(__name__)

TOPIC = 'nova_sched_queues'  # of managers
NEWS = 'nova_sched_catalogue'  # of routers
KEPT_S = 60.0  # seconds after which a copy is read again, in case a cast was lost
RETRY_S = 2.0

# Topic, namespace and version of the endpoints of all processes that keep a copy.
LISTENERS = (
    (agent.TOPIC, 'agent', '1.1'),
    (TOPIC, 'catalogue', '1.0'),
    (NEWS, 'catalogue', '1.0'),
)


class QueuesEndpoint:
    """The namespace `queues` 1.0: calls to a manager of queues."""

    target = messaging.Target(namespace='queues', version='1.0')

    def __init__(self, register):
        self._register = register

    @expected
    def catalogue(self, context, host=None):
        """A mapping of plain values, which queues.catalogue.Catalogue.from_plain reads.

        In addition ``disabled``, whether the host takes no jobs, and ``aggregates``: those of the
        host, and those that name a zone, as mappings of id, name, uuid, metadata, and hosts (that
        host at most).
        """
        return self._register.plain(None if host is None else words.name(host, 'host'))

    @expected
    def flavor_create(self, context, flavor):
        """Add a flavor: a mapping of name, vcpus, memory_mb, and flavorid, root_gb, ephemeral_gb,
        swap (MiB), extra_specs. Returns it. An equal flavor that exists already stays. Raises
        FlavorExists."""
        if not isinstance(flavor, dict):
            raise errors.InvalidRequest('flavor', f'{words.short(flavor)} is not a mapping')
        return self._register.create(flavor)

    @expected
    def flavor_delete(self, context, name):
        """Remove a flavor; the jobs that wait in its queues go to the scheduler. Raises
        FlavorNotFound."""
        self._register.delete(words.name(name, 'name'))

    @expected
    def flavor_list(self, context):
        """All ``flavors``, by name, and the ``version`` of their catalogue."""
        version, flavors = self._register.flavors()
        return {'version': version, 'flavors': flavors}

    @expected
    def facts(self, context, marker=None, limit=None):
        """Each queue as a mapping: name, queue (that on the broker), ready, consumers. The last
        two are null if the broker does not have the queue.

        Returns at most ``limit`` queues after the ``marker``, a name on the broker. Raises
        NotFound for an unknown marker.
        """
        after = None if marker is None else words.name(marker, 'marker')
        count = None if limit is None else words.number(limit, 'limit')
        return self._register.facts(after, count)


class CatalogueEndpoint:
    """The namespace `catalogue` 1.0, for each process that keeps a copy; ``hear(version)`` must
    not block."""

    target = messaging.Target(namespace='catalogue', version='1.0')

    def __init__(self, hear):
        self._hear = hear

    @expected
    def catalogue_changed(self, context, version):
        """The catalogue, or its facts about hosts, have changed. A cast: the sender does not
        wait."""
        if isinstance(version, int):
            self._hear(version)


def announce(bus, version):
    """Tell all agents, managers and routers that the catalogue has changed to that version.

    Raises NoAnswer if the bus does not take it.
    """
    try:
        for topic, namespace, target_version in LISTENERS:
            target = messaging.Target(
                exchange=rpc.EXCHANGE,
                topic=topic,
                namespace=namespace,
                version=target_version,
                fanout=True,
            )
            client = messaging.get_rpc_client(bus, target, serializer=Serializer())
            # A cast fails at once if the bus does not answer.
            client.prepare(retry=0).cast({}, 'catalogue_changed', version=version)
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
        """Raise NoAnswer if it was never read."""
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
        # Before the read: a change during the read counts as new.
        self._due_s = self._clock() + KEPT_S
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
