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
"""A crowd at the queues: servers come and go while workers are killed and the broker restarts; was
all right?

    python -m nova_sched.tests.integration.queue_crowd --database postgresql --workers 200 --jobs
    20000

RabbitMQ and the database are private. Schedulers judge the claims, managers settle the jobs;
processes of workers are killed all the time, the broker restarts once. When all is quiet again the
database is audited: see `audit_queues`. Ends with status 1 if anything was wrong.
"""

import argparse
import contextlib
import dataclasses
import itertools
import json
import logging
import multiprocessing
import pathlib
import random
import sys
import threading
import time

from nova_sched.cmd import backend

# Before the rest, which goes by it.
# ruff: noqa: E402
backend.choose([])

from nova_sched.rpc.client import QueuesClient
from nova_sched.tests.fixtures import rabbitmq
from nova_sched.tests.fixtures.process import ServerFailed
from nova_sched.tests.fixtures.scheduler import Daemon
from nova_sched.tests.integration import (
    audit,
    audit_queues,
    queue_callers,
    queue_figures,
    queue_workers,
    stage,
)
from nova_sched.tests.integration.cloud import DURABLE, Cloud
from nova_sched.tests.options import settings

VCPUS, GPUS_ON = 16, 4  # of each node; every fourth has a device
FULL = 0.8  # share of all CPUs that servers may take
TIMEOUT_S, STARTS_S = 300.0, 120.0
STEP_S = 10.0
NUMBERS = {'workers': 200, 'jobs': 20_000, 'processes': 8, 'callers': 60, 'seed': 0}
NODES = 'nodes'  # the folder of their disks
PROCESSES = multiprocessing.get_context('forkserver')  # a worker that is killed is back soon
CALLERS = 'nova_sched.tests.integration.queue_callers'


@dataclasses.dataclass(frozen=True)
class Plan:
    """How big a crowd, and what it goes through: every ``pause_s`` seconds a process of workers is
    killed, ``kills`` times at most (None: as long as there are jobs). After ``limit_s`` no more
    jobs are begun. The database is audited when nothing has been under way for ``quiet_s``: two
    reports of each node, at least."""

    workers: int
    jobs: int
    processes: int = 8
    callers: int = 60
    conversations: int = 3  # processes of callers
    schedulers: int = 1
    managers: int = 2
    pause_s: float = 5.0
    kills: int | None = None
    restart: bool = True
    seed: int = 0
    limit_s: float = 1200.0
    quiet_s: float = 2.5 * queue_workers.REPORT_S
    fallback_after_s: int = 15

    @property
    def servers(self):
        """How many there may be at the same time."""
        return int(self.workers * VCPUS * FULL / queue_callers.MEAN_VCPUS)


class Manager(Daemon):
    """The daemon of the queues."""

    module, listens = 'nova_sched.extensions.queues.cmd', 'Managing queues on host'


