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
"""Builders of provider trees and of what is asked of them; a row names only what it is about."""

from nova_sched.hardware import providers

ROOT = 'node'
MILLI = 'CUSTOM_GPU_MILLI'


def device(
    uuid, total=1000, used=0, traits=(), parent=ROOT, name='', resource_class=MILLI, **fields
):
    """A child with a stock of one class."""
    stock = providers.Stock(total, used=used, **fields)
    return providers.Provider(uuid, {resource_class: stock}, frozenset(traits), parent, name)


def tree(*children, root_traits=(), **root_stocks):
    """A node with these children; its own stocks as CLASS=units."""
    own = {name: providers.Stock(units) for name, units in root_stocks.items()}
    return providers.ProviderTree(
        ROOT, (providers.Provider(ROOT, own, frozenset(root_traits)), *children)
    )


def group(suffix='1', milli=0, required=(), forbidden=(), in_tree=None, **resources):
    """A group; ``milli`` is short for units of CUSTOM_GPU_MILLI."""
    amounts = {**resources, **({MILLI: milli} if milli else {})}
    return providers.ResourceGroup(
        suffix, tuple(sorted(amounts.items())), frozenset(required), frozenset(forbidden), in_tree
    )


def asked(*groups, isolate=False, subtrees=(), required=(), forbidden=(), **loose):
    """Groups; loose amounts as CLASS=units."""
    return providers.ProviderRequest(
        groups,
        isolate,
        tuple(map(frozenset, subtrees)),
        tuple(sorted(loose.items())),
        frozenset(required),
        frozenset(forbidden),
    )


def where(allotted):
    """Provider by suffix; None if there is no fit."""
    return allotted and {one.suffix: one.provider_uuid for one in allotted}
