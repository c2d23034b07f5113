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
"""A claim store in this process: for trials, simulations and tests. It implements the whole
interface."""

import dataclasses
import threading
import time

from nova_sched import errors
from nova_sched.claim import PLANNED
from nova_sched.claims import (
    ANY,
    Changes,
    ClaimEdit,
    ClaimStore,
    ClosedDomain,
    NodeFacts,
    ServiceFacts,
    changed_claims,
    plan_quota,
)
from nova_sched.claims.exclusive_domains import (
    ExclusiveDomains,
    carried,
    dropped,
    filled,
    moved_hosts,
    put,
)
from nova_sched.claims.judge import (
    Held,
    NodeUsage,
    ServerGroupMembers,
    add,
    judge,
    only_short,
    stale,
)
from nova_sched.claims.lifecycle import (
    allocating,
    amend,
    expiring,
    finishing,
    leaving,
    reverting,
)
from nova_sched.claims.reconcile import (
    NEW_NODE,
    Before,
    absent,
    due_s,
    keeps_source,
    newest,
    settle,
)


class MemoryClaimStore(ClaimStore):
    """Claims and node data in dictionaries, with one lock around each method."""

    def __init__(self, clock=None):
        self.clock = clock
        self._lock = threading.Lock()
        self._nodes = {}  # UUID -> NodeFacts without claims
        # node UUID -> the generation at which it was made, and the one after its last report
        self._made_at, self._reported_at = {}, {}
        self._names = {}  # (host, nodename) -> UUID
        self._claims = {}  # node UUID -> consumer -> Claim
        self._used = {}  # node UUID -> sums of the resources of its claims
        # node UUID -> the generation at which pieces were last taken or reported
        self._pieces_at = {}
        self._places = {}  # consumer -> UUIDs of nodes
        # of all removed nodes: a node that returns must have a higher one
        self._last_generation = 0
        self._services, self._aggregates, self._instances = {}, {}, {}
        self._records = {}  # UUID -> GroupRecord
        self._members = {}  # UUID of a group -> keys of its members' claims
        self._with_tokens = set()  # UUIDs of nodes with tokens of exclusive domains
        self._domains = {}  # token -> Domain
        self._watched_s = None  # when schedulers last looked for claims to end

    def now_s(self):
        return time.time() if self.clock is None else self.clock()

    # Claims, one by one.

    def _of(self, consumer):
        return [self._claims[node][consumer] for node in self._places.get(consumer, ())]

    def _find(self, key):
        return self._claims.get(key[1], {}).get(key[0])

    def _put(self, claim):
        claims = self._claims[claim.node_uuid]
        before = claims.get(claim.consumer_uuid)
        if before is not None:
            add(self._used[claim.node_uuid], before.resources, -1)
        add(self._used[claim.node_uuid], claim.resources)
        claims[claim.consumer_uuid] = claim
        self._places.setdefault(claim.consumer_uuid, set()).add(claim.node_uuid)
        if claim.top_group is not None:
            self._members.setdefault(claim.top_group, set()).add(claim.key)

    def _drop(self, key):
        consumer, node = key
        places = self._places[consumer]
        places.discard(node)
        if not places:
            del self._places[consumer]
        claim = self._claims[node].pop(consumer)
        add(self._used[node], claim.resources, -1)
        members = self._members.get(claim.top_group, {key})
        members.discard(key)
        if not members:
            self._members.pop(claim.top_group, None)
        return claim

    def _touch(self, uuids):
        for uuid in uuids:
            facts = self._nodes[uuid]
            self._nodes[uuid] = dataclasses.replace(facts, generation=facts.generation + 1)

    # Claims.

    def commit(self, placements):
        with self._lock:
            placements = filled(placements, self._nodes_of)
            consumers = {claim.consumer_uuid for one in placements for claim in one.claims}
            consumers |= {consumer for one in placements for consumer, _ in one.releases}
            found = [claim for consumer in consumers for claim in self._of(consumer)]
            held = Held(found)
            nodes = {claim.node_uuid for one in placements for claim in one.claims}
            nodes |= {node for consumer in consumers for node in held.of(consumer)}
            in_closed = {
                node for one in placements for closed in put(one) for node in closed.nodes
            }
            usages, exclusive_domains = self._exclusive_domains(
                nodes, in_closed, dropped(placements, found)
            )
            members = {
                policy.group_uuid: self._members_of_group(policy)
                for one in placements
                if one.guard
                for policy in one.guard.policies
            }
            guards = {one.record_uuid for one in placements} - {None}
            records = {uuid: self._records.get(uuid) for uuid in guards}
            plans = {
                one.guard.record.project_id: self._plan_usage(one.guard.record.project_id)
                for one in placements
                if one.guard and one.guard.limits
            }
            now_s = self.now_s()
            outcomes = judge(
                placements, usages, held, members, records, exclusive_domains, now_s, plans
            )
            self._write(held, usages, exclusive_domains)
            self._tell_held(changed_claims.REQUEST, held, now_s, usages)
            self._records |= {
                uuid: record for uuid, record in records.items() if record is not None
            }
            return [
                outcome
                if outcome.won or only_short(one, usages, held)
                else dataclasses.replace(outcome, fresh=self._fresh(one, members, held))
                for one, outcome in zip(placements, outcomes, strict=True)
            ]

    def _exclusive_domains(self, nodes, closed=(), ending=frozenset()):
        """The usages of nodes, and their exclusive domains: those that are closed on the nodes
        ``closed``, and those that may end."""
        watched = self._with_tokens.union(closed) if ending else set(closed)
        usages = self._usages(watched.union(nodes))
        tenants = {
            node: {claim.consumer_uuid: frozenset(claim.fences)
                   for claim in self._claims[node].values()}
            for node in watched & usages.keys()
        }  # fmt: skip
        return usages, ExclusiveDomains(usages, tenants, ending)

    def _usages(self, nodes):
        return {uuid: self._usage(uuid) for uuid in nodes if uuid in self._nodes}

    def _usage(self, uuid):
        facts = self._nodes[uuid]
        known = facts.report.inventories, dict(facts.foreign), facts.generation, facts.report.host
        marks = {'fences': facts.fences, 'foreign_instances': facts.foreign_instances}
        usage = NodeUsage(*known, self._pieces_at[uuid], **marks)
        usage.take(self._used[uuid])
        return usage

    def _members_of_group(self, policy):
        members = (claim for claims in self._claims.values() for claim in claims.values()
                   if claim.group_uuid == policy.group_uuid)  # fmt: skip
        return ServerGroupMembers(
            policy, [(*one.key, self._nodes[one.node_uuid].report.host) for one in members]
        )

    def _fresh(self, placement, members, held):
        return tuple(
            self._facts(uuid) for uuid in stale(placement, members, held) if uuid in self._nodes
        )

    def _write(self, held, usages, exclusive_domains):
        for key in held.removed:
            self._drop(key)
        for claim in held.added.values():
            self._put(claim)
            if claim.all_parts:
                self._pieces_at[claim.node_uuid] = self._nodes[claim.node_uuid].generation + 1
        self._mark({node: usages[node].fences for node in exclusive_domains.changed})
        self._domains |= {token: one.domain for token, one in exclusive_domains.closed.items()}
        for token in exclusive_domains.ended & self._domains.keys():
            del self._domains[token]
        self._touch({node for node, usage in usages.items() if usage.changed})

    def _mark(self, marks):
        """Set the tokens of nodes."""
        for node, tokens in marks.items():
            self._nodes[node] = dataclasses.replace(self._nodes[node], fences=tokens)
            self._with_tokens.discard(node)
            if tokens:
                self._with_tokens.add(node)

    def _amend(self, cause, claims, change):
        """Change claims, see ``amend``; returns the ClaimEdit."""
        held, now_s = Held(claims), self.now_s()
        usages = self._usages({claim.node_uuid for claim in claims})
        changed = amend(claims, change, usages, held, now_s)
        self._write(held, usages, ExclusiveDomains(usages))
        self._tell_held(cause, held, now_s, usages)
        return ClaimEdit(changed, held.claims)

    # Exclusive domains.

    def _domains_of(self, report):
        if self.locator is None:
            return {}
        aggregates = [one for one in self._aggregates.values() if report.host in one.hosts]
        return self.locator.domains(
            report.host, report.nodename, self.locator.told(report), aggregates
        )

    def _nodes_of(self, closed):
        """UUIDs of the nodes of a ClosedDomain."""
        if self.locator is None or closed.domain is None:
            return closed.nodes
        level, name = closed.domain.level, closed.domain.name
        only = self.locator.host_of(level, name)
        return frozenset(
            uuid
            for (host, _), uuid in self._names.items()
            if only in (None, host)
            and self._domains_of(self._nodes[uuid].report).get(level) == name
        )

    def _enter(self, uuids, raised=frozenset()):
        """Set the tokens of nodes by the domains that they are in; returns the changed nodes.

        The nodes in ``raised`` have their new generation already.
        """
        if self.locator is None or not self._domains:
            return set()
        marks = {}
        for uuid in uuids:
            before = self._nodes[uuid].fences
            borne = {token for claim in self._claims[uuid].values() for token in claim.fences}
            after = carried(
                before, self._domains_of(self._nodes[uuid].report), self._domains, borne
            )
            if after != before:
                marks[uuid] = after
        self._mark(marks)
        self._touch(marks.keys() - raised)
        return set(marks)

    def confirm(self, consumers, node_uuids):
        with self._lock:
            found = [
                claim for consumer in dict.fromkeys(consumers) for claim in self._of(consumer)
            ]
            return self._amend(
                changed_claims.CONFIRM,
                found,
                lambda claim: claim.confirmed() if claim.node_uuid in node_uuids else claim,
            ).changed

    def allocated(self, claims):
        with self._lock:
            consumers = dict.fromkeys(one.consumer_uuid for one in claims)
            found = [claim for consumer in consumers for claim in self._of(consumer)]
            return self._amend(changed_claims.ALLOCATION, found, allocating(claims)).changed

    def finish(self, consumer, node_uuids, selector=ANY):
        with self._lock:
            claims = self._of(consumer)
            change = finishing(claims, node_uuids, selector)
            return self._amend(changed_claims.FINISH, claims, change)

    def revert(self, consumer, selector=ANY):
        with self._lock:
            claims = self._of(consumer)
            return self._amend(changed_claims.REVERT, claims, reverting(claims, selector))

    def release(self, keys, selector=ANY):
        with self._lock:
            found = [
                claim for consumer in {one for one, _ in keys} for claim in self._of(consumer)
            ]
            return self._amend(changed_claims.RELEASE, found, leaving(set(keys), selector))

    def renew_claim(self, claim, lifetime_s):
        with self._lock:
            held = self._find(claim.key)
            if held is None or held.name != claim.name:
                return False
            generation = self._nodes[claim.node_uuid].generation + 1
            renewed = held.renewed(self.now_s(), lifetime_s, generation)
            if renewed is None:
                return False
            self._put(renewed)
            self._touch([claim.node_uuid])
            return True

    def expire(self, now_s=None):
        now_s = self.now_s() if now_s is None else now_s
        with self._lock:
            overdue = [claim for claims in self._claims.values() for claim in claims.values()
                       if not claim.is_confirmed and claim.overdue(now_s)]  # fmt: skip
            moving = {claim.consumer_uuid for claim in overdue if claim.keeps_source}
            kept = [one for consumer in moving for one in self._of(consumer) if one.is_confirmed]
            return self._amend(changed_claims.TIMEOUT, overdue + kept, expiring).changed

    def keep_lifetimes(self, most_s):
        with self._lock:
            watched_s, self._watched_s = self._watched_s, (now_s := self.now_s())
            if watched_s is None or now_s - watched_s <= most_s:
                return []
            waiting = [
                claim
                for claims in self._claims.values()
                for claim in claims.values()
                if (claim.resizing or not claim.is_confirmed)
                and claim.expires_s
                and claim.created_s < now_s - most_s
            ]

            def change(claim):
                missed_s = now_s - max(watched_s, claim.created_s)
                return dataclasses.replace(claim, expires_s=claim.expires_s + missed_s)

            return self._amend(changed_claims.RENEWAL, waiting, change).changed

    def claims(self, consumer_uuid=None):
        with self._lock:
            consumers = self._places if consumer_uuid is None else (consumer_uuid,)
            found = [claim for consumer in consumers for claim in self._of(consumer)]
            return sorted(found, key=_age)

    # Groups.

    def top_group(self, uuid, whole=True):
        with self._lock:
            record = self._records.get(uuid)
            return (
                record if whole or record is None else dataclasses.replace(record, definition=None)
            )

    def top_groups(self, project_id=None, name=None, marker=None, limit=None, deleted=False):
        with self._lock:
            after = marker and self._records.get(marker)
            if marker and (after is None or project_id not in (None, after.project_id)):
                raise errors.GroupNotFound(marker)
            found = [
                dataclasses.replace(record, definition=None)
                for record in sorted(self._records.values(), key=_age)
                if project_id in (None, record.project_id)
                and name in (None, record.name)
                and (deleted or not record.deleted)
                and (after is None or _age(record) > _age(after))
            ]
            return found[:limit]

    def group_claims(self, uuid):
        with self._lock:
            return sorted(map(self._find, self._members.get(uuid, ())), key=_age)

    def renew(self, uuid, expires_s):
        with self._lock:
            if uuid in self._records:
                self._records[uuid] = dataclasses.replace(self._records[uuid], expires_s=expires_s)
            planned = [claim for claim in map(self._find, self._members.get(uuid, ()))
                       if claim.state == PLANNED]  # fmt: skip
            self._amend(
                changed_claims.RENEWAL,
                planned,
                lambda claim: dataclasses.replace(claim, expires_s=expires_s),
            )
            return sorted((self._find(claim.key) for claim in planned), key=_age)

    def domains(self):
        with self._lock:
            return dict(self._domains)

    def plan_usage(self, project_id):
        with self._lock:
            return self._plan_usage(project_id)

    def _plan_usage(self, project_id):
        used = plan_quota.amounts({}, 0)
        groups = {one.uuid for one in self._records.values() if one.project_id == project_id}
        for uuid in groups:
            used.update(plan_quota.of_record(self._records[uuid]))
            for claim in map(self._find, self._members.get(uuid, ())):
                if claim.state == PLANNED:
                    used.update(plan_quota.of_claim(claim))
        used[plan_quota.DOMAINS] = sum(one.top_group in groups for one in self._domains.values())
        return +used

    def spread_domain(self, token, nodes, domain=None):
        with self._lock:
            wanted = ClosedDomain(token, frozenset(nodes), domain)
            closed = dataclasses.replace(wanted, nodes=self._nodes_of(wanted))
            usages, exclusive_domains = self._exclusive_domains(
                (), closed.nodes, frozenset([token])
            )
            exclusive_domains.adopt(exclusive_domains.spread(closed))
            self._write(Held(()), usages, exclusive_domains)
            return sorted(exclusive_domains.changed)

    def end_domains(self):
        with self._lock:
            every = (self._nodes[node].fences for node in self._with_tokens)
            usages, exclusive_domains = self._exclusive_domains((), (), frozenset().union(*every))
            exclusive_domains.adopt(exclusive_domains.swept())
            self._write(Held(()), usages, exclusive_domains)
            return sorted(exclusive_domains.changed)

    def forget_groups(self):
        with self._lock:
            gone = [
                uuid
                for uuid, one in self._records.items()
                if one.deleted and uuid not in self._members
            ]
            for uuid in gone:
                del self._records[uuid]
            return len(gone)

    # Nodes.

    def report(self, reports, now_s=None):
        now_s = self.now_s() if now_s is None else now_s
        with self._lock:
            latest = newest(reports)
            before = {uuid: self._nodes[uuid].generation for uuid in latest if uuid in self._nodes}
            places = {uuid: self._place(uuid) for uuid in latest}
            facts = {uuid: self._report(uuid, report, now_s) for uuid, report in latest.items()}
            raised = {uuid for uuid, one in facts.items() if one.generation != before.get(uuid)}
            moved = {uuid for uuid, place in places.items()
                     if uuid in self._nodes and self._place(uuid) != place}  # fmt: skip
            for uuid in self._enter(moved, raised):
                known = {'stale': facts[uuid].stale, 'ended': facts[uuid].ended}
                facts[uuid] = dataclasses.replace(self._facts(uuid), **known)
            return [facts[report.node_uuid] for report in reports]

    def _place(self, uuid):
        """The node's host, name and reported domains; None if the node is not known."""
        if self.locator is None or uuid not in self._nodes:
            return None
        report = self._nodes[uuid].report
        return report.host, report.nodename, self.locator.told(report)

    def _report(self, uuid, report, now_s):
        """Returns the node's data after the report."""
        last = self._nodes.get(uuid)
        if last is not None and not report.order.is_after(
            last.report.order, self._reported_at[uuid]
        ):
            return dataclasses.replace(self._facts(uuid), stale=True)
        twin = self._names.get((report.host, report.nodename), uuid)
        if twin != uuid:
            boot, made_at = self._nodes[twin].report.order.boot, self._made_at[twin]
            if last is None and not report.order.is_of_later_life(boot, made_at):
                return dataclasses.replace(self._facts(twin), stale=True)
            self._forget(twin, now_s)
        claims = self._claims.setdefault(uuid, {})
        self._used.setdefault(uuid, {})
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
            if any(keeps_source(one, consumer, uuid) for one in self._of(consumer))
        }
        until_s = due_s(claims.values(), now_s, lambda: self._watched_s)
        settled = settle(report, claims, moving, now_s, known, until_s)
        changed = settled.changed(claims)
        if self.on_changes is not None:
            were = [*settled.ended, *(claims[claim.consumer_uuid] for claim in changed)]
            self._tell(
                changed_claims.REPORT,
                {claim.key: claim for claim in were},
                {claim.key: claim for claim in changed},
                now_s,
                {uuid: report.host},
            )
        for claim in changed:
            self._put(claim)
        for claim in settled.ended:
            self._drop(claim.key)
        self._free_sources(settled.ended, now_s)
        before = self._nodes.get(uuid)
        after = NodeFacts(
            report=report,
            generation=known.generation,
            unclaimed=settled.unclaimed,
            foreign_instances=settled.foreign_instances,
            seen_s=now_s,
            fences=before.fences if before else frozenset(),
        )
        if before is not None:
            del self._names[before.report.host, before.report.nodename]
        self._names[report.host, report.nodename] = uuid
        self._nodes[uuid] = after
        same = before is not None and dataclasses.replace(before, seen_s=now_s) == after
        if not same or changed or settled.ended:
            self._touch([uuid])
        self._reported_at[uuid] = self._nodes[uuid].generation
        self._made_at.setdefault(uuid, self._reported_at[uuid])
        told = report.pieces, report.providers, report.inventories
        was = before and (before.report.pieces, before.report.providers, before.report.inventories)
        has_changed = told != was
        if has_changed or any(claim.all_parts for claim in changed):
            self._pieces_at[uuid] = self._nodes[uuid].generation
        return dataclasses.replace(self._facts(uuid), ended=settled.ended)

    def _free_sources(self, ended, now_s):
        """See ``sql_nodes.free_sources``."""
        consumers = {claim.consumer_uuid for claim in ended if claim.keeps_source}
        found = [claim for consumer in consumers for claim in self._of(consumer)]
        held, usages = Held(found), self._usages({claim.node_uuid for claim in found})
        for claim in found:
            held.put(claim.key, claim)
        held.stamp(now_s, usages)
        self._write(held, usages, ExclusiveDomains(usages))

    def _facts(self, uuid):
        return dataclasses.replace(self._nodes[uuid], claims=tuple(self._claims[uuid].values()))

    def remove_node(self, uuid, generation=None):
        with self._lock:
            if uuid not in self._nodes:
                return False
            if generation is None:
                is_meant = not any(one.is_confirmed for one in self._claims[uuid].values())
            else:
                written = (claim.changed_at for claim in self._claims[uuid].values())
                is_meant = max(self._reported_at[uuid], *written, 0) <= generation
            if is_meant:
                self._forget(uuid, self.now_s())
            return is_meant

    def _forget(self, uuid, now_s):
        """Remove a node and its claims."""
        facts = self._nodes.pop(uuid)
        self._last_generation = max(self._last_generation, facts.generation)
        del self._names[facts.report.host, facts.report.nodename]
        gone = {claim.key: claim for claim in self._claims[uuid].values()}
        for key in gone:
            self._drop(key)
        self._free_sources(gone.values(), now_s)
        hosts = {uuid: facts.report.host}
        self._tell(changed_claims.REMOVAL, gone, {}, now_s, hosts)
        del self._claims[uuid], self._used[uuid], self._pieces_at[uuid]
        del self._made_at[uuid], self._reported_at[uuid]
        self._with_tokens.discard(uuid)

    # Services, aggregates, instance lists.

    def set_service(self, service, may=lambda stored: True):
        with self._lock:
            stored = self._services.get(service.host, ServiceFacts(service.host))
            if not may(stored):
                return stored
            kept = self._services[service.host] = service.after(stored)
            return kept

    def set_aggregate(self, aggregate_id, aggregate):
        with self._lock:
            before = self._aggregates.pop(aggregate_id, None)
            if aggregate is not None:
                self._aggregates[aggregate_id] = aggregate
            hosts = moved_hosts(before, aggregate)
            return sorted(
                self._enter([uuid for (host, _), uuid in self._names.items() if host in hosts])
            )

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
        """Each caller has its own store here, so the small tables are always returned whole."""
        with self._lock:
            return Changes(
                nodes=tuple(self._facts(uuid) for uuid in nodes if uuid in self._nodes),
                gone=tuple(uuid for uuid in nodes if uuid not in self._nodes),
                services=tuple(self._services.values()),
                aggregates=tuple(self._aggregates.values()),
                instances=dict(self._instances),
            )


def _age(one):
    """The order of claims, and of records."""
    return one.created_s, one.uuid
