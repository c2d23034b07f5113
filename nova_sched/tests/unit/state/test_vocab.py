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
"""Words, distinct values and sets of words, against plain lists and sets."""

import contextlib
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nova_sched.hardware import Undecided
from nova_sched.state import vocab
from nova_sched.state.facts import ChangedRows
from nova_sched.state.vocab import (
    FEW,
    MAX_KEPT,
    Interned,
    RowVerdicts,
    Unfinished,
    Vocab,
    WordSets,
)
from nova_sched.tests.rows import each


def test_a_word_keeps_its_number():
    vocab = Vocab(['b', 'a'])
    assert [vocab.id(word) for word in ('a', 'b', 'c', 'a')] == [1, 0, 2, 1]
    assert vocab.find('d') is None
    assert (vocab.words, len(vocab)) == (['b', 'a', 'c'], 3)


values = st.sampled_from(['a', 'b', 'c', None, 1])
ends = st.integers(0, 9).map(lambda place: ('drop', place))


@given(st.lists(values.map(lambda value: ('take', value)) | ends))
def test_interned_values_are_shared_and_counted(steps):
    column, rows = Interned(), []
    for step, what in steps:
        before, distinct = column.version, {value for value, _ in rows}
        if step == 'take':
            rows.append((what, column.take(what)))
        elif rows:
            column.drop(rows.pop(what % len(rows))[1])
        assert (column.version == before) == (distinct == {value for value, _ in rows})
    asked = []
    slots = np.array([slot for _, slot in rows], dtype=np.int32)
    found = column.map(slots, lambda value: asked.append(value) or repr(value), object)
    assert found.tolist() == [repr(value) for value, _ in rows]
    assert sorted(map(repr, asked)) == sorted({repr(value) for value, _ in rows})


def test_a_free_slot_is_used_again():
    column = Interned()
    first, second = column.take('a'), column.take('b')
    column.drop(first)
    assert column.take('c') == first
    assert column.take('b') == second
    assert len(column.values) == 2


@each('dtype, zero', [(bool, False), (float, 0.0)])
def test_a_free_slot_is_not_judged(dtype, zero):
    column = Interned()
    column.drop(column.take('gone'))
    column.take('kept')
    column.take('also')
    assert column.judged(lambda value: value != 'gone', dtype).tolist() == [1, 1]
    column.drop(0)
    assert column.judged(lambda value: True, dtype).tolist() == [zero, 1]


# Verdicts that are kept.


def column_of(*words):
    """A column of these words, and the slot of each."""
    made = Interned()
    return made, np.array([made.take(word) for word in words], dtype=np.int32)


class Judge:
    """Whether a word is as long as that; ``asked`` are the words that it was asked about."""

    def __init__(self, length=1):
        self._length = length
        self.asked = []

    def __call__(self, word):
        self.asked.append(word)
        return word is not None and len(word) == self._length


def test_only_rows_that_are_asked_about_are_judged():
    column, slots = column_of('a', 'bb', 'c')
    judge = Judge()
    assert column.map_kept(slots[1:2], 'question', judge).tolist() == [False]
    assert column.map_kept(slots[:0], 'question', judge).tolist() == []
    assert judge.asked == ['bb']
    assert column.map_kept(slots, 'question', judge).tolist() == [True, False, True]
    assert judge.asked[1:] == ['a', 'c']


def test_a_pause_keeps_the_verdicts_so_far():
    words = ['b' * length for length in range(1, FEW + 6)]
    column, slots = column_of(*words)
    judge, turns = Judge(), itertools.count(1)

    def pause():
        return next(turns) % 10 == 0

    with pytest.raises(Unfinished) as paused:
        column.map_kept(slots, 'question', judge, pause)
    assert len(judge.asked) == 10
    # The rest is judged as it is by then.
    column.drop(slots[20])
    column.drop(slots[21])
    assert column.take('x') == slots[21]
    pauses = 0
    while paused is not None:
        try:
            paused.value.rest()
            paused = None
        except Unfinished as error:
            paused.value.rest = error.rest
            pauses += 1
    assert pauses == len(words) // 10 - 1
    assert len(judge.asked) == len(set(judge.asked)) == len(words) - 1
    slots = np.delete(slots, 20)
    assert column.map_kept(slots, 'question', judge).sum() == 2  # 'b' and 'x'
    assert len(judge.asked) == len(words) - 1


