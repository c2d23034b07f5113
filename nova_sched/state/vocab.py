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
"""Names as small numbers, and sets of names as columns of bits."""

import collections
import functools
import math
import time

import numpy as np

from nova_sched.hardware import Interrupted, Undecided

UNKNOWN = -1  # not evaluated yet
UNDECIDED = -2  # refused for now, because searches for other values have taken the steps of all
AGAIN_S = 5.0  # until such values are judged again: it may take a second
MAX_KEPT = 128  # questions whose answers are kept for each value
# Up to so many values are judged without a pause, if that takes no longer.
FEW, FEW_S = 64, 0.005


class Unfinished(BaseException):
    """Values are left to judge.

    ``rest`` judges more of them; it raises Unfinished again, as long as values are left. What was
    judged so far is kept. Values may change before ``rest`` is called. It is not an Exception, so
    that code that reports the failures of a rule does not take a pause for one.
    """

    def __init__(self, rest):
        super().__init__()
        self.rest = rest


class Verdicts:
    """The verdicts on values (numbers) for one question: ``of`` has 0, 1, UNKNOWN or UNDECIDED for
    each."""

    def __init__(self, size):
        self.of = np.full(size, UNKNOWN, dtype=np.int8)
        self._again_s = math.inf

    def grow(self, size):
        more = np.full(size - len(self.of), UNKNOWN, dtype=np.int8)
        self.of = np.concatenate([self.of, more])

    def unknown(self, values, asked_s=None):
        """Return those of the values (an array) that are to be judged for a question that was
        asked at this time, in monotonic seconds; None: now."""
        if self._again_s < math.inf and (asked_s or time.monotonic()) >= self._again_s:
            self._again_s = math.inf
            self.of[self.of == UNDECIDED] = UNKNOWN
        return values[self.of[values] == UNKNOWN]

    def has_undecided(self, values):
        return self._again_s < math.inf and bool((self.of[values] == UNDECIDED).any())

    def judge_some(self, values, judge, pause, go_on, is_long):
        """Set the verdict on each of the values to ``judge(value)``, which may raise Undecided or
        Interrupted.

        ``pause`` is called after each, if they are many or slow (``is_long``). If it returns True,
        raises Unfinished with ``go_on``, a function of the values that are left. None: no pauses.
        """
        begin_s = time.monotonic()
        for place, value in enumerate(values, start=1):
            try:
                self.of[value] = judge(value)
            except Undecided:
                self.of[value] = UNDECIDED
                self._again_s = min(self._again_s, time.monotonic() + AGAIN_S)
            except Interrupted:
                raise Unfinished(functools.partial(go_on, values[place - 1 :])) from None
            if pause is not None and place < len(values):
                is_long = is_long or time.monotonic() - begin_s > FEW_S
                if is_long and pause():
                    raise Unfinished(functools.partial(go_on, values[place:]))


class Vocab:
    """Gives each name (a trait, a cell) a stable number, from 0 up."""

    def __init__(self, words=()):
        self.words = []
        self._ids = {}
        for word in words:
            self.id(word)

    def __len__(self):
        return len(self.words)

    def id(self, word):
        """Return the name's number; a new name gets the next one."""
        number = self._ids.get(word)
        if number is None:
            number = self._ids[word] = len(self.words)
            self.words.append(word)
        return number

    def find(self, word):
        """Return the name's number, or None for a name that was never used."""
        return self._ids.get(word)


@functools.lru_cache(maxsize=128)
def one_set(names):
    """Return the frozenset that came first of those equal to this one: nearly all nodes have the
    same names, and 100,000 sets of three names take 20 MB."""
    return names


class NamesInUse:
    """Counts the rows that have each name.

    ``names`` is a live view of the names that any row has. Copy it before you iterate over it: the
    rows may change meanwhile.
    """

    def __init__(self):
        self._rows: collections.Counter = collections.Counter()  # name -> rows that have it
        self.names = self._rows.keys()

    def change(self, before, after):
        """A row has the names ``after`` in place of ``before``."""
        if after == before:
            return
        self._rows.update(after - before)
        for name in before - after:
            self._rows[name] -= 1
            if not self._rows[name]:
                del self._rows[name]


