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
"""Tests of one decision: the candidates, what callers allow, the chain, the weights and the
best."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nova_sched.engine.decide import CandidateSet, best, narrow, survivors, weigh
from nova_sched.state.request import RequestedDestination
from nova_sched.tests.builders import hosts, request, uuid_of
from nova_sched.tests.rows import table
from nova_sched.tests.unit.engine.world import Named, Opened, Score, names, rules

CELL_1, CELL_2 = uuid_of('cell 1'), uuid_of('cell 2')


def bools(digits):
    return np.array([digit == '1' for digit in digits])


class TestField:
    @table(
        'verdicts, rows, lefts',
        {
            'one': (['110'], [0, 1], [2]),
            'both must keep a row': (['110', '011'], [1], [2, 1]),
            'no opinion': (['110', True, '100'], [0], [2, 2, 1]),
            'nobody comes back': (['000', '111'], [], [0, 0]),
            'no opinion at first': ([True], [0, 1, 2], [3]),
        },
    )
    def test_keep(self, verdicts, rows, lefts):
        candidates = CandidateSet(3)
        for number, verdict in enumerate(verdicts):
            candidates.keep(f'rule {number}', verdict if verdict is True else bools(verdict))
        assert (candidates.rows().tolist(), candidates.left) == (rows, len(rows))
        assert [step.name for step in candidates.steps] == [
            f'rule {number}' for number in range(len(verdicts))
        ]
        assert [step.left for step in candidates.steps] == lefts
        assert [step.seen for step in candidates.steps] == [3, *lefts[:-1]]

    def test_a_verdict_on_the_rows_that_are_left(self):
        candidates = CandidateSet(4)
        candidates.keep('first', bools('1011'))
        candidates.keep('second', bools('101'), candidates.rows())
        assert candidates.rows().tolist() == [0, 3]
        candidates.keep('third', True, candidates.rows())
        assert candidates.rows().tolist() == [0, 3]
        assert candidates.steps[1:] == (('second', 3, 2), ('third', 2, 2))

    def test_a_mask_is_not_written_to(self):
        mask, candidates = bools('110'), CandidateSet(3)
        candidates.keep('first', mask)
        candidates.keep('second', bools('011'))
        assert mask.tolist() == [True, True, False]


@table(
    'words, left, steps',
    {
        'nothing is asked': ({}, 'abBc', []),
        'an empty destination': ({'destination': RequestedDestination()}, 'abBc', []),
        'a host, exactly': (
            {'destination': RequestedDestination('b')},
            'b',
            ['requested_destination'],
        ),
        'an unknown host': (
            {'destination': RequestedDestination('d')},
            '',
            ['requested_destination'],
        ),
        'and its node': (
            {'destination': RequestedDestination('a', 'node a')},
            'a',
            ['requested_destination'],
        ),
        'and the node of another': (
            {'destination': RequestedDestination('a', 'node b')},
            '',
            ['requested_destination'],
        ),
        'a node only': (
            {'destination': RequestedDestination(None, 'node c')},
            'c',
            ['requested_destination'],
        ),
        'a cell, or one not told': (
            {'destination': RequestedDestination(None, None, CELL_1)},
            'ac',
            ['requested_cell'],
        ),
        'a cell that may be left': (
            {'destination': RequestedDestination(None, None, CELL_1, True)},
            'abBc',
            [],
        ),
        'new cell': (
            {'destination': RequestedDestination(None, None, uuid_of('cell 3'))},
            'c',
            ['requested_cell'],
        ),
        'a host of another cell': (
            {'destination': RequestedDestination('b', None, CELL_1)},
            '',
            ['requested_destination', 'requested_cell'],
        ),
        'ignored in any case': ({'ignore_hosts': ['B', 'unknown']}, 'ac', ['ignore_hosts']),
        'forced in any case': ({'force_hosts': ['B']}, 'bB', ['force_hosts']),
        'forced nodes, exactly': ({'force_nodes': ['node c', 'node B']}, 'Bc', ['force_nodes']),
        'not in any case': ({'force_nodes': ['NODE C']}, '', ['force_nodes']),
        'forced host and node': (
            {'force_hosts': ['a', 'b'], 'force_nodes': ['node b', 'node c']},
            'b',
            ['force_hosts', 'force_nodes'],
        ),
        'ignored and forced': (
            {'ignore_hosts': ['a'], 'force_hosts': ['a']},
            '',
            ['ignore_hosts', 'force_hosts'],
        ),
        'candidates of Placement': (
            {'allocation_requests': {uuid_of('uuid of b'): '{}', uuid_of('elsewhere'): '{}'}},
            'b',
            ['allocation_candidates'],
        ),
    },
)
def test_narrow(words, left, steps):
    seen = hosts(
        host=['a', 'b', 'B', 'c'],
        nodename=['node a', 'node b', 'node B', 'node c'],
        node_uuid=[uuid_of(f'uuid of {host}') for host in 'abBc'],
        cell_uuid=[CELL_1, CELL_2, CELL_2, None],
    )
    candidates = CandidateSet(len(seen))
    narrow(candidates, seen, request(**words))
    assert ''.join(names(seen, candidates.rows())) == left
    assert [step.name for step in candidates.steps] == steps
    assert candidates.left == len(left)


class TestSurvivors:
    def test_every_rule_is_asked_in_order(self):
        seen = hosts(4)
        chain = rules(
            [Named('host-1', 'host-2', name='second'), Named('host-2', name='third')],
            always_on=[Named('host-0', 'host-1', 'host-2', name='first')],
        )
        candidates = survivors(chain, seen, request())
        assert names(seen, candidates.rows()) == ['host-2']
        assert candidates.steps == (('first', 4, 3), ('second', 3, 2), ('third', 2, 1))

    def test_no_filter_is_asked_when_nothing_is_left(self):
        late = Named('host-0', name='late')
        candidates = survivors(
            rules([Named(name='none'), late], always_on=[]), hosts(2), request()
        )
        assert (candidates.left, candidates.steps, late.asked) == (0, (('none', 2, 0),), 0)

    @table(
        'words, asked',
        {
            'plain': ({}, ['always', 'plain', 'rebuild']),
            'forced': ({'force_hosts': ['host-0']}, ['always']),
            'forced node': ({'force_nodes': ['host-0']}, ['always']),
            'rebuild': ({'hints': {'_nova_check_type': ['rebuild']}}, ['rebuild']),
            'forced rebuild': (
                {'hints': {'_nova_check_type': ['rebuild']}, 'force_hosts': ['host-0']},
                ['rebuild'],
            ),
            'another check': (
                {'hints': {'_nova_check_type': ['other']}, 'force_hosts': ['host-0']},
                ['always', 'plain', 'rebuild'],
            ),
        },
    )
    def test_which_rules_are_asked(self, words, asked):
        chain = rules(
            [Named('host-0', name='plain'), Named('host-0', name='rebuild', rebuild=True)],
            always_on=[Named('host-0', name='always')],
        )
        candidates = survivors(chain, hosts(2), request(**words))
        assert [
            step.name
            for step in candidates.steps
            if step.name != 'force_hosts' and step.name != 'force_nodes'
        ] == asked

    def test_a_rule_that_runs_once_is_asked_about_the_first_instance_only(self):
        once = Named('host-1', 'host-2', name='once', once=True)
        each = Named('host-0', 'host-1', name='each')
        chain, seen = rules([once, each], always_on=[]), hosts(3)
        candidates = None
        for index in range(3):
            candidates = survivors(chain, seen, request(), index, candidates)
            assert names(seen, candidates.rows()) == ['host-1']
        assert (once.asked, each.asked) == (1, 3)

    def test_later_instances_start_from_what_the_earlier_one_left(self):
        seen = hosts(3)
        first = survivors(rules([Named('host-1', 'host-2')], always_on=[]), seen, request())
        later = survivors(
            rules([], always_on=[]), seen, request(ignore_hosts=['host-1']), 1, first
        )
        assert names(seen, later.rows()) == ['host-1', 'host-2']
        assert (later.left, later.steps) == (2, ())

    def test_a_rule_that_opens_each_host_sees_survivors_only(self):
        opened = Opened('host-1', 'host-3')
        candidates = survivors(
            rules([Named('host-1', 'host-2'), opened], always_on=[]), hosts(4), request()
        )
        assert opened.seen == ['host-1', 'host-2']
        assert candidates.rows().tolist() == [1]
        assert candidates.steps[-1] == ('Opened', 2, 1)


raws = st.none() | st.lists(st.integers(-5, 5), min_size=4, max_size=4)
bounds = st.none() | st.integers(-2, 2)
multipliers = st.sampled_from([0.0, 1.0, -1.0, 2.5]) | st.lists(
    st.sampled_from([0.0, 1.0, -3.0]), min_size=4, max_size=4
)


def naive(raw, multiplier, low, high, rows):
    """One weigher's part for each row, by the words of the rule."""
    if raw is None or not rows:
        return [0.0] * len(rows)
    values = [raw[row] if low is None else max(raw[row], low) for row in rows]
    least = min(values) if low is None else low
    most = max(values) if high is None else high
    factors = [multiplier[row] if isinstance(multiplier, list) else multiplier for row in rows]
    return [0.0 if least == most else (value - least) / (most - least) * factor
            for value, factor in zip(values, factors, strict=True)]  # fmt: skip


