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
"""What a request wants of one node: from the node itself, and from the providers below it."""

import dataclasses

from nova_sched.hardware import providers
from nova_sched.objects.claim import PCPU, VCPU
from nova_sched.state.groups import ISOLATE


def resources_on(request, own, below=frozenset()):
    """Units by class that a request takes from a node itself.

    ``own`` are the classes that the node has inventories of, ``below`` those of its child
    providers. A class that it has is its own to give; what only they have is theirs, and what
    nobody has is asked of the node, to be missed there. Without dedicated CPUs anywhere, shared
    ones may do.
    """
    resources = request.resources
    if request.fallback_vcpus and PCPU not in own and PCPU not in below:
        resources = {name: units for name, units in resources.items() if name != PCPU}
        resources[VCPU] = request.fallback_vcpus
    if below and not own >= resources.keys():
        resources = {
            name: units for name, units in resources.items() if name in own or name not in below
        }
    return resources


def asked_below(request, loose, missing):
    """What a request wants of the providers of a node.

    ``loose`` are the classes outside of groups that only child providers have, ``missing`` the
    traits that the node itself has not; they matter where something is loose.
    """
    return providers.Asked(
        groups=request.groups,
        isolate=request.group_policy == ISOLATE,
        subtrees=request.same_subtree,
        loose=tuple(sorted((name, request.resources[name]) for name in loose)),
        required=frozenset(missing) if loose else frozenset(),
        forbidden=request.forbidden_traits if loose else frozenset(),
    )


def asked_of(request, own, below, traits):
    """The same for a node with inventories of the classes ``own``, and these traits."""
    loose = [name for name in request.resources if name in below and name not in own]
    return asked_below(request, loose, request.required_traits - traits)


def with_own(tree, asked, stock_of, taken, traits):
    """The tree with the node itself among those that may meet groups.

    ``stock_of`` gives its Stock of a class, or None; ``taken`` are the units by class that the
    same request has from it already.
    """
    stocks = {}
    for name in {name for group in asked.groups for name, _ in group.resources}:
        stock, had = stock_of(name), taken.get(name, 0)
        if stock is not None:
            # Its part of what one consumer may have is smaller by so much.
            left = max(stock.largest - had, 0)
            stocks[name] = dataclasses.replace(stock, used=stock.used + had, max_unit=left)
    return tree.with_root(stocks, traits) if stocks else tree


def stock(inventory, used):
    """An inventory of a report as a provider's stock."""
    return providers.Stock(
        total=inventory.total,
        reserved=inventory.reserved,
        ratio=inventory.ratio,
        min_unit=inventory.min_unit,
        max_unit=inventory.max_unit,
        step_size=inventory.step_size,
        used=used,
    )
