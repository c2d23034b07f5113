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
"""How much a node wants jobs: its own weight, between the empty and the full node's."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nova_sched import errors
from nova_sched.conf import CONF
from nova_sched.engine.decide import weigh
from nova_sched.extensions.queues.fit import ROWS, Score, ends
from nova_sched.extensions.queues.requests import Requests
from nova_sched.hardware import pci
from nova_sched.state.cluster import Cluster
from nova_sched.tests import options
from nova_sched.tests.builders import NOW, aggregate, cluster, put, request, uuid_of
from nova_sched.tests.cases import cases
from nova_sched.tests.rows import each, table
from nova_sched.tests.rules import WEIGHERS
from nova_sched.tests.unit.extensions.queues.catalogues import aggregates, catalogue, flavor, nodes
from nova_sched.weighers import Weigher

ALL = tuple(one() for one in WEIGHERS.values())
RAM = {
    f'filter_scheduler.{name}_weight_multiplier': 0.0 for name in ('cpu', 'disk', 'io_ops', 'pci')
}
PACK = {f'filter_scheduler.{name}_weight_multiplier': -1.0 for name in ('ram', 'cpu', 'disk')}
NEUTRAL = {
    f'filter_scheduler.{name}_weight_multiplier': 0.0
    for name in ('ram', 'cpu', 'disk', 'io_ops', 'pci')
}


def score(made, steps=10, weighers=ALL, wanted=None):
    """The steps of the queues, or of all of them in one."""
    requests = Requests(wanted or catalogue('tiny', 'big'))
    return Score(weighers, requests, steps).of(made.hosts, np.ones(len(requests), bool)).tolist()


@table(
    'values, node, step',
    {
        'empty': ({}, {}, 9),
        'full, and idle': (
            {},
            {'vcpus_used': 16, 'memory_mb_used': 65536, 'disk_gb_used': 1000},
            2,
        ),
        'half': ({}, {'vcpus_used': 8, 'memory_mb_used': 32768, 'disk_gb_used': 500}, 6),
        'more than full': (
            {},
            {'vcpus_used': 99, 'memory_mb_used': 99999, 'disk_gb_used': 1001, 'io_workload': 9},
            0,
        ),
        'only memory is short': ({}, {'memory_mb_used': 65536}, 7),
        'builds have failed': ({}, {'failed_builds': 1}, 0),
        'busy': ({}, {'io_workload': 4}, 8),
        'a tenth of one thing': (RAM, {'memory_mb_used': 65536 // 10}, 9),
        'a little more': (RAM, {'memory_mb_used': 65536 // 10 + 1}, 8),
        'ratios do not count, as ever': (
            RAM,
            {'memory_mb_ratio': 2.0, 'memory_mb_used': 32768},
            5,
        ),
        'what is reserved is not theirs': (
            RAM,
            {'memory_mb_reserved': 32768, 'memory_mb_used': 49152},
            5,
        ),
        'packing: empty': (PACK, {}, 0),
        'packing: full': (
            PACK,
            {'vcpus_used': 16, 'memory_mb_used': 65536, 'disk_gb_used': 1000},
            9,
        ),
        'no opinion: empty': (NEUTRAL, {}, 9),
        'no opinion: full': (NEUTRAL, {'vcpus_used': 16, 'memory_mb_used': 65536}, 9),
        'no opinion, but builds have failed': (NEUTRAL, {'failed_builds': 1}, 0),
        'a node without anything': ({}, {'memory_mb': None, 'vcpus': None, 'disk_gb': None}, 9),
    },
)
def test_the_step_of_a_node(values, node, step):
    with options.settings(values):
        assert score(cluster(1, **node)) == step


@each('steps', [1, 2, 10, 255])
def test_steps_fill_their_scale(steps):
    used = [round(65536 * share / (2 * steps)) for share in range(2 * steps + 1)]
    with options.settings(RAM):
        found = {score(cluster(1, memory_mb_used=amount), steps) for amount in used}
    assert found == set(range(steps))


def test_an_aggregate_may_turn_a_weigher_round():
    packing = aggregate(1, ['host-0'], ram_weight_multiplier='-1.0')
    with options.settings(RAM):
        assert [score(cluster(1, some)) for some in ([], [packing])] == [9, 0]


def test_a_weigher_that_looks_at_the_request_scores_each_flavor():
    class Likes(Weigher):
        option = 'ram_weight_multiplier'
        request_facts = ('vcpus',)

        def raw(self, hosts, rows, request):
            return hosts.free_ram_mb[rows] * (1 if request.vcpus > 1 else -1)

    wanted = catalogue('tiny', flavor('big', 2), flavor('other', 2), specials=['zone:a'])
    made = cluster(1, memory_mb_used=1024)
    assert score(made, 10, [Likes()], wanted) == [0, 0, 9, 9, 9, 9]


def test_metrics_that_are_required_and_missing_are_no_score():
    wanted = {'metrics.weight_setting': ['cpu.percent=1.0'], 'metrics.required': True}
    with options.settings(wanted), pytest.raises(errors.BadConfig, match=r'cpu\.percent'):
        score(cluster(1))


def three(found, one):
    """A cluster of the node without instances, as it is, and full, as reports would tell."""
    made = Cluster()
    made.hosts.now_s = NOW
    filled = {
        name: inventory.capacity + inventory.reserved
        for name, inventory in one.inventories.items()
    }
    limits = CONF.filter_scheduler
    pools = pci.pools_from_json(one.pci_pools) if one.pci_pools else ()
    none_left = (
        pci.pools_to_json([dataclasses.replace(pool, count=0) for pool in pools])
        if pools
        else None
    )
    here = max(len(one.instances), 0)
    full = {
        'used': filled,
        'num_instances': max(here, limits.max_instances_per_host),
        'io_workload': max(one.io_workload, limits.max_io_ops_per_host),
        'pci_pools': none_left,
    }
    for name, fields in ('empty', {'used': {}, 'io_workload': 0}), ('now', {}), ('full', full):
        fields = {'host': name, 'nodename': name, 'node_uuid': uuid_of(name), **fields}
        if name != 'now':
            fields |= {'instances': None, 'failed_builds': 0}
        put(made, dataclasses.replace(one, **fields))
    for group in found:
        hosts = frozenset(['empty', 'now', 'full'] if 'host-0' in group.hosts else [])
        made.set_aggregate(group.id, dataclasses.replace(group, hosts=hosts))
    return made


@pytest.mark.parametrize('weigher', ALL, ids=lambda weigher: weigher.name)
@given(found=aggregates(), node=nodes(), multiplier=st.sampled_from([1.0, 3.0]))
@settings(max_examples=cases(12))
def test_the_three_are_what_reports_would_tell(weigher, found, node, multiplier):
    one = node[0]
    made = Cluster()
    put(made, one)
    for group in found:
        made.set_aggregate(group.id, group)
    made.hosts.now_s = NOW
    with options.settings({f'{weigher.group}.{weigher.option}': multiplier}):
        expected = weigh([weigher], three(found, one).hosts, ROWS, request())
        assert weigh([weigher], ends(made.hosts), ROWS, request()).tolist() == expected.tolist()


def test_the_node_itself_stays_as_it_is():
    made = cluster(1, vcpus_used=3, failed_builds=2, traits=frozenset(['HW_A']))
    states = ends(made.hosts)
    states.vcpus_used[:] = 7
    states.failed_builds[:] = 7
    assert (made.hosts.vcpus_used.tolist(), made.hosts.failed_builds.tolist()) == ([3], [2])
    assert states.has_trait('HW_A').tolist() == [True] * 3
    assert states.spare_vcpus.tolist() == [16.0, 13.0, 0.0]
    assert states.resource('CUSTOM_NONE').free.tolist() == [0, 0, 0]
    assert 'CUSTOM_NONE' not in made.hosts.resources
    assert [states.state(row).host for row in ROWS] == ['host-0'] * 3
