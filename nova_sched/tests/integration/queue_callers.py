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
"""Conductors of a crowd of queues: each creates and deletes servers, and writes down what it was
told.

A line of JSON for each server: ``uuid``, ``project``, ``created`` (its host, None if there is
none), ``deleted``, ``error`` of what was refused, and ``seconds`` that each call took. A caller
that hears nothing asks again for the same.
"""

import contextlib
import json
import os
import random
import threading
import time
import uuid

from nova_sched.cmd import backend

# Before the rest, which goes by it.
# ruff: noqa: E402
backend.choose([])

import oslo_messaging as messaging

from nova_sched import errors
from nova_sched.conf import CONF
from nova_sched.extensions.queues import service as queue_service
from nova_sched.extensions.queues.catalogue import Catalogue
from nova_sched.tests.integration.queue_workers import begin

ROWS = (
    {'name': 'tiny', 'vcpus': 1, 'memory_mb': 512, 'root_gb': 1},
    {'name': 'small', 'vcpus': 2, 'memory_mb': 1024, 'root_gb': 2},
    {'name': 'large', 'vcpus': 4, 'memory_mb': 2048, 'root_gb': 4},
)
MIX = {'tiny': 0.55, 'small': 0.3, 'large': 0.12, 'tiny+pci:gpu': 0.03}
MEAN_VCPUS = 0.55 + 2 * 0.3 + 4 * 0.12 + 0.03
HASTY, ODD = (
    0.04,
    0.03,
)  # deleted while they are built; by the scheduler, for a queue says nothing of them
DELETES = 0.35  # share of deletes while there are fewer servers than there may be
AGAIN = (
    errors.NoAnswer,
    errors.StoreUnavailable,
    errors.BrokerUnavailable,
    messaging.MessagingException,
)
AGAIN_S, TRIES = 0.5, 200


class Caller:
    """``most`` servers at the same time; ``take()`` says whether there is one more job to do."""

    def __init__(self, router, catalogue, project, most, dice, take, write):
        self._router, self._catalogue, self._project = router, catalogue, project
        self._most, self._dice, self._take, self._write = most, dice, take, write
        self._servers = {}

    def live(self):
        while self._take():
            mine = list(self._servers)
            if mine and (len(mine) >= self._most or self._dice.random() < DELETES):
                self._delete(self._dice.choice(mine))
            else:
                self._create()
        for told in self._servers.values():
            self._write(told)

    def _create(self):
        told = {
            'uuid': str(uuid.uuid4()),
            'project': self._project,
            'created': None,
            'deleted': False,
            'error': None,
            'seconds': [],
        }
        hasty = (
            threading.Thread(target=self._end, args=(told,))
            if self._dice.random() < HASTY
            else None
        )
        if hasty:
            hasty.start()
        self._timed(told, lambda: self._place(told))
        if hasty:
            hasty.join()
            if told['deleted'] is None:
                self._timed(told, lambda: self._router.delete(told['uuid']))
                told['deleted'] = told['error'] is None
        if told['created'] and not told['deleted']:
            self._servers[told['uuid']] = told
        else:
            self._write(told)

    def _place(self, told):
        (queue,) = self._dice.choices(list(MIX), MIX.values())
        spec = self._catalogue.spec(
            self._catalogue.find(queue), told['uuid'], self._project, 'user'
        )
        if self._dice.random() < ODD:
            spec.ignore_hosts = ['nobody']
        ((found, *_),) = self._router.place(spec, [told['uuid']])
        told['created'] = found.service_host

    def _end(self, told):
        """Delete it while it is built; None if there was nothing to delete by then."""
        time.sleep(self._dice.uniform(0, 0.5))
        try:
            again(lambda: self._router.delete(told['uuid']))
            told['deleted'] = True
        except errors.SchedError:
            told['deleted'] = None

    def _delete(self, instance_uuid):
        told = self._servers.pop(instance_uuid)
        self._timed(told, lambda: self._router.delete(instance_uuid))
        told['deleted'] = told['error'] is None
        self._write(told)

    def _timed(self, told, call):
        begun_s = time.monotonic()
        try:
            again(call)
        except errors.SchedError as error:
            told['error'] = f'{type(error).__name__}: {error}'
        told['seconds'].append(round(time.monotonic() - begun_s, 3))


def again(call):
    """What it returns, once a manager or scheduler has answered."""
    for left in reversed(range(TRIES)):
        try:
            return call()
        except AGAIN:
            if not left:
                raise
            time.sleep(AGAIN_S)
    raise AssertionError


def converse(settings, log, answers, callers, projects, most, jobs, until_s, done, seed):
    """A process of callers, until ``jobs`` creates and deletes are made, or the time is over;
    ``done`` counts them."""
    bus = begin(settings, log)
    catalogue, turn = Catalogue.of(1, ROWS, CONF.queues.specials), threading.Lock()

    def take():
        with turn:
            more = done.value < jobs and time.monotonic() < until_s
            done.value += more
            return more

    with contextlib.ExitStack() as end:
        file = end.enter_context(open(answers, 'w'))
        router = end.enter_context(queue_service.Routing(CONF, bus))

        def write(told):
            with turn:
                file.write(json.dumps(told) + '\n')

        lives = []
        for number in range(callers):
            dice, project = random.Random(seed * 1000 + number), projects[number % len(projects)]
            caller = Caller(router, catalogue, project, most, dice, take, write)
            lives.append(threading.Thread(target=caller.live))
            lives[-1].start()
        for life in lives:
            life.join()
    os._exit(0)  # what an idle bus is still about to do is no matter
