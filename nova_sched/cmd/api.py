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
"""nova-sched-api: the REST API on a built-in web server. On fake:// the services that it calls run
in the same process."""

import contextlib
import ipaddress
import logging
import signal
import sys
import threading
import time

from nova_sched import errors
from nova_sched.cmd import backend

LOG = logging.getLogger(__name__)

NOTICE_S = 0.1  # seconds until a signal is noticed, at most
# To send a call: a thread of the API waits for no broker, but the broker may have closed the
# connection, and the second attempt makes a new one.
ATTEMPTS = 2
# Seconds without a sign of life after which a service is away; a scheduler may be busy.
SILENCE_S, SCHEDULER_SILENCE_S = 5, 10
QUEUES_S = 15  # to wait for a manager of queues, which plans nothing


def main():
    return backend.run_daemon(_run)


def _run():
    from nova_sched import service
    from nova_sched.cmd import metrics_export, monitor, startup, trace_export
    from nova_sched.conf.metrics_export import API
    from nova_sched.extensions.queues import service as queue_service

    manager = monitor.Systemd()
    conf = startup.configure()
    check_address(conf)
    with contextlib.ExitStack() as stack:
        bus = stack.enter_context(startup.bus(conf))
        startup.try_bus(bus)
        if is_alone(conf):
            startup.check(conf)
            _start(stack, service.SchedulerService(conf, bus))
            if has_queues(conf):
                queue_service.check(conf)
                _start(stack, queue_service.QueueService(conf, bus))
        trace_export.check(conf)
        export = metrics_export.of_options(conf, API)
        stack.callback(export.end)
        export.begin()
        stack.callback(trace_export.begin(conf, API))
        served = server(conf, everything(conf, bus))
        until_told(served, _monitored(served, bus, manager).stopping)
        LOG.info('Stopped')


def _monitored(served, bus, systemd):
    """A monitor that tells systemd whether this server answers."""
    from nova_sched import rpc
    from nova_sched.cmd import monitor

    signs = monitor.ApiSigns(served.bind_addr, lambda: rpc.try_once(bus))
    if systemd.is_there:
        signs.start()
    made = monitor.Monitor(systemd, signs, 1)
    made.start()
    return made


def check_address(conf):
    """Without authentication, the API listens on this machine only, unless [api] insecure is set.
    Raises BadConfig."""
    if conf.api.auth_strategy != 'noauth':
        return
    if not (conf.api.insecure or _is_loopback(conf.api.host)):
        why = (
            f'{conf.api.host} can be reached from other machines, and [api] auth_strategy is '
            'noauth: listen on 127.0.0.1, use keystone, or set [api] insecure as well'
        )
        raise errors.BadConfig('[api] host', why)
    LOG.warning('Every caller is accepted: [api] auth_strategy is noauth')


def _is_loopback(host):
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == 'localhost'


class BusClients:
    """Clients of the services on a bus, with the waits of the API's Limits."""

    def __init__(self, conf, bus, limits):
        from nova_sched.rpc import client

        self._bus, self._schedulers, self._wait_s = bus, limits.schedulers, conf.api.rpc_timeout
        self.groups = self.client_of(client.GroupsClient)
        self.explain = self.client_of(client.ExplainClient)
        self.rebalances = self.client_of(client.RebalancesClient)
        self.queues = NoQueueManager()
        if has_queues(conf) or not is_alone(conf):
            wait_s = min(self._wait_s, QUEUES_S)
            self.queues = limits.queue_managers.calls(
                client.QueuesClient(bus, wait_s, SILENCE_S, attempts=ATTEMPTS)
            )

    def client_of(self, kind, wait_s=None):
        """A client that waits so many seconds for a scheduler, if it gives signs of life."""
        wait_s = wait_s or self._wait_s
        made = kind(self._bus, wait_s, SCHEDULER_SILENCE_S, attempts=ATTEMPTS)
        return self._schedulers.calls(made, wait_s)


