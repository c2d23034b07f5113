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
"""Judges where a group's members are, by the definitions alone: nothing of the planner is in
it."""

import collections
import dataclasses
from collections.abc import Collection, Mapping, Sequence

from nova_sched.groups import definition


@dataclasses.dataclass(frozen=True)
class Cluster:
    """What is known of the hosts, each by name.

    ``free``: amounts of each resource, negative when more is used than there is. ``domains``: by
    level and host. ``occupied``: hosts with instances from outside of the group.
    """

    free: Mapping[str, Mapping[str, int]]
    domains: Mapping[str, Mapping[str, str]]
    occupied: Collection[str] = ()


@dataclasses.dataclass(frozen=True)
class Need:
    """What one member asks for: one of several ``ways`` to use resources.

    ``hosts``: the only ones that it may go to; None: any. ``kind``: members of one kind share
    ``caps``, the most of them that a host takes. A member that ``stays`` needs no room and goes
    through no filter.
    """

    ways: Sequence[Mapping[str, int]]
    hosts: Collection[str] | None = None
    kind: str = ''
    caps: Mapping[str, int] = dataclasses.field(default_factory=dict)
    stays: str | None = None


def violations(
    placement: Mapping[str, str],
    needs: Mapping[str, Need],
    policies: Sequence[definition.GroupPolicy],
    cluster: Cluster,
) -> list[str]:
    """All that is wrong with a placement (member's path -> host), in words; empty: nothing is."""
    if placement.keys() != needs.keys():
        return [f'placed are {sorted(placement)} of {sorted(needs)}']
    found = [
        f'{path} is on {host}, which is not known'
        for path, host in placement.items()
        if host not in cluster.free
    ]
    if found:
        return found
    found += _wrong_hosts(placement, needs)
    found += _too_full(placement, needs, cluster)
    for policy in policies:
        if policy.is_required and (times := breaches(policy, placement, cluster)):
            found.append(f'{policy.name}: {policy.kind} at {policy.level} is broken {times} times')
    return found


def cost(placement, policies, cluster):
    """What the preferred policies cost: the sum of their weights times their breaches."""
    return sum(
        policy.weight * breaches(policy, placement, cluster)
        for policy in policies
        if not policy.is_required
    )


def breaches(
    policy: definition.GroupPolicy, placement: Mapping[str, str], cluster: Cluster
) -> int:
    """How often a placement breaks the policy; 0: it keeps it. Members that are nowhere do not
    count."""
    where = cluster.domains[policy.level]
    domain = {path: where[host] for path, host in placement.items()}
    first = collections.Counter(domain[path] for path in set(policy.a) & domain.keys())
    second = {domain[path] for path in policy.b if path in domain}
    if not first:
        return 0
    if policy.kind == definition.AFFINITY:
        return len(first) - 1
    if policy.kind == definition.ANTI_AFFINITY:
        return sum(max(0, count - policy.most) for count in first.values())
    if policy.kind == definition.SPREAD:
        missing = max(0, policy.min_domains - len(first))
        skew = max(first.values()) - min(first.values())
        return missing + (0 if policy.max_skew is None else max(0, skew - policy.max_skew))
    if policy.kind == definition.EXCLUSIVE:
        others = {domain[path] for path in placement.keys() - set(policy.a)}
        others |= {where[host] for host in cluster.occupied}
        return len(first.keys() & others)
    if policy.kind == definition.NEAR:
        return sum(count for one, count in first.items() if one not in second)
    if policy.kind == definition.APART:
        return len(first.keys() & second)
    raise ValueError(f'{policy.kind} is no kind of policy')


def of_problem(problem, hosts):
    """A planner's arrays in the checker's terms: ``(placement, needs, policies, cluster)``.

    Only the hosts that ``hosts`` names keep their amounts; None: all of them, and no placement.
    """
    names = problem.domain_names[0]
    used = range(len(names)) if hosts is None else {int(host) for host in hosts}
    kinds = [int(kind) for kind in problem.kind]
    needs = {
        path: Need(
            ways=[
                dict(zip(problem.resources, way, strict=True))
                for way in problem.demand[kind].tolist()
            ],
            hosts={names[host] for host in used if problem.mask[kind][host]},
            kind=str(kind),
            caps={}
            if problem.cap is None
            else {names[host]: int(problem.cap[kind][host]) for host in used},
            stays=names[fixed] if fixed >= 0 else None,
        )
        for path, kind, fixed in zip(problem.names, kinds, problem.fixed.tolist(), strict=True)
    }
    cluster = Cluster(
        free={
            names[host]: dict(zip(problem.resources, problem.free[host].tolist(), strict=True))
            for host in used
        },
        domains={
            level: dict(zip(names, [words[one] for one in ids.tolist()], strict=True))
            for level, ids, words in zip(
                problem.levels, problem.domains, problem.domain_names, strict=True
            )
        },
        occupied={names[host] for host in problem.occupied.nonzero()[0].tolist()},
    )
    placement = (
        {}
        if hosts is None
        else {path: names[int(host)] for path, host in zip(problem.names, hosts, strict=True)}
    )
    return placement, needs, [rule.policy for rule in problem.rules], cluster


def _wrong_hosts(placement, needs):
    for path, host in placement.items():
        need = needs[path]
        if need.stays is not None:
            if need.stays != host:
                yield f'{path} is on {host}, but stays on {need.stays}'
        elif need.hosts is not None and host not in need.hosts:
            yield f'{path} may not be on {host}'


def _too_full(placement, needs, cluster):
    guests = collections.defaultdict(list)
    for path, host in placement.items():
        if needs[path].stays is None:
            guests[host].append(needs[path])
    for host, own in guests.items():
        if not fits([need.ways for need in own], cluster.free[host]):
            yield f'{host} has no room for its {len(own)} members'
        for kind, count in collections.Counter(need.kind for need in own).items():
            most = min(
                (need.caps[host] for need in own if need.kind == kind and host in need.caps),
                default=count,
            )
            if count > most:
                yield f'{host} takes {most} members of kind {kind}, not {count}'


def fits(members, free):
    """Whether each of ``members`` has a way such that all together are within ``free``.

    A resource that none of them asks for is no matter, even where more is used than there is.
    """
    resources = sorted(free)
    reached = {(0,) * len(resources)}  # all sums of use that the members so far can make
    for ways in members:
        steps = {tuple(way.get(resource, 0) for resource in resources) for way in ways}
        sums = {
            tuple(map(sum, zip(used, step, strict=True))) for used in reached for step in steps
        }
        reached = {
            used
            for used in sums
            if all(not one or one <= free[name] for name, one in zip(resources, used, strict=True))
        }
    return bool(reached)
