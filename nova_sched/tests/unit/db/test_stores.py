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
"""The small stores, on SQLite: candidates, decisions, ended sessions, flavors, mixes, schedulers.

``integration/test_stores.py`` runs the classes on database servers: ``database`` is an engine on
the newest schema, with empty tables.
"""

import concurrent.futures
import contextlib
import dataclasses

import pytest
import sqlalchemy as sa

from nova_sched import errors
from nova_sched.db.candidates import CHUNK as CANDIDATES_CHUNK
from nova_sched.db.candidates import SqlCandidates
from nova_sched.db.decision_log import CHUNK as DECISIONS_CHUNK
from nova_sched.db.decision_log import PAGE, SqlDecisionLog
from nova_sched.db.ended_sessions import SqlEndedSessions
from nova_sched.db.flavors import SqlFlavors
from nova_sched.db.rebalances import SqlRebalances
from nova_sched.db.schedulers import SchedulerFacts, SqlSchedulers
from nova_sched.db.tables import CANDIDATE_REQUESTS, CANDIDATES, ENDED_SESSIONS, MIXES
from nova_sched.db.transactions import transaction
from nova_sched.extensions.optimize.mixes import QUIET_S, SqlMixes
from nova_sched.extensions.optimize.packing.mix import Mix, Size
from nova_sched.tests.builders import NOW, now, uuid_of
from nova_sched.tests.rows import each

ONE, OTHER = uuid_of('one'), uuid_of('other')
SPEC = '{"flavor": "ü"}'
SMALL, LARGE = Size((('VCPU', 1),)), Size((('VCPU', 8),))
UNREADABLE = '', '[[1]]', '{"a": 1}', '[[[[["VCPU", 1]], null], -1]]'
FIGURES = {'placed': 3, 'news_lag_s': 0.25, 'look_lag_s': None}


def candidate(name='one', **facts):
    known = {'instance_uuid': uuid_of('i'), 'node_uuid': uuid_of('n'), 'rank': 1}
    return {'uuid': uuid_of(name), **known, 'host': 'a', 'nodename': 'A', **facts}


def read_of(written, spec=SPEC, expires_s=NOW):
    return {**written, 'spec': spec, 'expires_s': expires_s}


def decision(request_id='req-1', time=NOW, **facts):
    return {'request_id': request_id, 'time': time, 'outcome': 'refused', **facts}


def flavor(name='tiny', **facts):
    sizes = {'vcpus': 1, 'memory_mb': 512, 'root_gb': 1, 'ephemeral_gb': 0, 'swap': 0}
    known = {'name': name, 'flavorid': name, **sizes, 'extra_specs': {}, 'created_s': NOW}
    return {**known, **facts}


def mix(small, large):
    """Return a Mix of so many small and large requests."""
    return Mix({size: count for size, count in {SMALL: small, LARGE: large}.items() if count})


def counts(mix):
    return mix.counts.get(SMALL, 0), mix.counts.get(LARGE, 0)


def scheduler(name='one', host='host', pid=7, started_s=NOW, seen_s=NOW, figures=FIGURES):
    return SchedulerFacts(uuid_of(name), host, pid, started_s, seen_s, figures)


class Candidates:
    def test_what_was_written_is_read_one_by_one(self, candidates):
        best, next_best = candidate(), candidate('two', host='b', nodename='B', rank=2)
        candidates.write(SPEC, NOW + 0.25, [best, next_best])
        assert candidates.read(uuid_of('one')) == read_of(best, expires_s=NOW + 0.25)
        assert candidates.read(uuid_of('two')) == read_of(next_best, expires_s=NOW + 0.25)

    def test_each_has_the_spec_of_its_own_request(self, candidates):
        candidates.write('1', NOW, [candidate()])
        candidates.write('2', NOW, [candidate('two')])
        assert [candidates.read(uuid_of(name))['spec'] for name in ('one', 'two')] == ['1', '2']

    def test_what_was_never_written(self, candidates):
        candidates.write(SPEC, NOW, [candidate()])
        assert candidates.read(uuid_of('two')) is None
        assert candidates.read(uuid_of('one').upper()) is None

    def test_a_long_spec(self, candidates):
        long = 'x' * 100_000
        candidates.write(long, NOW, [candidate()])
        assert candidates.read(uuid_of('one'))['spec'] == long

    def test_what_has_expired_is_dropped(self, candidates):
        numbers = range(CANDIDATES_CHUNK + 3)
        old = [candidate(f'old {number}', rank=number + 1) for number in numbers]
        candidates.write(SPEC, NOW - 1, old)
        candidates.write(SPEC, NOW - 2, [candidate('older')])
        candidates.write(SPEC, NOW, [candidate()])
        names = 'older', 'old 0', f'old {CANDIDATES_CHUNK + 2}', 'one'
        for _ in range(2):
            candidates.forget(NOW)
            assert [name for name in names if candidates.read(uuid_of(name))] == ['one']


