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
"""Tests of the expected rest of servers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nova_sched.lifetimes import survival as module
from nova_sched.lifetimes.ages import DAY_S, EDGES_S, HOUR_S, STEPS
from nova_sched.lifetimes.ends import Ends
from nova_sched.lifetimes.life import ANY, Kind
from nova_sched.lifetimes.survival import BACK_OFF, LONGEST_S, PRIOR, Survival, levels
from nova_sched.tests.unit.lifetimes.test_ends import NOW, ages, ended, kinds, of

A, B = Kind('p', 'a', 1), Kind('p', 'b', 1)


def rests(survival, kind):
    return [survival.rest_s(kind, age_s) for age_s in (0.0, 60.0, *EDGES_S, 90 * DAY_S)]


@given(ended, st.lists(st.tuples(kinds, ages), max_size=12), kinds)
def test_what_survives_only_falls(servers, running, kind):
    with_running = of(servers).with_running(
        *(zip(*running, strict=True) if running else ((), ())), NOW
    )
    survival = Survival(with_running)
    alive = survival.alive(kind)
    assert alive[0] == 1.0
    assert (np.diff(alive) <= 0).all()
    assert alive[-1] > 0
    assert all(0 < rest <= LONGEST_S for rest in rests(survival, kind))


@given(ended, ages)
def test_the_rest_is_continuous(servers, age_s):
    survival = Survival(of(servers))
    near = [survival.rest_s(A, age_s + step) for step in (-0.01, 0.0, 0.01)]
    assert near[1] == pytest.approx(near[0], rel=1e-2, abs=1.0)
    assert near[1] == pytest.approx(near[2], rel=1e-2, abs=1.0)


def test_levels_from_all_servers_to_those_of_such_requests():
    assert levels(Kind('p', 'a', 5)) == [
        (),
        ('a',),
        ('a', 'p'),
        ('a', 'p', 3),
        ('a', 'p', 3, 5),
    ]
    assert levels(Kind(None, 'a')) == [(), ('a',)]
    assert levels(ANY) == [()]


@pytest.mark.parametrize(
    'unknown, level',
    [
        pytest.param(Kind('p', 'a', 7), ('a', 'p', 3), id='another number, about as large'),
        pytest.param(Kind('p', 'a', 9), ('a', 'p'), id='another number'),
        pytest.param(Kind('q', 'a', 6), ('a',), id='another project'),
        pytest.param(Kind('p', 'c', 6), (), id='another flavor'),
    ],
)
def test_a_kind_without_counts_is_taken_for_its_level(unknown, level):
    servers = [(Kind('p', 'a', 6), 40.0 * number, 0.0) for number in range(300)]
    servers += [(Kind('p', 'b', 1), 9000.0, 0.0)] * 300
    survival = Survival(of(servers))
    assert survival.alive(unknown).tolist() == survival._alive[level].tolist()
    assert survival.alive(unknown).tolist() != survival.alive(Kind('p', 'a', 6)).tolist()


def test_a_few_servers_change_little():
    """So many as BACK_OFF count half."""
    quick = [(A, 10.0, 0.0)] * 4000
    alone = Survival(of(quick)).alive(A)[1]
    slow = Ends({B: np.stack([np.zeros(STEPS), np.full(STEPS, BACK_OFF)])}, NOW)
    slow.merge(of(quick))
    found = Survival(slow).alive(B)[1]
    assert alone < 0.01
    # Nearly all end; of the flavor half of these; and half again at each of three levels more.
    assert found == pytest.approx(1 - 0.5**4, abs=0.01)


def test_without_any_server_it_is_the_prior():
    survival = Survival(Ends())
    assert survival.alive(A).tolist() == module.surviving(PRIOR).tolist()
    assert survival.alive(A)[1] == pytest.approx(0.5)
    found = rests(survival, A)[2:-1]
    assert found[:40] == sorted(found[:40])  # older servers are expected to last longer


@pytest.mark.parametrize('mean_s', [600.0, HOUR_S, DAY_S])
def test_many_servers_that_end_at_random(mean_s):
    """They have no memory: the rest is the mean at any age that many reach."""
    drawn = np.random.default_rng(1).exponential(mean_s, 20_000).tolist()
    survival = Survival(of([(A, age_s, 0.0) for age_s in drawn]))
    for age_s in (0.0, mean_s / 2, mean_s):
        assert survival.rest_s(A, age_s) == pytest.approx(mean_s, rel=0.1)


def test_servers_that_run_count():
    """Half of the servers ended in an hour, and the others still run: they are not forgotten."""
    ends = of([(A, HOUR_S / 2, 0.0)] * 500)
    short = Survival(ends).rest_s(A, 0.0)
    whole = Survival(ends.with_running([A] * 500, [10 * HOUR_S] * 500, NOW))
    assert whole.alive(A)[12] == pytest.approx(0.5, abs=0.05)
    assert whole.rest_s(A, 0.0) > 5 * short


def test_kinds_are_told_apart():
    survival = Survival(of([(A, 60.0, 0.0), (B, 5 * DAY_S, 0.0)] * 500))
    assert survival.rest_s(A, 0.0) < HOUR_S < DAY_S < survival.rest_s(B, 0.0)


def test_what_is_kept_of_unknown_kinds_is_bounded(monkeypatch):
    monkeypatch.setattr(module, 'MOST_KEPT', 3)
    survival = Survival(of([(A, 60.0, 0.0)]))
    expected = survival.rest_s(ANY, 0.0)
    for number in range(10):
        assert survival.rest_s(Kind('p', f'other-{number}', 1), 0.0) == expected
        assert len(survival._kept) <= 3
