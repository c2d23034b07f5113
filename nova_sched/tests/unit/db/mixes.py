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
from nova_sched.db.tables import MIXES
from nova_sched.db.transactions import transaction
from nova_sched.extensions.optimize.mixes import QUIET_S, SqlMixes
from nova_sched.extensions.optimize.packing.mix import Mix, Size
from nova_sched.tests.builders import uuid_of

ONE, OTHER = uuid_of('one'), uuid_of('other')


SMALL, LARGE = Size((('VCPU', 1),)), Size((('VCPU', 8),))
UNREADABLE = '', '[[1]]', '{"a": 1}', '[[[[["VCPU", 1]], null], -1]]'


def of(small, large):
    """A Mix of so many small and large ones."""
    return Mix({size: count for size, count in {SMALL: small, LARGE: large}.items() if count})


def told(mix):
    return mix.counts.get(SMALL, 0), mix.counts.get(LARGE, 0)


class Mixes:
    """The battery."""

    @pytest.fixture
    def store(self, database):
        return SqlMixes(database)

    @pytest.fixture
    def change(self, database):
        def change(**values):
            ours = MIXES.c.scheduler == ONE
            with transaction(database) as connection:
                connection.execute(sa.update(MIXES).where(ours).values(**values))

        return change

    @pytest.fixture
    def rows(self, database):
        def rows():
            with transaction(database) as connection:
                return sorted(connection.scalars(sa.select(MIXES.c.scheduler)))

        return rows

    def test_the_counts_of_all_schedulers_add_up(self, store):
        store.add(ONE, 1, of(1, 0))
        store.add(ONE, 2, of(2, 1))
        store.add(OTHER, 1, of(0, 4))
        assert told(store.total()) == (3, 5)

    def test_a_batch_counts_once(self, store):
        """Written twice, or late."""
        store.add(ONE, 1, of(1, 0))
        store.add(ONE, 1, of(1, 0))
        store.add(ONE, 3, of(1, 0))
        store.add(ONE, 2, of(1, 0))
        assert told(store.total()) == (2, 0)

    def test_the_counts_of_a_quiet_scheduler_move(self, store, change, rows):
        store.add(ONE, 1, of(1, 0))
        store.add(OTHER, 1, of(0, 1))
        assert rows() == sorted([ONE, OTHER])
        change(written_s=MIXES.c.written_s - QUIET_S - 60)
        store.add(OTHER, 2, of(0, 1))
        assert rows() == [OTHER]
        assert told(store.total()) == (1, 2)

    def test_a_scheduler_whose_counts_moved_starts_a_new_row(self, store, change, rows):
        self.test_the_counts_of_a_quiet_scheduler_move(store, change, rows)
        store.add(ONE, 2, of(4, 0))
        assert told(store.total()) == (5, 2)

    def test_two_move_the_same_counts_once(self, store, change):
        store.add(ONE, 1, of(1, 0))
        change(written_s=0.0)
        others = [uuid_of(str(number)) for number in range(4)]

        def add(name):
            for _ in range(20):
                with contextlib.suppress(errors.StoreBusy):
                    return store.add(name, 1, of(0, 1))
            raise AssertionError('busy for too long')

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(add, others))
        assert told(store.total()) == (1, 4)

    def test_counts_that_cannot_be_read_start_again(self, store, change, caplog):
        for number, text in enumerate(UNREADABLE):
            caplog.clear()
            store.add(ONE, 2 * number + 1, of(1, 0))
            store.add(OTHER, number + 1, of(0, 1))
            change(counts=text)
            assert told(store.total()) == (0, number + 1)
            assert 'cannot be read, and starts again' in caplog.text
            store.add(ONE, 2 * number + 2, of(2, 0))
            assert told(store.total()) == (2, number + 1)
