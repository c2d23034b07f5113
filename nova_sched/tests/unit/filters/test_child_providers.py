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
"""ChildProviders: devices below the hosts, and groups of resources."""

import json
import types

import numpy as np
import pytest

from nova_sched.filters.child_providers import ChildProviders
from nova_sched.hardware import providers
from nova_sched.state.report import Inventory
from nova_sched.state.vocab import Unfinished
from nova_sched.tests.builders import cluster, host, hosts, mask_of, report, request, spec, uuid_of
from nova_sched.tests.rows import each

GPU = 'CUSTOM_GPU_MILLI'
HALF, WHOLE = {f'resources1:{GPU}': '500'}, {f'resources1:{GPU}': '1000'}
ISOLATE, NONE = {'group_policy': 'isolate'}, {'group_policy': 'none'}


def gpu(used=0, *traits, total=1000, resource_class=GPU):
    """A device as a node reports it."""
    return {
        'inventories': {resource_class: {'total': total}},
        'traits': list(traits),
        'used': {resource_class: used},
    }


def devices(host, *found):
    """The provider tree of the node of that host, as text: the node, and its devices."""
    root = uuid_of(f'node {host}')
    tree = {
        f'gpu{number}': {**one, 'parent_provider_uuid': root} for number, one in enumerate(found)
    }
    return json.dumps({root: {}, **tree})


def nodes(*of_each, **columns):
    """A host with these devices each; None: one that tells of none."""
    texts = [found and devices(f'host-{number}', *found) for number, found in enumerate(of_each)]
    return hosts(len(of_each), providers=texts, **columns)


@each(
    'extra_specs, mask',
    [
        pytest.param({}, '*', id='nothing asked of devices'),
        pytest.param(HALF, '1110', id='half a GPU'),
        pytest.param(WHOLE, '1010', id='a whole one'),
        pytest.param({**WHOLE, f'resources2:{GPU}': '1000', **NONE}, '0010', id='two whole ones'),
        pytest.param({**HALF, f'resources2:{GPU}': '500', **NONE}, '1010', id='two halves'),
        pytest.param(
            {**HALF, f'resources2:{GPU}': '500', **ISOLATE}, '0010', id='two halves apart'
        ),
        pytest.param({**HALF, 'trait1:NEW': 'required'}, '0010', id='a required trait'),
        pytest.param({**HALF, 'trait1:OLD': 'forbidden'}, '0110', id='a forbidden trait'),
        # What is in no group is asked of a node without devices by ResourceCapacity, and refused
        # there.
        pytest.param({f'resources:{GPU}': '1000'}, '1011', id='in no group'),
        pytest.param({f'resources:{GPU}': '1500'}, '0001', id='never of two'),
        pytest.param(
            {f'resources:{GPU}': '1', 'trait:NEW': 'required'}, '0011', id='a trait of the device'
        ),
        pytest.param(
            {f'resources:{GPU}': '1', 'trait:OLD': 'forbidden'},
            '0111',
            id='no trait of the device',
        ),
        pytest.param({f'resources:{GPU}': '1000', **HALF}, '0010', id='both'),
        pytest.param({'resources1:VGPU': '1'}, '0000', id='a class that nobody has'),
    ],
)
def test_gpus(extra_specs, mask):
    seen = nodes([gpu(0, 'OLD')], [gpu(500), gpu(900)], [gpu(0), gpu(0, 'NEW')], None)
    assert mask_of(ChildProviders, seen, request(extra_specs=extra_specs)) == mask


