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
"""Placing requests for devices below the hosts: which one each gets, and what others see gone."""

import json
import random

import pytest

from nova_sched import errors
from nova_sched.engine import Settings, catalog
from nova_sched.engine.answer import selections
from nova_sched.engine.place import Placer
from nova_sched.tests.builders import cluster, request, uuid_of
from nova_sched.tests.rows import each
from nova_sched.tests.unit.engine.world import spreading
from nova_sched.weighers import Weigher

GPU = 'CUSTOM_GPU_MILLI'
NODE = uuid_of('node host-0')
HALF = {f'resources1:{GPU}': '500'}
TWO = {f'resources1:{GPU}': '1000', f'resources2:{GPU}': '1000', 'group_policy': 'isolate'}


def gpus(count, host='host-0', **more):
    """The provider tree of a node with so many GPUs, as text."""
    root = uuid_of(f'node {host}')
    device = {'parent_provider_uuid': root, 'inventories': {GPU: {'total': 1000}}}
    return json.dumps({root: {}, **{f'gpu{number}': device for number in range(count)}, **more})


def placer(made):
    rules = catalog.Rules(catalog.always(), (), spreading().weighers)
    return Placer(made, rules, random.Random(1))


def selected(one, extra_specs, number, alternates=0, **words):
    """The allocation request of the chosen host, and the hosts."""
    asked = [
        request(instance_uuid=uuid_of(f'instance {number}'), extra_specs=extra_specs, **words)
    ]
    settings = Settings(alternates=alternates)
    answer = selections(
        one, one.decide(asked, settings, bool(alternates)), settings, bool(alternates)
    )[0]
    return json.loads(answer[0].allocation_request), [chosen.host for chosen in answer]


def used(made):
    return {one.uuid: one.stocks[GPU].used for one in made.hosts.nodes[0].providers.children}


def test_halves_fill_a_started_device_first():
    made = cluster(1, providers=gpus(2))
    one = placer(made)
    for number, found in enumerate(['gpu0', 'gpu0', 'gpu1', 'gpu1']):
        allocation, _ = selected(one, HALF, number)
        assert allocation == {
            'allocations': {
                NODE: {'resources': {'VCPU': 1, 'MEMORY_MB': 512}},
                found: {'resources': {GPU: 500}},
            },
            'mappings': {'': [NODE], '1': [found]},
        }
    assert used(made) == {'gpu0': 1000, 'gpu1': 1000}
    with pytest.raises(errors.NoValidHost) as refused:
        selected(one, HALF, 5)
    assert 'ChildProviders' in str(refused.value)
    assert f'{GPU}: 500 asked of one provider, the best has 0 free' in str(refused.value)


class Chooser(Weigher):
    """It prefers one device."""

    def raw(self, hosts, rows, request):
        return None

    def multiplier(self, hosts, rows):
        return 1.0

    def device(self, hosts, row, request):
        return 'gpu1'


def test_a_weigher_names_the_device():
    """As long as that has room."""
    made = cluster(1, providers=gpus(2))
    one = Placer(made, catalog.Rules(catalog.always(), (), (Chooser(),)), random.Random(1))
    for number, found in enumerate(['gpu1', 'gpu1', 'gpu0']):
        allocation, _ = selected(one, HALF, number)
        assert allocation['mappings']['1'] == [found]


def test_two_whole_ones_come_from_two():
    made = cluster(1, providers=gpus(3))
    one = placer(made)
    allocation, _ = selected(one, TWO, 0)
    assert allocation['mappings'] == {'': [NODE], '1': ['gpu0'], '2': ['gpu1']}
    with pytest.raises(errors.NoValidHost, match='2 at once'):
        selected(one, TWO, 1)
    selected(one, {f'resources1:{GPU}': '1000'}, 2)
    assert used(made) == {'gpu0': 1000, 'gpu1': 1000, 'gpu2': 1000}


def test_a_claim_that_ends_gives_its_device_back():
    made = cluster(1, providers=gpus(1))
    one = placer(made)
    selected(one, {f'resources1:{GPU}': '1000'}, 0)
    (claim,) = made.claims_of(uuid_of('instance 0'))
    made.drop(claim)
    assert used(made) == {'gpu0': 0}
    selected(one, {f'resources1:{GPU}': '1000'}, 1)


def test_a_device_in_no_group():
    made = cluster(1, providers=gpus(1))
    allocation, _ = selected(placer(made), {f'resources:{GPU}': '700'}, 0)
    assert allocation['allocations']['gpu0'] == {'resources': {GPU: 700}}
    assert allocation['mappings'] == {'': [NODE, 'gpu0']}


@each('extra_specs', [{f'resources:{GPU}': '700'}, HALF], ids=['loose', 'group'])
def test_a_late_request_for_a_running_instance_is_no_move(extra_specs):
    """The units of child providers do not belong to its size on the node."""
    made = cluster(1, providers=gpus(2))
    one = placer(made)
    selected(one, extra_specs, 0)
    (claim,) = made.claims_of(uuid_of('instance 0'))
    made.adopt(claim.confirmed())
    with pytest.raises(errors.AlreadyRunning):
        selected(one, extra_specs, 0)


def test_a_group_that_the_node_itself_meets():
    made = cluster(1, vcpus=4)
    one = placer(made)
    allocation, _ = selected(
        one, {'resources1:VCPU': '3', 'trait1:X': 'forbidden'}, 0, memory_mb=0
    )
    assert allocation == {
        'allocations': {NODE: {'resources': {'VCPU': 3}}},
        'mappings': {'': [NODE], '1': [NODE]},
    }
    with pytest.raises(errors.NoValidHost):
        selected(one, {'resources1:VCPU': '2'}, 1)
    selected(one, {'resources1:VCPU': '1'}, 2)


def test_alternates_say_what_they_would_give():
    made = cluster(3, providers=[gpus(1), gpus(1, 'host-1'), None])
    _, hosts = selected(placer(made), HALF, 0, alternates=2)
    assert sorted(hosts) == ['host-0', 'host-1']


def test_shared_cpus_for_dedicated_ones():
    made = cluster(1, vcpus=4)
    one = placer(made)
    words = {'vcpus': 3, 'memory_mb': 0}
    allocation, _ = selected(one, {'hw:cpu_policy': 'dedicated'}, 0, **words)
    assert allocation['allocations'] == {NODE: {'resources': {'VCPU': 3}}}
    with pytest.raises(errors.NoValidHost):
        selected(one, {'hw:cpu_policy': 'dedicated'}, 1, **words)
