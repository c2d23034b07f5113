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

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nova_sched.state.vocab import Interned, Vocab, WordSets


def test_a_word_keeps_its_number():
    vocab = Vocab(['b', 'a'])
    assert [vocab.id(word) for word in ('a', 'b', 'c', 'a')] == [1, 0, 2, 1]
    assert (vocab.words, len(vocab)) == (['b', 'a', 'c'], 3)


def test_looking_for_a_word_does_not_make_it_known():
    vocab = Vocab()
    assert vocab.find('a') is None
    assert len(vocab) == 0
    vocab.id(None)
    assert vocab.find(None) == 0


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


@pytest.mark.parametrize('dtype, zero', [(bool, False), (float, 0.0)])
def test_a_free_slot_is_not_judged(dtype, zero):
    column = Interned()
    column.drop(column.take('gone'))
    column.take('kept')
    column.take('also')
    assert column.judged(lambda value: value != 'gone', dtype).tolist() == [1, 1]
    column.drop(0)
    assert column.judged(lambda value: True, dtype).tolist() == [zero, 1]


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
