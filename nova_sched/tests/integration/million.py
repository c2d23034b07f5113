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
"""A million claims through engines without a bus, in a storm: was every one of them right?

    python -m nova_sched.tests.integration.million --database postgresql --engines 4 --claims
    1000000

Instances come, run and go on hosts that are nearly full. Engines are killed and stand still, two
of three have clocks that are an hour off, every second one has a link to the database that is slow
or cut now and then, and the database goes down once in each part of the run. Calls and old reports
are also sent twice.

While it runs, each answer to a report has the claims of what runs on the host, and members of an
anti-affinity group are told different hosts. After each part the tables hold exactly what the
callers were told. Ends with status 1 if anything was wrong.
"""

import collections
import dataclasses
import heapq
import itertools
import queue
import random
import sys
import time

from nova_sched.cmd import backend

# Before the rest, which goes by it.
# ruff: noqa: E402
backend.choose([])

from nova_sched.tests.builders import uuid_of
from nova_sched.tests.fixtures.process import ServerFailed
from nova_sched.tests.fixtures.proxy import Proxy
from nova_sched.tests.integration import audit, orders, stage
from nova_sched.tests.integration.cloud import through
from nova_sched.tests.integration.crowd import WRONG_S
from nova_sched.tests.integration.engine_process import TIMEOUT_S, Engine
from nova_sched.tests.integration.storm import Storm

VCPUS = 64  # of a host
SIZES = (1, 1, 2, 4)  # vCPUs of an instance
FULL = 0.7  # of all vCPUs: then instances go, and leave a moment later
AT_ONCE = 64  # calls that one engine owes at most
MEMBERS = 4  # of an anti-affinity group
REPORT_S = 4.0  # between two reports of a host
REPORT_TIMEOUT_S = 6.0  # then it reports again
AGAIN_S = 0.2  # after an error that is to be tried again
TWICE = 0.02  # of the calls go to two engines
OPTIONS = {
    'default.service_down_time': stage.DAY_S,
    'claims.pending_ttl': stage.DAY_S,
    # There is no news without a bus; what is known of others' claims may be as old as this.
    'claims.refresh_interval': 5.0,
}
# What a caller asks again after, wherever its first call got.
PASSING = {'Killed', 'NoAnswer', 'StoreUnavailable', 'TooManyConflicts', 'Outdated'}


@dataclasses.dataclass(eq=False)
class Server:
    """An instance. ``host`` is where it is, as its caller was told; ``open`` are its calls that
    may still be carried out; ``ends``: its caller gives its claim back. ``seen``: a report with it
    was taken."""

    uuid: str
    vcpus: int
    group: list | None
    host: str | None = None
    call: int | None = None
    open: set = dataclasses.field(default_factory=set)
    runs: bool = False
    seen: bool = False
    ends: bool = False


class Host:
    """A compute node, and what runs there."""

    def __init__(self, name):
        self.name, self.servers, self.sequence, self.answered = name, {}, 0, 0
        self.seen = 0  # the node's generation, from the last answer
        self.waits = self.last = None