@each(
    'extra_specs, mask',
    [
        pytest.param({'resources1:VCPU': '2'}, '011', id='CPUs in a group'),
        pytest.param({'resources1:VCPU': '2', 'trait1:HW': 'required'}, '010', id='with a trait'),
        pytest.param({'resources1:VCPU': '2', 'trait1:HW': 'forbidden'}, '001', id='without one'),
        pytest.param(
            {'resources1:VCPU': '1', 'resources2:VCPU': '1', **NONE}, '011', id='two groups of one'
        ),
        pytest.param(
            {'resources1:VCPU': '1', 'resources2:VCPU': '1', **ISOLATE}, '000', id='two apart'
        ),
        pytest.param(
            {'resources1:VCPU': '1', f'resources2:{GPU}': '1', **ISOLATE},
            '001',
            id='a CPU and a device',
        ),
        pytest.param(
            {'resources1:MEMORY_MB': '512', 'resources:MEMORY_MB': '512'},
            '011',
            id='beside what is in no group',
        ),
        pytest.param(
            {'resources1:MEMORY_MB': '513', 'resources:MEMORY_MB': '512'},
            '000',
            id='too much beside that',
        ),
    ],
)
def test_groups_from_the_node_itself(extra_specs, mask):
    seen = nodes(
        None,
        None,
        [gpu()],
        vcpus=[1, 2, 2],
        memory_mb=[1023, 1024, 1024],
        traits=[set(), {'HW'}, set()],
    )
    assert mask_of(ChildProviders, seen, request(extra_specs=extra_specs)) == mask


def test_what_a_node_has_itself_is_not_asked_of_its_devices():
    own = {GPU: Inventory(100)}
    seen = hosts(
        2,
        providers=[devices('host-0', gpu()), devices('host-1', gpu())],
        inventories=[own, {}],
        used={},
    )
    asked = request(extra_specs={f'resources:{GPU}': '1', 'trait:NEW': 'required'})
    # The first gives it itself, so the trait is its own business; of the other a device had to
    # have it.
    assert mask_of(ChildProviders, seen, asked) == '10'


def test_use_counts_as_it_changes():
    made = cluster(1, providers=devices('host-0', gpu(), gpu()))
    node, asked = made.hosts.nodes[0], request(extra_specs=WHOLE)
    for mask in ('1', '1', '0'):
        assert mask_of(ChildProviders, made.hosts, asked) == mask
        found = providers.fit(*node.below(asked))
        node.show_providers(
            node.providers if found is None else providers.take(node.providers, found)
        )


def test_a_group_that_names_its_provider():
    seen = nodes([gpu()], [gpu()], None)
    asked = [providers.ResourceGroup('1', ((GPU, 1),), in_tree=uuid_of('node host-1'))]
    assert mask_of(ChildProviders, seen, request(groups=asked)) == '010'


def test_a_host_by_itself():
    asked = {f'resources1:{name}': '2' for name in ('VCPU', 'MEMORY_MB')}
    assert ChildProviders().host_passes(host(), spec(extra_specs=asked))
    assert not ChildProviders().host_passes(host(vcpus_used=15), spec(extra_specs=asked))
    assert not ChildProviders().host_passes(host(), spec(extra_specs=HALF))
    assert ChildProviders().host_passes(host(), spec())


@each('uuid, passes', [(uuid_of('node host-0'), True), (uuid_of('another'), False)])
def test_a_host_by_itself_and_a_group_that_names_it(uuid, passes):
    asked = types.SimpleNamespace(resources={'VCPU': 1}, requester_id='port', in_tree=uuid)
    assert ChildProviders().host_passes(host(), spec(requested_resources=[asked])) is passes


@each(
    'extra_specs, rows, why',
    [
        pytest.param(
            WHOLE,
            [0, 1, 2],
            f'{GPU}: 1000 asked of one provider, the best has 700 free for group 1',
            id='nearest',
        ),
        pytest.param(
            WHOLE,
            [1],
            f'{GPU}: 1000 asked of one provider, the best has 500 free for group 1',
            id='one host',
        ),
        pytest.param(
            {f'resources:{GPU}': '800'},
            [0, 1],
            f'{GPU}: 800 asked of one provider, the best has 700 free',
            id='loose',
        ),
        pytest.param(WHOLE, [2], f'no provider has {GPU}', id='no device'),
        pytest.param(
            {**HALF, f'resources2:{GPU}': '500', **ISOLATE},
            [0],
            'each group can be met, but not all 2 at once from a provider each',
            id='apart',
        ),
    ],
)
def test_why(extra_specs, rows, why):
    seen = nodes([gpu(300)], [gpu(500)], None)
    assert ChildProviders().why(seen, request(extra_specs=extra_specs), np.array(rows)) == why