def application(conf, bus, limits, clients):
    """The API over the schedulers and managers of queues on this bus. Raises BadConfig."""
    from nova_sched.api import app, health
    from nova_sched.extensions.optimize.rebalance import LONGEST_SEARCH_S
    from nova_sched.rpc import client

    probe_s = min(conf.api.rpc_timeout, health.PROBE_S)
    rank_s = conf.api.external_scheduler_timeout
    search_s = conf.api.rpc_timeout + LONGEST_SEARCH_S
    return app.make(
        conf,
        clients.groups,
        clients.queues,
        # A probe asks one at a time, and whether a service is back.
        client.GroupsClient(bus, probe_s, attempts=ATTEMPTS),
        client.ExplainClient(bus, probe_s, attempts=ATTEMPTS).health,
        clients.client_of(client.ExplainClient, rank_s).rank_hosts,
        clients.client_of(client.ExplainClient, search_s).plan_moves,
        clients.rebalances,
        limits,
    )


def everything(conf, bus):
    """The API, and the dashboard if it is enabled, as one WSGI application. Raises BadConfig."""
    from nova_sched.api.limits import Limits

    limits = Limits(conf)
    clients = BusClients(conf, bus, limits)
    rest = application(conf, bus, limits, clients)
    if not conf.dashboard.enabled:
        return rest
    from werkzeug.middleware.dispatcher import DispatcherMiddleware

    from nova_sched.cmd.manage import store
    from nova_sched.db.limits import DatabaseLimits
    from nova_sched.extensions.dashboard import app
    from nova_sched.extensions.dashboard.parts import Clients

    pages_clients = Clients(clients.groups, clients.queues, clients.explain)
    # A page holds a thread of the API: it waits for the database as a scheduler does, and not as
    # long as a command.
    times = DatabaseLimits.of(conf.database_limits)
    pages = app.make(conf, pages_clients, lambda: store.ready(conf, times), limits)
    return DispatcherMiddleware(rest, {'/dashboard': pages})


def is_alone(conf):
    """Whether the bus ends at this process; its address has been validated before."""
    return conf.transport_url.startswith('fake:')


def has_queues(conf):
    """Whether this process, without a bus, manages queues: flavors are kept in the database
    only."""
    return conf.claims.store == 'sql'


class NoQueueManager:
    """Replaces the client of managers of queues if none can be reached: calls fail without a
    wait."""

    def __getattr__(self, method):
        why = 'over fake:// and with [claims] store = memory there is no manager of queues'
        raise errors.NoAnswer(method, why)


def _start(stack, service):
    """Run a service in this process until the stack ends: over fake:// no other process can be
    reached."""
    stack.callback(service.stop)
    service.start()


def server(conf, served):
    """A web server that listens but does not serve yet. Raises BadConfig if it cannot listen."""
    from nova_sched.api import health
    from nova_sched.api.limits import threads_of
    from nova_sched.cmd.web_server import WebServer
    from nova_sched.extensions.dashboard import FORM_SIZE

    try:
        made = WebServer(
            (conf.api.host, conf.api.port),
            served,
            max(conf.api.max_body_size, FORM_SIZE),
            _refusal,
            health.PATHS,
            threads=threads_of(conf),
            name='nova-sched-api',
            shutdown_timeout=conf.api.shutdown_timeout,
        )
    except OSError as error:
        raise errors.BadConfig('[api] host and port', str(error)) from None
    LOG.info('Serving on http://%s:%d', *made.bind_addr)
    return made


def _refusal(status, why):
    """Return the headers and the body of the answer to a request that the web server does not
    take."""
    from nova_sched.api import faults

    code = 'busy' if status == 503 else faults.code_of(status)
    made = faults.response(status, code, why, {})
    return list(made.headers), made.get_data()


def until_told(served, stopping=lambda: None):
    """Serve until SIGTERM or SIGINT; requests in flight are answered before this returns.
    ``stopping`` is called before they are."""
    told = []

    def leave():
        # A signal handler only records the signal: in the hub of eventlet, no call may wait.
        while not told:
            time.sleep(NOTICE_S)
        stopping()
        served.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: told.append(number))
    leaving = threading.Thread(target=leave)
    leaving.start()
    try:
        served.serve()
    finally:
        told.append(None)
        leaving.join()


if __name__ == '__main__':
    sys.exit(main())
