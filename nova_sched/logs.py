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
"""Log lines: texts of tenants are escaped; what would repeat is logged once, or once a minute."""

import copy
import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from nova_sched import words
from nova_sched.measures.catalogue import BUS_RETRIES

MINUTE_S = 60.0


class VisibleFormatter(logging.Formatter):
    """Makes one line of a message, whatever texts of tenants are in it: ends of lines, escape
    sequences and other invisible characters are escaped. A traceback keeps its lines."""

    COLOURS = ('color', 'reset_color')  # oslo.log sets them

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802, as logging has it
        line = super().formatMessage(record)
        if line.isprintable():
            return line
        # The operator's format may hold such characters: what is filled in must not.
        record = copy.copy(record)
        for name, value in vars(record).items():
            if isinstance(value, str) and name not in self.COLOURS:
                setattr(record, name, words.visible(value))
        return super().formatMessage(record)

    def formatException(self, *args: Any, **kwargs: Any) -> str:  # noqa: N802
        return words.visible(super().formatException(*args, **kwargs), '\n\t')


class Problems:
    """The current problems, for one log: each is logged once. May be used from any thread.

    ``known`` are the problems that have not ended: (kind, reason).
    """

    def __init__(self, log: logging.Logger):
        self._log = log
        self.known = set[tuple[str, str]]()
        self._lock = threading.Lock()

    def begin(self, kind: str, text: str, *args: Any, reason: str = '') -> None:
        """Log a problem, unless one of this kind and reason is known. Its kind ends as a whole."""
        with self._lock:
            is_new = (kind, reason) not in self.known
            self.known.add((kind, reason))
        if is_new:
            self._log.error(text, *args)

    def end(self, kind: str, text: str, *args: Any) -> None:
        """Log the end of a kind of problem, if there was one."""
        if not self.known:
            return
        with self._lock:
            over = {problem for problem in self.known if problem[0] == kind}
            self.known -= over
        if over:
            self._log.info(text, *args)


class RetryFilter(logging.Filter):
    """Passes what a logger says of its retries once a minute, and counts them all. Any other line
    of it begins the minute again."""

    RETRY = re.compile(r'retrying in|trying again in', re.IGNORECASE)

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        super().__init__()
        self._clock = clock
        self._due_s: dict[object, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now_s = self._clock()
        # Several threads of a process may say it, each by the name with which its line begins.
        args = record.args if isinstance(record.args, tuple) else ()
        who = args[0] if args and str(record.msg).startswith('%s ') else None
        is_retry = self.RETRY.search(str(record.msg)) is not None
        BUS_RETRIES.add(by=is_retry)
        if not is_retry:
            self._due_s[who] = now_s
        elif now_s < self._due_s.get(who, now_s):
            return False
        else:
            self._due_s[who] = now_s + MINUTE_S
        return True


class ChannelCloseFilter(logging.Filter):
    """Leaves out what py-amqp logs of messages that arrive while a channel closes.

    At each stop the broker cancels the consumers of a queue that is deleted. This is harmless.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        return 'during closing channel' not in str(record.msg)


class PoolResetFilter(logging.Filter):
    """Leaves out what SQLAlchemy logs, with a traceback, of a connection that broke while it was
    given back to the pool.

    The pool makes another one; a database that is away is logged by what asks it.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        return 'Exception during reset' not in str(record.msg)


class MinuteCounts:
    """Counters by minute; ``read()`` returns their values since the start, by name."""

    def __init__(self, read: Callable[[], Mapping[str, int]], now_s: float):
        self._read, self._before, self._since_s = read, dict(read()), now_s

    def take(self, now_s: float) -> dict[str, int] | None:
        """Return what was counted since the last minute that was taken, by name.

        None before the minute is over.
        """
        if now_s - self._since_s < MINUTE_S:
            return None
        now = dict(self._read())
        new = {name: count - self._before[name] for name, count in now.items()}
        self._before, self._since_s = now, now_s
        return new


def first_line(error: Exception) -> str:
    """Return the message of an error, without the remote traceback that a bus may append."""
    return str(error).partition('\n')[0]
