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
"""Builds the problem that a plan solves from a snapshot: servers of equal claims are one kind."""

import dataclasses

import numpy as np

from nova_sched.claim import DISK_GB, MEMORY_MB, PCPU, PLANNED, VCPU
from nova_sched.engine.decide import chain, survivors
from nova_sched.extensions.optimize.planning.snapshot import SERVERS
from nova_sched.extensions.optimize.rebalance.problem import RebalanceProblem, Servers
from nova_sched.state.facts import fact_of
from nova_sched.state.request import Request

EVERY = 5000  # claims between two pauses
NEW = '00000000-0000-0000-0000-000000000000'  # no server: no host has it yet

NONE, BUSY, PLAN, PARTS, PROJECT, LISTED, CLOSED, EXCLUSIVE, DOWN = range(9)
REASONS = [
    '',
    'a server that is built, moved or resized',
    'a member of a placement group that is not created yet',
    'CPUs, pages or devices of its own',
    '[rebalance] protected_projects',
    '[rebalance] immovable_servers',
    '[rebalance] protected_aggregates',
    'an exclusive domain of its host',
    'a compute service that is down',
]
SURROUNDINGS = 'zone, cell, metadata of aggregates and traits'
IMMOVABLE = 0  # the kind of all servers that stay: what they take is of no concern


@dataclasses.dataclass(slots=True)
class ServerKind:
    """Servers that are equal for the rules: a ``request`` for one more such server, and the
    ``surroundings`` that they come from."""

    request: Request
    surroundings: int


