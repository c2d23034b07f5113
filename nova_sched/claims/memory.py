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
"""A claim store in this process: for trials, simulations and tests; it keeps the whole contract."""

import dataclasses
import threading

from nova_sched.claims import Changes, ClaimStore, NodeFacts
from nova_sched.claims.judge import Held, Ledger, judge
from nova_sched.claims.reconcile import settle
from nova_sched.objects.claiming import CONFIRMED


class MemoryClaimStore(ClaimStore):
    """Claims and node facts in dictionaries, one lock round each method."""

    def __init__(self):
        self._lock = threading.Lock()
        self._nodes = {}  # UUID -> NodeFacts without claims
        self._claims = {}  # (consumer, node) -> Claim
        self._services, self._aggregates, self._instances = {}, {}, {}

    def _on(self, uuid):
        return {consumer: claim for (consumer, node), claim in self._claims.items() if node == uuid}

    def _facts(self, uuid):
        return dataclasses.replace(self._nodes[uuid], claims=tuple(self._on(uuid).values()))

    def _touch(self, uuid):
        facts = self._nodes.get(uuid)
        if facts is not None:
            self._nodes[uuid] = dataclasses.replace(facts, generation=facts.generation + 1)

    def _ledger(self, uuid):
        facts, used = self._nodes[uuid], dict(self._nodes[uuid].foreign)
        ledger = Ledger(facts.report.inventories, used, facts.generation)
        for claim in self._on(uuid).values():
            ledger.take(claim.resources)
        return ledger

    def commit(self, placements):
        with self._lock:
            consumers = {claim.consumer_uuid for one in placements for claim in one.claims}
            consumers |= {consumer for one in placements for consumer, _ in one.releases}
            held = Held(claim for claim in self._claims.values() if claim.consumer_uuid in consumers)
            nodes = {claim.node_uuid for one in placements for claim in one.claims}
            nodes |= {node for consumer in consumers for node in held.of(consumer)}
            outcomes = judge(
                placements, {node: self._ledger(node) for node in nodes if node in self._nodes}, held
            )
            for key in held.removed:
                del self._claims[key]
            self._claims.update(held.added)
            for node in {node for _, node in (*held.added, *held.removed)}:
                self._touch(node)
            return outcomes

    def report(self, reports, now_s):
        with self._lock:
            return [self._report(report, now_s) for report in reports]

    def _report(self, report, now_s):
        settled = settle(report, self._on(report.node_uuid))
        for consumer in settled.confirmed:
            self._confirm((consumer, report.node_uuid))
        for consumer in settled.released:
            del self._claims[consumer, report.node_uuid]
        before = self._nodes.get(report.node_uuid)
        facts = NodeFacts(
            report=report,
            generation=before.generation if before else 0,
            foreign=settled.foreign,
            foreign_instances=settled.foreign_instances,
            seen_s=now_s,
        )
        self._nodes[report.node_uuid] = facts
        if (
            before is None
            or dataclasses.replace(before, seen_s=now_s) != facts
            or settled.confirmed
            or settled.released
        ):
            self._touch(report.node_uuid)
        return self._facts(report.node_uuid)

    def _confirm(self, key):
        claim = self._claims[key]
        self._claims[key] = dataclasses.replace(claim, state=CONFIRMED, expires_s=None)
        return claim

    def _end(self, keys):
        ended = [self._claims.pop(key) for key in keys if key in self._claims]
        for node in {claim.node_uuid for claim in ended}:
            self._touch(node)
        return ended

    def confirm(self, consumers, node_uuids):
        with self._lock:
            keys = [(consumer, node) for consumer in consumers for node in node_uuids]
            found = [self._confirm(key) for key in keys
                     if key in self._claims and self._claims[key].state != CONFIRMED]  # fmt: skip
            for node in {claim.node_uuid for claim in found}:
                self._touch(node)
            return found

    def release(self, keys):
        with self._lock:
            return self._end(keys)

    def expire(self, now_s):
        with self._lock:
            return self._end([key for key, claim in self._claims.items()
                              if claim.state != CONFIRMED and claim.expires_s and claim.expires_s <= now_s])  # fmt: skip

    def claims(self, consumer_uuid=None):
        with self._lock:
            found = [claim for claim in self._claims.values() if consumer_uuid in (None, claim.consumer_uuid)]
            return sorted(found, key=lambda claim: (claim.created_s, claim.uuid))

    def remove_node(self, uuid):
        with self._lock:
            self._nodes.pop(uuid, None)
            for consumer in self._on(uuid):
                del self._claims[consumer, uuid]

    def set_service(self, service):
        self._services[service.host] = service

    def set_aggregate(self, aggregate_id, aggregate):
        self._aggregates.pop(aggregate_id, None)
        if aggregate is not None:
            self._aggregates[aggregate_id] = aggregate

    def set_instances(self, host, instances):
        self._instances[host] = instances

    def changes(self, generations):
        with self._lock:
            return Changes(
                nodes=tuple(
                    self._facts(uuid)
                    for uuid, facts in self._nodes.items()
                    if generations.get(uuid) != facts.generation
                ),  # fmt: skip
                gone=tuple(uuid for uuid in generations if uuid not in self._nodes),
                seen={uuid: facts.seen_s for uuid, facts in self._nodes.items()},
                services=tuple(self._services.values()),
                aggregates=tuple(self._aggregates.values()),
                instances=dict(self._instances),
            )
