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
"""Sends spoiled messages, and judges what becomes of each: an answer, or a documented error, at
once."""

import collections
import contextlib
import dataclasses
import faulthandler
import json
import logging
import random
import re
import resource
import sys
import threading
import time
import traceback
from pathlib import Path

import oslo_messaging as messaging

import nova_sched
from nova_sched import errors
from nova_sched.rpc import messages
from nova_sched.tests.fuzz import mutation, seeds
from nova_sched.tests.fuzz.world import World

PACKAGE = Path(nova_sched.__file__).parent
SLOW_S = 1.0
TRIES = 4  # of a message that took longer
MOST_GROWTH_MB = 64.0
TIMEOUT_S = 60.0  # after which a process that watches itself ends
MOST_MEMORY = 4 * 2**30  # bytes of it: a message that asks for all of the machine's fails instead
CASES = 500  # in one world; then a new one begins
OTHERS = {
    'method': ('GET', 'PUT', 'POST', 'DELETE', 'PATCH', 'OPTIONS', 'x'),
    'media': ('application/json', 'application/yaml', 'text/plain', '', 'a/b;c=d'),
}
MOST_ROWS = 3000  # with more of them a world ends early

DOCUMENTED = (
    errors.SchedError,
    messages.NovaNoValidHost,
    messaging.UnsupportedVersion,
    messaging.NoSuchMethod,
)
# What is no message's fault: the database here is sound, and so is the configuration.
BROKEN = (
    errors.StoreUnavailable,
    errors.StoreFull,
    errors.BrokerUnavailable,
    errors.BadConfig,
    errors.NoAnswer,
    errors.LimitsUnknown,
    errors.BadMachineFacts,
)


