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
"""The only writer of the host state: reports, claims, aggregates and instance lists change it
here."""

import dataclasses
import operator
import types
from collections.abc import Mapping
from typing import Any

from nova_sched import errors
from nova_sched.claim import PENDING, Claim
from nova_sched.state import lifetime, metrics
from nova_sched.state.facts import CLAIMED, LASTING, HostFacts
from nova_sched.state.hosts import Hosts
from nova_sched.state.membership import Membership
from nova_sched.state.node import Node, ServiceState, machine_of, tree_of
from nova_sched.state.report import DISABLED_TRAIT
from nova_sched.state.vocab import one_set

REPORT = (~LASTING).value  # what a report may change while the row's lasting facts stay
NOTHING: Mapping[str, Any] = types.MappingProxyType({})  # which most nodes have in common
REPORTED, MEMBERS, CLAIM = HostFacts.REPORTED.value, HostFacts.MEMBERS.value, CLAIMED.value


# What the host state counts of a claim, beside its key.
_WEIGHTS = operator.attrgetter(
    *('resources', 'state', 'parts', 'counted', 'resizing', 'ends_s'),
    *('group_uuid', 'top_group', 'image_properties'),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Consumption:
    """What ``Cluster.consume`` added to a node: ``claim`` is for the store, ``held`` is the claim
    on the row, and ``before`` is the consumer's earlier claim there."""

    claim: Claim
    held: Claim
    before: Claim | None


class Cluster:
    """All nodes of all cells. Every method leaves the columns consistent; none of them reads a
    clock.

    The columns have space for ``capacity`` nodes at first, and grow.
    """

    def __init__(self, capacity=64):
        self.hosts = Hosts(capacity)
        self._nodes = {}
        self._generations = 0
        self._by_name = {}
        # UUID of the cell that tells of a host's service, None if no cell does -> host
        # -> ServiceState
        self._services = {}
        self._told = {}  # host -> instances, as reported by the hosts' messages
        # Server -> host, of those on several nodes to which nothing happens now, by Nova.
        self.at_rest: Mapping[str, str] = {}
        self._membership = Membership('group_uuid')
        self._planned = Membership('top_group')

    def __len__(self):
        return len(self._nodes)

    def __iter__(self):
        return iter(self._nodes.values())

    def snapshot(self):
        """Return the nodes as a separate list, which another thread may iterate over."""
        return list(self._nodes.values())

    def node(self, uuid):
        return self._nodes.get(uuid)

    def find(self, host, nodename):
        """Return the node with that name on that host, or None."""
        uuid = self._by_name.get((host, nodename))
        return self._nodes.get(uuid)

    def nodes_of(self, host):
        """Return the host's nodes: one, except for hosts that manage bare metal."""
        return [self.hosts.nodes[row] for row in self.hosts.rows_of_host.get(host, ())]

    def service(self, host):
        """Return the ServiceState of a host: that of its nodes. Without any, the one that leaves
        it out, if there is one."""
        for node in self.nodes_of(host):
            return node.service
        known = (services[host] for services in self._services.values() if host in services)
        return max(known, key=lambda service: service.is_left_out, default=ServiceState())

    def hosts_with_settings(self):
        """Return the hosts that an operator has disabled or forced down."""
        return {
            host
            for services in self._services.values()
            for host, service in services.items()
            if service.disabled or service.forced_down
        }

    def claims_of(self, consumer_uuid):
        """Return the consumer's claims: one, or two while it moves."""
        return [node.claims[consumer_uuid] for row in self.hosts.places.get(consumer_uuid, ())
                if consumer_uuid in (node := self.hosts.nodes[row]).claims]  # fmt: skip

    def members_of(self, group_uuid):
        """Return the members of a server group that have claims."""
        return self._membership.of(group_uuid)

    def members_on_several_nodes(self):
        """Return the members of server groups that have more than one claim."""
        return self._membership.on_several_nodes()

    def claims_of_group(self, top_group):
        """Return all claims of a group's members: planned ones, and those of their
        instances."""
        return [claim for consumer in self._planned.of(top_group)
                for claim in self.claims_of(consumer)
                if claim.top_group == top_group]  # fmt: skip

    def top_groups(self):
        """Return the UUIDs of the groups that have claims."""
        return self._planned.groups()

    # Nodes.

    def put(
        self,
        report,
        claims=(),
        foreign=None,
        foreign_instances=0,
        generation=None,
        seen_s=0.0,
        fences=frozenset(),
    ):
        """Set a node's row from its report and its claims; a new node gets a new row."""
        node = self._nodes.get(report.node_uuid)
        if node is not None and (node.host, node.nodename) != (report.host, report.nodename):
            self.remove(node.uuid)
            node = None
        if node is None:
            node = self._add(report)
        lasting = self.hosts.lasting_stats
        if node.report.lasting != report.lasting or node.report.told(lasting) != report.told(
            lasting
        ):
            self.hosts.forget()
        if node.report.providers != report.providers or node.reported_providers is None:
            node.reported_providers = tree_of(report)
        before, is_new = node.report, node.reported is None
        node.report = report.kept
        self.set_generation(node, generation)
        if is_new or before.pieces != report.pieces:
            node.reported = machine_of(report)
        if is_new or before.traits != report.traits:
            self.hosts.set_traits(node.row, report.traits)
        self.hosts.changed.mark(node.row, REPORT)
        self._set_facts(node)
        self._set_use(node, claims, foreign or NOTHING, foreign_instances)
        self.set_tokens(node, fences)
        if report.instances is not None:
            self._tell(node, report.instances)
        self.see(node.host, seen_s)
        return node

    def _add(self, report):
        hosts = self.hosts
        hosts.forget()
        node = Node(hosts, hosts.add(), report)
        hosts.nodes.append(node)
        self._nodes[node.uuid] = node
        self._by_name[node.host, node.nodename] = node.uuid
        hosts.rows_of_host.setdefault(node.host, []).append(node.row)
        hosts.spellings.setdefault(node.host.lower(), set()).add(node.host)
        hosts.aggregate_set[node.row] = hosts.aggregates.slot(node.host)
        node.told = self._told.get(node.host, frozenset())
        for uuid in node.told:
            hosts.places.put(uuid, node.row)
        return node

    def set_generation(self, node, generation):
        """Set the store's generation of a node, as last read; None: none was read."""
        self._generations += (generation or 0) - (node.generation or 0)
        node.generation = generation

    @property
    def digest(self):
        """The number of nodes and the sum of their generations, which the store's digest equals
        when nothing is to be read."""
        return len(self._nodes), self._generations

    def remove(self, uuid):
        """Remove a node; the last row moves into its place."""
        node = self._nodes.pop(uuid, None)
        if node is None:
            return
        self._generations -= node.generation or 0
        hosts = self.hosts
        hosts.forget()
        for instance in node.instances:
            hosts.places.leave(instance, node.row)
        for claim in node.claims.values():
            self._membership.leave(claim)
            self._planned.leave(claim)
        del self._by_name[node.host, node.nodename]
        rows = hosts.rows_of_host[node.host]
        rows.remove(node.row)
        if not rows:
            del hosts.rows_of_host[node.host]
            hosts.spellings[node.host.lower()].discard(node.host)
        hosts.aggregates.sets.drop(hosts.aggregate_set[node.row])
        moved = hosts.nodes[-1]
        if moved is not node:
            self._move(moved, node.row)
        node.count_names(frozenset(), frozenset())
        hosts.remove(node.row)
        hosts.nodes.pop()
        hosts.drop_unused(node.classes)

    def _move(self, node, row):
        """Update the indexes when a node's row becomes another one."""
        hosts, old = self.hosts, node.row
        for instance in node.instances:
            hosts.places.move(instance, old, row)
        rows = hosts.rows_of_host[node.host]
        rows[rows.index(old)] = row
        hosts.nodes[row] = node
        node.row = row

    def _set_facts(self, node):
        hosts, row, report = self.hosts, node.row, node.report
        hosts.cell[row] = hosts.cells.id(report.cell_uuid)
        hosts.disk_slack_mb[row] = report.disk_slack_gb * 1024
        hosts.failed_builds[row] = report.failed_builds
        hosts.hypervisor_version[row] = report.hypervisor_version or 0
        for name in ('hypervisor_type', 'cpu_info', 'supported_instances', 'host_ip'):
            hosts.intern(name, row, getattr(report, name))
        tree = node.reported_providers
        child_classes = tree.classes if tree else frozenset()
        node.count_names(one_set(frozenset(report.stats)), one_set(child_classes))
        node.metrics = metrics.values(metrics.read(report.metrics)) or NOTHING
        hosts.metric_columns.put(row, node.metrics)
        self._show_service(node)
        node.classes = node.classes.union(report.inventories)
        for name in node.classes:
            hosts.resource(name).put(row, report.inventories.get(name))

    def _set_use(self, node, claims, foreign, foreign_instances):
        hosts, row = self.hosts, node.row
        known = node.claims
        same = {
            claim.consumer_uuid: claim
            for claim in claims
            if (held := known.get(claim.consumer_uuid)) is claim or held == claim
        }
        for consumer in [consumer_uuid for consumer_uuid in known if consumer_uuid not in same]:
            self._give_back(node, consumer)
        used = dict(foreign)
        for claim in claims:
            for name, amount in claim.resources.items():
                used[name] = used.get(name, 0) + amount
        node.classes = node.classes.union(used)
        for name in node.classes:
            resource = hosts.resource(name)
            resource.take(row, used.get(name, 0) - int(resource.used[row]))
        in_use = (name for name, amount in used.items() if amount > 0)
        kept = one_set(frozenset([*node.report.inventories, *in_use]))
        hosts.drop_unused(node.classes - kept)
        node.classes = kept
        node.foreign, node.foreign_instances = foreign, foreign_instances
        node.claims = same
        hosts.num_instances[row] = foreign_instances + len(same)
        hosts.exit_s[row] = node.exit_s
        pending = sum(claim.state == PENDING for claim in same.values())
        hosts.num_io_ops[row] = node.report.io_workload + pending
        for claim in claims:
            if claim.consumer_uuid not in same:
                self._note(claim)
        node.claims = {claim.consumer_uuid: claim for claim in claims}
        node.recount()

    def set_tokens(self, node, fences):
        """Keep claims without these tokens off the node."""
        node.fences = fences
        self.hosts.changed.mark(node.row, MEMBERS)
        self.hosts.intern('fences', node.row, fences or None)

    # Claims.

    def add(self, *claims):
        """Apply claims to their nodes and store them, as far as the nodes are there. Give all at
        once, as to ``drop``."""
        recounted: dict[Node, None] = {}
        for claim in claims:
            node = self._nodes.get(claim.node_uuid)
            if node is None:
                continue
            for name, amount in claim.resources.items():
                node.take(name, amount)
            self._note(claim)
            if claim.parts and node.report.has_used(claim):
                recounted[node] = None
            else:
                for parts in claim.uncounted:
                    node.hold(parts)
        for node in recounted:
            node.recount()

    def consume(self, node, request, lifetime_s=None, move=None, **marks):
        """Make a claim on a node for a request, before the store commits it. Returns a
        Consumption.

        Raises ComputeResourcesUnavailable, and then changes nothing. ``move`` is set for an
        instance that has a claim on another node; ``marks`` are more fields of the Claim.
        """
        before = node.claims.get(request.instance_uuid)
        marks = {'ends_s': lifetime.end_s(self.hosts, request), **marks}
        if before is not None:
            self.drop(before)
        try:
            is_there = before is not None and before.is_confirmed
            stays = is_there and not before.is_unheard(self.claims_of(request.instance_uuid))
            claim = node.instance_claim(request, lifetime_s, move=None if stays else move, **marks)
            held = node.grow(before, claim) if is_there else claim
        except errors.ComputeResourcesUnavailable:
            if before is not None:
                self.add(before)
            raise
        self._note(held)
        if held is not claim and held.all_parts:
            node.recount()
        return Consumption(claim, held, before)

    def release(self, *consumptions):
        """Take the usage of Consumptions off their nodes, and restore the earlier claims."""
        self.drop(*(consumption.held for consumption in consumptions))
        ours = {id(consumption.held) for consumption in consumptions}
        earlier = (consumption.before for consumption in consumptions)
        self.add(*(claim for claim in earlier if claim is not None and id(claim) not in ours))

    def adopt(self, claim):
        """Replace the consumer's claim on the node by this one, as the store has it. Does nothing
        without the node."""
        node = self._nodes.get(claim.node_uuid)
        if node is None:
            return
        held = node.claims.get(claim.consumer_uuid)
        if held is not None and _WEIGHTS(held) == _WEIGHTS(claim):
            node.claims[claim.consumer_uuid] = claim  # nothing that is counted differs
            return
        if held is not None:
            self.drop(held)
        self.add(claim)

    def _note(self, claim):
        """Store a claim whose resources are applied already."""
        node = self._nodes[claim.node_uuid]
        hosts = self.hosts
        node.claims[claim.consumer_uuid] = claim
        hosts.changed.mark(node.row, CLAIM)
        hosts.num_instances[node.row] += 1
        hosts.exit_s[node.row] = max(hosts.exit_s[node.row], claim.expected_end_s)
        hosts.num_io_ops[node.row] += claim.state == PENDING
        hosts.places.put(claim.consumer_uuid, node.row)
        self._membership.enter(claim)
        self._planned.enter(claim)
        if claim.image_properties:
            hosts.places.learn(claim.consumer_uuid, claim.image_properties)
            for row in hosts.places[claim.consumer_uuid]:
                hosts.changed.mark(row, MEMBERS)

    def drop(self, *claims):
        """Remove claims, as far as their nodes still have them.

        Give all at once: what is left is counted again on each node, not for each claim.
        """
        has_parts: dict[Node, bool] = {}
        for claim in claims:
            node = self._nodes.get(claim.node_uuid)
            if node is not None and claim.consumer_uuid in node.claims:
                held = self._give_back(node, claim.consumer_uuid)
                has_parts[node] = has_parts.get(node, False) or bool(held.all_parts)
        for node, is_recounted in has_parts.items():
            self.hosts.exit_s[node.row] = node.exit_s
            if is_recounted:
                node.recount()

    def _give_back(self, node, consumer):
        """Remove a node's claim of a consumer, except for its parts."""
        held = node.claims.pop(consumer)
        self.hosts.changed.mark(node.row, CLAIM)
        for name, amount in held.resources.items():
            node.take(name, -amount)
        self.hosts.num_instances[node.row] -= 1
        self.hosts.num_io_ops[node.row] -= held.state == PENDING
        if consumer not in node.told:
            self.hosts.places.leave(consumer, node.row)
        self._membership.leave(held)
        self._planned.leave(held)
        return held

    # Services, aggregates, instance lists.

    def see(self, host, seen_s, cell_uuid=None):
        """Set the time of the last heartbeat of the host's service; for ``cell_uuid`` see
        ``set_service``."""
        service = self._services.get(cell_uuid, {}).get(host)
        if service is None or seen_s > service.seen_s:
            service = self._service(host, cell_uuid)
            service.seen_s = max(service.seen_s, seen_s)
            self._show_services(host)

    def silence(self, host, seen_s, cell_uuid=None):
        """Set the time of the last heartbeat, which may be earlier than the known one."""
        self._service(host, cell_uuid).seen_s = seen_s
        self._show_services(host)

    def set_service(
        self, host, disabled, disabled_reason, forced_down, seen_s=0.0, cell_uuid=None
    ):
        """Set what is known of the service of a host. With ``cell_uuid``, it is a record of that
        cell, and for the host's nodes of that cell alone: of a host that was moved, its old cell
        may have a record that nobody writes any more."""
        service = self._service(host, cell_uuid)
        service.disabled = disabled
        service.disabled_reason = disabled_reason
        service.forced_down = forced_down
        service.seen_s = max(service.seen_s, seen_s)
        self._show_services(host)

    def _service(self, host, cell_uuid):
        return self._services.setdefault(cell_uuid, {}).setdefault(host, ServiceState())

    def _show_services(self, host):
        for node in self.nodes_of(host):
            self._show_service(node)

    def leave_out(self, uuid, why):
        """Give a node no servers, for this reason; None: it may get some."""
        node = self._nodes.get(uuid)
        if node is not None and node.why_left_out != why:
            node.why_left_out = why
            self._show_service(node)

    def _show_service(self, node):
        service = self._services.get(node.cell_uuid, {}).get(node.host)
        service = service or self._service(node.host, None)
        node.service = service
        self.hosts.changed.mark(node.row, REPORTED)
        self.hosts.disabled[node.row] = (
            service.disabled
            or node.why_left_out is not None
            or DISABLED_TRAIT in node.report.traits
        )
        self.hosts.forced_down[node.row] = service.forced_down
        self.hosts.seen_s[node.row] = service.seen_s

    def set_aggregate(self, aggregate_id, aggregate):
        """Replace the aggregate with that id; None removes it."""
        hosts = self.hosts
        hosts.forget()
        for host in hosts.aggregates.replace(aggregate_id, aggregate):
            for node in self.nodes_of(host):
                old = hosts.aggregate_set[node.row]
                hosts.aggregate_set[node.row] = hosts.aggregates.slot(host)
                hosts.aggregates.sets.drop(old)

    def tell(self, host, instances):
        """Set the instances on the host, as reported by its messages; the host may still be
        unknown."""
        self._told[host] = frozenset(instances)
        for node in self.nodes_of(host):
            self._tell(node, self._told[host])

    def told(self, host):
        """Return the instances on the host, as reported by its messages and reports."""
        nodes = self.nodes_of(host)
        if not nodes:
            return self._told.get(host, frozenset())
        return frozenset().union(*(node.told for node in nodes))

    def _tell(self, node, instances):
        self.hosts.changed.mark(node.row, MEMBERS)
        for gone in node.told - instances - node.claims.keys():
            self.hosts.places.leave(gone, node.row)
        for come in instances - node.told:
            self.hosts.places.put(come, node.row)
        node.told = instances
