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

"""The facts about all hosts that a store has at one moment, for people."""

from nova_sched.claims.values import NodeFacts, ServiceFacts
from nova_sched.state.host_aggregate import zones
from nova_sched.state.report import DISABLED_TRAIT

UP, DOWN, DISABLED, FORCED_DOWN = 'up', 'down', 'disabled', 'forced down'
UNKNOWN = 'unknown'  # the store has no service of a host that is read from Nova

UNSET = ServiceFacts('')  # of a host of which an operator has set nothing


class CloudFacts:
    """Facts of a store at one moment. Lengths of time are in seconds, moments in
    seconds since the epoch.

    ``seen``: by node, a last heartbeat that may be newer than that in its facts.
    ``reads_nova``: the hosts are read from Nova. Then the store has no services, and of a node
    only the time when a scheduler has read it last, which is not a heartbeat.
    """

    def __init__(
        self,
        changes,
        now_s,
        down_time_s=60,
        default_zone='nova',
        seen=None,
        reads_nova=False,
    ):
        self.now_s, self.reads_nova = now_s, reads_nova
        self._seen = seen or {}
        self.nodes = sorted(
            changes.nodes, key=lambda facts: (facts.report.host, facts.report.nodename)
        )
        self._by_uuid = {facts.report.node_uuid: facts for facts in self.nodes}
        self._by_host: dict[str, list[NodeFacts]] = {}
        for facts in self.nodes:
            self._by_host.setdefault(facts.report.host, []).append(facts)
        self._down_time_s = down_time_s
        self._default_zone = default_zone
        services = () if reads_nova else changes.services or ()
        self._services = {service.host: service for service in services}
        self._aggregates = sorted(changes.aggregates or (), key=lambda aggregate: aggregate.id)
        self._instances = changes.instances or {}

    def hosts(self):
        """The names of all hosts that a node or an operator ever named, sorted."""
        return sorted({*self._services, *self._by_host})

    def knows(self, host):
        """Whether a node or an operator ever named the host."""
        return host in self._services or host in self._by_host

    def nodes_of(self, host):
        return self._by_host.get(host, [])

    def node(self, uuid):
        """The facts of one node; None if it left."""
        return self._by_uuid.get(uuid)

    def service(self, host):
        """An operator's settings of the host; the defaults if there are none, and None for each
        one that only Nova knows."""
        if self.reads_nova:
            return ServiceFacts(host, None, None, None)
        return self._services.get(host) or ServiceFacts(host)

    @property
    def aggregates(self):
        return self._aggregates

    def aggregates_of(self, host):
        return [aggregate for aggregate in self._aggregates if host in aggregate.hosts]

    def zones(self, host):
        return sorted(zones(self.aggregates_of(host))) or [self._default_zone]

    def instances_of(self, host):
        """UUIDs of the instances in the host's messages and reports."""
        reported = (facts.report.instances or () for facts in self.nodes_of(host))
        return sorted(frozenset(self._instances.get(host, ())).union(*reported))

    def seen_s(self, host):
        """The last heartbeat; None if there never was one, or if only Nova knows it."""
        if self.reads_nova:
            return None
        latest = self._services.get(host, UNSET).seen_s
        for facts in self.nodes_of(host):
            latest = max(latest, facts.seen_s, self._seen.get(facts.report.node_uuid, 0.0))
        return latest or None

    def disabled_by_node(self, host):
        """Whether the host itself reports that it is disabled: by a trait, also in Placement."""
        return any(DISABLED_TRAIT in facts.report.traits for facts in self.nodes_of(host))

    def state(self, host):
        """The strongest reason that keeps new servers from the host; `up` if there is none, and
        `unknown` if only Nova knows."""
        service = self._services.get(host, UNSET)
        if service.forced_down:
            return FORCED_DOWN
        if service.disabled or self.disabled_by_node(host):
            return DISABLED
        if self.reads_nova:
            return UNKNOWN
        seen_s = self.seen_s(host)
        alive = seen_s is not None and abs(self.now_s - seen_s) <= self._down_time_s
        return UP if alive else DOWN