class TestCandidates(Candidates):
    @pytest.fixture
    def candidates(self, database):
        return SqlCandidates(database)

    @pytest.fixture
    def count_rows(self, database):
        """Return how many candidates and how many of their requests are in the database."""

        def count_rows():
            with database.connect() as connection:
                return tuple(
                    connection.scalar(sa.select(sa.func.count()).select_from(table))
                    for table in (CANDIDATES, CANDIDATE_REQUESTS)
                )

        return count_rows

    def test_a_request_is_kept_once_and_goes_with_its_candidates(self, count_rows, candidates):
        candidates.write(SPEC, NOW - 1, [candidate(), candidate('two')])
        assert count_rows() == (2, 1)
        candidates.write(SPEC, NOW, [candidate('three')])
        assert count_rows() == (3, 2)
        candidates.forget(NOW)
        assert count_rows() == (1, 1)

    def test_all_of_a_request_is_kept_or_nothing(self, count_rows, candidates):
        candidates.write('1', NOW, [candidate()])
        with pytest.raises(Exception, match='candidates'):
            candidates.write('2', NOW, [candidate('two'), candidate()])
        assert count_rows() == (1, 1)


class TestDecisionLog:
    @pytest.fixture
    def decision_log(self, database):
        return SqlDecisionLog(database)

    def test_what_was_written_is_read_by_request_oldest_first(self, decision_log):
        late, early = decision(time=NOW + 0.5, n=[1, None]), decision(n={'a': 'ü'})
        other = decision('req-2')
        decision_log.write([late, other])
        decision_log.write([early])
        assert decision_log.read('req-1') == [early, late]
        assert decision_log.read('req-2') == [other]
        assert decision_log.read('REQ-1') == decision_log.read('req-3') == []

    def test_a_long_trail(self, decision_log):
        long = decision(why='x' * 100_000)
        decision_log.write([long])
        assert decision_log.read('req-1') == [long]

    def test_newest_first(self, decision_log):
        count = PAGE + 3
        written = [decision(f'req-{number}', time=NOW + number // 2) for number in range(count)]
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
            decision(f'req-{number}', NOW + number, outcome='refused' if number % 3 else 'placed')
            for number in range(PAGE + 9)
        ]
        decision_log.write(written)
        refusals = list(decision_log.newest_first(refused=True))
        assert refusals == [record for record in written[::-1] if record['outcome'] == 'refused']
        assert list(decision_log.newest_first(NOW + PAGE + 7, refused=True)) == [written[-1]]

    def test_a_placed_request_with_the_weights(self, decision_log):
        weights = [{'weigher': 'W', 'raw': 1, 'normalised': 1, 'multiplier': 1, 'weight': 1}]
        host = {'host': 'a', 'weight': 1, 'weights': weights}
        silent = {'why': '', 'removed': [], 'nearest': None, 'nearest_why': ''}
        record = decision(
            outcome='placed',
            filters=[{'filter': 'F', 'seen': 1, 'left': 1, **silent}],
            placed=[{'instance_uuid': 'i', **host, 'alternates': [host]}],
        )
        decision_log.write([record])
        assert decision_log.read('req-1') == list(decision_log.newest_first()) == [record]

    def test_the_oldest_of_placed_requests_are_dropped(self, decision_log):
        decision_log.write([decision(time=NOW + number, outcome='placed') for number in range(9)])
        decision_log.write([decision('req-2', time=NOW + number) for number in range(9)])
        for most, left in ((9, 9), (4, 4), (4, 4), (None, 4), (0, 0)):
            decision_log.forget(NOW, most)
            times = [record['time'] for record in decision_log.read('req-1')]
            assert times == [NOW + 9 - left + number for number in range(left)]
        assert len(decision_log.read('req-2')) == 9

    def test_the_clock_is_the_database_s(self, decision_log):
        assert abs(decision_log.now_s() - now()) < 60

    def test_old_ones_are_dropped(self, decision_log):
        numbers = range(DECISIONS_CHUNK + 3)
        decision_log.write([decision(time=NOW - 1, n=number) for number in numbers])
        decision_log.write([decision(time=NOW), decision('req-2', time=NOW - 2)])
        decision_log.forget(NOW)
        assert decision_log.read('req-1') == [decision(time=NOW)]
        assert decision_log.read('req-2') == []
        decision_log.forget(NOW)
        assert len(decision_log.read('req-1')) == 1


class TestEndedSessions:
    def test_what_has_ended(self, database):
        ended = SqlEndedSessions(database)
        ended.add(ONE, 60.0)
        ended.add(ONE, 60.0)
        another_process = SqlEndedSessions(database)
        assert (another_process.has(ONE), another_process.has(OTHER)) == (True, False)

    def test_old_rows_go(self, database):
        ended = SqlEndedSessions(database)
        ended.add(ONE, -60.0)
        ended.add(OTHER, 60.0)
        with transaction(database) as connection:
            assert connection.execute(sa.select(ENDED_SESSIONS.c.uuid)).scalars().all() == [OTHER]


class TestFlavors:
    @pytest.fixture
    def flavors(self, database):
        return SqlFlavors(database)

    def test_without_flavors_there_is_a_version(self, flavors):
        assert flavors.list() == (0, [])

    def test_flavors_are_listed_by_name(self, flavors):
        extra_specs = {'b:ü': '1', 'a': 'x'}
        made = [
            flavor('tiny'),
            flavor('Big', vcpus=8, extra_specs=extra_specs),
            flavor('small', swap=7),
        ]
        assert [flavors.create(row) for row in made] == [True] * 3
        assert flavors.list() == (3, [made[1], made[2], made[0]])

    def test_every_change_raises_the_version_and_nothing_else_does(self, flavors):
        seen = []
        for change in (
            lambda: flavors.create(flavor()),
            lambda: flavors.create(flavor(created_s=NOW + 1)),
            lambda: flavors.delete('tiny'),
            lambda: flavors.create(flavor()),
        ):
            change()
            seen.append(flavors.list()[0])
        assert seen == [1, 1, 2, 3]

    def test_an_equal_one_stays_as_old_as_it_is(self, flavors):
        first = flavor(extra_specs={'a': '1', 'b': '2'})
        flavors.create(first)
        assert not flavors.create(flavor(created_s=NOW + 1, extra_specs={'b': '2', 'a': '1'}))
        assert flavors.list()[1] == [first]

    @pytest.mark.parametrize(
        'other, name, why',
        [
            pytest.param({'vcpus': 2}, 'tiny', 'its vcpus is 1, not 2', id='size'),
            pytest.param({'vcpus': 2, 'flavorid': '7'}, 'tiny',
                         'its flavorid is tiny, not 7, its vcpus is 1, not 2', id='two things'),
            pytest.param({'extra_specs': {'a': '1'}}, 'tiny',
                         'its extra_specs is {}, not {"a": "1"}', id='extra specs'),
            pytest.param({'name': 'small', 'flavorid': 'tiny'}, 'tiny',
                         'it has the ID tiny', id='the same ID'),
        ],
    )  # fmt: skip
    def test_another_one_of_that_name_is_refused(self, flavors, other, name, why):
        flavors.create(flavor())
        with pytest.raises(errors.FlavorExists) as refused:
            flavors.create(flavor(**other))
        assert refused.value.args == (name, why)
        assert flavors.list() == (1, [flavor()])

    def test_names_that_differ_in_case_differ(self, flavors):
        flavors.create(flavor('tiny'))
        assert flavors.create(flavor('Tiny'))

    @pytest.mark.parametrize('name', ['small', 'TINY'])
    def test_what_is_not_there_cannot_go(self, flavors, name):
        flavors.create(flavor())
        with pytest.raises(errors.FlavorNotFound):
            flavors.delete(name)
        assert flavors.list() == (1, [flavor()])

    def test_many_add_at_once(self, flavors):
        def add(number):
            return flavors.create(flavor(f'f{number % 4}'))

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(add, range(12))) == 4
        version, rows = flavors.list()
        assert (version, [row['name'] for row in rows]) == (4, ['f0', 'f1', 'f2', 'f3'])


