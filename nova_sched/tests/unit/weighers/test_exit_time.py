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
"""ExitTimeWeigher: its weights."""

import numpy as np
import pytest

from nova_sched.engine.decide import weigh
from nova_sched.tests.builders import NOW, cluster, nova_like, request, spec, uuid_of
from nova_sched.tests.options import settings
from nova_sched.tests.rows import each
from nova_sched.weighers.exit_time import FOREVER_S, ExitTimeWeigher

MULTIPLIER = 'filter_scheduler.exit_time_weight_multiplier'


def asked(name, ttl_s=None):
    hints = {} if ttl_s is None else {'ttl': [ttl_s]}
    return request(instance_uuid=uuid_of(str(name)), hints=hints, vcpus=1, memory_mb=1)


@pytest.fixture
def made():
    """Four hosts: empty, until 900 s, until 3600 s, and with a server of unknown end."""
    held = cluster(4)
    held.hosts.now_s = NOW
    for row, ttl_s in ((1, 900.0), (2, 3600.0), (3, None)):
        held.consume(held.hosts.nodes[row], asked(row, ttl_s))
    return held


def raw(made, ttl_s, hosts=None):
    hosts = made.hosts if hosts is None else hosts
    return ExitTimeWeigher().raw(hosts, np.arange(len(hosts)), asked('new', ttl_s)).tolist()


@each(
    'ttl_s, extensions_s',
    [
        pytest.param(900.0, [900, 0, 0, 0], id='as long as another'),
        pytest.param(1200.0, [1200, 300, 0, 0], id='a step longer'),
        pytest.param(7200.0, [7200, 6300, 3600, 0], id='longer than all'),
        pytest.param(0.0, [0, 0, 0, 0], id='no time at all'),
        pytest.param(
            None, [FOREVER_S, FOREVER_S - 900, FOREVER_S - 3600, 0], id='its end is not known'
        ),
        pytest.param(
            2 * FOREVER_S, [FOREVER_S, FOREVER_S - 900, FOREVER_S - 3600, 0], id='in years'
        ),
    ],
)
def test_a_weight_is_the_extension(made, ttl_s, extensions_s):
    expected = -np.log2(1 + np.array(extensions_s) / 300)
    assert raw(made, ttl_s) == pytest.approx(expected.tolist())


def test_an_end_that_has_passed_is_now(made):
    made.hosts.now_s += 1800.0
    expected = -np.log2(1 + np.array([600, 600, 0, 0]) / 300)
    assert raw(made, 600.0) == pytest.approx(expected.tolist())


def test_some_hosts(made):
    rows = np.array([3, 1])
    expected = [raw(made, 7200.0)[row] for row in rows]
    assert raw(made, 7200.0, made.hosts.what_if(rows)) == expected


def test_the_scale_is_the_same_for_every_request(made):
    """The host that is extended least gets no weight of 1 for that alone."""
    rows = np.arange(4)
    with settings({MULTIPLIER: 1.0}):
        weights = weigh([ExitTimeWeigher()], made.hosts, rows, asked('new', 1200.0))
    expected = 1 + np.array(raw(made, 1200.0)) / np.log2(1 + FOREVER_S / 300)
    assert weights == pytest.approx(expected)


def test_it_is_off_by_default(made):
    weights = weigh([ExitTimeWeigher()], made.hosts, np.arange(4), asked('new', 1200.0))
    assert not weights.any()


def test_a_host_state_of_nova_has_no_ends(made):
    state = nova_like(made.hosts.state(0))
    assert ExitTimeWeigher()._weigh_object(state, spec()) == 0.0
