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
"""Rows of data in one test: all are tried, and all that fail are told."""

import pytest

from nova_sched.tests.rows import each, each_afresh, table


@pytest.fixture
def seen():
    rows = []
    yield rows
    assert rows == [(1, 'a', 'b'), (1, 'c', 'd'), (2, 'a', 'b'), (2, 'c', 'd')]


@each('one', [1, 2])
@each('two, three', [('a', 'b'), pytest.param('c', 'd', id='letters')])
def test_every_row_is_tried_with_the_fixtures_of_the_test(seen, one, two, three):
    seen.append((one, two, three))


class TestFailures:
    def failures(self, rows, ids=None):
        @each('number', rows, ids=ids)
        def test(number):
            if number > 3:
                pytest.fail('more')
            assert number < 2

        with pytest.raises(BaseExceptionGroup) as found:
            test()
        return [(type(one).__name__, one.__notes__[0]) for one in found.value.exceptions]

    def test_all_that_fail_are_told_by_their_names(self):
        rows = [1, pytest.param(2, id='two'), 3, 4]
        assert self.failures(rows, ids=str) == [
            ('AssertionError', 'Row two: (2,)'),
            ('AssertionError', 'Row 3: (3,)'),
            ('Failed', 'Row 4: (4,)'),
        ]

    def test_names_may_be_a_list(self):
        assert self.failures([1, 2], ids=['a', 'b']) == [('AssertionError', 'Row b: (2,)')]


def test_a_mapping_names_its_rows():
    @table('number', {'low': 1, 'high': 2})
    def test(number):
        assert number < 2

    with pytest.raises(BaseExceptionGroup) as found:
        test()
    assert [one.__notes__ for one in found.value.exceptions] == [['Row high: (2,)']]


@each_afresh('number, text', {'one': (1, '1'), 'two': (2, '2')})
def test_a_row_may_have_fixtures_of_its_own(request, tmp_path, number, text):
    assert (number, text) == (int(text), {1: '1', 2: '2'}[number])
    assert request.node.name.endswith({1: '[one]', 2: '[two]'}[number])
    (tmp_path / 'only').mkdir()


def test_a_name_that_the_test_does_not_have_is_refused():
    with pytest.raises(AssertionError, match='colour'):
        each('colour', [1])(lambda number: None)


def test_a_table_of_rows():
    seen = []

    @table('number', {'one': 1, 'a pair': (2, 3)})
    @table('letter, digits', {'the first': ('a', (1, 2))})
    def test(number, letter, digits):
        seen.append((number, letter, digits))

    test()
    assert seen == [(1, 'a', (1, 2)), ((2, 3), 'a', (1, 2))]
