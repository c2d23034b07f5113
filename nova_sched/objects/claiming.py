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

"""What one consumer takes from one node: checked and booked the same way by all who claim."""

import dataclasses
import time
import uuid
from collections.abc import Mapping
from typing import NamedTuple

from nova_sched import errors
from nova_sched.hardware import Overdrawn
from nova_sched.hardware.machine import Machine, Parts
from nova_sched.hardware.providers import Allotted

PLANNED = 'planned'  # a group member that is not created yet
PENDING = 'pending'  # chosen and handed to the conductor
CONFIRMED = 'confirmed'  # the node reports the instance

VCPU, MEMORY_MB, DISK_GB, PCPU = 'VCPU', 'MEMORY_MB', 'DISK_GB', 'PCPU'


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """One consumer's hold on one node.

    ``resources`` maps Placement's resource classes to whole amounts (VCPU and PCPU: CPUs,
    MEMORY_MB: MiB, DISK_GB: GiB). ``created_s`` and ``expires_s`` are seconds since the
    epoch; ``expires_s`` None never expires. ``parts`` are the CPUs, pages and devices that it holds
    beside; ``counted``: the node's own report has them among what is in use.
    ``image_properties`` are those of the consumer's image, as text.
    """

    consumer_uuid: str
    node_uuid: str
    resources: Mapping[str, int]
    state: str = PENDING
    project_id: str | None = None
    user_id: str | None = None
    group_uuid: str | None = None
    request_id: str | None = None
    created_s: float = 0.0
    expires_s: float | None = None
    parts: Parts | None = None
    counted: bool = False
    image_properties: Mapping[str, str] = dataclasses.field(default_factory=dict)
    uuid: str = dataclasses.field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def key(self):
        """Consumer and node: one consumer holds at most one claim on one node."""
        return self.consumer_uuid, self.node_uuid

    @property
    def is_confirmed(self):
        return self.state == CONFIRMED

    def merged_with(self, later):
        """What a later claim of the same consumer on the same node makes of this one.

        A claim on its way is replaced. A confirmed one stays, with the larger amounts: the instance
        is there already, and is being resized in place.
        """
        if self.uuid == later.uuid:
            return self
        if not self.is_confirmed:
            return later
        names = (*self.resources, *later.resources)
        amounts = {name: max(self.resources.get(name, 0), later.resources.get(name, 0)) for name in names}
        parts, counted = later.parts or self.parts, self.counted and not later.parts
        return dataclasses.replace(self, resources=amounts, parts=parts, counted=counted)


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
    """Why one resource class cannot be given."""

    resource_class: str
    asked: int
    available: int
    total: int

    def __str__(self):
        if self.asked > self.total:
            return f'{self.resource_class}: {self.asked} asked, the node has {self.total} in all'
        return f'{self.resource_class}: {self.asked} asked, {max(self.available, 0)} available'


class ClaimableMixin:
    """``instance_claim`` for anything that can tell its usage and take from it.

    A ComputeNode and the scheduler's own row of a node both are such things, so the
    scheduler, the agent and a queue worker judge a claim by the same code. ``packing``: a guest goes
    into the fuller NUMA cells first.
    """

    @property
    def packing(self) -> bool:
        return False

    def usage(self, resource_class) -> Usage | None:
        """What the node has of a resource class, or None if it has none."""
        raise NotImplementedError

    def take(self, resource_class, amount):
        """Book an amount (negative: give it back)."""
        raise NotImplementedError

    @property
    def machine(self) -> Machine | None:
        """What the node has piece by piece; None if it does not tell."""
        return None

    def hold(self, parts: Parts) -> None:
        """Book CPUs, pages, devices, and units of child providers."""
        raise NotImplementedError

    def let_go(self, parts: Parts) -> None:
        """Give them back."""
        raise NotImplementedError

    def demand(self, request) -> tuple[Mapping[str, int], tuple[Allotted, ...]]:
        """What the request takes from the node itself, by resource class, and from which providers the rest.

        Raises Overdrawn if the node's providers cannot give it.
        """
        if request.groups:
            raise Overdrawn('groups of resources', 'the node tells of no child providers')
        return request.resources, ()

    def shortages(self, resources, limits=None) -> list[Shortage]:
        """Each resource class that the node cannot give, with how much it could.

        ``limits`` (optional) maps resource classes to a capacity that replaces the node's own.
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
        """Check that the node can take the request, book it, and return the claim.

        ``request`` has ``instance_uuid``, ``project_id``, ``user_id``, ``resources``, ``groups``,
        ``pieces``, ``group_uuid`` and ``image_properties``. Raises ComputeResourcesUnavailable with every
        shortage; then nothing is booked.
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
            parts = dataclasses.replace(parts or Parts(), providers=allotted)
        return self.book(request, resources, parts, lifetime_s, request_id)

    def _fit(self, pieces, short):
        """The parts that the pieces come to; or another shortage."""
        machine = self.machine
        if machine is None:
            short.append('the node tells neither of NUMA cells nor of PCI devices')
            return None
        parts = machine.fit(pieces, packing=self.packing)
        if parts is None:
            short.append(machine.why_not(pieces, packing=self.packing))
        return parts

    def book(self, request, resources, parts=None, lifetime_s=None, request_id=None) -> Claim:
        """Book what is known to fit, and return the claim."""
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
            image_properties={name: str(value) for name, value in request.image_properties.items()},
        )

    def release(self, claim: Claim):
        """Give back what a claim holds."""
        for name, amount in claim.resources.items():
            self.take(name, -amount)
        if claim.parts:
            self.let_go(claim.parts)