@given(
    weighers=st.lists(st.tuples(raws, multipliers, bounds, bounds), max_size=4),
    rows=st.lists(st.integers(0, 3), unique=True, max_size=4).map(sorted),
)
def test_weigh(weighers, rows):
    made = [
        Score(
            *(raw if raw is not None else [None]), multiplier=multiplier, minval=low, maxval=high
        )
        for raw, multiplier, low, high in weighers
    ]
    parts = [naive(raw, multiplier, low, high, rows) for raw, multiplier, low, high in weighers]
    wanted = [sum(column) for column in zip(*parts, strict=True)] if parts else [0.0] * len(rows)
    total = weigh(made, hosts(4), np.array(rows, dtype=np.intp), request())
    assert total.tolist() == pytest.approx(wanted if len(rows) > 1 else [0.0] * len(rows))


def test_weighing_changes_no_column():
    seen = hosts(memory_mb=[1, 2, 3])
    raw = seen.free_ram_mb.astype(float)
    score = Score(0)
    score.raw = lambda hosts, rows, request: raw
    weigh([score, score], seen, np.arange(3), request())
    assert raw.tolist() == [1, 2, 3]


weights = st.lists(st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 2.0]) | st.floats(-9, 9), max_size=40)


class TestBest:
    @given(weights=weights, count=st.integers(0, 45))
    def test_as_sorted(self, weights, count):
        wanted = sorted(range(len(weights)), key=lambda position: (-weights[position], position))[
            :count
        ]
        assert best(np.array(weights), count) == wanted

    @given(weights=weights, count=st.integers(0, 45), seed=st.integers(0, 9))
    def test_shuffled(self, weights, count, seed):
        """Those that share the top weight come first, in any order; the others as sorted."""
        found = best(np.array(weights), count, random.Random(seed))
        wanted = sorted(range(len(weights)), key=lambda position: (-weights[position], position))
        top = [position for position in wanted if weights[position] == weights[wanted[0]]]
        assert len(found) == min(count, len(weights)) == len(set(found))
        assert set(found[: len(top)]) <= set(top)
        assert found[len(top) :] == wanted[len(top) : count]

    def test_every_one_of_the_top_may_come_first(self):
        found = {
            best(np.array([1.0, 2.0, 2.0, 0.0, 2.0]), 1, random.Random(seed))[0]
            for seed in range(50)
        }
        assert found == {1, 2, 4}

    def test_the_weights_stay(self):
        given_weights = np.array([1.0, 2.0, 3.0])
        best(given_weights, 2)
        best(given_weights, 2, random.Random(1))
        assert given_weights.tolist() == [1.0, 2.0, 3.0]
