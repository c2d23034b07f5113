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
"""nova-sched-sim --model: queues and the scheduler place the same servers on the same nodes."""

import json

import pytest

from nova_sched.conf import CONF
from nova_sched.sim import trace
from nova_sched.sim.models import comparison, load
from nova_sched.sim.models.cloud import COMMAND_S
from nova_sched.tests.fixtures import warm
from nova_sched.tests.options import settings
from nova_sched.tests.unit.sim.builders import arrival, plan

LARGE, TWO = trace.TraceFlavor('large', 6, 2048), trace.TraceFlavor('two', 2, 2048)
PACKING = {f'filter_scheduler.{name}_weight_multiplier': -1.0 for name in ('ram', 'cpu', 'disk')}
BOTH = pytest.mark.parametrize('model', comparison.MODELS)


def play(tmp_path, model, arrivals, words=None, options=None, **facts):
    """The Tally of a run on a small fleet; the demand is just what the arrivals ask for."""
    made = plan(**(words or {}))
    able = made.nodes * made.shape.vcpus
    wanted = {
        'zoned': 0.0,
        'build_s': 1.0,
        'slots': 8,
        'fullness': load.peak_vcpus(arrivals) / able,
    }
    with settings(options or {}):
        run = comparison.Run(
            comparison.ComparisonSettings(made, **(wanted | facts)), arrivals, CONF, tmp_path
        )
        return getattr(comparison, model)(run, lambda tally, now_s: None)


def outcome(tally):
    return {
        'placed': tally.placed,
        'refused': tally.refused,
        'failed': tally.failed,
        'left': tally.left,
    }


@pytest.mark.parametrize(
    'arrivals, words, facts, found',
    [
        pytest.param([arrival(5)], {}, {}, {'placed': 5}, id='all fit'),
        pytest.param(
            [arrival(5, lifetime_s=60.0)], {}, {}, {'placed': 5, 'left': 5}, id='all leave again'
        ),
        pytest.param(
            [arrival(5, flavor=LARGE)],
            {'nodes': 4},
            {},
            {'placed': 4, 'refused': 1},
            id='one has no room',
        ),
        pytest.param([arrival(3)], {'failing': 1.0}, {}, {'failed': 3}, id='no build succeeds'),
        pytest.param(
            [arrival(3)], {'disabled': 1.0}, {}, {}, id='nobody asks for nodes that are disabled'
        ),
        pytest.param([arrival(5)], {'zones': 3}, {'zoned': 1.0}, {'placed': 5}, id='all in zones'),
        pytest.param(
            [arrival(5)], {}, {'by_rule': 1.0}, {'placed': 5}, id='by rule the scheduler decides'
        ),
        pytest.param([arrival(5)], {}, {'database': False}, {'placed': 5}, id='claims in memory'),
        pytest.param(
            [arrival(12)],
            {},
            {'prefill': 0.5, 'fullness': 1.0},
            {'placed': 12},
            id='half full before',
        ),
    ],
)
@BOTH
def test_both_models_place_the_same(tmp_path, model, arrivals, words, facts, found):
    tally = play(tmp_path, model, arrivals, words, **facts)
    assert outcome(tally) == {'placed': 0, 'refused': 0, 'failed': 0, 'left': 0} | found
    assert tally.violations == []


@pytest.mark.parametrize(
    'by_rule', [pytest.param(0.0, id='from queues'), pytest.param(1.0, id='by rule')]
)
@BOTH
def test_each_server_waits_for_its_claim_and_then_for_its_build(tmp_path, model, by_rule):
    tally = play(tmp_path, model, [arrival(5)], by_rule=by_rule)
    assert len(tally.waits_s) == len(tally.runs_s) == 5
    assert 0.005 <= min(tally.waits_s) <= max(tally.waits_s) < 0.1
    assert 0.5 <= min(tally.runs_s) <= max(tally.runs_s) < 1.6


def test_the_jobs_of_a_batch_are_sent_one_after_the_other(tmp_path):
    tally = play(tmp_path, 'queues', [arrival(4)], {'nodes': 4})
    first = min(tally.waits_s)
    assert sorted(tally.waits_s) == pytest.approx(
        [first + number * COMMAND_S for number in range(4)]
    )