class Fleet:
    """Callers, hosts, and the engines that they call; all in one thread, driven by answers and
    time."""

    def __init__(self, engines, events, hosts, seed, full=FULL):
        self._engines, self._events, self._dice = engines, events, random.Random(seed)
        self.report_s = REPORT_S
        self._hosts = {name: Host(name) for name in (f'host-{number}' for number in range(hosts))}
        self._numbers = itertools.count(1)
        self._calls = {}  # number -> (what to do with the answer, its arguments)
        self._due = []  # heap of (when, number, work, arguments)
        self._runs, self._group = collections.deque(), None
        self._used, self._most = 0, int(full * hosts * VCPUS)
        self._asking = 0
        self.live = {}  # UUID -> Server
        self.told, self.refused, self.errors, self.faults = 0, 0, collections.Counter(), []
        self.stale = 0

    def __len__(self):
        return self.told

    # Time and answers.

    def _later(self, after_s, work, *given):
        heapq.heappush(self._due, (time.monotonic() + after_s, next(self._numbers), work, given))

    def _send(self, then, given, engine, work, *words):
        number = next(self._numbers)
        self._calls[number] = then, given
        engine.send(number, work, *words)
        return number

    def _turn(self, timeout_s):
        try:
            number, answer, error = self._events.get(timeout=timeout_s)
        except queue.Empty:
            return False
        then, given = self._calls.pop(number)
        then(*given, number, answer, error)
        return True

    def _engine(self, but=None, most=2 * AT_ONCE):
        """The one that owes least, as a broker gives messages to consumers that have acknowledged
        theirs."""
        able = [one for one in self._engines if one is not but and one.owed < most]
        return min(able, key=lambda one: (one.owed, self._dice.random()), default=None)

    def report_all(self):
        """Have each host report, again and again from now on."""
        for host in self._hosts.values():
            self._later(self._dice.uniform(0, REPORT_S), self._report, host)

    def run(self, is_done, limit_s):
        """Let instances come and go until it is done."""
        end = time.monotonic() + limit_s
        while not is_done(self) and time.monotonic() < end and not self.faults:
            self._do_what_is_due()
            while self._asking < AT_ONCE * len(self._engines) and self._used < self._most:
                if not self._ask_new():
                    break
            while self._used >= self._most and self._end_oldest():
                pass
            if self._turn(0.05):
                while self._turn(0):
                    pass

    def rest(self, limit_s=180.0):
        """Ask for nothing new until all is answered, and every host has reported what runs
        there."""
        self.until_reported(2, limit_s)
        end = time.monotonic() + limit_s
        while self._asking or any(
            one.open or one.ends or not one.seen for one in self.live.values()
        ):
            if time.monotonic() > end:
                self.faults.append(
                    f'{len(self._calls)} calls were not answered in {limit_s:.0f} s'
                )
                return
            self._do_what_is_due()
            self._turn(0.05)
        self.until_reported(2, limit_s)

    def until_reported(self, rounds, limit_s):
        """Let each host report so many times."""
        end = time.monotonic() + limit_s
        wanted = [(host, host.answered + rounds) for host in self._hosts.values()]
        while any(host.answered < times for host, times in wanted):
            if time.monotonic() > end:
                self.faults.append(
                    f'not every host could report {rounds} times in {limit_s:.0f} s'
                )
                return
            self._do_what_is_due()
            self._turn(0.05)

    def end_all(self):
        """What runs goes."""
        self.rest()
        while self._end_oldest():
            pass

    def _do_what_is_due(self):
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            _, _, work, given = heapq.heappop(self._due)
            work(*given)

    # Instances.

    def _ask_new(self):
        """An instance more; False if no engine can take its call now."""
        if self._engine(most=AT_ONCE) is None:
            return False
        group = None
        if self._dice.random() < 0.2:
            if self._group is None or len(self._group[1]) == MEMBERS:
                self._group = [orders.new_uuid(self._dice), []]
            group = self._group
        server = Server(orders.new_uuid(self._dice), self._dice.choice(SIZES), group)
        if group is not None:
            group[1].append(server.uuid)
        self.live[server.uuid] = server
        self._used += server.vcpus
        self._asking += 1
        self._ask(server)
        return True

    def _ask(self, server):
        if server.host is not None or server.uuid not in self.live:
            return
        engine = self._engine()
        if engine is None:
            self._later(AGAIN_S, self._ask, server)
            return
        group = server.group and (server.group[0], tuple(server.group[1]))
        words = 'place', server.uuid, server.vcpus, group
        server.call = self._send(self._placed, (server,), engine, *words)
        server.open.add(server.call)
        if self._dice.random() < TWICE and (second := self._engine(engine)) is not None:
            server.open.add(self._send(self._placed, (server,), second, *words))
        self._later(TIMEOUT_S, self._timed_out, server, server.call)

    def _timed_out(self, server, call):
        if server.call == call and server.host is None and server.uuid in self.live:
            self.errors['NoAnswer'] += 1
            self._ask(server)

    def _placed(self, server, number, host, error):
        server.open.discard(number)
        if server.host is not None:  # a call that was sent twice, or that its caller has given up
            if host not in (None, server.host):
                self.faults.append(f'{server.uuid} was told {server.host}, and then {host}')
        elif error is None:
            self._begin(server, host)
        elif error[0] == 'NoValidHost' and server.call == number and not server.open:
            self.refused += 1
            self._forget(server)
        elif server.uuid in self.live:
            self._count(error, also='NoValidHost')
            if server.call == number:
                server.call = None
                self._later(AGAIN_S, self._ask, server)

    def _count(self, error, also=''):
        self.errors[error[0]] += 1
        if error[0] not in PASSING | {also}:
            self.faults.append(f'{error[0]}: {error[1]}')

    def _forget(self, server):
        self._asking -= server.host is None
        self._used -= server.vcpus
        del self.live[server.uuid]
        if server.group is not None and server.uuid in server.group[1]:
            server.group[1].remove(server.uuid)
            if server.group is self._group and not server.group[1]:
                self._group = None

    def _begin(self, server, host):
        """Its caller was told a host: it is built there, given back, or its build is confirmed."""
        server.host = host
        self._asking -= 1
        self.told += 1
        self._check_group(server)
        what = self._dice.random()
        if what < 0.05 and not server.open:
            server.ends = True
            self._abort(server)
            return
        server.runs = True
        self._hosts[host].servers[server.uuid] = server
        self._runs.append(server)
        if what > 0.95:
            self._confirm(server)

    def _check_group(self, server):
        if server.group is None:
            return
        for other in (self.live.get(uuid) for uuid in server.group[1]):
            if other not in (None, server) and other.host == server.host:
                self.faults.append(
                    f'{server.uuid} and {other.uuid} keep apart, and are both on {server.host}'
                )

    def _confirm(self, server):
        engine = self._engine()
        if engine is not None:
            server.open.add(
                self._send(self._confirmed, (server,), engine, 'confirm', server.uuid, server.host)
            )

    def _confirmed(self, server, number, _answer, error):
        server.open.discard(number)
        if error is not None:
            self._count(error)

    def _abort(self, server):
        engine = self._engine()
        if engine is None:
            self._later(AGAIN_S, self._abort, server)
        else:
            self._send(self._aborted, (server,), engine, 'abort', server.uuid)

    def _aborted(self, server, _number, _answer, error):
        if error is None or error[0] == 'ClaimNotFound':
            self._forget(server)
        else:
            self._count(error)
            self._later(AGAIN_S, self._abort, server)

    def _end_oldest(self):
        """The instance that has run longest goes; False if there is none that could."""
        for _ in range(min(AT_ONCE, len(self._runs))):
            server = self._runs.popleft()
            if server.seen and not server.open:
                del self._hosts[server.host].servers[server.uuid]
                self._forget(server)
                return True
            self._runs.append(server)
        return False

    # Hosts.

    def _report(self, host):
        self._later(self.report_s, self._report, host)
        if host.waits is not None and time.monotonic() < host.waits:
            return
        engine = self._engine()
        if engine is None:
            return
        host.sequence += 1
        host.waits = time.monotonic() + REPORT_TIMEOUT_S
        listed = dict(host.servers)
        used = sum(one.vcpus for one in listed.values())
        words = 'report', host.name, VCPUS, used, tuple(listed), host.sequence, host.seen
        self._send(self._reported, (host, listed, host.sequence), engine, *words)
        if host.last is not None and self._dice.random() < TWICE:
            self._send(self._repeated, (), engine, *host.last)
        if self._dice.random() < 2 * TWICE:
            host.last = words

    def _reported(self, host, listed, sequence, _number, answer, error):
        if sequence == host.sequence:
            host.waits = None
        if error is not None:
            self._count(error)
        elif answer is None:
            self.stale += 1
        else:
            claims, generation = answer
            host.answered += 1
            host.seen = max(host.seen, generation)
            for uuid, server in listed.items():
                server.seen = True
                if host.servers.get(uuid) is server and uuid not in claims:
                    self.faults.append(f'{uuid} runs on {host.name}, which has no claim of it')

    def _repeated(self, _number, claims, error):
        if error is not None:
            self._count(error)
        elif claims is None:
            self.stale += 1

    # What the tables say, when all is at rest.

    def compare(self, database):
        """What the callers were told and the tables do not have, or the other way round."""
        where = {server.uuid: [uuid_of(f'node {server.host}')] for server in self.live.values()}
        held = audit.placed(database)
        for uuid in where.keys() | held.keys():
            if where.get(uuid, []) != held.get(uuid, []):
                yield f'{uuid} was told {where.get(uuid)}, and has claims on {held.get(uuid)}'