class TestMixes:
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
        store.add(ONE, 1, mix(1, 0))
        store.add(ONE, 2, mix(2, 1))
        store.add(OTHER, 1, mix(0, 4))
        assert counts(store.total()) == (3, 5)

    def test_a_batch_counts_once(self, store):
        """Written twice, or late."""
        store.add(ONE, 1, mix(1, 0))
        store.add(ONE, 1, mix(1, 0))
        store.add(ONE, 3, mix(1, 0))
        store.add(ONE, 2, mix(1, 0))
        assert counts(store.total()) == (2, 0)

    def test_the_counts_of_a_quiet_scheduler_move(self, store, change, rows):
        store.add(ONE, 1, mix(1, 0))
        store.add(OTHER, 1, mix(0, 1))
        assert rows() == sorted([ONE, OTHER])
        change(written_s=MIXES.c.written_s - QUIET_S - 60)
        store.add(OTHER, 2, mix(0, 1))
        assert rows() == [OTHER]
        assert counts(store.total()) == (1, 2)

    def test_a_scheduler_whose_counts_moved_starts_a_new_row(self, store, change, rows):
        self.test_the_counts_of_a_quiet_scheduler_move(store, change, rows)
        store.add(ONE, 2, mix(4, 0))
        assert counts(store.total()) == (5, 2)

    def test_two_move_the_same_counts_once(self, store, change):
        store.add(ONE, 1, mix(1, 0))
        change(written_s=0.0)
        others = [uuid_of(str(number)) for number in range(4)]

        def add(name):
            for _ in range(20):
                with contextlib.suppress(errors.StoreBusy):
                    return store.add(name, 1, mix(0, 1))
            raise AssertionError('busy for too long')

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(add, others))
        assert counts(store.total()) == (1, 4)

    def test_counts_that_cannot_be_read_start_again(self, store, change, caplog):
        for number, text in enumerate(UNREADABLE):
            caplog.clear()
            store.add(ONE, 2 * number + 1, mix(1, 0))
            store.add(OTHER, number + 1, mix(0, 1))
            change(counts=text)
            assert counts(store.total()) == (0, number + 1)
            assert 'cannot be read, and starts again' in caplog.text
            store.add(ONE, 2 * number + 2, mix(2, 0))
            assert counts(store.total()) == (2, number + 1)


