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
"""What the mix of requests is on every database: tests that each database runs.

A module of tests brings the fixture ``database``: an engine on the newest schema, with empty
tables.
"""

import concurrent.futures
import contextlib

import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.db.engine import transaction
from nova_sched.db.mixes import QUIET_S, SqlMixes
from nova_sched.db.tables import MIXES
from nova_sched.packing.mix import Mix
from nova_sched.packing.size import Size
from nova_sched.tests.builders import uuid_of

SMALL, LARGE = Size((('VCPU', 1),)), Size((('VCPU', 8),))
ONE, OTHER = uuid_of('one'), uuid_of('other')


def change(database, **values):
    with transaction(database) as connection:
        connection.execute(sa.update(MIXES).where(MIXES.c.scheduler == ONE).values(**values))


def rows(database):
    with transaction(database) as connection:
        return sorted(connection.scalars(sa.select(MIXES.c.scheduler)))


class Mixes:
    @pytest.fixture
    def mixes(self, database):
        return SqlMixes(database)

    def test_the_counts_of_all_schedulers_add_up(self, mixes):
        mixes.add(ONE, 1, Mix({SMALL: 1}))
        mixes.add(ONE, 2, Mix({SMALL: 2, LARGE: 1}))
        mixes.add(OTHER, 1, Mix({LARGE: 4}))
        assert mixes.total().counts == {SMALL: 3, LARGE: 5}

    def test_a_batch_counts_once(self, mixes):
        """Written twice, or late."""
        mixes.add(ONE, 1, Mix({SMALL: 1}))
        mixes.add(ONE, 1, Mix({SMALL: 1}))
        mixes.add(ONE, 3, Mix({SMALL: 1}))
        mixes.add(ONE, 2, Mix({SMALL: 1}))
        assert mixes.total().counts == {SMALL: 2}

    def test_the_counts_of_a_quiet_scheduler_move(self, mixes, database):
        mixes.add(ONE, 1, Mix({SMALL: 1}))
        mixes.add(OTHER, 1, Mix({LARGE: 1}))
        assert rows(database) == sorted([ONE, OTHER])
        change(database, written_s=MIXES.c.written_s - QUIET_S - 60)
        mixes.add(OTHER, 2, Mix({LARGE: 1}))
        assert rows(database) == [OTHER]
        assert mixes.total().counts == {SMALL: 1, LARGE: 2}

    def test_a_scheduler_whose_counts_moved_starts_a_new_row(self, mixes, database):
        self.test_the_counts_of_a_quiet_scheduler_move(mixes, database)
        mixes.add(ONE, 2, Mix({SMALL: 4}))
        assert mixes.total().counts == {SMALL: 5, LARGE: 2}

    def test_two_move_the_same_counts_once(self, mixes, database):
        mixes.add(ONE, 1, Mix({SMALL: 1}))
        change(database, written_s=0.0)
        others = [uuid_of(str(number)) for number in range(4)]

        def add(name):
            for _ in range(20):
                with contextlib.suppress(errors.StoreBusy):
                    return mixes.add(name, 1, Mix({LARGE: 1}))
            raise AssertionError('busy for too long')

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(add, others))
        assert mixes.total().counts == {SMALL: 1, LARGE: 4}

    @pytest.mark.parametrize('text', ['', '[[1]]', '{"a": 1}', '[[[[["VCPU", 1]], null], -1]]'])
    def test_counts_that_cannot_be_read_start_again(self, mixes, database, caplog, text):
        mixes.add(ONE, 1, Mix({SMALL: 1}))
        mixes.add(OTHER, 1, Mix({LARGE: 1}))
        change(database, counts=text)
        assert mixes.total().counts == {LARGE: 1}
        assert 'cannot be read, and starts again' in caplog.text
        mixes.add(ONE, 2, Mix({SMALL: 2}))
        assert mixes.total().counts == {SMALL: 2, LARGE: 1}