@dataclasses.dataclass
class Tally:
    """What became of the messages of one run."""

    messages: int = 0
    accepted: int = 0
    refused: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    faults: dict = dataclasses.field(
        default_factory=dict
    )  # what went wrong -> the first case, and how often
    slowest_s: float = 0.0
    slowest: str = ''
    memory_mb: list = dataclasses.field(default_factory=list)  # after each world

    def add(self, other):
        self.messages += other.messages
        self.accepted += other.accepted
        self.refused.update(other.refused)
        for fault, (case, count) in other.faults.items():
            self.fault(fault, case, count)
        if other.slowest_s > self.slowest_s:
            self.slowest_s, self.slowest = other.slowest_s, other.slowest

    def fault(self, fault, case, count=1):
        known = self.faults.get(fault, (case, 0))
        self.faults[fault] = known[0], known[1] + count

    @property
    def growth_mb(self):
        """By how much memory has grown since the first tenth of the run, or since the third
        world."""
        warm = max(len(self.memory_mb) // 10, min(2, len(self.memory_mb) - 1))
        return self.memory_mb[-1] - self.memory_mb[warm]

    @property
    def escapes(self):
        return sum(count for _, count in self.faults.values())


class Listener(logging.Handler):
    """Hears of errors that left no other trace: in the loop, or in another thread."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.heard = []

    def emit(self, record):
        if record.exc_info and record.exc_info[0] is not None:
            self.heard.append(_trace(record.exc_info[1]))
        elif record.levelno >= logging.ERROR:
            self.heard.append(f'{record.name}: {record.msg}')
        record.getMessage()  # raises if its arguments do not fit


def _trace(error):
    """An error's class and the last lines of ours that it came through: alike for what has one
    cause."""
    frames = [
        (Path(one.filename).relative_to(PACKAGE), one.lineno)
        for one in traceback.extract_tb(error.__traceback__)
        if Path(one.filename).is_relative_to(PACKAGE)
    ]
    frames = [frame for frame in frames if frame[0].parts[0] != 'tests'] or frames
    last = ' < '.join(f'{path}:{line}' for path, line in frames[-2:][::-1])
    return f'{type(error).__name__} at {last}: {re.sub("[0-9]+", "#", str(error))[:100]}'


def cases(seed, count):
    """So many cases: (number, Seed, the bits that say how its message is spoiled)."""
    chosen, found = random.Random(seed), seeds.seeds()
    weights = [one.weight for one in found]
    for number in range(count):
        (sound,) = chosen.choices(found, weights)
        yield number, sound, chosen.getrandbits(64)


def message(sound, bits, known):
    """A spoiled message, always the same for the same ``bits``; one of sixteen is sound."""
    try:
        return _message(sound, bits, known)
    except RecursionError:  # two deep values within each other, which no bus could carry
        return _message(sound, bits + 1, known)


def with_real_ids(text, known):
    """The message of a text, about the things that are ``known`` to a world instead of their
    stand-ins."""
    for stand_in, real in known.items():
        text = text.replace(stand_in, real)
    return json.loads(text)


def _message(sound, bits, known):
    rng, given = random.Random(bits), with_real_ids(sound.text, known)
    if rng.random() < 1 / 16:
        return given
    if sound.door == seeds.REST:
        return _request(rng, given)
    part = rng.random()
    if part < 0.85 and given['message'].get('args'):
        given['message']['args'] = _arguments(rng, given['message']['args'])
    elif part < 0.95:
        given['message'] = mutation.spoilt(rng, given['message'], _pool())
        if not isinstance(given['message'], dict):  # a driver of the bus delivers mappings alone
            given['message'] = {'method': given['message']}
    elif part < 0.98:
        given['context'] = mutation.spoilt(rng, given['context'], _pool())
        if not isinstance(given['context'], dict):
            given['context'] = {}
    else:
        given['timeout'] = mutation.odd(rng)
    return given


def _arguments(rng, arguments):
    text = arguments.get('template')
    if isinstance(text, str) and rng.random() < 0.7:
        spoilt = mutation.spoilt_bytes(rng, text.encode())
        return {**arguments, 'template': spoilt.decode('utf-8', 'replace')}
    spoilt = mutation.spoilt(rng, arguments, _pool())
    return spoilt if isinstance(spoilt, dict) or rng.random() < 0.5 else {'spec_obj': spoilt}


def _request(rng, given):
    part = rng.random()
    if part < 0.65 and 'body' in given:
        given['body'] = mutation.spoilt(rng, given['body'], _pool())
    elif part < 0.85 and ('body' in given or 'raw' in given):
        raw = given['raw'] if 'raw' in given else json.dumps(given['body'])
        given['raw'] = mutation.spoilt_bytes(rng, raw.encode()).decode('utf-8', 'surrogateescape')
        given['raw'] = given['raw'].encode('utf-8', 'surrogateescape')
    else:
        name = rng.choice(('query', 'headers', 'path', 'method', 'media'))
        if name in ('query', 'headers'):
            names = [
                *given[name],
                'limit',
                'marker',
                'dry_run',
                'If-Match',
                'If-None-Match',
                'X-Roles',
                'x',
            ]
            given[name][rng.choice(names)] = _word(rng)
        elif name == 'path':
            given['path'] = (
                mutation.spoilt_bytes(rng, given['path'].encode())
                .decode('latin-1')
                .replace('?', '')
            )
        else:
            given[name] = rng.choice(OTHERS[name])
    return given


def _word(rng):
    word = mutation.odd(rng)
    word = word if isinstance(word, str) else json.dumps(word)
    return re.sub('[\r\n\0\ud800-\udfff]', '', word)[:5000].encode('utf-8').decode('latin-1')


_POOL = []


def _pool():
    """Places of values in sound messages, to borrow from."""
    if not _POOL:
        rng = random.Random(0)
        found = [one for one in seeds.seeds() if one.door != seeds.REST]
        for one in rng.sample(found, 40):
            _POOL.extend(mutation.places(json.loads(one.text)['message']))
    return _POOL


class Judge:
    """Sends messages to a world and keeps the tally.

    With ``timeout_s`` the process ends, and shows where, if one is not answered within these
    seconds.
    """

    def __init__(self, world, tally, listener, timeout_s=None):
        self._world = world
        self._tally = tally
        self._listener = listener
        self._timeout_s = timeout_s
        self._mark = self._kept = None
        self._look()

    def _look(self):
        self._mark, self._kept = self._world.mark(), self._world.kept()

    def send(self, door, given, case):
        """Return the answer, or the error."""
        self._tally.messages += 1
        if self._timeout_s is not None:
            faulthandler.dump_traceback_later(self._timeout_s, exit=True)
        begin_s = time.perf_counter()
        found = self._sent(door, given)
        took_s = time.perf_counter() - begin_s
        if took_s > SLOW_S:
            took_s = min(took_s, self._timed(door, given))
        if took_s > self._tally.slowest_s:
            self._tally.slowest_s, self._tally.slowest = took_s, case
        if took_s > SLOW_S:
            self._tally.fault(f'slow: {case.partition(" #")[0]}', case)
        if self._timeout_s is not None:
            faulthandler.cancel_dump_traceback_later()
        self._judge(found, case)
        return found

    def _sent(self, door, given):
        try:
            return self._world.send(door, given)
        except Exception as error:  # noqa: BLE001, it is judged
            return error

    def _timed(self, door, given):
        """How many seconds a quiet machine would take for the message, at most, when it is sent
        again a few times.

        That is its least processor time. On a busy machine it, or the solver that it asks, waits
        up to thirty times as long, and a try may use some times the processor time of the rest.
        """
        return min(self._sent_once_more(door, given) for _ in range(TRIES))

    def _sent_once_more(self, door, given):
        begin_s, used_s = time.perf_counter(), time.process_time()
        self._sent(door, given)
        took_s, used_s = time.perf_counter() - begin_s, time.process_time() - used_s
        return min(took_s, max(used_s, took_s / 30))

    def _judge(self, found, case):
        fault, refusal = fault_of(found), refusal_of(found)
        for heard in self._listener.heard:
            fault = fault or heard
        self._listener.heard.clear()
        if fault is not None:
            self._tally.fault(fault, case)
        if refusal is None:
            self._tally.accepted += 1
        else:
            self._tally.refused[refusal] += 1
        if self._world.mark() != self._mark:
            kept = self._kept
            self._look()
            changed = sorted(name for name in kept if kept[name] != self._kept[name])
            if changed and refusal is not None:
                self._tally.fault(f'{refusal} has changed {", ".join(changed)}', case)
            for name in self._world.misfits():
                self._tally.fault(f'{name} does not hold what is in it', case)


def fault_of(found):
    """What is wrong with an answer or an error; None if it is as documented."""
    if isinstance(found, dict) and 'status' in found and 'headers' in found:
        return f'HTTP {found["status"]}: {found["text"][:200]}' if found['status'] >= 500 else None
    if not isinstance(found, Exception):
        return None
    if not isinstance(found, DOCUMENTED) or isinstance(found, BROKEN):
        return _trace(found)
    try:
        json.dumps(found.args)  # it travels so
        str(found).encode('utf-8')
    except (TypeError, ValueError) as error:
        return f'{type(found).__name__} cannot be sent: {error}'
    if len(str(found)) > 5000:
        return f'{type(found).__name__} of {len(str(found))} characters: {str(found)[:100]}'
    return None


def refusal_of(found):
    """The name of a refusal; None: it was answered."""
    if isinstance(found, Exception):
        return type(found).__name__
    if (
        isinstance(found, dict)
        and 'status' in found
        and 'headers' in found
        and found['status'] >= 400
    ):
        return f'HTTP {found["status"]}'
    return None


def run(count, seed, timeout_s=None, told=lambda tally: None):
    """Send so many messages. Returns the Tally; ``told`` is called with it after each world."""
    tally = Tally()
    todo, more = cases(seed, count), True
    with listening() as listener:
        while more:
            more = _one_world(todo, seed, tally, listener, timeout_s)
            tally.memory_mb.append(memory_mb())
            told(tally)
    return tally


def watched(count, seed):
    """The same in a process of its own, which says how far it is."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    begin_s = time.monotonic()

    def told(tally):
        print(
            f'seed {seed}: {tally.messages} of {count} messages, {time.monotonic() - begin_s:.0f} '
            f's, {tally.memory_mb[-1]:.0f} MiB, escapes: {tally.faults or "none"}',
            file=sys.stderr,
            flush=True,
        )

    return run(count, seed, TIMEOUT_S, told)


@contextlib.contextmanager
def listening():
    """A Listener that hears of every error, be it logged or the end of a thread."""
    listener = Listener()
    logger, hook = logging.getLogger(), threading.excepthook
    level = logger.level
    logger.addHandler(listener)
    logger.setLevel(logging.ERROR)
    threading.excepthook = lambda ended: listener.heard.append(
        f'thread: {_trace(ended.exc_value)}'
    )
    try:
        yield listener
    finally:
        threading.excepthook = hook
        logger.setLevel(level)
        logger.removeHandler(listener)


def _one_world(todo, seed, tally, listener, timeout_s):
    """Send what one world bears. Returns whether there may be more to send."""
    world = World()
    try:
        judge = Judge(world, tally, listener, timeout_s)
        for done, (number, sound, bits) in enumerate(todo, start=1):
            case = f'{sound.name} #{seed}:{number}'
            judge.send(sound.door, message(sound, bits, world.known), case)
            if done >= CASES or (done % 50 == 0 and world.rows() > MOST_ROWS):
                return True
        return False
    finally:
        world.close()


def memory_mb():
    """What this process has of the machine's memory now, in MiB."""
    with open('/proc/self/statm') as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20
