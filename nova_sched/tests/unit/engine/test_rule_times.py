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
"""Rules that are measured: one decision of many, with the same result."""

import pytest

from nova_sched.engine.measuring import MeasuredRule, RuleTimes
from nova_sched.measures.catalogue import MEASURES, RULE_SAMPLES, RULE_SECONDS
from nova_sched.tests.builders import report, request
from nova_sched.tests.unit.engine.world import Score, World, rules

CAPACITY = 'filter', 'ResourceCapacity'


@pytest.fixture(autouse=True)
def shown(monkeypatch):
    monkeypatch.setattr(MEASURES, 'is_on', True)
    for measure in (RULE_SAMPLES, RULE_SECONDS):
        measure.clear()


def test_one_decision_of_many_is_measured():
    made = RuleTimes(every=3)
    assert [made.is_due() for _ in range(6)] == [False, False, True] * 2


@pytest.mark.parametrize('is_on', [False, True])
def test_a_measured_decision_counts_its_rules(monkeypatch, is_on):
    monkeypatch.setattr(MEASURES, 'is_on', is_on)
    made = World(chain=rules([], [Score(1, 3, 2)]))
    made.report(*(report(f'host-{row}', vcpus=4) for row in range(3)))
    placer = made.scheduler.placer
    placer._times = RuleTimes(every=1)
    placer.follow(placer.rules)
    decision = placer.decide([request(vcpus=1)], made.scheduler._settings())
    assert placer.cluster.hosts.nodes[decision.rows[0]].host == 'host-1'
    counts = [RULE_SAMPLES.values.get(one) for one in (('weigher', 'Score'), CAPACITY)]
    assert counts == ([1, 1] if is_on else [None, None])
    assert RULE_SECONDS.values.get(CAPACITY, 0) >= 0


def test_answers_that_are_kept_for_a_rule_serve_the_measured_one():
    rule = Score(1)
    measured = MeasuredRule(rule, 'weigher')
    assert {(rule, 1): 'kept'}[measured, 1] == 'kept'
    assert {(measured, 1): 'kept'}[rule, 1] == 'kept'
    assert measured != Score(1)
