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
"""Tests of many rows in one statement: on SQLite, and how rows are divided among statements."""

import pytest

from nova_sched.db import engine
from nova_sched.db.transactions import LETTERS, ROWS, _chunks
from nova_sched.tests.unit.db import bulk


@pytest.fixture
def database(tmp_path):
    made = engine.create(f'sqlite:///{tmp_path}/db.sqlite')
    yield made
    made.dispose()


class TestBulk(bulk.Bulk):
    pass


@pytest.mark.parametrize(
    'letters, lengths',
    [
        pytest.param([], [], id='nothing'),
        pytest.param([1] * ROWS, [ROWS], id='as many rows as one takes'),
        pytest.param([1] * (ROWS + 1), [ROWS, 1], id='one more'),
        pytest.param([LETTERS // 2] * 3, [2, 1], id='as many letters as one takes, and more'),
        pytest.param([1, LETTERS + 1, 1], [1, 1, 1], id='a row that is too long for any is alone'),
    ],
)
def test_rows_are_divided(letters, lengths):
    rows = [(number, 'x' * count, None) for number, count in enumerate(letters)]
    chunks = list(_chunks(rows))
    assert [len(chunk) for chunk in chunks] == lengths
    assert [row for chunk in chunks for row in chunk] == rows
