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
"""Runs a service in the worker processes of a daemon, and has them reload while they work."""

import logging
import multiprocessing
import threading
import time

import cotyledon
from cotyledon import oslo_config_glue
from oslo_service import backend
from oslo_service import service as oslo_service

from nova_sched.cmd import metrics_export, trace_export
from nova_sched.cmd.monitor import Monitor, Systemd, WorkerHeartbeats
from nova_sched.cmd.startup import Reloadable
from nova_sched.conf import base

LOG = logging.getLogger(__name__)

HEARTBEAT_S = 0.5  # between two heartbeats of a worker
SETTLE_S = 1.0  # by then, no thread works with a value that it read before a reload


def run(conf, service, daemon, workers=1, check=None):
    """Run a daemon until it is told to end. Return its exit status.

    ``daemon`` is its name in the options of metrics. Raises BadConfig if these cannot be served.

    ``service`` is an oslo.service with ``alive_s()``: when its loop last moved, in monotonic
    seconds, or 0 while it starts. ``check`` validates a configuration that is reloaded.
    """
    heartbeats = WorkerHeartbeats(workers)
    options = AnnouncedOptions(conf, check)
    options.monitor = monitor = Monitor(Systemd(), heartbeats, workers, lambda: options.problem)
    trace_export.check(conf)
    export = metrics_export.of_options(conf, daemon)

    def begin():
        export.begin()
        return trace_export.begin(conf, daemon)

    try:
        supervised = SupervisedService(service, heartbeats, monitor, begin)
        base.set_service_defaults(conf)
        monitor.start()
        if backend.get_backend_type() == backend.BackendType.EVENTLET:
            launched = oslo_service.launch(options, supervised, workers, restart_method='mutate')
            return launched.wait()
        manager = cotyledon.ServiceManager(
            graceful_shutdown_timeout=conf.graceful_shutdown_timeout,
            mp_context=multiprocessing.get_context('fork'),
        )
        oslo_config_glue.link(manager, options, 'mutate')
        manager.register_hooks(on_terminate=monitor.stopping)
        manager.add(Worker, workers, args=(options, supervised))
        return manager.run()
    finally:
        export.end()


class AnnouncedOptions(Reloadable):
    """A Reloadable that announces to a ``monitor`` that it reloads."""

    monitor = None

    def __init__(self, conf, check):
        super().__init__(conf, check=check)

    def mutate_config_files(self):
        self.monitor.reloading()
        changed = super().mutate_config_files()
        self.monitor.applied(not self.problem)
        return changed

    def apply(self):
        """In a worker: as ``mutate_config_files``, after the first process has validated it. The
        check would slow the worker's calls."""
        self._conf.mutate_config_files()
        self.forget_values()


class SupervisedService(oslo_service.ServiceBase):
    """A service that sends heartbeats to the first process of its daemon. ``begin()`` has the
    process show its metrics and traces, and returns what ends that."""

    def __init__(self, service, heartbeats, monitor, begin):
        self._service, self._heartbeats, self._monitor = service, heartbeats, monitor
        self._begin, self._end = begin, lambda: None

    def start(self):
        self._heartbeats.begin()
        self._end = self._begin()
        threading.Thread(
            target=self._send_heartbeats, name='nova-sched-heartbeats', daemon=True
        ).start()
        self._service.start()

    def _send_heartbeats(self):
        pause = threading.Event()
        while True:
            self._heartbeats.send(self._service.alive_s())
            pause.wait(HEARTBEAT_S)

    def stop(self, graceful=True):
        self._monitor.stopping()
        self._service.stop(graceful)
        self._end()

    def wait(self):
        self._service.wait()

    def reset(self):
        """The configuration was read again."""
        self._service.reset()
        self._heartbeats.reloaded(self._heartbeats.reloads)

    def reload(self, options):
        """Read the configuration again, if it is valid, and work on with it."""
        number = self._heartbeats.reloads
        try:
            if self._heartbeats.accepted == number:
                options.apply()
                self._service.reset()
                time.sleep(SETTLE_S)
                options.forget_values()
        except Exception:
            LOG.exception('The options were not reloaded')
        finally:
            self._heartbeats.reloaded(number)


class Worker(cotyledon.Service):
    """One worker process on native threads. It reloads in place, so that it misses no call."""

    def __init__(self, worker_id, options, service):
        super().__init__(worker_id)
        self._options, self._service = options, service
        self._news = threading.Event()

    @property
    def graceful_shutdown_timeout(self):
        return self._options.graceful_shutdown_timeout

    def run(self):
        threading.Thread(target=self._follow, name='nova-sched-reload', daemon=True).start()
        self._service.start()
        self._service.wait()

    def _follow(self):
        while self._news.wait():
            self._news.clear()
            self._service.reload(self._options)

    def reload(self):
        # Cotyledon drops a reload that comes during another one, so only this is done here.
        self._news.set()

    def terminate(self):
        self._service.stop()