def test_all_are_judged_when_the_pause_comes_last():
    words = ['b' * length for length in range(FEW + 1)]
    column, slots = column_of(*words)
    left = iter([False] * FEW + [True])
    assert column.map_kept(slots, 'question', Judge(), lambda: next(left)).sum() == 1


def test_few_values_are_judged_without_a_pause():
    column, slots = column_of(*('b' * length for length in range(1, FEW + 1)))
    assert column.map_kept(slots, 'question', Judge(), lambda: True).sum() == 1


def test_a_slot_that_is_used_again_is_judged_again():
    column, slots = column_of('a', 'b')
    assert column.map_kept(slots, 'question', Judge()).tolist() == [True, True]
    column.drop(slots[0])
    assert column.take('cc') == slots[0]
    assert column.map_kept(slots, 'question', Judge()).tolist() == [False, True]


def test_a_value_that_comes_after_the_question():
    column, _ = column_of('a')
    column.map_kept(np.array([0]), 'question', Judge())
    many = np.array([column.take('b' * length) for length in range(300)])
    assert column.map_kept(many, 'question', Judge(7)).tolist() == [
        length == 7 for length in range(300)
    ]
    assert column.map_kept(np.array([0]), 'question', Judge(7)).tolist() == [True]


def test_the_question_that_was_asked_longest_ago_is_forgotten():
    column, slots = column_of('a')
    judge = Judge()
    for question in range(MAX_KEPT):
        column.map_kept(slots, question, judge)
    column.map_kept(slots, 0, judge)
    assert len(judge.asked) == MAX_KEPT
    column.map_kept(slots, 'one more', judge)
    column.map_kept(slots, 0, judge)
    assert len(judge.asked) == MAX_KEPT + 1
    column.map_kept(slots, 1, judge)
    assert len(judge.asked) == MAX_KEPT + 2


lengths, words = st.integers(1, 3), st.sampled_from(['a', 'b', 'aa', 'bb', 'ccc', None])
asks = st.tuples(st.just('ask'), lengths)


@given(st.lists(words.map(lambda word: ('take', word)) | ends | asks, max_size=40))
def test_kept_verdicts_are_those_of_judging_plainly(steps):
    column, rows, known = Interned(), [], {}
    for step, what in steps:
        if step == 'take':
            rows.append((what, column.take(what)))
        elif step == 'drop' and rows:
            word, slot = rows.pop(what % len(rows))
            column.drop(slot)
            if word not in [other for other, _ in rows]:
                known = {length: asked - {word} for length, asked in known.items()}
        elif step == 'ask':
            judge, slots = Judge(what), np.array([slot for _, slot in rows], dtype=np.int32)
            plain = [word is not None and len(word) == what for word, _ in rows]
            assert column.map_kept(slots, what, judge).tolist() == plain
            # A value in use is judged once, whatever else came and went.
            assert known.setdefault(what, set()).isdisjoint(judge.asked)
            assert len(set(judge.asked)) == len(judge.asked)
            known[what] |= {*judge.asked}


row_sets = st.tuples(st.integers(0, 4), st.frozensets(st.integers(0, 200)))


@given(st.lists(st.one_of(row_sets, st.tuples(st.integers(0, 4), st.integers(0, 4)))))
def test_sets_of_words_are_like_sets(steps):
    sets, model = WordSets(5), [frozenset()] * 5
    for row, what in steps:
        if isinstance(what, frozenset):
            sets.put(row, what)
            model[row] = what
        else:
            sets.move(row, what)
            model[what] = model[row] if row != what else frozenset()
            model[row] = frozenset()
    for number in (0, 1, 63, 64, 127, 128, 199, 200, 5000):
        assert sets.has(number, 5).tolist() == [number in one for one in model]
        assert sets.has(number, 2).tolist() == [number in one for one in model[:2]]


