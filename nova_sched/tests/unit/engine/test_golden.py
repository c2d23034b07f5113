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
"""What the whole of Nova chose, and what our engine chooses on the same hosts for the same requests.

As in the recording, nothing but the filters refuses: no rule is always on, and cluster and store grant
every claim. Where a rule of Nova waits for a later release, its recorded answer takes its place.
"""

import numpy as np
import pytest

from nova_sched import errors, objects
from nova_sched.engine import catalog
from nova_sched.filters import Filter
from nova_sched.objects.claiming import Claim
from nova_sched.rpc import translate
from nova_sched.state.cluster import Booking, Cluster
from nova_sched.tests.reference import golden, nine_nodes, wire
from nova_sched.tests.unit.engine.stores import Generous
from nova_sched.tests.unit.engine.world import World
from nova_sched.weighers import Weigher

SELECTIONS, MATRIX, WEIGHTS = golden('selections'), golden('filter-matrix'), golden('weights')
FILTERS, WEIGHERS = catalog.known('nova_sched.filters'), catalog.known('nova_sched.weighers')

# Filters of the recording that wait for a later release.
WAITING_FILTERS = {
    'AggregateInstanceExtraSpecsFilter',
    'AggregateIoOpsFilter',
    'AggregateMultiTenancyIsolation',
    'AggregateNumInstancesFilter',
    'AggregateTypeAffinityFilter',
    'IoOpsFilter',
    'JsonFilter',
    'NUMATopologyFilter',
    'NumInstancesFilter',
    'PciPassthroughFilter',
    'SimpleCIDRAffinityFilter',
}
# Those whose answer depends on what the request has taken already; recorded is that for the first instance.
COUNTING_FILTERS = {
    'AggregateIoOpsFilter',
    'AggregateNumInstancesFilter',
    'IoOpsFilter',
    'NUMATopologyFilter',
    'NumInstancesFilter',
    'PciPassthroughFilter',
}
# Weighers of the recording that wait. Others wait too, but weigh nothing without an option that was not set.
WAITING_WEIGHERS = {'BuildFailureWeigher', 'CrossCellWeigher', 'HypervisorVersionWeigher', 'PCIWeigher'}
IDLE_WEIGHERS = {
    'ImagePropertiesWeigher': 'image_props_weight_multiplier',
    'MetricsWeigher': 'weight_setting',
    'NumInstancesWeigher': 'num_instances_weight_multiplier',
}


def enabled(run):
    return SELECTIONS['filter_sets'][run['filters']]


def waits_for(run):
    """The filters without which the run cannot be repeated: their recorded answer is not enough."""
    return COUNTING_FILTERS & WAITING_FILTERS & set(enabled(run)) if run['num_instances'] > 1 else set()


def label(run):
    return f'{run["scenario"]}-{run["filters"]}'


RUNS = SELECTIONS['runs']
COMPARED = [run for run in RUNS if not waits_for(run)]
# How many runs are compared: with our filters alone, with recorded answers of filters, and how many wait.
COUNTS = {'default': 28, 'many': 23, 'waiting': 5}


class Recorded:
    """The recorded answers of one of Nova's rules for one scenario: one for each of the nine hosts."""

    def __init__(self, name):
        self._name = name

    @property
    def name(self):
        return self._name


class RecordedFilter(Recorded, Filter):
    def __init__(self, name, scenario):
        super().__init__(name)
        passes = MATRIX['matrix'][scenario][name]
        self._passes = np.array([passes['*'] if '*' in passes else passes[host] for host in MATRIX['hosts']])
        assert self._passes.dtype == bool

    def mask(self, hosts, request):
        return self._passes


class RecordedWeigher(Recorded, Weigher):
    def __init__(self, name, scenario):
        super().__init__(name)
        self.minval, self.maxval = WEIGHTS['minval_maxval'][name]
        self._numbers = WEIGHTS['scenarios'][scenario]['weighers'][name]

    def raw(self, hosts, rows, request):
        return np.array(self._numbers['raw'], dtype=float)[rows]

    def multiplier(self, hosts, rows):
        return np.array(self._numbers['multiplier'])[rows]


class Granting(Cluster):
    """A cluster that books whatever is asked for."""

    def book(self, node, request, lifetime_s=None, request_id=None):
        made = Claim(request.instance_uuid, node.uuid, request.resources)
        self.add(made)
        return Booking(made, made, None)


def chain(run):
    """The rules of a run: ours, and what is recorded of those that wait."""
    scenario = run['scenario']
    filters = [
        RecordedFilter(name, scenario) if name in WAITING_FILTERS else catalog.filters([name])[0]
        for name in enabled(run)
    ]
    weighers = [RecordedWeigher(name, scenario) for name in sorted(WAITING_WEIGHERS)]
    return catalog.Rules((), tuple(filters), (*catalog.weighers(), *weighers))


def repeat(run):
    """What our engine selects: for each instance the hosts, the chosen one first."""
    arguments = wire(f'select_destinations-{run["scenario"]}')['message']['args']
    spec = objects.from_primitive(arguments['spec_obj'])
    requests = translate.requests(spec, arguments['instance_uuids'][: run['num_instances']])
    world = World(Generous(), chain(run), cluster=nine_nodes(Granting()))
    world.now_s = world.cluster.hosts.now_s
    future = world.send_place(*requests, alternates=run['return_alternates'])
    world.turn_until(future)
    return future.result()


@pytest.mark.parametrize('run', COMPARED, ids=label)
def test_selection(run):
    if 'raised' in run:
        with pytest.raises(getattr(errors, run['raised'])) as refused:
            repeat(run)
        assert str(refused.value).startswith(run['message'])
        return
    selected = repeat(run)
    assert [[[one.host, one.nodename] for one in chosen] for chosen in selected] == run['selected']
    zones = {one.availability_zone for chosen in selected for one in chosen}
    assert sorted(zones) == run['availability_zones']


def test_the_counts():
    found = dict.fromkeys(COUNTS, 0)
    for run in RUNS:
        found['waiting' if waits_for(run) else run['filters']] += 1
    assert found == COUNTS
    assert len(RUNS) == sum(COUNTS.values())


def test_what_waits_is_what_is_not_there():
    """A rule that has come is taken out of these sets, and its runs are compared with it."""
    named = {name for names in SELECTIONS['filter_sets'].values() for name in names}
    assert named - FILTERS.keys() == WAITING_FILTERS
    assert WEIGHTS['minval_maxval'].keys() - WEIGHERS.keys() == WAITING_WEIGHERS | IDLE_WEIGHERS.keys()


def test_the_default_set_has_nothing_that_waits():
    assert not WAITING_FILTERS & set(SELECTIONS['filter_sets']['default'])


@pytest.mark.parametrize('option', IDLE_WEIGHERS.values())
def test_an_idle_weigher_had_nothing_to_weigh_by(option):
    assert not any(option in one for one in SELECTIONS['options'])
