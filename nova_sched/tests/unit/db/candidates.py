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
"""What every store of candidates keeps: tests that memory and each database run.

``Candidates`` asks for the fixture ``candidates``, ``InDatabase`` for ``database``: an engine on
the newest schema, with empty tables.
"""

import pytest

from nova_sched.db.candidates import CHUNK, SqlCandidates
from nova_sched.db.tables import CANDIDATE_REQUESTS, CANDIDATES
from nova_sched.tests.builders import NOW, uuid_of

SPEC = '{"flavor": "ü"}'


def one(name='one', **facts):
    known = {
        'uuid': uuid_of(name),
        'instance_uuid': uuid_of('i'),
        'node_uuid': uuid_of('n'),
        'rank': 1,
    }
    return {**known, 'host': 'a', 'nodename': 'A', **facts}


def read_of(written, spec=SPEC, expires_s=NOW):
    return {**written, 'spec': spec, 'expires_s': expires_s}


class Candidates:
    def test_what_was_written_is_read_one_by_one(self, candidates):
        best, next_best = one(), one('two', host='b', nodename='B', rank=2)
        candidates.write(SPEC, NOW + 0.25, [best, next_best])
        assert candidates.read(uuid_of('one')) == read_of(best, expires_s=NOW + 0.25)
        assert candidates.read(uuid_of('two')) == read_of(next_best, expires_s=NOW + 0.25)

    def test_each_has_the_spec_of_its_own_request(self, candidates):
        candidates.write('1', NOW, [one()])
        candidates.write('2', NOW, [one('two')])
        assert [candidates.read(uuid_of(name))['spec'] for name in ('one', 'two')] == ['1', '2']

    def test_what_was_never_written(self, candidates):
        candidates.write(SPEC, NOW, [one()])
        assert candidates.read(uuid_of('two')) is None
        assert candidates.read(uuid_of('one').upper()) is None

    def test_a_long_spec(self, candidates):
        long = 'x' * 100_000
        candidates.write(long, NOW, [one()])
        assert candidates.read(uuid_of('one'))['spec'] == long

    def test_what_has_expired_is_dropped(self, candidates):
        old = [one(f'old {number}', rank=number + 1) for number in range(CHUNK + 3)]
        candidates.write(SPEC, NOW - 1, old)
        candidates.write(SPEC, NOW - 2, [one('older')])
        candidates.write(SPEC, NOW, [one()])
        for _ in range(2):
            candidates.forget(NOW)
            kept = [name for name in ('older', 'old 0', f'old {CHUNK + 2}', 'one')
                    if candidates.read(uuid_of(name))]  # fmt: skip
            assert kept == ['one']


class InDatabase(Candidates):
    @pytest.fixture
    def candidates(self, database):
        return SqlCandidates(database)

    def test_a_request_is_kept_once_and_goes_with_its_candidates(self, database, candidates):
        candidates.write(SPEC, NOW - 1, [one(), one('two')])
        assert rows(database) == (2, 1)
        candidates.write(SPEC, NOW, [one('three')])
        assert rows(database) == (3, 2)
        candidates.forget(NOW)
        assert rows(database) == (1, 1)


def rows(database):
    """How many rows of candidates and of their requests there are."""
    with database.connect() as connection:
        return tuple(
            len(connection.execute(table.select()).all())
            for table in (CANDIDATES, CANDIDATE_REQUESTS)
        )
