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
from nova_sched.claims.circle import Circle
from nova_sched.claims.judge import Held, Ledger, judge, stale
from nova_sched.claims.lifecycle import amend, finishing, leaving, reverting
from nova_sched.claims.reconcile import absent, keeps_source, settle
from nova_sched.objects.claim import Claim


class MemoryClaimStore(ClaimStore):
    """Claims and node facts in dictionaries, one lock round each method."""

    def __init__(self):
        self._lock = threading.Lock()
        self._nodes = {}  # UUID -> NodeFacts without claims
        self._names = {}  # (host, nodename) -> UUID
        self._claims = {}  # node UUID -> consumer -> Claim
        self._pieces_at = {}  # node UUID -> the generation at which pieces were last taken or reported anew
        self._places = {}  # consumer -> UUIDs of nodes
        self._last_generation = 0  # of all nodes that left: one that comes back must not look like it
        self._services, self._aggregates, self._instances = {}, {}, {}

    # Claims, one by one.

    def _of(self, consumer):
        return [self._claims[node][consumer] for node in self._places.get(consumer, ())]

    def _find(self, key):
        return self._claims.get(key[1], {}).get(key[0])

    def _put(self, claim):
        self._claims[claim.node_uuid][claim.consumer_uuid] = claim
        self._places.setdefault(claim.consumer_uuid, set()).add(claim.node_uuid)

    def _drop(self, key):
        consumer, node = key
        places = self._places[consumer]
        places.discard(node)
        if not places:
            del self._places[consumer]
        return self._claims[node].pop(consumer)

    def _touch(self, uuids):
        for uuid in uuids:
            facts = self._nodes[uuid]
            self._nodes[uuid] = dataclasses.replace(facts, generation=facts.generation + 1)

    # Claims.

    def commit(self, placements):
        with self._lock:
            consumers = {claim.consumer_uuid for one in placements for claim in one.claims}
            consumers |= {consumer for one in placements for consumer, _ in one.releases}
            held = Held(claim for consumer in consumers for claim in self._of(consumer))
            nodes = {claim.node_uuid for one in placements for claim in one.claims}
            nodes |= {node for consumer in consumers for node in held.of(consumer)}
            ledgers = self._ledgers(nodes)
            circles = {
                policy.group_uuid: self._circle(policy) for one in placements for policy in one.policies
            }
            outcomes = judge(placements, ledgers, held, circles)
            self._write(held)
            return [
                outcome
                if outcome.won
                else dataclasses.replace(outcome, fresh=self._fresh(one, circles, held))
                for one, outcome in zip(placements, outcomes, strict=True)
            ]

    def _ledgers(self, nodes):
        return {uuid: self._ledger(uuid) for uuid in nodes if uuid in self._nodes}

    def _ledger(self, uuid):
        facts = self._nodes[uuid]
        known = facts.report.inventories, dict(facts.foreign), facts.generation, facts.report.host
        ledger = Ledger(*known, self._pieces_at[uuid])
        for claim in self._claims[uuid].values():
            ledger.take(claim.resources)
        return ledger

    def _circle(self, policy):
        members = (claim for claims in self._claims.values() for claim in claims.values()
                   if claim.group_uuid == policy.group_uuid)  # fmt: skip
        return Circle(policy, [(*one.key, self._nodes[one.node_uuid].report.host) for one in members])

    def _fresh(self, placement, circles, held):
        return tuple(self._facts(uuid) for uuid in stale(placement, circles, held) if uuid in self._nodes)

    def _write(self, held):
        for key in held.removed:
            self._drop(key)
        for claim in held.added.values():
            self._put(claim)
            if claim.all_parts:
                self._pieces_at[claim.node_uuid] = self._nodes[claim.node_uuid].generation + 1
        self._touch({node for _, node in (*held.added, *held.removed)})

    def _amend(self, claims, change):
        """Change claims, see ``amend``; returns those that were changed, as they were."""
        held = Held(claims)
        changed = amend(claims, change, self._ledgers({claim.node_uuid for claim in claims}), held)
        self._write(held)
        return changed

    def confirm(self, consumers, node_uuids):
        with self._lock:
            found = [claim for consumer in consumers for claim in self._of(consumer)
                     if claim.node_uuid in node_uuids and not claim.is_confirmed]  # fmt: skip
            return self._amend(found, Claim.confirmed)

    def finish(self, consumer, node_uuids):
        with self._lock:
            claims = self._of(consumer)
            return self._amend(claims, finishing(claims, node_uuids))

    def revert(self, consumer):
        with self._lock:
            claims = self._of(consumer)
            return self._amend(claims, reverting(claims))

    def release(self, keys, absent=False):
        with self._lock:
            found = [claim for consumer in {one for one, _ in keys} for claim in self._of(consumer)]
            return self._amend(found, leaving(found, set(keys), absent))

    def expire(self, now_s):
        with self._lock:
            overdue = [claim for claims in self._claims.values() for claim in claims.values()
                       if not claim.is_confirmed and claim.overdue(now_s)]  # fmt: skip
            return self._amend(overdue, lambda claim: None)

    def claims(self, consumer_uuid=None):
        with self._lock:
            consumers = self._places if consumer_uuid is None else (consumer_uuid,)
            found = [claim for consumer in consumers for claim in self._of(consumer)]
            return sorted(found, key=lambda claim: (claim.created_s, claim.uuid))

    # Nodes.

    def report(self, reports, now_s):
        with self._lock:
            latest = {report.node_uuid: report for report in reports}
            facts = {uuid: self._report(uuid, report, now_s) for uuid, report in latest.items()}
            return [facts[report.node_uuid] for report in reports]

    def _report(self, uuid, report, now_s):
        twin = self._names.get((report.host, report.nodename), uuid)
        if twin != uuid:
            self._forget(twin)
        claims = self._claims.setdefault(uuid, {})
        moving = {
            (consumer, uuid)
            for consumer in absent(report, claims)
            if any(keeps_source(one, consumer, uuid) for one in self._of(consumer))
        }
        settled = settle(report, claims, moving, now_s)
        changed = settled.changed(claims)
        for claim in changed:
            self._put(claim)
        for claim in settled.ended:
            self._drop(claim.key)
        before = self._nodes.get(uuid)
        after = NodeFacts(
            report=report,
            generation=before.generation if before else self._last_generation,
            foreign=settled.foreign,
            foreign_instances=settled.foreign_instances,
            seen_s=now_s,
        )
        if before is not None:
            del self._names[before.report.host, before.report.nodename]
        self._names[report.host, report.nodename] = uuid
        self._nodes[uuid] = after
        same = before is not None and dataclasses.replace(before, seen_s=now_s) == after
        if not same or changed or settled.ended:
            self._touch([uuid])
        told = report.pieces, report.providers, report.inventories
        was = before and (before.report.pieces, before.report.providers, before.report.inventories)
        anew = told != was
        if anew or any(claim.all_parts for claim in changed):
            self._pieces_at[uuid] = self._nodes[uuid].generation
        return self._facts(uuid)

    def _facts(self, uuid):
        return dataclasses.replace(self._nodes[uuid], claims=tuple(self._claims[uuid].values()))

    def remove_node(self, uuid):
        with self._lock:
            if uuid in self._nodes:
                self._forget(uuid)

    def _forget(self, uuid):
        facts = self._nodes.pop(uuid)
        self._last_generation = max(self._last_generation, facts.generation)
        del self._names[facts.report.host, facts.report.nodename]
        for consumer in list(self._claims[uuid]):
            self._drop((consumer, uuid))
        del self._claims[uuid], self._pieces_at[uuid]

    # Services, aggregates, instance lists.

    def set_service(self, service):
        with self._lock:
            kept = self._services[service.host] = service.after(self._services.get(service.host))
            return kept

    def set_aggregate(self, aggregate_id, aggregate):
        with self._lock:
            self._aggregates.pop(aggregate_id, None)
            if aggregate is not None:
                self._aggregates[aggregate_id] = aggregate

    def set_instances(self, host, instances):
        with self._lock:
            self._instances[host] = instances

    def digest(self):
        with self._lock:
            return len(self._nodes), sum(facts.generation for facts in self._nodes.values())

    def heads(self):
        with self._lock:
            return {uuid: (facts.generation, facts.seen_s) for uuid, facts in self._nodes.items()}

    def look(self, nodes):
        """As a store of its own for everybody who asks: the small tables come whole each time."""
        with self._lock:
            return Changes(
                nodes=tuple(self._facts(uuid) for uuid in nodes if uuid in self._nodes),
                gone=tuple(uuid for uuid in nodes if uuid not in self._nodes),
                services=tuple(self._services.values()),
                aggregates=tuple(self._aggregates.values()),
                instances=dict(self._instances),
            )
