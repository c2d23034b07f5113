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
"""One compute node in the cluster: its row, its last report, its hardware, and the claims on
it."""

import collections
import dataclasses
import logging
import math
from collections.abc import Mapping, Set
from typing import Any

from nova_sched import errors
from nova_sched.claim import Claim
from nova_sched.conf import CONF
from nova_sched.hardware import Overdrawn, providers
from nova_sched.hardware.machine import Machine
from nova_sched.hardware.providers import ProviderTree
from nova_sched.objects.claiming import ClaimableMixin, Usage
from nova_sched.state import demand
from nova_sched.state.facts import CLAIMED, HELD
from nova_sched.state.report import Report

LOG = logging.getLogger(__name__)
CLAIM, HARDWARE = CLAIMED.value, HELD.value


# Begins the reason for a host that Nova or Placement does not know enough of.
LEFT_OUT = 'left out: '


@dataclasses.dataclass(slots=True, eq=False)
class ServiceState:
    """The known data of a host's compute service; times in seconds since the epoch."""

    disabled: bool = False
    disabled_reason: str | None = None
    forced_down: bool = False
    seen_s: float = 0.0

    @property
    def is_left_out(self):
        """Whether it is not disabled by an operator, but because facts about the host are
        missing."""
        return bool(self.disabled) and (self.disabled_reason or '').startswith(LEFT_OUT)


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class Node(ClaimableMixin):
    """One compute node: its row, its last report, and the claims on it.

    ``foreign`` is the unclaimed usage, by resource class; ``foreign_instances`` is the number of
    instances without a claim. ``generation`` is the store's, as last read. ``reported`` is its
    hardware as reported, ``machine`` is the same less the hardware allocations of claims. The same
    holds for ``reported_providers`` and ``providers``, a tree of child providers, which is None
    without any.
    """

    _hosts: Any
    row: int
    report: Report
    claims: dict[str, Claim] = dataclasses.field(default_factory=dict)
    foreign: Mapping[str, int] = dataclasses.field(default_factory=dict)
    foreign_instances: int = 0
    generation: int | None = None
    reported: Machine | None = None
    reported_providers: ProviderTree | None = None
    providers: ProviderTree | None = None
    # name -> number, as last reported
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    classes: frozenset[str] = frozenset()  # resource classes that its row has or had
    stat_names: Set[str] = frozenset()  # those of its row
    child_classes: Set[str] = frozenset()
    service: ServiceState = dataclasses.field(default_factory=ServiceState)
    why_left_out: str | None = None  # it gets no servers
    fences: frozenset[str] = frozenset()  # tokens that a claim must have here
    told: frozenset[str] = frozenset()  # instances here, as reported by the node or by messages

    @property
    def uuid(self):
        return self.report.node_uuid

    @property
    def host(self):
        return self.report.host

    @property
    def nodename(self):
        return self.report.nodename

    @property
    def cell_uuid(self):
        return self.report.cell_uuid

    @property
    def is_left_out(self):
        """Whether facts about it or its host are missing."""
        return self.why_left_out is not None or self.service.is_left_out

    @property
    def instances(self):
        """UUIDs of the instances on the node, including the claimed ones."""
        return self.told | self.claims.keys()

    @property
    def exit_s(self):
        """The latest expected end of its instances, as in the column."""
        if self.foreign_instances:
            return math.inf
        return max((claim.expected_end_s for claim in self.claims.values()), default=0.0)

    def usage(self, resource_class):
        inventory = self.report.inventories.get(resource_class)
        if inventory is None:
            return None
        used = int(self._hosts.resource(resource_class).used[self.row])
        return Usage(inventory.total, inventory.reserved, inventory.ratio, used, inventory.largest)

    def take(self, resource_class, amount):
        self._hosts.changed.mark(self.row, CLAIM)
        if resource_class not in self.classes:
            self.classes |= {resource_class}
        self._hosts.resource(resource_class).take(self.row, amount)

    def growth(self, request, resource_class):
        """Return the sum of the old and the new size of an instance here, and whether there is
        capacity for both.

        Returns None if the instance is not certain to be here.
        """
        held = self.claims.get(request.instance_uuid)
        inventory = self.report.inventories.get(resource_class)
        if held is None or not held.is_confirmed or inventory is None:
            return None
        new = request.resources[resource_class]
        both = held.resources_while(request.resources)[resource_class]
        more = both - held.resources.get(resource_class, 0)
        room = both <= inventory.largest and more <= self.usage(resource_class).available
        allowed = not new or (new >= inventory.min_unit and new % max(inventory.step_size, 1) == 0)
        kept = held.resources.keys() - request.resources.keys()
        # Where the usage exceeds the capacity, no resize in place is possible.
        return both, room and allowed and not any(
            usage is None or usage.available < 0 for usage in map(self.usage, kept)
        )

    def count_names(self, stat_names, child_classes):
        """Count these names for its row, in place of those before."""
        self._hosts.names_of_stats.change(self.stat_names, stat_names)
        self._hosts.names_of_children.change(self.child_classes, child_classes)
        self.stat_names, self.child_classes = stat_names, child_classes

    # Child providers.

    @property
    def own_classes(self):
        """Resource classes that the node itself has inventories of."""
        return {name for name, inventory in self.report.inventories.items() if inventory.total}

    def taken(self, request):
        """Return the units by class that a request takes from the node itself, beside groups."""
        below = self.providers.classes if self.providers else frozenset()
        return demand.resources_on(request, self.own_classes, below)

    def below(self, request):
        """Return the node's providers, and the request's demand on them."""
        tree = self.providers or ProviderTree(self.uuid)
        own, report = self.own_classes, self.report
        provider_request = demand.asked_of(request, own, tree.classes, report.traits)
        taken = demand.resources_on(request, own, tree.classes)
        below = demand.with_own(tree, provider_request, self._stock, taken, report.traits)
        return below, provider_request

    def demand(self, request):
        if not request.groups and not request.fallback_vcpus and self.providers is None:
            return request.resources, ()
        below, provider_request = self.below(request)
        resources = demand.resources_on(request, self.own_classes, below.classes)
        if not provider_request:
            return resources, ()
        allotted = providers.fit(below, provider_request, request.preferred_provider)
        if allotted is None:
            raise Overdrawn('child providers', providers.why_not(below, provider_request))
        sums = collections.Counter(resources)
        sums.update(providers.on_root(below, allotted))
        return sums, allotted

    def _stock(self, resource_class):
        inventory = self.report.inventories.get(resource_class)
        if inventory is None:
            return None
        return demand.stock(inventory, int(self._hosts.resource(resource_class).used[self.row]))

    def show_providers(self, tree):
        """Set the node's current tree."""
        self.providers = tree
        self._hosts.changed.mark(self.row, HARDWARE)
        self._hosts.intern('shape', self.row, tree and tree.shape)

    # Hardware.

    @property
    def packing(self):
        return CONF.compute.packing_host_numa_cells_allocation_strategy

    @property
    def machine(self):
        return self._hosts.interned['machine'].values[self._hosts.machine[self.row]]

    def hold(self, parts):
        self._show(self.machine and self.machine.hold(parts))
        if parts.providers and self.providers:
            self.show_providers(providers.hold(self.providers, parts.providers))

    def let_go(self, parts):
        """Free the parts, except those that another claim holds as well."""
        self.recount()

    def recount(self):
        """Compute again the node's reported hardware less the claims.

        Hardware that a report already counts as used is not subtracted twice. Few nodes report the
        usage of their child providers, so every claim is subtracted there. The usage that the
        report explains by claims is removed before.
        """
        machine, tree = self.reported, self.reported_providers
        holding = [claim for claim in self.claims.values() if claim.all_parts]
        for claim in holding:
            if tree and claim.parts and self.report.has_used(claim):
                tree = providers.less_known(tree, claim.parts.providers)
            for parts in claim.uncounted:
                machine = machine and machine.hold(parts)
        if tree:
            for parts in (parts for claim in holding for parts in claim.all_parts):
                tree = providers.hold(tree, parts.providers)
        self._show(machine)
        self.show_providers(tree)

    def _show(self, machine):
        self._hosts.changed.mark(self.row, HARDWARE)
        self._hosts.intern('machine', self.row, machine)
        self._hosts.free_pci_devices[self.row] = machine.free_devices if machine else 0


def machine_of(report):
    """Return the hardware of the node, or None if it reports none."""
    if not report.numa_topology and not report.pci_pools:
        return None
    try:
        return Machine.from_texts(*report.pieces)
    except errors.Invalid as error:
        # New reports of this kind are refused. A report that an older release stored must not keep
        # the other nodes from being loaded.
        LOG.warning(
            'The NUMA cells and PCI devices of node %s are not counted: %s', report.nodename, error
        )
        return None


def tree_of(report):
    """Return the child providers of the node, or None if it reports none."""
    if not report.providers:
        return None
    try:
        return ProviderTree.from_json(report.providers, report.node_uuid)
    except errors.Invalid as error:
        LOG.warning('The child providers of node %s are not counted: %s', report.nodename, error)
        return None
