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
"""What every weigher keeps, whatever its rule."""

import functools
import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nova_sched.conf import CONF
from nova_sched.state.request import RequestedDestination
from nova_sched.tests.builders import aggregate, hosts, nova_like, request, spec, uuid_of
from nova_sched.tests.cases import cases
from nova_sched.tests.options import settings as options
from nova_sched.tests.reference import golden
from nova_sched.tests.rows import each
from nova_sched.tests.rules import WEIGHERS
from nova_sched.tests.unit.strategies import clusters, words
from nova_sched.tests.unit.traced import TracedRequest
from nova_sched.weighers import Weigher

every_weigher = each('rule', [one() for one in WEIGHERS.values()], ids=lambda rule: rule.name)
OTHER = uuid_of('other')
OWN_BOUNDS = {'ExitTimeWeigher': [pytest.approx(-13.077, abs=0.001), 0.0]}
METRICS = '[{"name": "cpu.percent", "value": 0.5}]'
REQUESTS = {
    'plain': {},
    'soft-affinity': {'group': {'policy': 'soft-affinity', 'members': [OTHER]}},
    'soft-anti-affinity': {'group': {'policy': 'soft-anti-affinity', 'members': [OTHER]}},
    'another cell': {
        'destination': RequestedDestination(cell_uuid=OTHER, allow_cross_cell_move=True)
    },
    'an image': {'image_properties': {'os_distro': 'ubuntu', 'hw_qemu_guest_agent': True}},
}


def multiplier_of(rule):
    """The multiplier of hosts that no aggregate says anything of."""
    return rule.sign * CONF[rule.group][rule.option]


def key_of(rule):
    return rule.key or rule.option


@pytest.fixture(scope='module', autouse=True)
def every_rule_at_work():
    """Options without which some rules have nothing to say."""
    with options(
        {
            'filter_scheduler.image_props_weight_multiplier': 1.0,
            'metrics.weight_setting': ['cpu.percent=1'],
            'metrics.required': False,
        }
    ):
        yield


shared_hosts = functools.cache(hosts)  # rules only read them


def rows_of(n):
    return np.arange(n, dtype=np.intp)


@every_weigher
@each('asked', REQUESTS)
@each('n', [0, 1, 1000])
def test_a_weight_is_a_finite_number_for_each_row(rule, asked, n):
    seen = shared_hosts(n)
    weights = rule.raw(seen, rows_of(n), request(**REQUESTS[asked]))
    if weights is not None:
        assert weights.shape == (n,)
        assert weights.dtype.kind in 'if'
        assert np.isfinite(weights).all()
    multiplier = rule.multiplier(seen, rows_of(n))
    assert np.isfinite(multiplier).all()
    assert np.broadcast_to(multiplier, n).shape == (n,)


@every_weigher
@each('asked', REQUESTS)
@each('rows', [[], [2], [3, 0, 2]])
def test_only_the_given_rows_are_weighed_in_their_order(rule, asked, rows):
    seen = hosts(
        vcpus=[1, 2, 3, 4],
        memory_mb=[10, 20, 30, 40],
        disk_gb=[4, 3, 2, 1],
        io_workload=[3, 1, 4, 1],
        instances=[{OTHER}, set(), {OTHER}, set()],
        failed_builds=[0, 3, 1, 2],
        num_instances=[9, 7, 8, 7],
        hypervisor_version=[None, 2000000, 2001000, 1],
        metrics=[METRICS, METRICS, METRICS, METRICS],
        cell_uuid=[OTHER, None, uuid_of('cell'), OTHER],
        aggregates=[aggregate(1, ['host-2'], **{key_of(rule): '0.25'})],
    )
    seen.places.learn(OTHER, {'os_distro': 'ubuntu'})
    wanted = request(**REQUESTS[asked])
    whole = rule.raw(seen, rows_of(4), wanted)
    some = rule.raw(seen, np.array(rows, dtype=np.intp), wanted)
    assert whole is some is None or np.array_equal(whole[rows], some)
    factors = rule.multiplier(seen, np.array(rows, dtype=np.intp))
    assert factors.tolist() == [
        rule.sign * 0.25 if row == 2 else multiplier_of(rule) for row in rows
    ]


@every_weigher
def test_a_rule_says_what_it_is(rule):
    assert isinstance(rule, Weigher)
    assert type(rule).__doc__.strip().endswith('.')
    assert rule.name == type(rule).__name__
    bounds = {**OWN_BOUNDS, **golden('weights')['minval_maxval']}
    assert [rule.minval, rule.maxval] == bounds.get(rule.name, [None, None])


@settings(max_examples=cases(50))
@given(plain=st.booleans(), data=st.data())
def test_both_faces_agree(plain, data):
    seen, asked = data.draw(clusters(plain)), data.draw(words)
    rows, states = rows_of(len(seen)), [seen.state(row) for row in range(len(seen))]
    for name, make in WEIGHERS.items():
        if name == 'ExitTimeWeigher':
            continue  # Nova's host states have no ends of servers
        rule = make()
        weights = rule.raw(seen, rows, request(**asked))
        weights = np.zeros(len(seen)) if weights is None else weights
        factors = np.broadcast_to(rule.multiplier(seen, rows), len(seen)).tolist()
        raised = weights if rule.minval is None else np.maximum(weights, rule.minval)
        for faces in (states, [nova_like(state) for state in states]):
            boxes = [types.SimpleNamespace(obj=one, weight=0.0) for one in faces]
            assert (name, [rule._weigh_object(one, spec(**asked)) for one in faces]) == (
                name,
                weights.tolist(),
            )
            assert (name, [rule.weight_multiplier(one) for one in faces]) == (name, factors)
            assert (name, rule.weigh_objects(boxes, spec(**asked))) == (name, raised.tolist())


@every_weigher
@each(
    'texts, factor',
    [
        pytest.param(['7'], 7.0, id='one'),
        pytest.param(['7', '-2.5'], -2.5, id='the smallest'),
        pytest.param([' 3 '], 3.0, id='blanks'),
        pytest.param(['abc'], None, id='no number'),
        pytest.param(['1', 'abc'], None, id='a number beside no number'),
        pytest.param(['nan'], None, id='not a number'),
        pytest.param(['inf'], None, id='no end'),
        pytest.param([], None, id='no override'),
    ],
)
def test_an_aggregate_overrides_the_multiplier(rule, texts, factor):
    aggregates = [
        aggregate(number, ['host-0'], **{key_of(rule): text}) for number, text in enumerate(texts)
    ]
    seen = hosts(2, aggregates)
    default = multiplier_of(rule)
    wanted = [default if factor is None else rule.sign * factor, default]
    assert np.broadcast_to(rule.multiplier(seen, rows_of(2)), 2).tolist() == wanted
    assert [rule.weight_multiplier(seen.state(row)) for row in range(2)] == wanted


@every_weigher
def test_the_option_is_read_when_it_is_needed(rule):
    with options({f'{rule.group}.{rule.option}': 0.5}):
        assert rule.multiplier(hosts(1), rows_of(1)) == rule.sign * 0.5


@settings(max_examples=cases(30))
@given(seen=clusters(), asked=words | st.sampled_from(list(REQUESTS.values())))
def test_a_rule_reads_of_the_request_what_it_declares(seen, asked):
    for name, make in WEIGHERS.items():
        rule, wanted = make(), TracedRequest(request(**asked))
        assert rule.request_facts is not None, name
        rule.raw(seen, rows_of(len(seen)), wanted)
        assert (name, wanted.beyond(rule.request_facts)) == (name, set())
