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
"""This node as a claim sees it: the capacity of its own inventories, the use of its own instances."""

import collections
from collections.abc import Iterable, Mapping
from typing import Any

from nova_sched.agent.instances import Instance
from nova_sched.hardware.machine import Machine, Parts
from nova_sched.objects.claiming import ClaimableMixin, Usage
from nova_sched.state.demand import resources_on


class Node(ClaimableMixin):
    """``instance_claim`` over one provider's inventories, in Placement's form, and the instances on it.

    A bare ComputeNode knows neither dedicated CPUs nor custom resource classes, and counts what is
    reserved as used; judged by its inventories, the node says no exactly where the scheduler does.
    ``machine`` are its NUMA cells and PCI devices without what these instances hold; ``packing`` has
    guests go into the fuller cells first.
    """

    def __init__(
        self,
        uuid: str,
        inventories: Mapping[str, Mapping[str, Any]],
        instances: Iterable[Instance],
        machine: Machine | None = None,
        packing: bool = False,
    ):
        self.uuid = uuid
        self._machine, self._packing = machine, packing
        self._inventories = inventories
        self._used: collections.Counter[str] = collections.Counter()
        for instance in instances:
            self._used.update(instance.resources)

    def demand(self, request: Any) -> tuple[Mapping[str, int], tuple[()]]:
        own = {name for name, inventory in self._inventories.items() if inventory['total']}
        return resources_on(request, own), ()

    def usage(self, resource_class: str) -> Usage | None:
        found = self._inventories.get(resource_class)
        if found is None:
            return None
        return Usage(found['total'], found['reserved'], found['allocation_ratio'], self._used[resource_class])

    def take(self, resource_class: str, amount: int) -> None:
        self._used[resource_class] += amount

    @property
    def packing(self) -> bool:
        return self._packing

    @property
    def machine(self) -> Machine | None:
        return self._machine

    def hold(self, parts: Parts) -> None:
        self._machine = self._machine and self._machine.hold(parts)

    def let_go(self, parts: Parts) -> None:
        self._machine = self._machine and self._machine.let_go(parts)
