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
"""What a request takes from a node itself, and what from the providers below it."""

from nova_sched.hardware import providers
from nova_sched.state import demand
from nova_sched.state.report import Inventory
from nova_sched.tests.builders import request
from nova_sched.tests.rows import table

NODE = {'VCPU', 'MEMORY_MB', 'DISK_GB'}
GPU = 'CUSTOM_GPU_MILLI'
DEDICATED = {'vcpus': 4, 'memory_mb': 0, 'extra_specs': {'hw:cpu_policy': 'dedicated'}}
ONE_GPU = {'vcpus': 2, 'memory_mb': 0, 'extra_specs': {f'resources:{GPU}': '500'}}


@table(
    'words, own, below, resources',
    {
        'plain': ({'vcpus': 2, 'memory_mb': 512}, NODE, set(), {'VCPU': 2, 'MEMORY_MB': 512}),
        'it has some itself': (ONE_GPU, NODE | {GPU}, {GPU}, {'VCPU': 2, GPU: 500}),
        'only its devices have': (ONE_GPU, NODE, {GPU}, {'VCPU': 2}),
        'nobody has: to be missed': (ONE_GPU, NODE, {'OTHER'}, {'VCPU': 2, GPU: 500}),
        'dedicated CPUs': (DEDICATED, NODE | {'PCPU'}, set(), {'PCPU': 4}),
        'shared CPUs do': (DEDICATED, NODE, set(), {'VCPU': 4}),
        'dedicated CPUs below': (DEDICATED, NODE, {'PCPU'}, {}),
    },
)
def test_resources_on(words, own, below, resources):
    assert demand.resources_on(request(**words), own, below) == resources


@table(
    'words, own, traits, loose, required, forbidden',
    {
        'of the devices': (ONE_GPU, NODE, set(), ((GPU, 500),), set(), set()),
        'of the node': (ONE_GPU, NODE | {GPU}, set(), (), set(), set()),
        'traits that the node has not': (
            {
                'extra_specs': {
                    f'resources:{GPU}': '1',
                    'trait:A': 'required',
                    'trait:B': 'required',
                }
            },
            NODE,
            {'B'},
            ((GPU, 1),),
            {'A'},
            set(),
        ),
        'a forbidden trait': (
            {'extra_specs': {f'resources:{GPU}': '1', 'trait:A': 'forbidden'}},
            NODE,
            set(),
            ((GPU, 1),),
            set(),
            {'A'},
        ),
        'traits of the node alone': (
            {'extra_specs': {'trait:A': 'required', 'trait:B': 'forbidden'}},
            NODE,
            set(),
            (),
            set(),
            set(),
        ),
    },
)
def test_asked_of(words, own, traits, loose, required, forbidden):
    found = demand.asked_of(request(**words), own, {GPU}, frozenset(traits))
    assert (found.loose, found.required, found.forbidden) == (loose, required, forbidden)


def test_groups_and_their_policy_are_asked_of_every_node():
    extra_specs = {'resources1:A': '1', 'resources2:A': '1', 'group_policy': 'isolate'}
    found = demand.asked_of(request(extra_specs=extra_specs), NODE, set(), frozenset())
    assert [group.suffix for group in found.groups] == ['1', '2']
    assert found.isolate


@table(
    'used, taken, fits',
    {
        'free': (0, 0, True),
        'just enough': (6, 0, True),
        'others use it': (7, 0, False),
        'all that there really is, with what the request has': (0, 2, True),
        'more than that, whatever the ratio': (0, 3, False),
        'both': (4, 3, False),
    },
)
def test_a_group_from_the_node_itself(used, taken, fits):
    stocks = {'VCPU': demand.stock(Inventory(4, ratio=2.0, max_unit=8), used)}
    asked = providers.ProviderRequest((providers.ResourceGroup('1', (('VCPU', 2),)),))
    own = demand.with_own(
        providers.ProviderTree('node'), asked, stocks.get, {'VCPU': taken}, frozenset()
    )
    assert (providers.fit(own, asked) is not None) is fits


def test_a_tree_stays_as_it_is_where_the_node_has_nothing_to_give():
    tree = providers.ProviderTree('node')
    asked = providers.ProviderRequest((providers.ResourceGroup('1', ((GPU, 2),)),))
    assert demand.with_own(tree, asked, {}.get, {}, frozenset()) is tree
