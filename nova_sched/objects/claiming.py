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

"""Makes claims on a node, with the same checks in the scheduler, the agent and the queue
workers."""

import dataclasses
import time
from collections.abc import Mapping
from typing import NamedTuple

from nova_sched import errors
from nova_sched.hardware import Overdrawn
from nova_sched.hardware.machine import HardwareAllocation, Machine
from nova_sched.hardware.providers import Allotted
from nova_sched.objects.claim import Claim


class Usage(NamedTuple):
    """One resource class on one node; ``used`` holds claims and everything else.

    ``largest`` is the most that one consumer may have; None: the total.
    """

    total: int
    reserved: int
    ratio: float
    used: int
    largest: int | None = None

    @property
    def available(self):
        return int((self.total - self.reserved) * self.ratio) - self.used


class Shortage(NamedTuple):
    """The shortage of one resource class."""

    resource_class: str
    asked: int
    available: int
    total: int

    def __str__(self):
        if self.asked > self.total:
            return f'{self.resource_class}: {self.asked} asked, the node has {self.total} in all'
        return f'{self.resource_class}: {self.asked} asked, {max(self.available, 0)} available'


class ClaimableMixin:
    """``instance_claim`` for any class that reports its usage and can allocate from it.

    A ComputeNode and the scheduler's row of a node are such classes, so the scheduler, the agent
    and a queue worker validate a claim with the same code. ``packing``: a guest goes into the
    fuller NUMA cells first.
    """

    @property
    def packing(self) -> bool:
        return False

    def usage(self, resource_class) -> Usage | None:
        """Returns the node's usage of a resource class, or None if it has none."""
        raise NotImplementedError

    def take(self, resource_class, amount):
        """Allocates an amount (negative: frees it)."""
        raise NotImplementedError

    @property
    def machine(self) -> Machine | None:
        """Returns the node's NUMA cells and devices; None if the node does not report them."""
        return None

    def hold(self, parts: HardwareAllocation) -> None:
        """Allocates CPUs, pages, devices, and units of child providers."""
        raise NotImplementedError

    def let_go(self, parts: HardwareAllocation) -> None:
        """Frees them."""
        raise NotImplementedError

    def demand(self, request) -> tuple[Mapping[str, int], tuple[Allotted, ...]]:
        """Returns the amounts from the node itself, by resource class, and the allocations from
        its providers.

        Raises Overdrawn if the node's providers cannot meet the request.
        """
        if request.groups:
            raise Overdrawn('groups of resources', 'the node reports no child providers')
        return request.resources, ()

    def shortages(self, resources, limits=None) -> list[Shortage]:
        """Returns each resource class that the node cannot provide, with the available amount.

        ``limits`` (optional) maps resource classes to a capacity that replaces the node's.
        """
        return [short for name, amount in resources.items()
                if (short := self._shortage(name, amount, limits or {})) is not None]  # fmt: skip

    def _shortage(self, name, amount, limits):
        usage = self.usage(name)
        if usage is None:
            return Shortage(name, amount, 0, 0)
        available = usage.available if name not in limits else int(limits[name]) - usage.used
        largest = usage.total if usage.largest is None else usage.largest
        if amount > available or amount > largest:
            return Shortage(name, amount, available, largest)
        return None

    def instance_claim(self, request, limits=None, lifetime_s=None, request_id=None) -> Claim:
        """Checks that the node can take the request, allocates it, and returns the claim.

        ``request`` has ``instance_uuid``, ``project_id``, ``user_id``, ``resources``, ``groups``,
        ``pieces``, ``group_uuid`` and ``image_properties``. Raises ComputeResourcesUnavailable
        with every shortage; then nothing is allocated.
        """
        try:
            resources, allotted = self.demand(request)
            short = list(map(str, self.shortages(resources, limits)))
        except Overdrawn as error:
            short = [str(error)]
        parts = self._fit(request.pieces, short) if request.pieces else None
        if short:
            raise errors.ComputeResourcesUnavailable(self.uuid, '; '.join(short))
        if allotted:
            parts = dataclasses.replace(parts or HardwareAllocation(), providers=allotted)
        return self.book(request, resources, parts, lifetime_s, request_id)

    def resize_claim(self, request, held=None, move=None, **words) -> Claim:
        """Returns the claim of an instance that is resized or moved.

        ``held`` is its existing claim on this node, which is not allocated during the call. On
        another node it is None, and ``move`` (one of MOVES) is the reason. On the same node, both
        sizes are allocated together. Takes the arguments of instance_claim. Raises
        ComputeResourcesUnavailable; then nothing is allocated.
        """
        claim = self.instance_claim(request, **words)
        return dataclasses.replace(claim, move=move) if held is None else self.grow(held, claim)

    def grow(self, held, claim) -> Claim:
        """Allocates a claim together with the one that the instance ``held`` here, replacing the
        latter.

        Raises ComputeResourcesUnavailable; then neither is allocated.
        """
        self.release(claim)
        both = held.merged_with(claim)
        if short := self.shortages(both.resources):
            raise errors.ComputeResourcesUnavailable(self.uuid, '; '.join(map(str, short)))
        for name, amount in both.resources.items():
            self.take(name, amount)
        for parts in both.all_parts:
            self.hold(parts)
        return both

    def _fit(self, pieces, short):
        """Returns the hardware allocation for the request; on failure adds a shortage and returns
        None."""
        machine = self.machine
        if machine is None:
            short.append('the node reports neither NUMA cells nor PCI devices')
            return None
        parts = machine.fit(pieces, packing=self.packing)
        if parts is None:
            short.append(machine.why_not(pieces, packing=self.packing))
        return parts

    def book(self, request, resources, parts=None, lifetime_s=None, request_id=None) -> Claim:
        """Allocates a request that is known to fit, and returns the claim."""
        for name, amount in resources.items():
            self.take(name, amount)
        if parts:
            self.hold(parts)
        now = time.time()
        return Claim(
            consumer_uuid=request.instance_uuid,
            node_uuid=self.uuid,
            resources=dict(resources),
            project_id=request.project_id,
            user_id=request.user_id,
            group_uuid=request.group_uuid,
            request_id=request_id,
            created_s=now,
            expires_s=None if lifetime_s is None else now + lifetime_s,
            parts=parts or None,
            image_properties={
                name: str(value) for name, value in request.image_properties.items()
            },
        )

    def release(self, claim: Claim):
        """Frees the resources of a claim."""
        for name, amount in claim.resources.items():
            self.take(name, -amount)
        for parts in claim.all_parts:
            self.let_go(parts)
