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
"""Compares claims and Nova's servers with the allocations in Placement. Changes nothing.

Nova, Placement and the claim store are not read at the same moment. So what differs is read
once more, and only what still differs is a finding.
"""

import collections
import concurrent.futures
import dataclasses
import time
from collections.abc import Mapping, Set

from nova_sched import errors
from nova_sched.claim import CONFIRMED
from nova_sched.claims.audit import amounts
from nova_sched.claims.findings import DOUBLED, LEAKED, MISSING, NOTE, AuditFinding
from nova_sched.cloud.placement import Amounts

AGAIN_S = 3.0  # a server that is deleted keeps its allocations for a moment
READERS = 8
NOT_FOUND = 404


@dataclasses.dataclass(frozen=True, slots=True)
class CloudAllocations:
    """What consumers are allocated on compute nodes, and what Nova knows of them.

    ``hosts``: node UUID -> host. ``held``: consumer -> node UUID -> amounts of its whole tree.
    ``migrations``: migration -> instance, of consumers that are migrations. ``servers``: those
    that need allocations, or are being built. ``placed``: server -> host, of servers that nothing
    happens to now. ``evacuated``: servers whose source host has not been started again.
    """

    hosts: Mapping[str, str]
    held: Mapping[str, Mapping[str, Amounts]]
    migrations: Mapping[str, str]
    servers: Set[str]
    placed: Mapping[str, str]
    evacuated: Set[str]

    def nodes_of(self, server):
        """The nodes where a server or its migrations have allocations."""
        migrations = [
            migration for migration, instance in self.migrations.items() if instance == server
        ]
        return {node for consumer in (server, *migrations) for node in self.held.get(consumer, ())}


def read(cells, api, placement):
    """The CloudAllocations of all enabled cells. Raises a SchedError if Nova or Placement does not
    answer: without a part of it, sound allocations would look leaked."""
    cells.reread()
    # A node that names no host is named by its UUID.
    hosts = {
        uuid: host or uuid for cell in cells for uuid, (host, _) in cell.node_stamps().items()
    }
    held = _held(hosts, placement)
    migrations: dict[str, str] = {}
    servers, placed, evacuated = set[str](), dict[str, str](), set[str]()
    for cell in cells:
        migrations |= cell.migrations(sorted(held))
        servers |= cell.needing(sorted(held))
        placed |= cell.placed()
        evacuated |= cell.evacuated()
    unknown = held.keys() - servers - migrations.keys()
    servers |= {uuid for uuid in unknown if api.has_build_request(uuid)}
    return CloudAllocations(hosts, held, migrations, servers, placed, evacuated)


def _held(hosts, placement):
    """Consumer -> node UUID -> amounts."""
    trees = placement.provider_trees()
    pairs = [(node, provider) for node in hosts for provider in trees.get(node, ())]

    def of(pair):
        try:
            return pair[0], placement.allocations(pair[1])
        except errors.PlacementRefused as error:
            if error.status == NOT_FOUND:  # it is gone by now
                return pair[0], {}
            raise

    held: dict[str, dict[str, collections.Counter]] = {}
    with concurrent.futures.ThreadPoolExecutor(READERS) as pool:
        for node, consumers in pool.map(of, pairs):
            for consumer, resources in consumers.items():
                by_node = held.setdefault(consumer, {})
                by_node.setdefault(node, collections.Counter()).update(resources)
    return held


def compare(snapshot, cloud):
    """Return the AuditFindings of a claims.findings.Snapshot and CloudAllocations."""
    return [*_leaked(snapshot, cloud), *_doubled(cloud), *_missing(snapshot, cloud)]


def differences(snapshot, read, wait=time.sleep):
    """Return what differs in two comparisons, and the latest CloudAllocations. ``snapshot`` and
    ``read`` return the claims and the cloud."""
    cloud = read()
    first = compare(snapshot(), cloud)
    if not first:
        return [], cloud
    wait(AGAIN_S)
    before, cloud = {finding.about for finding in first}, read()
    return [finding for finding in compare(snapshot(), cloud) if finding.about in before], cloud


def _leaked(snapshot, cloud):
    claimed = {claim.consumer_uuid for claim in snapshot.claims}
    known = cloud.servers | cloud.migrations.keys() | claimed
    for consumer, nodes in cloud.held.items():
        if consumer not in known:
            for node, resources in nodes.items():
                words = (
                    f'Placement has allocations of {amounts(resources)}, but no server needs '
                    'them, and there is no migration or claim of that UUID'
                )
                yield AuditFinding(
                    LEAKED, words, dict(resources), {}, **_at(cloud, node, consumer)
                )


def _doubled(cloud):
    for consumer, nodes in cloud.held.items():
        if len(nodes) > 1:
            hosts = sorted(cloud.hosts[node] for node in nodes)
            is_evacuated = consumer in cloud.evacuated
            why = (
                'its source host has not been started since its evacuation'
                if is_evacuated
                else 'no migration explains that'
            )
            words = f'it has allocations on {", ".join(hosts)}, and {why}'
            severity = {'severity': NOTE} if is_evacuated else {}
            yield AuditFinding(
                DOUBLED, words, hosts, hosts[:1], consumer_uuid=consumer, **severity
            )


def _missing(snapshot, cloud):
    reported = set()
    for claim in snapshot.claims:
        node, server = claim.node_uuid, claim.consumer_uuid
        if claim.state == CONFIRMED and node in cloud.hosts and node not in cloud.nodes_of(server):
            reported.add(server)
            words = 'its claim is confirmed, but it has no allocations there in Placement'
            at = _at(cloud, node, server)
            yield AuditFinding(
                MISSING, words, {}, dict(claim.resources), claim_uuid=claim.uuid, **at
            )
    for server, host in sorted(cloud.placed.items()):
        hosts = {cloud.hosts[node] for node in cloud.nodes_of(server)}
        if server not in reported and host not in hosts:
            words = 'the server runs there, but it has no allocations there in Placement'
            yield AuditFinding(
                MISSING, words, sorted(hosts), host, host=host, consumer_uuid=server
            )


def _at(cloud, node, consumer):
    return {'node_uuid': node, 'host': cloud.hosts[node], 'consumer_uuid': consumer}
