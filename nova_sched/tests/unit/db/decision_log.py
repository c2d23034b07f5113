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

A module of tests brings the fixture ``database``: an engine on the newest schema, with empty
tables.
"""

import pytest

from nova_sched.db.decision_log import CHUNK, PAGE, SqlDecisionLog
from nova_sched.tests.builders import NOW, now


def one(request_id='req-1', time=NOW, **facts):
    return {'request_id': request_id, 'time': time, 'outcome': 'refused', **facts}


class DecisionLog:
    @pytest.fixture
    def decision_log(self, database):
        return SqlDecisionLog(database)

    def test_what_was_written_is_read_by_request_oldest_first(self, decision_log):
        late, early, other = one(time=NOW + 0.5, n=[1, None]), one(n={'a': 'ü'}), one('req-2')
        decision_log.write([late, other])
        decision_log.write([early])
        assert decision_log.read('req-1') == [early, late]
        assert decision_log.read('req-2') == [other]
        assert decision_log.read('REQ-1') == decision_log.read('req-3') == []

    def test_a_long_trail(self, decision_log):
        long = one(why='x' * 100_000)
        decision_log.write([long])
        assert decision_log.read('req-1') == [long]

    def test_newest_first(self, decision_log):
        count = PAGE + 3
        written = [one(f'req-{number}', time=NOW + number // 2) for number in range(count)]
        decision_log.write(written)
        times = [record['time'] for record in decision_log.newest_first()]
        assert times == sorted((record['time'] for record in written), reverse=True)
        assert {record['request_id'] for record in decision_log.newest_first()} == {
            record['request_id'] for record in written
        }
        late = [record['request_id'] for record in decision_log.newest_first(NOW + count // 2 - 1)]
        assert set(late) == {f'req-{number}' for number in (count - 3, count - 2, count - 1)}

    def test_refusals_alone(self, decision_log):
        written = [
            one(f'req-{number}', NOW + number, outcome='refused' if number % 3 else 'placed')
            for number in range(PAGE + 9)
        ]
        decision_log.write(written)
        found = list(decision_log.newest_first(refused=True))
        assert found == [record for record in written[::-1] if record['outcome'] == 'refused']
        assert list(decision_log.newest_first(NOW + PAGE + 7, refused=True)) == [written[-1]]

    def test_a_placed_request_with_the_weights(self, decision_log):
        weights = [{'weigher': 'W', 'raw': 1, 'normalised': 1, 'multiplier': 1, 'weight': 1}]
        host = {'host': 'a', 'weight': 1, 'weights': weights}
        silent = {'why': '', 'removed': [], 'nearest': None, 'nearest_why': ''}
        record = one(
            outcome='placed',
            filters=[{'filter': 'F', 'seen': 1, 'left': 1, **silent}],
            placed=[{'instance_uuid': 'i', **host, 'alternates': [host]}],
        )
        decision_log.write([record])
        assert decision_log.read('req-1') == list(decision_log.newest_first()) == [record]

    def test_the_oldest_of_placed_requests_are_dropped(self, decision_log):
        decision_log.write([one(time=NOW + number, outcome='placed') for number in range(9)])
        decision_log.write([one('req-2', time=NOW + number) for number in range(9)])
        for most, left in ((9, 9), (4, 4), (4, 4), (None, 4), (0, 0)):
            decision_log.forget(NOW, most)
            times = [record['time'] for record in decision_log.read('req-1')]
            assert times == [NOW + 9 - left + number for number in range(left)]
        assert len(decision_log.read('req-2')) == 9

    def test_the_clock_is_the_database_s(self, decision_log):
        assert abs(decision_log.now_s() - now()) < 60

    def test_old_ones_are_dropped(self, decision_log):
        decision_log.write([one(time=NOW - 1, n=number) for number in range(CHUNK + 3)])
        decision_log.write([one(time=NOW), one('req-2', time=NOW - 2)])
        decision_log.forget(NOW)
        assert decision_log.read('req-1') == [one(time=NOW)]
        assert decision_log.read('req-2') == []
        decision_log.forget(NOW)
        assert len(decision_log.read('req-1')) == 1