class Crowd:
    """All processes on one broker and one database, in one folder; gone when it is closed."""

    def __init__(self, plan, home, url, database):
        self.plan, self.home, self.database = plan, home, database
        self._url, self._end = url, contextlib.ExitStack()
        self._places = [
            queue_workers.Place(
                f'node-{number:04}', 32768, 400, int(number % GPUS_ON == 0), VCPUS / 8
            )
            for number in range(plan.workers)
        ]
        self.workers, self.callers, self.done, self._ready = [], [], [], {}
        PROCESSES.set_forkserver_preload([CALLERS])

    def gather(self):
        plan = self.plan
        projects = [f'project-{number}' for number in range(max(1, plan.workers // 20))]
        each = plan.servers / plan.callers
        options = {
            **DURABLE,
            **stage.DAEMONS,
            'claims.pending_ttl': 600,
            'pci.alias': json.dumps(queue_workers.ALIAS),
            'queues.enabled': True,
            'queues.specials': 'pci:gpu',
            'queues.fallback_after': plan.fallback_after_s,
            'queues.fake_seconds': 0.05,
            'queues.fake_failures': 0.01,
            'queues.reply_timeout': 600,
            'quota.limits': f'servers={max(2, int(0.97 * plan.servers / len(projects)))}',
        }
        # The options of the bus are there once there is one.
        self._cloud = self._end.enter_context(
            contextlib.closing(Cloud(self.home, self._url, self.database))
        )
        self._end.enter_context(settings(DURABLE))
        options = {key.replace('.', '__'): value for key, value in options.items()}
        self._cloud.daemons(plan.schedulers, **options)
        options = {key.replace('__', '.'): value for key, value in options.items()}
        for number in range(plan.managers):
            self._manager(f'manager-{number}', options)
        queues = QueuesClient(self._cloud.bus, 60)
        for row in queue_callers.ROWS:
            queues.flavor_create(row)
        self.nodes = self.home / NODES
        self.nodes.mkdir()
        self.workers = [None] * plan.processes
        started = [self.start(number) for number in range(plan.processes)]
        for ready in started:
            if not ready.wait(STARTS_S):
                raise ServerFailed('a process of workers does not start')
        self._converse(projects, each)

    def close(self):
        for process in (*self.workers, *self.callers):
            if process is not None and process.pid is not None:
                process.kill()
                process.join()
        self._end.close()

    def _manager(self, name, options):
        made = Manager(self.home / name, self._url, self.database, options)
        self._end.callback(made.kill)
        made.start()
        self._settings = made.settings

    def start(self, number):
        """Start a process of workers; the event says when they work."""
        self._ready[number] = ready = (
            PROCESSES.Event()
        )  # kept, or the process finds none when it starts
        log = self.home / f'workers-{number}.log'
        places = self._places[number :: self.plan.processes]
        given = self._settings, log, places, self.nodes, ready
        self.workers[number] = PROCESSES.Process(
            target=queue_workers.work, args=given, daemon=True
        )
        self.workers[number].start()
        return ready

    def kill(self, number):
        self.workers[number].kill()
        self.workers[number].join()

    def _converse(self, projects, each):
        plan, most = self.plan, max(1, round(each))
        for number in range(plan.conversations):
            self.done.append(PROCESSES.Value('i', 0))
            given = (
                self._settings,
                self.home / f'callers-{number}.log',
                self.home / f'answers-{number}.json',
                plan.callers // plan.conversations,
                projects,
                most,
                plan.jobs // plan.conversations,
                time.monotonic() + plan.limit_s,
                self.done[-1],
                plan.seed + number + 1,
            )
            self.callers.append(
                PROCESSES.Process(target=queue_callers.converse, args=given, daemon=True)
            )

    def go(self):
        for caller in self.callers:
            caller.start()

    def count(self):
        """Jobs that callers have begun with."""
        return sum(one.value for one in self.done)

    def talks(self):
        return any(caller.is_alive() for caller in self.callers)


class Weather(threading.Thread):
    """Kills processes of workers by turns, and restarts the broker once half of the jobs are begun
    with."""

    def __init__(self, crowd, rabbit, tell):
        super().__init__(daemon=True)
        self._crowd, self._rabbit, self._tell = crowd, rabbit, tell
        self._over, self._dice = threading.Event(), random.Random(crowd.plan.seed)
        self.kills = self.restarts = 0
        self.failure = None

    def run(self):
        crowd, plan = self._crowd, self._crowd.plan
        try:
            while not self._over.wait(plan.pause_s):
                if plan.kills is None or self.kills < plan.kills:
                    number = self._dice.randrange(plan.processes)
                    crowd.kill(number)
                    crowd.start(number)
                    self.kills += 1
                if plan.restart and not self.restarts and crowd.count() >= plan.jobs / 2:
                    self._tell('the broker restarts')
                    self._rabbit.restart()
                    self.restarts += 1
        except Exception as error:  # noqa: BLE001, who made it is told
            self.failure = repr(error)

    def stop(self):
        self._over.set()
        self.join()


def run(plan, home, broker, database, tell=stage.tell):
    """Let the crowd come and go, and audit what it leaves. Returns figures, and what is wrong."""
    audit_queues.keep_settled(database)
    url = broker.fresh()
    rabbit = queue_figures.Rabbit(broker, url)
    with contextlib.closing(Crowd(plan, home, url, database)) as crowd:
        crowd.gather()
        tell(
            f'{plan.workers} workers in {plan.processes} processes are ready; '
            f'up to {plan.servers} servers'
        )
        begun_s = time.monotonic()
        crowd.go()
        weather = Weather(crowd, rabbit, tell)
        weather.start()
        looks, meanwhile = _watch(crowd, weather, begun_s, tell)
        weather.stop()
        took_s = time.monotonic() - begun_s
        restless = _until_quiet(crowd, rabbit, tell)
        quiet_s = time.monotonic() - begun_s - took_s
        counts, waiting = rabbit.counts(), rabbit.waiting()
    wrong = audited(database, home, waiting)
    wrong |= {'meanwhile': meanwhile, 'quiet': restless}
    if weather.failure or (plan.restart and not weather.restarts):
        wrong['weather'] = [f'it did not do its work: {weather.failure or "too late"}']
    figures = {
        'seconds': f'{took_s:.0f}',
        **queue_figures.of_jobs(database, took_s),
        **queue_figures.of_answers(answers(home)),
        'processes killed': (
            f'{weather.kills}, with {plan.workers / plan.processes:g} workers each'
        ),
        'broker restarts': weather.restarts,
        **counts,
        **queue_figures.of_logs(home),
        'audits': f'{looks} times meanwhile, and at the end',
        'seconds until quiet': f'{quiet_s:.0f}',
    }
    return figures, wrong


def audited(database, home, waiting):
    """What is wrong with what a crowd has left in the database and in its folder; see
    audit_queues.faults."""
    return audit_queues.faults(database, queue_workers.lists(home / NODES), answers(home), waiting)


def answers(home):
    """What the callers have written down."""
    lines = (path.read_text().splitlines() for path in sorted(home.glob('answers-*.json')))
    return [json.loads(line) for line in itertools.chain.from_iterable(lines)]


def _watch(crowd, weather, begun_s, tell):
    """Until all callers have had their say: how often the database was audited, and what was wrong
    then."""
    told_s, looks, wrong = begun_s, 0, {}
    while crowd.talks():
        time.sleep(0.2)
        now_s = time.monotonic()
        if now_s - told_s >= STEP_S:
            told_s, looks = now_s, looks + 1
            busy, claims = audit_queues.unrest(crowd.database)
            tell(
                f'{crowd.count():,} of {crowd.plan.jobs:,} jobs, {busy} under way, {claims} '
                f'claims pending, {weather.kills} kills, {now_s - begun_s:.0f} s'
            )
            wrong |= dict.fromkeys(audit.faults(crowd.database))
    return looks, list(wrong)


def _until_quiet(crowd, rabbit, tell):
    """Wait until nothing has been under way for a while; what still is, if that takes too long.

    A worker whose call was lost with the broker asks again after a minute. Until then its node
    holds, hidden, what another one may have built long since.
    """
    until_s = time.monotonic() + TIMEOUT_S
    since_s = time.monotonic()
    while time.monotonic() - since_s < crowd.plan.quiet_s:
        time.sleep(1.0)
        busy, claims = audit_queues.unrest(crowd.database)
        waiting = sum(rabbit.waiting().values())
        hidden = sum(sum(held.values()) for held in queue_workers.lists(crowd.nodes).values())
        if busy or claims or waiting or hidden:
            still = (
                f'{busy} jobs under way, {claims} claims pending, {waiting} messages wait, '
                f'{hidden} hidden'
            )
            since_s = time.monotonic()
            if since_s > until_s:
                return [still]
            if int(until_s - since_s) % 10 == 0:
                tell(still)
    return []


@contextlib.contextmanager
def servers(database, home):
    """(broker, URL of a new database), both private."""
    with contextlib.ExitStack() as end:
        broker = end.enter_context(rabbitmq.server())
        if database == 'sqlite':
            yield broker, upgraded(f'sqlite:///{home}/nova_sched.sqlite')
        else:
            yield broker, stage.upgraded(end.enter_context(stage.DATABASES[database].server()))


def upgraded(url):
    """A database with our tables."""
    made = stage.db_engine.create(url)
    stage.schema.upgrade(made)
    made.dispose()
    return url


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--database', choices=[*stage.DATABASES, 'sqlite'], default='postgresql')
    for name, default in NUMBERS.items():
        parser.add_argument(f'--{name}', type=int, default=default, metavar='N')
    parser.add_argument(
        '--seconds', type=int, default=3600, metavar='S', help='begin no jobs after so many'
    )
    parser.add_argument(
        '--pause', type=float, default=5.0, metavar='S', help='seconds between two kills'
    )
    parser.add_argument(
        '--keep', type=pathlib.Path, metavar='FOLDER', help='keep logs and answers here'
    )
    chosen = parser.parse_args()
    stage.prepare()
    try:
        with (
            stage.folder(chosen.keep) as home,
            servers(chosen.database, home) as (broker, database),
        ):
            logging.basicConfig(filename=home / 'crowd.log', force=True)
            plan = Plan(
                chosen.workers,
                chosen.jobs,
                chosen.processes,
                chosen.callers,
                pause_s=chosen.pause,
                seed=chosen.seed,
                limit_s=chosen.seconds,
            )
            figures, wrong = run(plan, home, broker, database)
    except (KeyboardInterrupt, ServerFailed) as error:
        sys.exit(f'ended: {str(error) or "interrupted"}')
    sys.exit(stage.finish(figures, wrong))


if __name__ == '__main__':
    main()
