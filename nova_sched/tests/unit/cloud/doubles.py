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
"""A small Nova cloud for tests: its cells, its API database and Placement, as plain values."""

import collections
import contextlib
import dataclasses

from nova_sched import errors
from nova_sched.cloud.placement import ConsumerAllocations, NodeProviders, ProviderSummary
from nova_sched.db.nova_cell import (
    CellPoll,
    InstanceRow,
    NodeRow,
    NovaCell,
    ServiceRow,
    is_tracked,
)
from nova_sched.tests.builders import CELL, NOW, uuid_of


def node_uuid(host):
    return uuid_of(f'node {host}')


def id_of(server):
    """The id of an instance's row."""
    return int(server[:8], 16)


class FakeCell:
    """A cell; ``ahead_s`` is how far its clock is ahead of the store's. Its database is away while
    ``is_away``."""

    def __init__(self, uuid=CELL, ahead_s=0.0):
        self.uuid, self.name, self.ahead_s = uuid, 'cell', ahead_s
        self.rows, self.not_up, self.servers, self.moves = {}, {}, {}, {}
        self.there = collections.defaultdict(frozenset)  # (host, node) -> servers
        self.devices = collections.defaultdict(set)  # node UUID -> servers with devices of it
        self.evacuations = set()
        self.is_away, self.reads, self.clock = False, [], lambda: NOW
        self.oldest_version = None  # of the compute services

    def add(self, *hosts, **facts):
        """Compute nodes that were written just now."""
        for host in hosts:
            known = {
                'uuid': node_uuid(host),
                'host': host,
                'hypervisor_hostname': host,
                'hypervisor_type': 'QEMU',
                'hypervisor_version': 8000000,
                'host_ip': '192.0.2.1',
                'cpu_info': None,
                'free_disk_gb': 100,
                'disk_available_least': None,
                'running_vms': 0,
                'current_workload': 0,
                'stats': None,
                'metrics': None,
                'numa_topology': None,
                'pci_stats': None,
                'supported_instances': None,
                'updated_s': self.now_s(),
                'has_service': True,
            }
            self.rows[node_uuid(host)] = NodeRow(**{**known, **facts})

    def silence(self, host, **facts):
        known = {'disabled': False, 'disabled_reason': None, 'forced_down': False, 'seen_s': 0.0}
        self.not_up[host] = ServiceRow(host, **{**known, **facts})

    def serve(self, uuid, **facts):
        known = {'host': None, 'node': None, 'vm_state': 'building', 'task_state': None}
        self.servers[uuid] = InstanceRow(**{'uuid': uuid, 'deleted': False, **known, **facts})

    def _check(self):
        if self.is_away:
            raise errors.StoreUnavailable('connection refused')

    def now_s(self):
        self._check()
        return self.clock() + self.ahead_s

    def poll(self, down_time_s, since_s):
        written = {uuid: one for uuid, one in self.node_stamps().items() if one[1] >= since_s}
        return CellPoll(self.now_s(), list(self.not_up.values()), written, self.oldest_version)

    def services_not_up(self, down_time_s, hosts):
        self._check()
        return [row for host, row in self.not_up.items() if host in hosts]

    def served(self, uuids):
        self._check()
        found = {uuid: self.rows[uuid] for uuid in uuids if uuid in self.rows}
        return {uuid: row.host for uuid, row in found.items() if row.has_service}

    def node_stamps(self):
        self._check()
        return {uuid: (row.host, row.updated_s) for uuid, row in self.rows.items()}

    def nodes(self, uuids, inhabited=()):
        self._check()
        self.reads += uuids
        rows = [self.rows[uuid] for uuid in uuids if uuid in self.rows]
        return [self._with_instances(row) if row.uuid in inhabited else row for row in rows]

    def _with_instances(self, row):
        name = row.host, row.hypervisor_hostname
        here = [
            server
            for server in self.servers.values()
            if (server.host, server.node) == name and not server.deleted
        ]
        tracked = {
            server.uuid for server in here if is_tracked(server.vm_state, server.task_state)
        }
        return dataclasses.replace(
            row,
            instances={server.uuid: id_of(server.uuid) for server in here},
            tracked=self.devices[row.uuid] | tracked,
        )

    def servers_on(self, uuids):
        names = {one: (self.rows[one].host, self.rows[one].hypervisor_hostname) for one in uuids}
        return {uuid: self.there[name] for uuid, name in names.items()}

    def hosts_of(self, uuids):
        there = [row for uuid, row in self.servers.items() if uuid in uuids and not row.deleted]
        return {row.host for row in there if row.host}

    def census(self):
        self._check()
        return {
            uuid: row.census
            for uuid, row in ((uuid, self._with_instances(row)) for uuid, row in self.rows.items())
            if row.instances
        }

    def instances(self, uuids):
        self._check()
        return self.servers.keys() & set(uuids)

    def needing(self, uuids):
        self._check()
        return {
            uuid for uuid in uuids if uuid in self.servers and self.servers[uuid].needs_allocations
        }

    def placed(self):
        return {
            uuid: row.host
            for uuid, row in self.servers.items()
            if row.host and not row.deleted and row.vm_state == 'active' and not row.task_state
        }

    def evacuated(self):
        return set(self.evacuations)

    def migrations(self, uuids):
        return {uuid: self.moves[uuid] for uuid in uuids if uuid in self.moves}

    def instance(self, uuid):
        self._check()
        return self.servers.get(uuid)

    server = NovaCell.server