class RebalanceProblemBuilder:
    """Builds a RebalanceProblem from a Snapshot. ``pause`` is called now and then."""

    def __init__(self, snapshot, scope, pause=lambda: None):
        self.snapshot, self._scope = snapshot, scope
        self.kinds: list[ServerKind | None] = [None]
        self._numbers: dict[tuple, int] = {}
        self._families: dict[str, int] = {}
        self.servers = self._read(pause)
        # Kinds that no rule tells apart are merged: their new numbers, and of these ones the rest.
        self._merged: list[int] = [IMMOVABLE]
        self._numbers_of_facts: dict[tuple, int] = {}
        self._masks: dict[tuple, tuple] = {}
        self.requests: list[Request] = [Request('')]
        self._allowed = [np.zeros(len(snapshot.nodes), dtype=bool)]
        self._closed_by: list[str | None] = [None]

    def _read(self, pause):
        uuids, rows, seen = [], [], 0
        for host, claims in enumerate(self.snapshot.claims):
            for claim in claims:
                seen += 1
                if not seen % EVERY:
                    pause()
                fixed = self._fixed(claim, host)
                kind = IMMOVABLE if fixed else self._kind(claim, host)
                families = self._family(claim.group_uuid), self._family(claim.top_group)
                uuids.append(claim.consumer_uuid)
                rows.append(
                    (host, kind, fixed, *families, claim.top_group is not None, claim.created_s)
                )
        table = np.array(rows, dtype=np.float64).reshape(len(rows), 7)
        return Servers(
            uuids=uuids,
            host=table[:, 0].astype(np.int32),
            kind=table[:, 1].astype(np.int32),
            fixed=table[:, 2].astype(np.int16),
            families=table[:, 3:5].astype(np.int32),
            confined=table[:, 5].astype(bool),
            created_s=table[:, 6],
        )

    def _fixed(self, claim, host):
        """Why the server stays: a position in REASONS."""
        settings = self._scope.settings
        if claim.state == PLANNED:
            return PLAN
        if self.snapshot.down[host]:
            return DOWN  # a live migration needs the compute service of the source
        if not claim.is_confirmed or claim.move or claim.resizing:
            return BUSY
        if claim.all_parts:
            return PARTS
        if claim.consumer_uuid in settings.immovable_servers:
            return LISTED
        if claim.project_id in settings.protected_projects:
            return PROJECT
        if self.snapshot.closed[host]:
            return CLOSED
        return EXCLUSIVE if claim.fences else NONE

    def _kind(self, claim, host):
        surroundings = int(self.snapshot.surroundings[host])
        key = (
            tuple(claim.resources.items()),
            claim.project_id,
            claim.user_id,
            tuple(claim.image_properties.items()),
            surroundings,
        )
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.kinds)
            amounts = claim.resources
            request = Request(  # for one more such server, as far as the claim says
                instance_uuid=NEW,
                vcpus=amounts.get(VCPU, 0) + amounts.get(PCPU, 0),
                memory_mb=amounts.get(MEMORY_MB, 0),
                root_gb=amounts.get(DISK_GB, 0),
                resources={name: amount for name, amount in amounts.items() if amount},
                project_id=claim.project_id,
                user_id=claim.user_id,
                image_properties=claim.image_properties,
            )
            self.kinds.append(ServerKind(request, surroundings))
        return number

    def _family(self, group):
        return -1 if group is None else self._families.setdefault(group, len(self._families))

    def judge_some(self, rules, hosts, is_over):
        """Evaluate the rules for kinds until ``is_over()``. Runs in the loop. Return whether all
        are done."""
        while len(self._merged) < len(self.kinds):
            kind = self.kinds[len(self._merged)]
            facts = _facts(rules, hosts, kind.request)
            key = facts, kind.surroundings
            if key not in self._numbers_of_facts:
                if facts not in self._masks:
                    self._masks[facts] = mask_of(rules, hosts, kind.request)
                mask, closed_by = self._masks[facts]
                allowed = mask & self.snapshot.alike[kind.surroundings]
                self._numbers_of_facts[key] = len(self.requests)
                self.requests.append(kind.request)
                self._allowed.append(allowed)
                self._closed_by.append(SURROUNDINGS if (mask & ~allowed).any() else closed_by)
            self._merged.append(self._numbers_of_facts[key])
            if is_over():
                break
        return len(self._merged) == len(self.kinds)

    def problem(self):
        """The RebalanceProblem, when all kinds are judged."""
        snapshot = self.snapshot
        classes = {name for request in self.requests for name in request.resources}
        names = [name for name in snapshot.total if name in classes or name == SERVERS]
        demand = np.stack([demand_of(request, names) for request in self.requests])
        demand[IMMOVABLE] = 0
        servers = dataclasses.replace(
            self.servers, kind=np.array(self._merged, dtype=np.int32)[self.servers.kind]
        )
        empty = np.zeros((len(snapshot.nodes), 0), dtype=np.int64)
        sources = snapshot.inside & ~snapshot.closed
        draining = snapshot.wanted.any()
        # Instances without a claim, as far as reports say.
        unclaimed = [
            len(listed.difference([claim.consumer_uuid for claim in claims])) if listed else 0
            for listed, claims in zip(snapshot.reported, snapshot.claims, strict=True)
        ]
        return RebalanceProblem(
            nodes=list(snapshot.nodes),
            names=list(snapshot.names),
            columns=names,
            total=np.stack([snapshot.total[name] for name in names], axis=1) if names else empty,
            free=np.stack([snapshot.free[name] for name in names], axis=1) if names else empty,
            demand=demand,
            allowed=np.stack(self._allowed),
            closed_by=self._closed_by,
            servers=servers,
            strangers=np.maximum(snapshot.foreign, np.array(unclaimed, dtype=np.int64)),
            domain=snapshot.domain,
            sources=(sources | snapshot.wanted) & ~snapshot.closed if draining else sources,
            destinations=sources & ~snapshot.wanted,
            reasons=REASONS,
        )


def mask_of(rules, hosts, request):
    """Which rows pass all rules (bool), and the name of the last rule that removed one."""
    candidates = survivors(rules, hosts, request)
    mask = hosts.everywhere(True) if candidates.alive is None else candidates.alive.copy()
    removing = [step.name for step in candidates.steps if step.left < step.seen]
    return mask, removing[-1] if removing else None


def demand_of(request, names):
    """What a request takes of each column (int64)."""
    amounts = {SERVERS: 1, **request.resources}
    return np.array([amounts.get(name, 0) for name in names], dtype=np.int64)


def _facts(rules, hosts, request):
    """The facts of a request that the verdicts of the rules depend on: hashable."""
    facts: list = [tuple(request.resources.items())]
    for rule in chain(rules, request):
        value = rule.depends_on(request)
        if value is not None:
            facts.append(value)
            continue
        names = rule.request_facts_for(hosts, request)
        if names is None:  # it may read everything
            names = 'resources', 'project_id', 'user_id', 'image_properties'
        facts.append(tuple(fact_of(request, name) for name in names))
    return tuple(facts)
