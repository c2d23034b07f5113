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
"""This node for a claim check: the capacity of its inventories, and the usage of its instances."""

import collections
from collections.abc import Iterable, Mapping
from typing import Any

from nova_sched.agent.instances import LocalInstance
from nova_sched.hardware import Overdrawn, providers
from nova_sched.hardware.machine import HardwareAllocation, Machine
from nova_sched.objects.claiming import ClaimableMixin, Usage
from nova_sched.state import demand


class ClaimableNode(ClaimableMixin):
    """``instance_claim`` over one provider's inventories and the instances on it.

    Inventories are in Placement's form. A bare ComputeNode has neither dedicated CPUs nor custom
    resource classes, and counts reserved amounts as used. With its inventories, the node refuses
    exactly the claims that the scheduler refuses. ``machine`` are its NUMA cells and PCI devices
    as it reports them with these instances. With ``packing``, guests go into the fuller cells
    first. The node has no child providers.
    """

    def __init__(
        self,
        uuid: str,
        inventories: Mapping[str, Mapping[str, Any]],
        instances: Iterable[LocalInstance],
        machine: Machine | None = None,
        packing: bool = False,
        traits: Iterable[str] = (),
    ):
        self.uuid = uuid
        self._machine, self._packing = machine, packing
        self._inventories = inventories
        self._traits = frozenset(traits)
        self._used: collections.Counter[str] = collections.Counter()
        for instance in instances:
            self._used.update(instance.resources)
            # A report omits the resources that an instance will have after its resize is settled.
            if instance.resizing and instance.resizing.parts:
                self.hold(instance.resizing.parts)

    def demand(self, request: Any) -> tuple[Mapping[str, int], tuple[providers.Allotted, ...]]:
        own = {name for name, inventory in self._inventories.items() if inventory['total']}
        taken = demand.resources_on(request, own)
        if not request.groups:
            return taken, ()
        asked = demand.asked_of(request, own, frozenset(), self._traits)
        tree = demand.with_own(
            providers.ProviderTree(self.uuid), asked, self._stock, taken, self._traits
        )
        allotted = providers.fit(tree, asked)
        if allotted is None:
            raise Overdrawn('child providers', providers.why_not(tree, asked))
        sums = collections.Counter(taken)
        sums.update(providers.on_root(tree, allotted))
        return sums, allotted

    def _stock(self, resource_class: str) -> providers.Stock | None:
        found = self._inventories.get(resource_class)
        if found is None:
            return None
        amounts = {name: value for name, value in found.items() if name != 'allocation_ratio'}
        return providers.Stock(
            **amounts, ratio=found['allocation_ratio'], used=self._used[resource_class]
        )

    def usage(self, resource_class: str) -> Usage | None:
        found = self._inventories.get(resource_class)
        if found is None:
            return None
        return Usage(
            found['total'],
            found['reserved'],
            found['allocation_ratio'],
            self._used[resource_class],
        )

    def take(self, resource_class: str, amount: int) -> None:
        self._used[resource_class] += amount

    @property
    def packing(self) -> bool:
        return self._packing

    @property
    def machine(self) -> Machine | None:
        return self._machine

    def hold(self, parts: HardwareAllocation) -> None:
        self._machine = self._machine and self._machine.hold(parts)

    def let_go(self, parts: HardwareAllocation) -> None:
        self._machine = self._machine and self._machine.let_go(parts)