class FakeCloud:
    """Cells and the API database."""

    def __init__(self, *cells):
        self.cells = list(cells) or [FakeCell()]
        self.found, self.listed, self.build_requests = [], [], set()
        self.unmapped, self.left_out = set(), {}

    # As Cells.

    def __iter__(self):
        return iter(self.cells)

    def reread(self):
        pass

    def aggregates(self):
        return self.listed

    # As NovaApi.

    def host_mappings(self):
        return {
            row.host: cell.uuid
            for cell in self.cells
            for row in cell.rows.values()
            if row.host not in self.unmapped
        }

    def has_build_request(self, uuid):
        return uuid in self.build_requests


class FakePlacement:
    """Provider trees of nodes. Each change raises the generation of a provider, but as in
    Placement, not the loss of an allocation."""

    def __init__(self):
        self.trees, self.reads, self.problem = {}, [], None
        self.consumers = {}  # consumer -> generation
        self.full = set()  # nodes without memory left
        self.broken = set()  # nodes that it cannot tell of

    def add(self, *hosts, children=(), traits=(), **inventories):
        """Providers of compute nodes; inventories by resource class."""
        amounts = inventories or {'VCPU': 8, 'MEMORY_MB': 8192, 'DISK_GB': 100}
        for host in hosts:
            uuid = node_uuid(host)
            root = {
                'parent_provider_uuid': None,
                'inventories': {name: {'total': total} for name, total in amounts.items()},
                'traits': list(traits),
            }
            rest = {
                child: {'parent_provider_uuid': uuid, 'inventories': {}, 'traits': []}
                for child in children
            }
            before = self.trees[uuid].generations[uuid] if uuid in self.trees else 0
            generations = dict.fromkeys([uuid, *children], before + 1)
            self.trees[uuid] = NodeProviders(uuid, {uuid: root, **rest}, generations, {})

    def allocate(self, consumer, host, **amounts):
        uuid = node_uuid(host)
        tree = self.trees[uuid]
        of_root = {**tree.allocations.get(uuid, {}), consumer: amounts}
        if not amounts:
            del of_root[consumer]
        self.consumers[consumer] = self.consumers.get(consumer, 0) + 1
        generations = {**tree.generations, uuid: tree.generations[uuid] + bool(amounts)}
        self.trees[uuid] = NodeProviders(
            uuid, tree.providers, generations, {**tree.allocations, uuid: of_root}
        )

    @contextlib.contextmanager
    def failing(self, problem):
        self.problem = problem
        yield
        self.problem = None

    def _check(self):
        if self.problem:
            raise self.problem

    # As PlacementClient.

    def provider_trees(self):
        self._check()
        return {
            uuid: {
                name: {'generation': generation, **tree.providers[name]}
                for name, generation in tree.generations.items()
            }
            for uuid, tree in self.trees.items()
        }

    def summaries(self):
        self._check()
        return {
            name: ProviderSummary(tree.used(name), provider['traits'])
            for uuid, tree in self.trees.items()
            for name, provider in tree.providers.items()
            if uuid not in self.full
        }

    def inventories(self, provider_uuid):
        self._check()
        (found,) = (
            tree.providers[provider_uuid]['inventories']
            for tree in self.trees.values()
            if provider_uuid in tree.providers
        )
        return found

    def node(self, uuid):
        self._check()
        if uuid in self.broken:
            raise errors.PlacementUnavailable('status 500')
        self.reads.append(uuid)
        return self.trees.get(uuid) or NodeProviders(uuid)

    def write(self, wanted):
        """Allocations of root providers alone."""
        self._check()
        hosts = {node_uuid(host): host for host in self.hosts()}
        for consumer, allocations in wanted.items():
            if allocations.generation != self.allocations_of(consumer).generation:
                raise errors.PlacementConflict('consumer generation conflict')
            for uuid, amounts in allocations.providers.items():
                self.allocate(consumer, hosts[uuid], **amounts)

    def root_of(self, provider_uuid):
        self._check()
        roots = (uuid for uuid, tree in self.trees.items() if provider_uuid in tree.generations)
        return next(roots, None)

    def allocations(self, provider_uuid):
        self._check()
        for tree in self.trees.values():
            if provider_uuid in tree.generations:
                return dict(tree.allocations.get(provider_uuid, {}))
        raise errors.PlacementRefused('no such provider', 404)

    def allocations_of(self, consumer):
        self._check()
        found = {
            uuid: amounts[consumer]
            for tree in self.trees.values()
            for uuid, amounts in tree.allocations.items()
            if consumer in amounts
        }
        return ConsumerAllocations(found, self.consumers.get(consumer) if found else None)

    def remove(self, consumer, allocations):
        if self.allocations_of(consumer).generation != allocations.generation:
            return False
        for uuid in allocations.providers:
            (host,) = [host for host in self.hosts() if node_uuid(host) == uuid]
            self.allocate(consumer, host)
        return True

    def hosts(self):
        return [f'host-{number}' for number in range(10)]
