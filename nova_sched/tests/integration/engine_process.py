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
"""A scheduler's engine in a process of its own, with a pipe for a bus.

Started as a module it is that process: it takes ``(number, work, arguments)`` from the pipe, each
as a message that was just taken off a bus, and sends back ``(number, answer, error)``, ``error``
being a class and a text.
"""

import contextlib
import dataclasses
import functools
import multiprocessing.connection
import os
import queue
import signal
import socket
import subprocess
import sys
import threading

from nova_sched import errors
from nova_sched.claim import VCPU
from nova_sched.claims import ClaimSelector
from nova_sched.conf import CONF
from nova_sched.engine.clock import handling
from nova_sched.engine.cycle import PLACE, Order
from nova_sched.engine.scheduler import CALL, REPORT
from nova_sched.state.report import ReportOrder
from nova_sched.tests.builders import report, request
from nova_sched.tests.options import settings

TIMEOUT_S = 10.0  # how long a caller waits for an answer
MODULE = 'nova_sched.tests.integration.engine_process'
BOOT = 1


class Engine:
    """The process, as its parent sees it: it can be killed, stand still, and be started again.

    ``events`` is the queue that answers go to, as ``(number, answer, error)``; those that a
    process owed when it was killed come with the error ``Killed``. ``owed`` is the number of them.
    """

    def __init__(self, url, log, events, wrong_s=0, **options):
        self._url, self._log, self._events, self._wrong_s = url, log, events, wrong_s
        self._options = options
        self._owed = set()
        self._lock = threading.Lock()
        self._child = self._outbox = None

    @property
    def owed(self):
        return len(self._owed)

    @property
    def pid(self):
        return self._child.pid

    def start(self, wait=False):
        ours, theirs = socket.socketpair()
        clock = 'nova_sched.tests.fixtures.wrong_clock'
        command = [sys.executable, '-W', 'ignore', '-m', clock, str(self._wrong_s), MODULE]
        command += [str(theirs.fileno()), self._url]
        command += [f'{name}={value}' for name, value in self._options.items()]
        with theirs, self._log.open('ab') as log:
            self._child = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdout=log, stderr=log, start_new_session=True
            )
        pipe = multiprocessing.connection.Connection(ours.detach())
        self._lose(queue.SimpleQueue())
        threading.Thread(target=self._write, args=(pipe, self._outbox), daemon=True).start()
        self._reader = threading.Thread(target=self._read, args=(pipe, self._outbox), daemon=True)
        self._reader.start()

    def send(self, number, work, *given):
        with self._lock:
            self._owed.add(number)
            self._outbox.put((number, work, given))

    def _write(self, pipe, outbox):
        with contextlib.suppress(OSError):
            while (message := outbox.get()) is not None:
                pipe.send(message)

    def _read(self, pipe, outbox):
        with contextlib.suppress(OSError, EOFError):
            while True:
                answer = pipe.recv()
                with self._lock:
                    self._owed.discard(answer[0])
                self._events.put(answer)
        outbox.put(None)

    def kill(self):
        """SIGKILL; what it has answered before is in ``events`` then, and what it owes is lost."""
        self._child.kill()
        self._child.wait()
        self._reader.join()
        self._lose(self._outbox)

    def _lose(self, outbox):
        """What is sent from now on goes to this outbox; what is owed was sent to a process that is
        gone."""
        with self._lock:
            lost, self._owed, self._outbox = self._owed, set(), outbox
        for number in lost:
            self._events.put((number, None, ('Killed', '')))

    def pause(self):
        self._child.send_signal(signal.SIGSTOP)

    def resume(self):
        self._child.send_signal(signal.SIGCONT)


# In the process.


@functools.cache
def _plain(vcpus):
    return request(vcpus=vcpus, memory_mb=0)


def _asked(uuid, vcpus, group):
    if group is None:
        return dataclasses.replace(_plain(vcpus), instance_uuid=uuid)
    group = {'policy': 'anti-affinity', 'uuid': group[0], 'members': group[1]}
    return request(instance_uuid=uuid, vcpus=vcpus, memory_mb=0, group=group)


def _place(scheduler, uuid, vcpus, group):
    order = Order([_asked(uuid, vcpus, group)])
    return scheduler.loop.send(PLACE, order), lambda chosen: chosen[0][0].host


def _confirm(scheduler, uuid, host):
    work = scheduler.claim_service.confirm_claim, (uuid, host)
    return scheduler.loop.send(CALL, work), lambda claims: None


def _abort(scheduler, uuid):
    return scheduler.loop.send(CALL, (_end, (scheduler, uuid))), lambda claims: None


def _end(scheduler, uuid):
    """End the claims that the server has now, as its caller sees them."""
    service = scheduler.claim_service
    found = service.claims_of(uuid)
    if not found:
        raise errors.ClaimNotFound(uuid)
    for one in found:
        service.abort_claim(uuid, None, ClaimSelector(one.name))


@functools.cache
def _empty(host, vcpus):
    return report(host, vcpus=vcpus, memory_mb=None, disk_gb=None)


def _report(scheduler, host, vcpus, used, instances, sequence, seen):
    """The claims that are on the node then, and its generation; None for a report that was
    stale."""
    made = dataclasses.replace(
        _empty(host, vcpus),
        used={VCPU: used},
        instances=frozenset(instances),
        order=ReportOrder(seen, BOOT, sequence),
    )
    told = scheduler.loop.send(REPORT, made)
    return (
        told,
        lambda facts: (
            None
            if facts.stale
            else (frozenset(one.consumer_uuid for one in facts.claims), facts.generation)
        ),
    )


WORK = {'place': _place, 'confirm': _confirm, 'abort': _abort, 'report': _report}


class _Door:
    """Hands what comes through the pipe to the engine, and its answers back."""

    def __init__(self, scheduler, pipe):
        self._scheduler, self._pipe, self._lock = scheduler, pipe, threading.Lock()

    def serve(self):
        """Until the pipe ends."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                self._take(*self._pipe.recv())

    def _take(self, number, work, given):
        with handling(self._scheduler.pauses.received(TIMEOUT_S)):
            future, plain = WORK[work](self._scheduler, *given)
        future.add_done_callback(lambda done: self._answer(number, done, plain))

    def _answer(self, number, done, plain):
        error = done.exception()
        answer = (number, plain(done.result()), None) if error is None else (
            number, None, (type(error).__name__, str(error)))  # fmt: skip
        with self._lock, contextlib.suppress(OSError):
            self._pipe.send(answer)


def main(fd, url, *options):
    from nova_sched import service

    CONF([], project='nova_sched', default_config_files=[])
    chosen = dict(one.split('=', 1) for one in options)
    with (
        settings({'database.connection': url, **chosen}),
        multiprocessing.connection.Connection(int(fd)) as pipe,
    ):
        engine = service.once_available(lambda: service.shared(CONF), CONF, threading.Event())
        scheduler = service.scheduler(CONF, engine=engine)
        service.once_available(scheduler.start, CONF, threading.Event())
        _Door(scheduler, pipe).serve()
    os._exit(0)  # the parent is gone: no answer is due


if __name__ == '__main__':
    main(*sys.argv[1:])
