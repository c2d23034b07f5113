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
import time

import numpy as np

UNKNOWN = -1  # not evaluated yet
MOST_KEPT = 128  # questions whose answers are kept for each value
# Up to so many values are judged without a pause, if that takes no longer.
FEW, FEW_S = 64, 0.005


class Unfinished(Exception):
    """Values are left to judge. ``rest`` judges more of them; it raises Unfinished again, as long
    as values are left.

    What was judged so far is kept. Values may change before ``rest`` is called.
    """

    def __init__(self, rest):
        super().__init__()
        self.rest = rest


def judge_some(verdicts, values, judge, pause, go_on, is_long):
    """Set the verdict on each of the values (numbers) to ``judge(value)``.

    ``pause`` is called after each, if they are many or slow (``is_long``). If it returns True,
    raises Unfinished with ``go_on``, a function of the values that are left. None: no pauses.
    """
    begin_s = time.monotonic()
    for place, value in enumerate(values, start=1):
        verdicts[value] = judge(value)
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
        """Returns the name's number; a new name gets the next one."""
        number = self._ids.get(word)
        if number is None:
            number = self._ids[word] = len(self.words)
            self.words.append(word)
        return number

    def find(self, word):
        """Returns the name's number, or None for a name that was never used."""
        return self._ids.get(word)


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
        self._kept = collections.OrderedDict()  # question -> verdict on each slot, or UNKNOWN

    def take(self, value):
        """Returns the slot of a value, counted as used once more."""
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
                if slot < len(verdicts):
                    verdicts[slot] = UNKNOWN
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
        """Returns ``judge(value)`` for each row: called once for each value in use."""
        return self.judged(judge, dtype)[slots]

    def map_kept(self, slots, question, judge, pause=None):
        """Returns ``judge(value)`` for each of the slots: once for each value, as long as it is in
        use.

        ``question`` is hashable: an equal one has the same answers. ``pause``: see
        ``judge_some``. Raises Unfinished.
        """
        found = self._verdicts(question)[slots]
        unknown = slots[found == UNKNOWN]
        if len(unknown):
            slots_left = np.unique(unknown).tolist()
            self._judge_some(question, judge, pause, slots_left, len(slots_left) > FEW)
            found = self._verdicts(question)[slots]
        return found == 1

    def _judge_some(self, question, judge, pause, slots, is_long=True):
        """Judge the values of these slots that are in use and not known. Raises Unfinished."""
        verdicts = self._verdicts(question)
        left = [slot for slot in slots if self._counts[slot] and verdicts[slot] == UNKNOWN]
        judge_some(
            verdicts,
            left,
            lambda slot: judge(self.values[slot]),
            pause,
            functools.partial(self._judge_some, question, judge, pause),
            is_long,
        )

    def _verdicts(self, question):
        known = self._kept.pop(question, None)
        if known is None:
            known = np.full(len(self.values), UNKNOWN, dtype=np.int8)
            if len(self._kept) >= MOST_KEPT:
                self._kept.popitem(last=False)
        elif len(known) < len(self.values):
            more = max(len(self.values), 2 * len(known)) - len(known)
            known = np.concatenate([known, np.full(more, UNKNOWN, dtype=np.int8)])
        self._kept[question] = known  # the question used last is dropped last
        return known

    def judged(self, judge, dtype=bool):
        """Returns ``judge(value)`` for each slot; zero for a slot that is free."""
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
        self._kept = collections.OrderedDict()  # question -> [position, verdicts]

    def map_kept(self, rows, size, question, judge, pause=None):
        """Returns ``judge(row)`` for each of the rows, of ``size`` rows that there are. As
        Interned.map_kept."""
        verdicts = self._verdicts(size, question)
        unknown = rows[verdicts[rows] == UNKNOWN]
        if len(unknown):
            self._judge_some(size, question, judge, pause, unknown.tolist(), len(unknown) > FEW)
        return verdicts[rows] == 1

    def _judge_some(self, size, question, judge, pause, rows, is_long=True):
        verdicts = self._verdicts(size, question)
        left = [row for row in rows if row < len(verdicts) and verdicts[row] == UNKNOWN]
        go_on = functools.partial(self._judge_some, size, question, judge, pause)
        judge_some(verdicts, left, judge, pause, go_on, is_long)

    def _verdicts(self, size, question):
        """The verdicts on all rows; UNKNOWN on those that are new or have changed."""
        position, known = self._kept.pop(question, (0, None))
        found = None if known is None else self._changed.since(position)
        if found is None or len(known) != size:
            known = np.full(size, UNKNOWN, dtype=np.int8)
            if len(self._kept) >= MOST_KEPT:
                self._kept.popitem(last=False)
        else:
            known[list(found[0])] = UNKNOWN
        self._kept[question] = self._changed.end, known
        return known


class WordSets:
    """A set of names for each row: name i is bit i % 64 of line i // 64."""

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

    def move(self, source, target):
        self._bits[:, target] = self._bits[:, source]
        self._bits[:, source] = 0

    def has(self, number, rows):
        """Whether each of the first ``rows`` rows has the name."""
        line = number // 64
        if line >= len(self._bits):
            return np.zeros(rows, dtype=bool)
        return (self._bits[line, :rows] & np.uint64(1 << (number % 64))) != 0
