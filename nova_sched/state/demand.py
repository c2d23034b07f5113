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
"""The resources that a request needs from one node: from the node itself, and from its child
providers."""

import dataclasses

from nova_sched.claim import PCPU, VCPU
from nova_sched.hardware import providers
from nova_sched.state.groups import ISOLATE


def resources_on(request, own, below=frozenset()):
    """Return the units by class that a request takes from a node itself.

    ``own`` are the classes that the node has inventories of, ``below`` those of its child
    providers. The node gives the classes that it has. The child providers give the classes that
    only they have. A class that none of them has is requested from the node, where it is missing.
    Without dedicated CPUs anywhere, shared ones may replace them.
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
    """Return the request's demand on the providers of a node.

    ``loose`` are the classes outside of groups that only child providers have. ``missing`` are the
    traits that the node itself lacks; they matter if ``loose`` is not empty.
    """
    return providers.ProviderRequest(
        groups=request.groups,
        isolate=request.group_policy == ISOLATE,
        subtrees=request.same_subtree,
        loose=tuple(sorted((name, request.resources[name]) for name in loose)),
        required=frozenset(missing) if loose else frozenset(),
        forbidden=request.forbidden_traits if loose else frozenset(),
    )


def asked_of(request, own, below, traits):
    """Return the request's demand on the providers of a node with inventories of the classes
    ``own``, and these traits."""
    loose = [name for name in request.resources if name in below and name not in own]
    return asked_below(request, loose, request.required_traits - traits)


def with_own(tree, provider_request, stock_of, taken, traits):
    """Return the tree with the node itself among the providers that may serve groups.

    ``stock_of`` returns its Stock of a class, or None. ``taken`` are the units by class that the
    same request has from the node already.
    """
    stocks = {}
    for name in {name for group in provider_request.groups for name, _ in group.resources}:
        stock, had = stock_of(name), taken.get(name, 0)
        if stock is not None:
            # This reduces its part of the maximum for one consumer.
            left = max(stock.largest - had, 0)
            stocks[name] = dataclasses.replace(stock, used=stock.used + had, max_unit=left)
    return tree.with_root(stocks, traits) if stocks else tree


def stock(inventory, used):
    """Return an inventory of a report as a provider's Stock."""
    return providers.Stock(
        total=inventory.total,
        reserved=inventory.reserved,
        ratio=inventory.ratio,
        min_unit=inventory.min_unit,
        max_unit=inventory.max_unit,
        step_size=inventory.step_size,
        used=used,
    )
