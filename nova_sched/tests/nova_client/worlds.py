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
"""The same hosts twice: as the host states of Nova's scheduler, and as our columns."""

import datetime

from nova import objects as theirs
from nova.scheduler.host_manager import HostState

from nova_sched import objects as ours
from nova_sched.rpc import reports, translate
from nova_sched.state.cluster import Cluster
from nova_sched.state.spec import READERS
from nova_sched.tests.builders import put
from nova_sched.tests.nova_client import random_nodes, random_requests
from nova_sched.tests.nova_client.cloud import CELL, OTHER_CELL

# Never so near to [DEFAULT]service_down_time that the time between two questions could make a
# difference.
AGES_S = (0, 5, 30, 90, 110, 130, 3600, -5, -30, -90, -130)
# Each object goes the way from Nova's side to ours that it goes on the wire.
across = ours.from_primitive


class World:
    """A few hosts that Nova's rules and ours see at the same time.

    ``states`` are Nova's host states, in the order of the rows of ``hosts``, our columns. Nodes
    stay as they are; services and aggregates are dealt again for each rule that is tried.
    """

    def __init__(self, dice, size):
        self.names = []
        self.instances = [dice.uuid() for _ in range(2 * size)]
        self.states = []
        self._cluster = Cluster()
        self._aggregates = ()
        for number in range(size):
            # One host in eight has two nodes, as one that manages bare metal has.
            new = f'Cmp-{number}.example' if dice.maybe(0.3) else f'cmp-{number}'
            host = self.names[-1] if self.names and dice.maybe(0.125) else new
            self.names.append(host)
            self._add(random_nodes.node(dice, host), dice.choice((CELL, OTHER_CELL)))
        self._tell(dice)

    @property
    def hosts(self):
        return self._cluster.hosts

    def _add(self, node, cell):
        put(
            self._cluster,
            reports.report(across(node.obj_to_primitive()), node.host, cell_uuid=cell),
        )
        state = HostState(node.host, node.hypervisor_hostname, cell)
        state.update(compute=node)
        self.states.append(state)

    def _tell(self, dice):
        """Which instances are where, as computes tell it; an instance that moves is on two
        hosts."""
        there = {host: dice.some(self.instances, 6) for host in self.names}
        for host, uuids in there.items():
            self._cluster.tell(host, uuids)
        images = {uuid: random_nodes.image(dice) for uuid in self.instances}
        for state in self.states:
            state.instances = {uuid: _instance(uuid, images[uuid]) for uuid in there[state.host]}
        for uuid, image in images.items():
            # What a claim leaves behind of the request that it was made for.
            spec = across(random_requests.spec(uuid, {'image': image}).obj_to_primitive())
            self.hosts.places.learn(uuid, READERS['image_properties'](spec))

    def serve(self, dice):
        """Deal the states of the compute services, each with a time when it was last seen."""
        now = datetime.datetime.now(datetime.UTC)
        self.hosts.now_s = now.timestamp()
        for host in set(self.names):
            seen = now - datetime.timedelta(seconds=dice.choice(AGES_S))
            record = {
                'disabled': dice.maybe(0.2),
                'disabled_reason': 'maintenance',
                'forced_down': dice.maybe(0.2),
                'last_seen_up': seen,
                'created_at': now,
            }
            self._cluster.set_service(
                host, record['disabled'], 'maintenance', record['forced_down']
            )
            for state in self.states:
                if state.host == host:
                    state.update(service=record)
            self.hosts.seen_s[self.hosts.rows_of_host[host]] = seen.timestamp()

    def gather(self, dice, metadata):
        """Deal aggregates, up to one for each host, whose metadata are what ``metadata(dice)``
        makes."""
        for one in self._aggregates:
            self._cluster.set_aggregate(one.id, None)
        self._aggregates = [
            theirs.Aggregate(
                id=number,
                uuid=dice.uuid(),
                name=f'aggregate {number}',
                hosts=dice.some(sorted(set(self.names)), 4),
                metadata=metadata(dice),
            )
            for number in range(dice.randint(0, len(self.names)))
        ]
        for one in translate.aggregates(
            [across(one.obj_to_primitive()) for one in self._aggregates]
        ):
            self._cluster.set_aggregate(one.id, one)
        for state in self.states:
            state.aggregates = [one for one in self._aggregates if state.host in one.hosts]

    def forget(self):
        """Take back what Nova's filters have written into their host states."""
        for state in self.states:
            state.limits = {}
            # What Placement would offer: everything from the node's own provider.
            state.allocation_candidates = [{'mappings': {}}]


def _instance(uuid, properties):
    """An instance with its image as Nova keeps it: texts, each trait under a key of its own."""
    texts = {name: str(value) for name, value in properties.items() if name != 'traits_required'}
    texts |= {f'trait:{trait}': 'required' for trait in properties.get('traits_required', ())}
    kept = {f'image_{name}': text for name, text in texts.items()}
    return theirs.Instance(uuid=uuid, image_ref='', system_metadata=kept)
