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
import logging
import re
import signal
import sys
import threading
import time

from nova_sched import errors, urls
from nova_sched.cmd import backend

LOG = logging.getLogger(__name__)

NOTICE_S = 0.1  # seconds until a signal is noticed, at most
# To send a call: a thread of the API waits for no broker, but the broker may have closed the
# connection, and the second attempt makes a new one.
ATTEMPTS = 2
# Seconds without a heartbeat after which a scheduler is away; it may be busy.
SCHEDULER_SILENCE_S = 10
MAX_FORM_SIZE = 1024 * 1024  # bytes of a body for an application of an extension


OWN_PATHS = re.compile('/?$|/(v1|healthcheck)(/|$)')  # where no application of an extension is


def main():
    return backend.run_daemon(_run)


def _run():
    from nova_sched import extension, rpc, service
    from nova_sched.cmd import metrics_export, monitor, startup, trace_export
    from nova_sched.conf.telemetry import API

    systemd = monitor.Systemd()
    conf = startup.configure()
    check_address(conf)
    with contextlib.ExitStack() as stack:
        bus = stack.enter_context(startup.bus(conf))
        startup.try_bus(bus)
        if is_alone(conf):
            startup.check(conf)
            _start(stack, service.SchedulerService(conf, bus))
            for _, companions in extension.offered(list, 'companions', conf, bus):
                for companion in companions:
                    _start(stack, companion)
        trace_export.check(conf)
        export = metrics_export.of_options(conf, API)
        stack.callback(export.end)
        export.begin()
        stack.callback(trace_export.begin(conf, API))
        served = server(conf, everything(conf, bus))
        # Tell systemd whether this server answers.
        heartbeats = monitor.ApiHeartbeats(served.bind_addr, lambda: rpc.try_once(bus))
        if systemd.is_there:
            heartbeats.start()
        api_monitor = monitor.Monitor(systemd, heartbeats, 1)
        api_monitor.start()
        until_told(served, api_monitor.stopping)
        LOG.info('Stopped')


def check_address(conf):
    """Without authentication, the API listens on this machine only, unless [api] insecure is set.
    Raises BadConfig."""
    if conf.api.auth_strategy != 'noauth':
        return
    if not (conf.api.insecure or urls.is_loopback(conf.api.host)):
        why = (
            f'{conf.api.host} can be reached from other machines, and [api] auth_strategy is '
            'noauth: listen on 127.0.0.1, use keystone, or set [api] insecure as well'
        )
        raise errors.BadConfig('[api] host', why)
    LOG.warning('Every caller is accepted: [api] auth_strategy is noauth')


def everything(conf, bus):
    """The API, and the applications of extensions, as one WSGI application. Raises BadConfig."""
    from werkzeug.middleware.dispatcher import DispatcherMiddleware

    from nova_sched import extension
    from nova_sched.api import app, health
    from nova_sched.api.limits import Limits
    from nova_sched.api.policies import AccessPolicy
    from nova_sched.cmd.manage import store
    from nova_sched.db.limits import DatabaseLimits

    limits = Limits(conf)

    def client_of(kind, wait_s=None, silence_s=None, service=None, patience_s=None):
        wait_s = wait_s or conf.api.rpc_timeout
        client = kind(bus, wait_s, silence_s or SCHEDULER_SILENCE_S, attempts=ATTEMPTS)
        return (service or limits.schedulers).calls(client, patience_s or wait_s)

    def probe_of(kind):
        # A probe asks one at a time, and whether a service is back.
        return kind(bus, min(conf.api.rpc_timeout, health.PROBE_S), attempts=ATTEMPTS)

    def database():
        # A page holds a thread of the API: it waits for the database as a scheduler does, and not
        # as long as a command.
        return store.ready(conf, DatabaseLimits.of(conf.database_limits))

    policy = AccessPolicy(conf)
    api = app.Api(conf, limits, policy, client_of, probe_of, database, is_alone(conf))
    applications = extension.united('applications', api)
    for path in [path for path in applications if OWN_PATHS.match(path)]:
        LOG.error('An extension cannot serve %s, which is a path of the API', path)
        del applications[path]
    rest = app.make(api)
    return DispatcherMiddleware(rest, applications) if applications else rest


def is_alone(conf):
    """Whether the bus ends at this process; its address has been validated before."""
    return conf.transport_url.startswith('fake:')


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

    try:
        web_server = WebServer(
            (conf.api.host, conf.api.port),
            served,
            max(conf.api.max_body_size, MAX_FORM_SIZE),
            _refusal,
            health.PATHS,
            threads=threads_of(conf),
            name='nova-sched-api',
            shutdown_timeout=conf.api.shutdown_timeout,
        )
    except OSError as error:
        raise errors.BadConfig('[api] host and port', str(error)) from None
    LOG.info('Serving on http://%s:%d', *web_server.bind_addr)
    return web_server


def _refusal(status, why):
    """Return the headers and the body of the answer to a request that the web server does not
    take."""
    from nova_sched.api import faults

    code = 'busy' if status == 503 else faults.code_of(status)
    answer = faults.response(status, code, why, {})
    return list(answer.headers), answer.get_data()


def until_told(served, stopping=lambda: None):
    """Serve until SIGTERM or SIGINT; requests in flight are answered before this returns.
    ``stopping`` is called before they are."""
    signals = []

    def leave():
        # A signal handler only records the signal: in the hub of eventlet, no call may wait.
        while not signals:
            time.sleep(NOTICE_S)
        stopping()
        served.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: signals.append(number))
    leaving = threading.Thread(target=leave)
    leaving.start()
    try:
        served.serve()
    finally:
        signals.append(None)
        leaving.join()


if __name__ == '__main__':
    sys.exit(main())
