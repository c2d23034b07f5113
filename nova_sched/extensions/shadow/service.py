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
"""Builds the parts of a shadow, and connects them."""

import collections
import contextlib
import logging
import threading

from oslo_service import service as oslo_service

from nova_sched import errors, nova_service, rpc, service
from nova_sched.claims.sql import SqlClaimStore
from nova_sched.conf.cluster import reads_nova
from nova_sched.db import schema
from nova_sched.extensions.optimize import Optimize
from nova_sched.extensions.optimize.endpoints import PlansEndpoint
from nova_sched.extensions.shadow.comparison import Choices
from nova_sched.extensions.shadow.journal import Journal
from nova_sched.extensions.shadow.watcher import Watcher, WatchSettings
from nova_sched.logs import MINUTE_S
from nova_sched.rpc import servers
from nova_sched.rpc.copies import CallCopies
from nova_sched.rpc.direct import settings as direct_settings
from nova_sched.rpc.endpoints.explain import CloudEndpoint, ExplainEndpoint

LOG = logging.getLogger(__name__)

AGAIN_S = 0.5


def check(conf):
    """Check the options of a shadow. Raise BadConfig."""
    if not reads_nova(conf):
        why = "a shadow reads Nova's databases: set [api_database] connection, as Nova's nova.conf"
        raise errors.BadConfig('[cluster] source', why)
    bus = rpc.transport(conf)
    try:
        direct_settings.of(bus)
    finally:
        bus.cleanup()
    with _journal(conf):
        pass


@contextlib.contextmanager
def _journal(conf):
    """Raise BadConfig if the file cannot be written."""
    try:
        journal = Journal(conf.state_path, conf.shadow.file_size, conf.shadow.files)
    except OSError as error:
        raise errors.BadConfig('[DEFAULT] state_path', str(error)) from None
    with contextlib.closing(journal):
        yield journal


class ShadowService(oslo_service.ServiceBase):
    """The process of a shadow. ``start`` makes its threads and connections, after the fork.

    It waits until Nova can be read, because without hosts it would refuse every call.
    """

    def __init__(self, conf):
        self._conf = conf
        self._parts = contextlib.ExitStack()
        self._leaving, self._ended = threading.Event(), threading.Event()
        self._nova = self._scheduler = None

    def start(self):
        conf, store = self._conf, SqlClaimStore(schema.in_memory())
        bus = rpc.transport(conf)
        self._parts.callback(bus.cleanup)
        self._nova = nova_service.NovaReader(conf)
        optimize = {'optimize': Optimize()}  # the others must not take copies for requests
        self._scheduler = service.scheduler(conf, store, nova=self._nova, extensions=optimize)
        self._parts.callback(self._scheduler.stop)
        self._scheduler.start()
        self._parts.callback(self._nova.stop)
        self._nova.start(self._scheduler)
        if self._until_nova_is_read():
            self._watch(bus)

    def _until_nova_is_read(self):
        """Wait for hosts, and say so once a minute. Return False if the process ends before."""
        waits = 0
        while not self._leaving.is_set():
            unreadable = self._nova.mirror.unreadable
            if not unreadable or self._scheduler.has_hosts:
                return True
            if waits % (MINUTE_S / AGAIN_S) == 0:
                LOG.warning('The shadow waits until it can read %s', ', '.join(unreadable))
            waits += 1
            self._leaving.wait(AGAIN_S)
        return False

    def _watch(self, bus):
        conf, mirror, counts = self._conf, self._nova.mirror, collections.Counter()
        most = conf.shadow.queue_length
        journal = self._parts.enter_context(_journal(conf))
        watcher = Watcher(
            self._scheduler,
            mirror,
            Choices(self._nova.cells, self._nova.placement, mirror),
            journal,
            counts,
            most,
            lambda: WatchSettings(conf.filter_scheduler.host_subset_size, conf.shadow.wait),
        )
        self._parts.callback(watcher.stop)
        watcher.start()
        copies = CallCopies(bus, watcher.take, most, counts)
        self._parts.callback(copies.stop)
        copies.start()
        served = [
            ExplainEndpoint(self._scheduler),
            PlansEndpoint(self._scheduler.parts['optimize']),
            CloudEndpoint(self._nova.status),
        ]
        server = servers.server(bus, conf.host, served, rpc.SHADOW_TOPIC, is_direct=True)
        self._parts.callback(server.finish)
        self._parts.callback(server.stop)
        LOG.info('Watching the calls to schedulers')
        server.start()

    def stop(self, graceful=True):
        """Take no more copies, write down what was decided, then end."""
        self._leaving.set()
        self._parts.close()
        LOG.info('Stopped')
        self._ended.set()

    def wait(self):
        self._ended.wait()

    def reset(self):
        """The configuration was read again: rules are built again, and the cells are read."""
        if self._scheduler is None:
            return
        try:
            self._scheduler.follow(service.announced(service.rules(self._conf)))
        except errors.UnknownRule as error:
            LOG.error('%s; the rules stay as they were', error)
        if self._nova.mirror is not None:
            self._nova.mirror.compare_soon()