def test_a_small_server_of_a_burst_waits_for_a_free_slot(tmp_path):
    """One node builds one after the other: what is not taken in time, the scheduler decides."""
    facts = {'slots': 1, 'build_s': 10.0, 'fallback_after_s': 15.0}
    tally = play(tmp_path, 'queues', [arrival(6)], {'nodes': 1}, **facts)
    assert outcome(tally)['placed'] == 6
    assert tally.rescued == 4
    assert max(tally.waits_s) > 5.0
    assert tally.violations == []


@pytest.mark.parametrize(
    'options, in_use',
    [
        pytest.param({}, 4, id='spreading'),
        pytest.param(PACKING, 2, id='packing'),
    ],
)
@BOTH
def test_weights_work_in_both_models(tmp_path, model, options, in_use):
    """Fourteen servers that come one after the other need two of four nodes, or use all."""
    arrivals = [arrival(1, time_s=400.0 * number) for number in range(14)]
    tally = play(
        tmp_path, model, arrivals, {'nodes': 4}, options, steps=100, build_s=0.1, hours=2.0
    )
    assert (tally.placed, tally.samples[-1].nodes_in_use) == (14, in_use)


def test_the_broker_spreads_as_the_scheduler_would(tmp_path):
    """With a step for each server that a node takes, no host is liked better than the one that is
    served."""
    arrivals = [arrival(1, time_s=400.0 * number) for number in range(14)]
    tally = play(tmp_path, 'queues', arrivals, {'nodes': 4}, steps=100, build_s=0.1, hours=2.0)
    assert tally.ranks == [(0, 4)] * 14


def test_with_one_step_no_node_is_preferred(tmp_path):
    arrivals = [arrival(1, flavor=TWO, time_s=400.0 * number) for number in range(8)]
    tally = play(
        tmp_path, 'queues', arrivals, {'nodes': 4}, PACKING, steps=1, build_s=0.1, hours=1.0
    )
    assert (tally.placed, tally.samples[-1].nodes_in_use) == (8, 4)
    assert tally.mean_rank > 0.2


def test_what_goes_over_the_wires_for_one_server(tmp_path):
    """A create and a delete, of which each is a job, a result and an answer; and two reports."""
    arrivals = [arrival(1, lifetime_s=60.0)]
    tally = play(tmp_path, 'queues', arrivals, {'nodes': 1})
    assert tally.kinds == {'flavor': 1, 'host': 1, 'results': 2, 'reply': 2}
    assert tally.calls == {'instance_claim': 1, 'confirm_claim': 1, 'show': 2, 'abort_claim': 1}
    assert (tally.reports, tally.wire['deliver'], tally.wire['ack']) == (2, 6, 6)
    assert tally.statements['COMMIT'] > 0


def test_more_queues_are_more_subscriptions_and_no_other_outcome(tmp_path):
    specials = ['trait:CUSTOM_A', 'resource:CUSTOM_B', 'trait:CUSTOM_C']
    tally = play(tmp_path, 'queues', [arrival(5)], more_flavors=9, more_specials=specials)
    assert (tally.placed, tally.queues) == (5, 10 * 4)
    assert tally.first_subscriptions > 3 * 10


def run_command(*options):
    return warm.run('nova_sched.cmd.sim', options)


def test_the_same_seed_gives_the_same_run():
    options = [
        '--model',
        'both',
        '--nodes',
        '4',
        '--hours',
        '0.2',
        '--format',
        'json',
        '--memory-store',
    ]
    first, second = (run_command(*options) for _ in range(2))
    assert (first.returncode, second.returncode) == (0, 0), first.stderr
    one, other = (_without_real_time(json.loads(run.stdout)) for run in (first, second))
    assert one == other
    assert one['queues']['placed'] > 0


def _without_real_time(found):
    """What does not depend on how fast this machine is, or how much memory it takes."""
    real = ('cpu_ms', 'took_s', 'start_s', 'memory_mib')
    return {model: {name: value for name, value in figures.items() if not name.startswith(real)}
            for model, figures in found.items()}  # fmt: skip


@pytest.mark.parametrize(
    'options, why',
    [
        pytest.param(
            ['--model', 'both', '--embedded'], 'leave --embedded out', id='two schedulers'
        ),
        pytest.param(['--model', 'push'], 'invalid choice', id='no such model'),
        pytest.param([], '--model', id='no scheduler at all'),
    ],
)
def test_wrong_usage_is_told(options, why):
    found = run_command(*options)
    assert found.returncode == 2
    assert why in found.stderr
