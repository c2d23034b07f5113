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
"""What the store of trails keeps on every database: tests that each database runs.

A module of tests brings the fixture ``database``: an engine on the newest schema, with empty tables.
"""

import pytest

from nova_sched.db.trails import CHUNK, SqlTrails
from nova_sched.tests.builders import NOW


def one(request_id='req-1', time=NOW, **facts):
    return {'request_id': request_id, 'time': time, 'outcome': 'refused', **facts}


class Trails:
    @pytest.fixture
    def trails(self, database):
        return SqlTrails(database)

    def test_what_was_written_is_read_by_request_oldest_first(self, trails):
        late, early, other = one(time=NOW + 0.5, n=[1, None]), one(n={'a': 'ü'}), one('req-2')
        trails.write([late, other])
        trails.write([early])
        assert trails.read('req-1') == [early, late]
        assert trails.read('req-2') == [other]
        assert trails.read('REQ-1') == trails.read('req-3') == []

    def test_a_long_trail(self, trails):
        long = one(why='x' * 100_000)
        trails.write([long])
        assert trails.read('req-1') == [long]

    def test_old_ones_are_dropped(self, trails):
        trails.write([one(time=NOW - 1, n=number) for number in range(CHUNK + 3)])
        trails.write([one(time=NOW), one('req-2', time=NOW - 2)])
        trails.forget(NOW)
        assert trails.read('req-1') == [one(time=NOW)]
        assert trails.read('req-2') == []
        trails.forget(NOW)
        assert len(trails.read('req-1')) == 1
