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
"""Every recorded weight of Nova's weighers: equal, through both faces."""

import types

import numpy as np
import pytest

from nova_sched.tests.options import settings
from nova_sched.tests.reference import golden, nine_hosts, nova_states, request_of, scenario
from nova_sched.tests.rows import each
from nova_sched.tests.rules import WEIGHERS
from nova_sched.weighers import normalize

WEIGHTS = golden('weights')
ROWS = golden('normalize')['rows']
EVERY_ROW = np.arange(len(WEIGHTS['hosts']))

# Recorded answers: raw, normalised and multiplier of nine hosts each.
COUNTS = {'weights': 28 * 13 * 9 * 3, 'orders': 28, 'normalize': 12}
OPTIONS = {
    'metrics.weight_setting': WEIGHTS['options']['[metrics] weight_setting'].split(', '),
    'metrics.required': WEIGHTS['options']['[metrics] required'],
    'filter_scheduler.image_props_weight_multiplier': WEIGHTS['options'][
        '[filter_scheduler] image_props_weight_multiplier'
    ],
}


@pytest.fixture(autouse=True)
def as_recorded():
    """The options that the recorded weighers had."""
    with settings(OPTIONS):
        yield


def test_every_weigher_of_nova_is_here():
    own = {'ExitTimeWeigher', 'FragmentationWeigher'}
    assert set(WEIGHTS['minval_maxval']) == set(WEIGHERS) - own


def test_no_case_is_lost():
    cells = sum(
        len(numbers)
        for recorded in WEIGHTS['scenarios'].values()
        for columns in recorded['weighers'].values()
        for numbers in columns.values()
    )
    orders = sum('order' in recorded for recorded in WEIGHTS['scenarios'].values())
    assert {'weights': cells, 'orders': orders, 'normalize': len(ROWS)} == COUNTS


@each('name', WEIGHTS['scenarios'])
@each('weigher', WEIGHTS['minval_maxval'])
def test_weights(weigher, name):
    rule, recorded = WEIGHERS[weigher](), WEIGHTS['scenarios'][name]['weighers'][weigher]
    seen, asked = nine_hosts(), request_of(name)
    raw = rule.raw(seen, EVERY_ROW, asked)
    raw = np.zeros(len(seen)) if raw is None else raw
    assert raw.tolist() == recorded['raw']
    assert normalize(raw, rule.minval, rule.maxval).tolist() == recorded['normalized']
    assert (
        np.broadcast_to(rule.multiplier(seen, EVERY_ROW), len(seen)).tolist()
        == recorded['multiplier']
    )


@each('name', WEIGHTS['scenarios'])
@each('weigher', WEIGHTS['minval_maxval'])
def test_weights_of_single_host_states(weigher, name):
    rule, recorded = WEIGHERS[weigher](), WEIGHTS['scenarios'][name]['weighers'][weigher]
    states = nova_states()
    boxes = [types.SimpleNamespace(obj=state, weight=0.0) for state in states]
    assert rule.weigh_objects(boxes, scenario(name)) == recorded['raw']
    assert [rule.weight_multiplier(state) for state in states] == recorded['multiplier']


@each('name', WEIGHTS['scenarios'])
def test_order(name):
    recorded, seen, asked = WEIGHTS['scenarios'][name], nine_hosts(), request_of(name)
    total = np.zeros(len(seen))
    for weigher in recorded['weighers']:
        rule = WEIGHERS[weigher]()
        raw = rule.raw(seen, EVERY_ROW, asked)
        if raw is not None:
            total += normalize(raw, rule.minval, rule.maxval) * rule.multiplier(seen, EVERY_ROW)
    ranks = np.argsort(-total, kind='stable')
    order = [(seen.nodes[row].host, seen.nodes[row].nodename) for row in ranks]
    assert order == [(host, nodename) for host, nodename, _ in recorded['order']]
    assert total[ranks].tolist() == pytest.approx([weight for _, _, weight in recorded['order']])


@each('row', [pytest.param(row, id=str(number)) for number, row in enumerate(ROWS)])
def test_normalize(row):
    scaled = normalize(np.array(row['weights'], dtype=float), row['minval'], row['maxval'])
    assert list(scaled) == row['result']