class Interned:
    """Distinct values of a column: rows hold slots, and each distinct value is evaluated once.

    A slot is free again when no row refers to it any more.
    """

    def __init__(self):
        self.values = []
        self._slots = {}
        self._counts = []
        self._spare = []
        self.version = 0  # rises when a value is added or removed
        self._kept = collections.OrderedDict()  # question -> Verdicts on slots
        self.undecided = 0  # answers that hold for now only

    def __len__(self):
        return len(self._slots)

    def find(self, value):
        """Return the slot of a value, or None for one that no row has."""
        return self._slots.get(value)

    def take(self, value):
        """Return the slot of a value, counted as used once more."""
        slot = self._slots.get(value)
        if slot is None:
            self.version += 1
            if self._spare:
                slot = self._spare.pop()
                self.values[slot] = value
            else:
                slot = len(self.values)
                self.values.append(value)
                self._counts.append(0)
            self._slots[value] = slot
            for verdicts in self._kept.values():
                if slot < len(verdicts.of):
                    verdicts.of[slot] = UNKNOWN
        self._counts[slot] += 1
        return slot

    def drop(self, slot):
        """Count one row less for the slot."""
        self._counts[slot] -= 1
        if not self._counts[slot]:
            self.version += 1
            del self._slots[self.values[slot]]
            self.values[slot] = None
            self._spare.append(slot)

    def map(self, slots, judge, dtype=bool):
        """Return ``judge(value)`` for each row: called once for each value in use."""
        return self.judged(judge, dtype)[slots]

    def map_kept(self, slots, question, judge, pause=None, asked_s=None):
        """Return ``judge(value)`` for each of the slots: once for each value, as long as it is in
        use.

        ``question`` is hashable: an equal one has the same answers. ``pause``: see
        ``judge_some``; ``asked_s``: see ``Verdicts.unknown``. Raises Unfinished.
        """
        verdicts = self._verdicts(question)
        unknown = verdicts.unknown(slots, asked_s)
        if len(unknown):
            slots_left = np.unique(unknown).tolist()
            self._judge_some(question, judge, pause, slots_left, len(slots_left) > FEW)
            verdicts = self._verdicts(question)
        self.undecided += verdicts.has_undecided(slots)
        return verdicts.of[slots] == 1

    def _judge_some(self, question, judge, pause, slots, is_long=True):
        """Judge the values of these slots that are in use and not known. Raises Unfinished."""
        verdicts = self._verdicts(question)
        left = [slot for slot in slots if self._counts[slot] and verdicts.of[slot] == UNKNOWN]
        verdicts.judge_some(
            left,
            lambda slot: judge(self.values[slot]),
            pause,
            functools.partial(self._judge_some, question, judge, pause),
            is_long,
        )

    def _verdicts(self, question):
        known = self._kept.pop(question, None)
        if known is None:
            known = Verdicts(len(self.values))
            if len(self._kept) >= MAX_KEPT:
                self._kept.popitem(last=False)
        elif len(known.of) < len(self.values):
            known.grow(max(len(self.values), 2 * len(known.of)))
        self._kept[question] = known  # the question used last is dropped last
        return known

    def judged(self, judge, dtype=bool):
        """Return ``judge(value)`` for each slot; zero for a slot that is free."""
        verdicts = np.zeros(len(self.values), dtype=dtype)
        for slot, count in enumerate(self._counts):
            if count:
                verdicts[slot] = judge(self.values[slot])
        return verdicts


class RowVerdicts:
    """Verdicts on rows by question, until the row changes: for what no two rows have in common.

    ``changed`` is a facts.ChangedRows.
    """

    def __init__(self, changed):
        self._changed = changed
        self._kept = collections.OrderedDict()  # question -> (position, Verdicts)
        self.undecided = 0  # answers that hold for now only

    def map_kept(self, rows, hosts, question, judge, pause=None, asked_s=None):
        """Return ``judge(row)`` for each of the rows of the ``hosts``. As Interned.map_kept."""
        verdicts = self._verdicts(hosts, question)
        unknown = verdicts.unknown(rows, asked_s)
        if len(unknown):
            self._judge_some(hosts, question, judge, pause, unknown.tolist(), len(unknown) > FEW)
        self.undecided += verdicts.has_undecided(rows)
        return verdicts.of[rows] == 1

    def _judge_some(self, hosts, question, judge, pause, rows, is_long=True):
        verdicts = self._verdicts(hosts, question)
        left = [row for row in rows if row < len(verdicts.of) and verdicts.of[row] == UNKNOWN]
        go_on = functools.partial(self._judge_some, hosts, question, judge, pause)
        verdicts.judge_some(left, judge, pause, go_on, is_long)

    def _verdicts(self, hosts, question):
        """Return the verdicts on all present rows; UNKNOWN for rows that are new or have
        changed."""
        size = len(hosts)
        position, known = self._kept.pop(question, (0, None))
        changes = None if known is None else self._changed.since(position)
        if changes is None or len(known.of) != size:
            known = Verdicts(size)
            if len(self._kept) >= MAX_KEPT:
                self._kept.popitem(last=False)
        else:
            known.of[list(changes[0])] = UNKNOWN
        self._kept[question] = self._changed.end, known
        return known


class WordSets:
    """A set of names for each row: the name with number i is bit i % 64 of line i // 64."""

    def __init__(self, rows=0):
        self._bits = np.zeros((1, rows), dtype=np.uint64)

    def resize(self, rows):
        grown = np.zeros((len(self._bits), rows), dtype=np.uint64)
        keep = min(rows, self._bits.shape[1])
        grown[:, :keep] = self._bits[:, :keep]
        self._bits = grown

    def put(self, row, numbers):
        """Set the row's set to exactly these names."""
        need = max(numbers, default=0) // 64 + 1
        if need > len(self._bits):
            more = np.zeros((need - len(self._bits), self._bits.shape[1]), dtype=np.uint64)
            self._bits = np.vstack([self._bits, more])
        self._bits[:, row] = 0
        for number in numbers:
            self._bits[number // 64, row] |= np.uint64(1 << (number % 64))

    def of(self, row):
        """Return the numbers of the row's names."""
        column = self._bits[:, row]
        if not column.any():
            return []
        lines = np.ascontiguousarray(column, dtype='<u8').view(np.uint8)
        return np.flatnonzero(np.unpackbits(lines, bitorder='little')).tolist()

    def move(self, source, target):
        self._bits[:, target] = self._bits[:, source]
        self._bits[:, source] = 0

    def has(self, number, rows):
        """Whether each of the first ``rows`` rows has the name."""
        line = number // 64
        if line >= len(self._bits):
            return np.zeros(rows, dtype=bool)
        return (self._bits[line, :rows] & np.uint64(1 << (number % 64))) != 0
