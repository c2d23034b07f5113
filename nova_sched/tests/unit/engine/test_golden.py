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
"""What the whole of Nova chose, and what our engine chooses on the same hosts for the same
requests.

As in the recording, nothing but the filters refuses: no rule is always on, and cluster and store
grant every claim.
"""

import collections
import dataclasses

import pytest

from nova_sched import errors, objects
from nova_sched.claim import Claim
from nova_sched.engine import catalog
from nova_sched.rpc import translate
from nova_sched.state.cluster import Cluster, Consumption
from nova_sched.tests.reference import golden, nine_nodes, wire
from nova_sched.tests.rows import each
from nova_sched.tests.unit.engine.stores import Generous
from nova_sched.tests.unit.engine.world import World

SELECTIONS = golden('selections')


def label(run):
    return f'{run["scenario"]}-{run["filters"]}'


RUNS = SELECTIONS['runs']
COUNTS = {'default': 28, 'many': 28}


class Granting(Cluster):
    """A cluster that claims whatever is asked for."""

    def consume(self, node, request, lifetime_s=None, **marks):
        made = Claim(request.instance_uuid, node.uuid, request.resources)
        self.add(made)
        return Consumption(made, made, None)


def chain(run):
    """The rules of a run."""
    return catalog.Rules(
        (), catalog.filters(SELECTIONS['filter_sets'][run['filters']]), catalog.weighers()
    )


def repeat(run):
    """What our engine selects: for each instance the hosts, the chosen one first."""
    arguments = wire(f'select_destinations-{run["scenario"]}')['message']['args']
    spec = objects.from_primitive(arguments['spec_obj'])
    requests = [
        dataclasses.replace(one, groups=(), fallback_vcpus=0)  # Placement granted them too
        for one in translate.requests(spec, arguments['instance_uuids'][: run['num_instances']])
    ]
    world = World(Generous(), chain(run), cluster=nine_nodes(Granting()))
    world.now_s = world.cluster.hosts.now_s
    future = world.send_place(*requests, alternates=run['return_alternates'])
    world.turn_until(future)
    return future.result()


@each('run', RUNS, ids=label)
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


def test_no_run_is_lost():
    assert collections.Counter(run['filters'] for run in RUNS) == COUNTS