class TestSchedulers:
    @pytest.fixture
    def schedulers(self, database):
        return SqlSchedulers(database)

    def test_what_was_written_is_read_by_host_oldest_first(self, schedulers):
        late = scheduler('late', started_s=NOW + 0.5)
        early = scheduler('early')
        other = scheduler('other', host='a host')
        for facts in (late, early, other):
            schedulers.write(facts)
        assert schedulers.alive(NOW) == [other, early, late]

    def test_a_later_sign_is_in_place_of_the_earlier(self, schedulers):
        schedulers.write(scheduler())
        schedulers.write(scheduler())
        later = scheduler(seen_s=NOW + 3, figures={**FIGURES, 'placed': 4})
        schedulers.write(later)
        assert schedulers.alive(0.0) == [later]

    def test_who_gave_no_sign_since_then(self, schedulers):
        silent, alive = scheduler('silent', seen_s=NOW - 1), scheduler('alive')
        schedulers.write(silent)
        schedulers.write(alive)
        assert schedulers.alive(NOW) == [alive]
        schedulers.forget(NOW)
        assert schedulers.alive(0.0) == [alive]

    def test_one_that_ends_is_gone_and_may_be_back(self, schedulers):
        schedulers.write(scheduler())
        schedulers.write(scheduler('two'))
        schedulers.remove(uuid_of('one'))
        schedulers.remove(uuid_of('one'))
        assert schedulers.alive(0.0) == [scheduler('two')]
        back = dataclasses.replace(scheduler(), host='b')
        schedulers.write(back)
        assert schedulers.alive(0.0) == [back, scheduler('two')]


@each(
    'kind, method, arguments',
    [
        (SqlCandidates, 'write', ('', NOW, [candidate()])),
        (SqlCandidates, 'read', (ONE,)),
        (SqlCandidates, 'forget', (NOW,)),
        (SqlDecisionLog, 'write', ([decision()],)),
        (SqlDecisionLog, 'read', ('req-1',)),
        (SqlDecisionLog, 'forget', (0.0,)),
        (SqlEndedSessions, 'add', (ONE, 1.0)),
        (SqlEndedSessions, 'has', (ONE,)),
        (SqlFlavors, 'create', (flavor(),)),
        (SqlFlavors, 'delete', ('tiny',)),
        (SqlFlavors, 'list', ()),
        (SqlFlavors, 'now_s', ()),
        (SqlMixes, 'add', (ONE, 1, None)),
        (SqlMixes, 'total', ()),
        (SqlRebalances, 'create', ([],)),
        (SqlRebalances, 'take', (1,)),
        (SqlRebalances, 'list', ()),
        (SqlSchedulers, 'write', (scheduler(),)),
        (SqlSchedulers, 'alive', (0.0,)),
        (SqlSchedulers, 'forget', (0.0,)),
        (SqlSchedulers, 'remove', ('uuid',)),
    ],
)
def test_a_database_that_is_away(gone, kind, method, arguments):
    store = kind(gone)
    with pytest.raises(errors.StoreUnavailable):
        getattr(store, method)(*arguments)
