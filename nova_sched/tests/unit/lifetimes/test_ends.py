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
"""Tests of counts of ends."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nova_sched.lifetimes import ends as module
from nova_sched.lifetimes.ages import DAY_S, EDGES_S, HOUR_S, STEPS
from nova_sched.lifetimes.ends import HALF_LIFE_S, Ends
from nova_sched.lifetimes.life import ANY, Kind

NOW = 1_700_000_000.0
A, B, FOUR = Kind('p', 'a', 1), Kind('p', 'b', 1), Kind('p', 'a', 4)

kinds = st.sampled_from([A, B, FOUR, Kind('', 'a', 2), ANY])
ages = st.floats(-HOUR_S, 60 * DAY_S)
# Servers that ended: kind, age, and how long after NOW.
ended = st.lists(st.tuples(kinds, ages, st.floats(0.0, 90 * DAY_S)), max_size=12)


def of(servers):
    found = Ends()
    for kind, age_s, after_s in servers:
        found.add(kind, age_s, NOW + after_s)
    return found


def same(one, other):
    assert one.counts.keys() == other.counts.keys()
    for kind, counts in one.counts.items():
        assert counts == pytest.approx(other.counts[kind], rel=1e-6, abs=1e-12)


def test_a_server_is_at_risk_until_it_ends():
    counts = of([(A, 610.0, 0.0)]).counts[A]
    assert counts[0].nonzero()[0].tolist() == [2]
    assert counts[1].nonzero()[0].tolist() == [0, 1, 2]
    assert counts[1][:3] == pytest.approx(1.0, rel=1e-3)


def test_a_server_that_ends_beyond_the_last_step():
    counts = of([(A, 40 * DAY_S, 0.0)]).counts[A]
    assert not counts[0].any()
    assert counts[1].all()


def test_what_a_server_counts_when_it_reached_an_age():
    counts = of([(A, HALF_LIFE_S, 0.0)]).counts[A]
    assert counts[1, 0] == pytest.approx(0.5)
    assert counts[0].max() == counts[1][counts[1] > 0].max() == 1.0


def test_servers_of_one_request_count_less():
    assert of([(FOUR, 0.0, 0.0)]).total == 0.5


def test_old_ends_fade():
    found = of([(A, 0.0, 0.0), (B, 0.0, HALF_LIFE_S)])
    assert [found.counts[kind][0, 0] for kind in (A, B)] == [0.5, 1.0]


def test_a_clock_that_was_set_back_changes_no_count():
    found = of([(A, 0.0, HOUR_S), (A, 0.0, 0.0)])
    assert found.total == 2.0
    assert found.as_of_s == NOW + HOUR_S


@given(ended)
def test_no_more_end_than_are_at_risk(servers):
    for counts in of(servers).counts.values():
        assert (counts >= 0).all()
        assert (counts[0] <= counts[1] + 1e-12).all()
        assert (np.diff(counts[1] * np.exp2(-EDGES_S[:-1] / HALF_LIFE_S)) <= 1e-12).all()


@given(ended, ended)
def test_counts_add_up_in_any_order(one, other):
    found, back = of(one), of(other)
    found.merge(of(other))
    back.merge(of(one))
    same(found, back)
    assert found.as_of_s == back.as_of_s


@given(st.lists(st.tuples(kinds, ages), max_size=12))
def test_running_servers_are_at_risk_up_to_their_age(servers):
    """As the sum of each alone; and as one that ended now, except in its last step."""
    found = Ends().with_running([kind for kind, _ in servers], [age for _, age in servers], NOW)
    expected = {}
    for kind, age_s in servers:
        alone = of([(kind, age_s, 0.0)]).counts[kind]
        step = int(np.searchsorted(EDGES_S, max(age_s, 0.0), side='right')) - 1
        if step < STEPS:
            part = (max(age_s, 0.0) - EDGES_S[step]) / (EDGES_S[step + 1] - EDGES_S[step])
            alone[1, step] *= part
        expected[kind] = expected.get(kind, 0.0) + np.stack([np.zeros(STEPS), alone[1]])
    same(found, Ends(expected))


def test_running_servers_do_not_change_the_counts():
    found = of([(A, 10.0, 0.0)])
    before = found.counts[A].copy()
    assert found.with_running([A, B], [DAY_S, DAY_S], NOW + DAY_S).counts[A][1, 0] > before[1, 0]
    assert (found.counts[A] == before).all()
    assert B not in found.counts


def test_the_rarest_are_counted_with_their_flavor(monkeypatch):
    monkeypatch.setattr(module, 'MOST_KINDS', 8)
    often = [(Kind('p', 'a', number), 0.0, 0.0) for number in range(1, 5) for _ in range(9)]
    found = of([*often, *((Kind(str(number), 'b', 1), 0.0, 0.0) for number in range(5))])
    assert len(found.counts) <= 8
    assert found.counts[Kind(None, 'b')].sum() == 10.0
    assert found.total == pytest.approx(of(often).total + 5.0)


def test_many_flavors_are_counted_with_all(monkeypatch):
    monkeypatch.setattr(module, 'MOST_KINDS', 8)
    found = of([(Kind('p', str(number), 1), 0.0, 0.0) for number in range(40)])
    assert len(found.counts) <= 8
    assert found.counts[ANY].sum() > 0
    assert found.total == 40.0


@given(ended)
def test_counts_are_read_as_they_were_written(servers):
    found = of(servers)
    read = Ends.from_json(found.to_json())
    assert read.as_of_s == found.as_of_s
    assert read.counts.keys() == found.counts.keys()
    for kind, counts in read.counts.items():
        assert counts == pytest.approx(found.counts[kind], rel=1e-3)


def text(**words):
    plain = json.loads(of([(A, 0.0, 0.0)]).to_json())
    return json.dumps(plain | words)


LINE = [0.0] * STEPS


@pytest.mark.parametrize(
    'wrong',
    [
        pytest.param('', id='nothing'),
        pytest.param('[]', id='a list'),
        pytest.param('{}', id='no steps'),
        pytest.param(text(steps=STEPS + 1), id='steps of another release'),
        pytest.param(text(as_of_s=None), id='no time'),
        pytest.param(text(as_of_s=float('nan')), id='not a time'),
        pytest.param(text(kinds=[['p', 'a', 1, LINE]]), id='a line too few'),
        pytest.param(text(kinds=[['p', 'a', 1, LINE, LINE[1:]]]), id='a step too few'),
        pytest.param(text(kinds=[['p', 'a', 1, LINE, [-1.0, *LINE[1:]]]]), id='negative'),
        pytest.param(text(kinds=[['p', 'a', 1, LINE, [float('inf'), *LINE[1:]]]]), id='infinite'),
        pytest.param(text(kinds=[['p']]), id='half a kind'),
    ],
)
def test_a_text_that_is_not_of_counts(wrong):
    with pytest.raises((ValueError, TypeError, KeyError)):
        Ends.from_json(wrong)