def test_growing_keeps_the_sets():
    sets = WordSets(1)
    sets.put(0, [3, 70])
    sets.resize(3)
    sets.put(2, [3])
    assert sets.has(3, 3).tolist() == [True, False, True]
    assert sets.has(70, 3).tolist() == [True, False, False]


class TestRowVerdicts:
    def ask(self, made, rows, judge, pause=None, hosts=range(6)):
        return made.map_kept(np.array(rows), hosts, 'question', judge, pause).tolist()

    def test_a_row_is_judged_again_when_it_changes(self):
        changed, judged = ChangedRows(), []
        made = RowVerdicts(changed)

        def judge(row):
            judged.append(row)
            return row % 2 == 0

        assert self.ask(made, [0, 1, 2], judge) == [True, False, True]
        assert self.ask(made, [1, 2, 3], judge) == [False, True, False]
        assert judged == [0, 1, 2, 3]
        changed.mark(2, 1)
        changed.mark(5, 1)
        assert self.ask(made, [0, 1, 2, 3], judge) == [True, False, True, False]
        assert judged == [0, 1, 2, 3, 2]
        changed.forget()  # rows came or went
        assert self.ask(made, [0, 1], judge) == [True, False]
        assert judged == [0, 1, 2, 3, 2, 0, 1]
        assert self.ask(made, [6], judge, hosts=range(7)) == [True]

    def test_slow_values_pause_even_if_they_are_few(self, monkeypatch):
        monkeypatch.setattr(vocab, 'FEW_S', 0.0)
        changed, judged = ChangedRows(), []
        made = RowVerdicts(changed)

        def judge(row):
            judged.append(row)
            return True

        with pytest.raises(Unfinished) as paused:
            self.ask(made, range(4), judge, pause=lambda: len(judged) == 2)
        assert judged == [0, 1]
        changed.mark(1, 1)  # meanwhile
        paused.value.rest()
        assert judged == [0, 1, 2, 3]
        assert self.ask(made, range(4), judge) == [True] * 4
        assert judged == [0, 1, 2, 3, 1]

    def test_rows_that_are_gone_after_a_pause_are_not_judged(self, monkeypatch):
        monkeypatch.setattr(vocab, 'FEW_S', 0.0)
        changed, judged, hosts = ChangedRows(), [], [0, 1, 2, 3]
        made = RowVerdicts(changed)

        def judge(row):
            judged.append(hosts[row])
            return True

        with pytest.raises(Unfinished) as paused:
            self.ask(made, range(4), judge, lambda: True, hosts)
        changed.forget()
        hosts.pop()
        with contextlib.suppress(Unfinished):
            paused.value.rest()
        assert self.ask(made, range(3), judge, hosts=hosts) == [True] * 3
        assert set(judged) == {0, 1, 2}


def test_who_catches_what_a_rule_raises_does_not_take_a_pause_for_it():
    assert not issubclass(Unfinished, Exception)


@pytest.mark.parametrize('kind', ['values', 'rows'])
def test_what_is_undecided_is_refused_for_now(kind, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(vocab.time, 'monotonic', lambda: clock[0])
    column, judged, few = Interned(), [], [True]
    slots, rows = np.array([column.take(value) for value in range(3)]), RowVerdicts(ChangedRows())

    def judge(value):
        judged.append(value)
        if few[0] and value:
            raise Undecided(for_now=True)
        return value != 2

    def ask():
        if kind == 'rows':
            return rows.map_kept(slots, range(3), 'question', judge).tolist()
        return column.map_kept(slots, 'question', judge).tolist()

    made = rows if kind == 'rows' else column
    for _ in range(2):
        assert ask() == [True, False, False]
    assert (judged, made.undecided) == ([0, 1, 2], 2)
    few[0] = False
    clock[0] += vocab.AGAIN_S
    for _ in range(2):
        assert ask() == [True, True, False]
    assert (judged, made.undecided) == ([0, 1, 2, 1, 2], 2)
