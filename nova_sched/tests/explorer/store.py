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
"""The claims of the explorer, in dictionaries that it copies for each state: by the rules of the
product, without groups of templates and small tables.

`test_audit_random` compares it with the store of the product.
"""

import dataclasses

from nova_sched.claims import (
    ANY,
    ChangeFeed,
    Changes,
    ClaimEdit,
    ClaimStore,
    NodeFacts,
    NodeReports,
)
from nova_sched.claims.exclusive_domains import ExclusiveDomains
from nova_sched.claims.guards import Guards, ServerGroupMembers
from nova_sched.claims.judge import ConsumerClaims, NodeUsage, judge, only_short, stale
from nova_sched.claims.lifecycle import amend, expiring, finishing, leaving, reverting
from nova_sched.claims.reconcile import NEW_NODE, Before, absent, keeps_source, newest, settle
from nova_sched.claims.sql_watch import Unwatched
from nova_sched.state.report import check_boot


class ExplorerStore(ChangeFeed):
    lifetime_s = staticmethod(NodeReports.lifetime_s)

    def __init__(self, clock):
        self.clock = clock
        self._nodes = {}  # UUID -> NodeFacts without claims
        # node UUID -> the generation at which it was made, and the one after its last report
        self._made_at, self._reported_at = {}, {}
        self._names = {}  # (host, nodename) -> UUID
        self._claims = {}  # node UUID -> consumer -> Claim
        # node UUID -> the generation at which pieces were last taken or reported
        self._pieces_at = {}
        # of all removed nodes: a node that returns must have a higher one
        self._last_generation = 0
        # When schedulers last looked for claims to end, and the last time in which none did.
        self._watched_s, self._unwatched = None, None

    def now_s(self):
        return self.clock()

    # Claims, one by one.

    @property
    def _every(self):
        return [claim for claims in self._claims.values() for claim in claims.values()]

    def _of(self, consumers):
        return [claim for claim in self._every if claim.consumer_uuid in consumers]

    def _put(self, claim):
        self._claims[claim.node_uuid][claim.consumer_uuid] = claim

    def _drop(self, key):
        consumer, node = key
        del self._claims[node][consumer]

    def _touch(self, uuids):
        for uuid in uuids:
            facts = self._nodes[uuid]
            self._nodes[uuid] = dataclasses.replace(facts, generation=facts.generation + 1)

    # Claims.

    def commit(self, placements):
        consumers = {claim.consumer_uuid for one in placements for claim in one.claims}
        consumers |= {consumer for one in placements for consumer, _ in one.releases}
        held = ConsumerClaims(self._of(consumers))
        nodes = {claim.node_uuid for one in placements for claim in one.claims}
        nodes |= {node for consumer in consumers for node in held.of(consumer)}
        usages = self._usages(nodes)
        guards = None
        if any(one.guard for one in placements):
            members = {
                policy.group_uuid: self._members_of_group(policy)
                for one in placements
                if one.guard
                for policy in one.guard.policies
            }
            guards = Guards(members, {}, ExclusiveDomains(usages), {})
        outcomes = judge(placements, usages, held, self.now_s(), guards)
        self._write(held, usages)
        told = []
        for one, outcome in zip(placements, outcomes, strict=True):
            if not (outcome.won or only_short(one, usages, held)):
                outdated = stale(one, held, guards)
                gone = tuple(sorted(uuid for uuid in outdated if uuid not in self._nodes))
                outcome = dataclasses.replace(outcome, fresh=self._fresh(outdated), gone=gone)
            told.append(outcome)
        return told

    def _members_of_group(self, policy):
        members = (one for one in self._every if one.group_uuid == policy.group_uuid)
        return ServerGroupMembers(
            policy, [(*one.key, self._nodes[one.node_uuid].report.host) for one in members]
        )

    def _usages(self, nodes):
        return {uuid: self._usage(uuid) for uuid in nodes if uuid in self._nodes}

    def _usage(self, uuid):
        facts = self._nodes[uuid]
        known = facts.report.inventories, dict(facts.foreign), facts.generation, facts.report.host
        usage = NodeUsage(*known, self._pieces_at[uuid], foreign_instances=facts.foreign_instances)
        for claim in self._claims[uuid].values():
            usage.take(claim.resources)
        return usage

    def _fresh(self, nodes):
        return tuple(self._facts(uuid) for uuid in sorted(nodes) if uuid in self._nodes)

    def _write(self, held, usages):
        for key in held.removed:
            self._drop(key)
        for claim in held.added.values():
            self._put(claim)
            if claim.all_parts:
                self._pieces_at[claim.node_uuid] = self._nodes[claim.node_uuid].generation + 1
        self._touch({node for node, usage in usages.items() if usage.changed})

    def _amend(self, claims, change):
        """Change claims, see ``amend``; returns the ClaimEdit."""
        held = ConsumerClaims(claims)
        usages = self._usages({claim.node_uuid for claim in claims})
        changed = amend(claims, change, usages, held, self.now_s())
        self._write(held, usages)
        return ClaimEdit(changed, held.claims)

    def confirm(self, consumers, node_uuids):
        return self._amend(
            self._of(consumers),
            lambda claim: claim.confirmed() if claim.node_uuid in node_uuids else claim,
        ).changed

    def finish(self, consumer, node_uuids, selector=ANY):
        claims = self._of([consumer])
        return self._amend(claims, finishing(claims, node_uuids, selector))

    def revert(self, consumer, selector=ANY):
        claims = self._of([consumer])
        return self._amend(claims, reverting(claims, selector))

    def release(self, keys, selector=ANY):
        claims = self._of([consumer for consumer, _ in keys])
        return self._amend(claims, leaving(set(keys), selector))

    def renew_claim(self, claim, lifetime_s):
        held = self._claims.get(claim.node_uuid, {}).get(claim.consumer_uuid)
        if held is None or held.name != claim.name:
            return False
        generation = self._nodes[claim.node_uuid].generation + 1
        renewed = held.renewed(self.now_s(), lifetime_s, generation)
        if renewed is None:
            return False
        self._put(renewed)
        self._touch([claim.node_uuid])
        return True

    expire = ClaimStore.expire

    def expire_some(self, now_s=None, unwatched_s=None):
        now_s = self.now_s() if now_s is None else now_s
        unwatched = None if unwatched_s is None else self._look(now_s, unwatched_s)
        is_set_back = unwatched is not None and unwatched.is_set_back

        def is_later(claim):
            return claim.changed_s > now_s + unwatched_s

        def change(claim):
            is_spared = unwatched and (claim.changed_s < unwatched.end_s or is_later(claim))
            if is_spared and claim.expires_s:
                claim = claim.spared(*unwatched)
            return expiring(now_s)(claim)

        found = [
            claim
            for claim in self._every
            if claim.overdue(now_s) or (is_set_back and claim.expires_s and is_later(claim))
        ]
        moving = {claim.consumer_uuid for claim in found if claim.keeps_source}
        found += [claim for claim in self._of(moving) if claim.is_confirmed and claim not in found]
        changed = self._amend(found, change).changed
        return [claim for claim in changed if change(claim) is None], False

    def _look(self, now_s, most_s):
        last = self._watched_s
        if last is not None and abs(now_s - last) > most_s:
            self._unwatched, self._watched_s = Unwatched(last, now_s), now_s
        else:
            self._watched_s = now_s if last is None else max(now_s, last)
        return self._unwatched

    def claims(self, consumer_uuid=None):
        found = self._every if consumer_uuid is None else self._of([consumer_uuid])
        return sorted(found, key=lambda claim: (claim.created_s, claim.uuid))

    # Nodes.

    def report(self, reports, now_s=None):
        now_s = self.now_s() if now_s is None else now_s
        latest = newest(reports)
        facts = {uuid: self._report(uuid, report, now_s) for uuid, report in latest.items()}
        return [facts[report.node_uuid] for report in reports]

    def _report(self, uuid, report, now_s):
        """Return the node's data after the report."""
        last = self._nodes.get(uuid)
        before = last or self._nodes.get(self._names.get((report.host, report.nodename)))
        check_boot(report, before and before.report.order.boot)
        if last is not None and not report.order.is_after(
            last.report.order, self._reported_at[uuid]
        ):
            return dataclasses.replace(self._facts(uuid), stale=True)
        twin = self._names.get((report.host, report.nodename), uuid)
        if twin != uuid:
            boot, made_at = self._nodes[twin].report.order.boot, self._made_at[twin]
            if last is None and not report.order.is_of_later_life(boot, made_at):
                return dataclasses.replace(self._facts(twin), stale=True)
            self._forget(twin)
        claims = self._claims.setdefault(uuid, {})
        known = NEW_NODE._replace(generation=self._last_generation)
        if last is not None:
            known = Before(
                last.generation,
                self._reported_at[uuid],
                last.report.order,
                lambda: last.report.instances,
                last.unclaimed,
            )
        moving = {
            (consumer, uuid)
            for consumer in absent(report, claims, known)
            if any(keeps_source(one, consumer, uuid) for one in self._of([consumer]))
        }
        settled = settle(report, claims, moving, now_s, known)
        changed = settled.changed(claims)
        for claim in changed:
            self._put(claim)
        for claim in settled.ended:
            self._drop(claim.key)
        self._free_sources(settled.ended)
        after = NodeFacts(
            report=report,
            generation=known.generation,
            unclaimed=settled.unclaimed,
            foreign_instances=settled.foreign_instances,
            seen_s=now_s,
        )
        if last is not None:
            del self._names[last.report.host, last.report.nodename]
        self._names[report.host, report.nodename] = uuid
        self._nodes[uuid] = after
        same = last is not None and dataclasses.replace(last, seen_s=now_s) == after
        if not same or changed or settled.ended:
            self._touch([uuid])
        self._reported_at[uuid] = self._nodes[uuid].generation
        self._made_at.setdefault(uuid, self._reported_at[uuid])
        told = report.pieces, report.providers, report.inventories
        was = last and (last.report.pieces, last.report.providers, last.report.inventories)
        if told != was or any(claim.all_parts for claim in changed):
            self._pieces_at[uuid] = self._nodes[uuid].generation
        return dataclasses.replace(self._facts(uuid), ended=settled.ended)

    def _free_sources(self, ended):
        """See ``statements.free_sources``."""
        found = self._of({claim.consumer_uuid for claim in ended if claim.keeps_source})
        held, usages = ConsumerClaims(found), self._usages({claim.node_uuid for claim in found})
        for claim in found:
            held.put(claim.key, claim.returning(self.now_s() + self.lifetime_s()))
        held.stamp(self.now_s(), usages)
        self._write(held, usages)

    def _facts(self, uuid):
        return dataclasses.replace(self._nodes[uuid], claims=tuple(self._claims[uuid].values()))

    def remove_node(self, uuid, generation=None):
        if uuid not in self._nodes:
            return False
        claims = self._claims[uuid].values()
        if generation is None:
            is_meant = not any(one.is_confirmed for one in claims)
        else:
            written = (claim.changed_at for claim in claims)
            is_meant = max(self._reported_at[uuid], *written, 0) <= generation
        if is_meant:
            self._forget(uuid)
        return is_meant

    def _forget(self, uuid):
        """Remove a node and its claims."""
        facts = self._nodes.pop(uuid)
        self._last_generation = max(self._last_generation, facts.generation)
        del self._names[facts.report.host, facts.report.nodename]
        del self._pieces_at[uuid], self._made_at[uuid], self._reported_at[uuid]
        self._free_sources(self._claims.pop(uuid).values())

    # Changes by other schedulers.

    def digest(self):
        return len(self._nodes), sum(facts.generation for facts in self._nodes.values())

    def heads(self):
        return {uuid: (facts.generation, facts.seen_s) for uuid, facts in self._nodes.items()}

    def read_nodes(self, nodes):
        gone = tuple(uuid for uuid in nodes if uuid not in self._nodes)
        return Changes(nodes=self._fresh(nodes), gone=gone)