@each(
    'extra_specs, opened',
    [
        pytest.param(WHOLE, [0, 2], id='groups'),
        pytest.param({f'resources:{GPU}': '1000'}, [0, 1, 2], id='loose'),
        pytest.param({'resources1:VCPU': '99'}, [0, 1, 2], id='the nodes have it too'),
    ],
)
def test_nodes_that_are_alike_are_opened_once(monkeypatch, extra_specs, opened):
    seen, rows = nodes([gpu(300)], [gpu(300)], [gpu(500)]), []
    below = seen.below
    monkeypatch.setattr(
        seen, 'below', lambda row, request: rows.append(row) or below(row, request)
    )
    assert ChildProviders().why(seen, request(extra_specs=extra_specs), np.arange(3))
    assert rows == opened


def test_nodes_that_are_alike_are_judged_once():
    seen, asked = nodes(*([gpu()] for _ in range(50))), request(extra_specs=HALF)
    judged = []
    mask = seen.map_shapes(np.arange(50), 'question', lambda tree: judged.append(tree) or True)
    assert mask.all()
    assert len(judged) == 1
    assert mask_of(ChildProviders, seen, asked) == '1' * 50


def test_a_report_brings_other_devices():
    made = cluster(1, providers=devices('host-0', gpu(900)))
    made.put(report(providers=devices('host-0', gpu(0))))
    assert mask_of(ChildProviders, made.hosts, request(extra_specs=WHOLE)) == '1'
    made.put(report())
    assert mask_of(ChildProviders, made.hosts, request(extra_specs=WHOLE)) == '0'
    assert made.hosts.nodes[0].providers is None


def test_devices_that_cannot_be_read_are_none():
    made = cluster(1, providers='{"x": 5}')
    assert made.hosts.nodes[0].providers is None


def test_requests_that_differ_in_the_names_of_ports_are_judged_once():
    seen = nodes([gpu()], [gpu(500)])
    for port in ('a', 'b', 'c'):
        asked = request(groups=(providers.ResourceGroup(port, ((GPU, 1000),)),))
        assert mask_of(ChildProviders, seen, asked) == '10'
    # The answers to this question are known.
    known = providers.ProviderRequest((providers.ResourceGroup('1', ((GPU, 1000),)),))
    assert seen.map_shapes(np.arange(2), ('ChildProviders', known), None).tolist() == [True, False]


def test_any_number_of_traits():
    traits = [f'T{number}' for number in range(100)]
    seen = nodes(
        [gpu(0, *traits)], [gpu(0, *traits[1:])], [gpu()], traits=[set(), {'T0'}, set(traits)]
    )
    asked = request(extra_specs={f'resources:{GPU}': '1'}, required_traits=frozenset(traits))
    assert mask_of(ChildProviders, seen, asked) == '111'
    seen = nodes(
        [gpu(0, *traits[1:])],
        [gpu(0, *traits[2:])],
        [gpu()],
        traits=[set(), {'T0'}, set(traits[1:])],
    )
    assert mask_of(ChildProviders, seen, asked) == '000'


@each('own', [{}, {'resources9:VCPU': '1'}])
@each('sizes, mask', [((400, 300, 300), '101'), ((400, 350, 250), '101'),
                                         ((450, 300, 300), '000')])  # fmt: skip
def test_a_search_pauses_and_goes_on_where_it_was(sizes, mask, own):
    chosen = [size for size in sizes for _ in range(4)]
    groups = {f'resources{place}:{GPU}': str(size) for place, size in enumerate(chosen, start=10)}
    asked = request(extra_specs={**groups, **own, **NONE})
    made = nodes([gpu()] * 4, [gpu(total=990)] * 4, [gpu()] * 3 + [gpu(total=1001)], vcpus=[4] * 3)

    def ask():
        assert mask_of(ChildProviders, made, asked) == mask

    made.pause, pauses, steps = (lambda: True), 0, [ask]
    while steps:
        try:
            steps[-1]()
            steps.pop()
        except Unfinished as error:
            steps, pauses = [ask, error.rest], pauses + 1
    assert pauses > len(chosen) or mask == '000'
