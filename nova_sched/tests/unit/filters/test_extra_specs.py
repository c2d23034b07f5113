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
"""The operator grammar beyond the truth table in the golden data."""

import pytest

from nova_sched import errors
from nova_sched.filters.extra_specs import matches
from nova_sched.tests.rows import each


@each(
    'value, text, met',
    [
        pytest.param('5', '= 4', True, id='= means at least'),
        pytest.param('5', '= 6', False, id='= with less'),
        pytest.param('5', '> 4', False, id='> is no operator but literal text'),
        pytest.param('> 4', '> 4', True, id='literal text that looks like an operator'),
        pytest.param('a b', 'a b', True, id='literal text keeps its blank'),
        pytest.param('a', ' a', False, id='literal text keeps its leading blank'),
        pytest.param('1.0', '== 1', True, id='numbers, not text'),
        pytest.param('1.0', 's== 1', False, id='text, not numbers'),
        pytest.param('10', 's< 9', True, id='text is ordered letter by letter'),
        pytest.param('abc', '<in> b c', True, id='<in> reads one word'),
        pytest.param('abc', '<all-in> b d', False, id='<all-in> reads every word'),
        pytest.param('b', '<or> a <or> b', True, id='second choice'),
        pytest.param('b', '<or> a b', False, id='a word at an even place is skipped'),
        pytest.param('<or>', '<or> <or> <or>', True, id='an operator at an odd place is a word'),
        pytest.param('1', '', False, id='empty text'),
        pytest.param('1', '==', False, id='operator without a word'),
        pytest.param('x', '!= 1', False, id='no number is not unequal to a number'),
        pytest.param(None, 's!= x', False, id='no value'),
        pytest.param(None, '<or>', False, id='no value and no word'),
    ],
)
def test_matches(value, text, met):
    assert matches(value, text, 'key') is met


@each('text', ['<or>', '== x', '>= 4GB'])
def test_an_extra_spec_that_makes_no_sense_is_refused_by_its_name(text):
    with pytest.raises(errors.InvalidRequest, match='extra spec capabilities:n'):
        matches('1', text, 'capabilities:n')