def run(home, server, url, link, chosen, tell=stage.tell):
    """Return figures, and what was wrong."""
    events = queue.SimpleQueue()
    engines = [
        Engine(
            url if number % 2 == 0 else through(url, link),
            home / f'engine-{number}.log',
            events,
            WRONG_S[number % len(WRONG_S)],
            **OPTIONS,
        )
        for number in range(chosen.engines)
    ]
    fleet = Fleet(engines, events, chosen.hosts, chosen.seed)
    faults = {'answers': fleet.faults, 'audit': [], 'told and shown': [], 'storm': []}
    begin = time.monotonic()
    happened = collections.Counter()
    try:
        for engine in engines:
            engine.start()
        fleet.report_all()
        fleet.rest()
        while (
            fleet.told < chosen.claims
            and time.monotonic() - begin < chosen.limit
            and not any(faults.values())
        ):
            part = max(1, chosen.claims // chosen.parts)
            until, outages = fleet.told + part, [(server, fleet.told + part // 2)]
            with Storm(engines, outages, fleet, chosen.pause, fleet.told, tell, link) as storm:
                fleet.run(lambda fleet, until=until: fleet.told >= until, chosen.limit)
            fleet.rest()
            happened += collections.Counter(
                kills=storm.kills, pauses=storm.pauses, cuts=storm.cuts
            )
            happened['database killed'] += storm.is_over
            if storm.failure:
                faults['storm'].append(str(storm.failure))
            faults['audit'] += audit.faults(url)
            faults['told and shown'] += fleet.compare(url)
            tell(f'{fleet.told:,} claims, {time.monotonic() - begin:.0f} s, {dict(happened)}')
    finally:
        for engine in engines:
            engine.kill()
    if fleet.told < chosen.claims:
        faults['storm'].append(f'{fleet.told:,} of {chosen.claims:,} claims were made')
    took_s = time.monotonic() - begin
    figures = {
        'claims': f'{fleet.told:,} in {took_s:.0f} s, {fleet.told / took_s:.0f} a second',
        'refused': f'{fleet.refused:,}',
        'asked again after': dict(fleet.errors),
        'stale reports': f'{fleet.stale:,}',
        'happened': dict(happened),
    }
    return figures, faults


def main():
    parser = stage.arguments(
        __doc__.splitlines()[0], engines=4, claims=1_000_000, hosts=400, parts=10, pause=10, seed=0
    )
    chosen = parser.parse_args()
    stage.prepare()
    try:
        with (
            stage.folder(chosen.keep) as home,
            stage.DATABASES[chosen.database].server() as server,
            Proxy(server.port) as link,
        ):
            figures, faults = run(home, server, stage.upgraded(server), link, chosen)
    except (KeyboardInterrupt, ServerFailed) as error:
        sys.exit(f'ended: {str(error) or "interrupted"}')
    sys.exit(stage.finish(figures, faults))


if __name__ == '__main__':
    main()
