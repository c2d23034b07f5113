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
"""nova-sched-api: the REST API on a web server of its own; on fake:// with a scheduler in its process."""

import contextlib
import logging
import signal
import sys
import threading
import time

from nova_sched.cmd import backend

LOG = logging.getLogger(__name__)

NOTICE_S = 0.1  # in which a signal is noticed


def main():
    backend.choose()
    # Only now: these import what the backend patches.
    from nova_sched.cmd import startup

    return startup.guarded(_run)


def _run():
    from nova_sched import rpc
    from nova_sched.cmd import startup

    conf = startup.configure()
    with contextlib.ExitStack() as stack:
        bus = rpc.transport(conf)
        stack.callback(bus.cleanup)
        if is_alone(conf):
            startup.check(conf)
            stack.enter_context(_scheduler(conf, bus))
        until_told(server(conf, application(conf, bus)))
        LOG.info('Stopped')


def application(conf, bus):
    """The API over the schedulers that are on this bus. Raises BadConfig."""
    from nova_sched.api import app
    from nova_sched.rpc import client

    return app.make(conf, client.GroupsClient(bus, timeout_s=conf.api.rpc_timeout))


def is_alone(conf):
    """Whether the bus ends at this process; its address has been read before."""
    return conf.transport_url.startswith('fake:')


@contextlib.contextmanager
def _scheduler(conf, bus):
    """A scheduler in this process, for as long as the block runs: over fake:// nobody else can be reached."""
    from nova_sched import service

    made = service.SchedulerService(conf, bus)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def server(conf, served):
    """A web server that listens, but does not serve yet. Raises BadConfig if it cannot."""
    from cheroot import wsgi

    from nova_sched import errors

    made = wsgi.Server(
        (conf.api.host, conf.api.port),
        served,
        numthreads=conf.api.threads,
        server_name='nova-sched-api',
        shutdown_timeout=conf.api.shutdown_timeout,
    )
    made.error_log = _told
    try:
        made.prepare()
    except OSError as error:
        raise errors.BadConfig('[api] host and port', str(error)) from None
    LOG.info('Serving on http://%s:%d', *made.bind_addr[:2])
    return made


def _told(message='', level=logging.INFO, traceback=False):
    LOG.log(level, '%s', message, exc_info=traceback)


def until_told(served):
    """Serve until SIGTERM or SIGINT; requests in flight are answered before this returns."""
    told = []

    def leave():
        # A signal is only noted where it arrives: in the hub of eventlet, nothing can be waited for.
        while not told:
            time.sleep(NOTICE_S)
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
