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
"""A group in the engine: its record, its definition, and where each of its members is."""

import dataclasses
import functools
import json
import uuid
from collections.abc import Callable, Mapping

import numpy as np

from nova_sched import errors
from nova_sched.claim import PLANNED, Claim
from nova_sched.claims import ClosedDomain, Domain, GroupRecord
from nova_sched.groups.arrays.problem import Rule
from nova_sched.groups.definition import EXCLUSIVE, Definition, Member
from nova_sched.groups.members import member_spec
from nova_sched.state.request import Request
from nova_sched.state.spec import READERS

MAX_DEFINITIONS = 64  # definitions that were read last


def token(group_uuid, policy, domain):
    """Return the token of one exclusive domain of a policy."""
    return str(uuid.uuid5(uuid.UUID(group_uuid), f'{policy.name}\n{policy.level}\n{domain}'))


@dataclasses.dataclass(frozen=True, slots=True)
class MemberRequests:
    """``kinds``: the kind of each member by path; members of one kind are interchangeable.
    ``of_kind``: the Request of each kind, with the UUID of no instance; ``samples``: one member of
    each.

    A thousand kinds take most of a second to make: not for the loop.
    """

    kinds: Mapping[str, str]
    of_kind: Mapping[str, Request]
    samples: Mapping[str, Member]

    @classmethod
    def of(cls, definition, allowance=None, aliases=None):
        """Return the requests of no project. Raises InvalidRequest for a member that is not a
        valid request, and TemplateError when the ``allowance`` is used up."""
        kinds = kinds_of(definition, allowance)
        of_kind, samples = {}, {}
        for path, kind in kinds.items():
            if kind not in of_kind:
                if allowance is not None:
                    allowance.check(path)
                samples[kind] = definition.members[path]
                spec = member_spec.spec_of(samples[kind], aliases=aliases)
                facts = {}
                for name, reader in READERS.items():
                    try:
                        facts[name] = reader(spec)
                    except (ValueError, TypeError, AttributeError) as error:
                        where = f'member {path}, {name}'
                        raise errors.InvalidRequest(where, str(error)) from None
                of_kind[kind] = Request(**facts)
        return cls(kinds, of_kind, samples)

    def owned_by(self, record):
        """Return the same requests, of the project and the user of a GroupRecord."""
        owner = {'project_id': record.project_id, 'user_id': record.user_id}
        requests = {
            kind: dataclasses.replace(
                request,
                **owner,
                # Only rules that were written for Nova read it.
                spec=functools.cache(
                    functools.partial(member_spec.spec_of, self.samples[kind], **owner)
                ),
            )
            for kind, request in self.of_kind.items()
        }
        return dataclasses.replace(self, of_kind=requests)


def kinds_of(definition, allowance=None):
    """Return the kind of each member by path. Raises TemplateError when the ``allowance`` is used
    up."""
    described: dict[tuple, str] = {}
    kinds = {}
    for path, member in definition.members.items():
        # Equal for members that share all objects of their descriptions.
        own = (
            id(member.flavor),
            id(member.image),
            id(member.hints) if member.hints else None,
            member.availability_zone,
            member.boots_from_volume,
        )
        if own not in described:
            if allowance is not None:
                allowance.check(path)
            described[own] = member.description
        kinds[path] = described[own]
    return kinds


@dataclasses.dataclass(frozen=True, slots=True)
class LoadedGroup:
    """A group: its record, its definition, and the ``source`` (plain values) that this was read
    from.

    ``consumers`` has the consumer of each member's planned claim by path. ``requests()`` returns
    the MemberRequests, which only a plan needs. The first call makes them, and raises
    InvalidRequest for a member that is not a valid request.
    """

    record: GroupRecord
    definition: Definition
    source: Mapping
    consumers: Mapping[str, str]
    requests: Callable[[], MemberRequests]

    @classmethod
    def of(cls, record, definition, source, requests=None):
        """``requests``: the MemberRequests of no project, if they are made already."""

        @functools.cache
        def owned():
            return (requests or MemberRequests.of(definition)).owned_by(record)

        # Unique, and always the same.
        consumers = {path: str(uuid.uuid5(uuid.UUID(record.uuid), path))
                     for path in definition.members}  # fmt: skip
        return cls(record, definition, source, consumers, owned)

    @property
    def uuid(self):
        return self.record.uuid

    def text(self):
        """For ``GroupRecord.definition``."""
        return json.dumps({'definition': self.definition.to_plain(), 'source': dict(self.source)})

    @property
    def exclusive(self):
        """The policies that have exclusive domains."""
        return [
            policy
            for policy in self.definition.policies
            if policy.kind == EXCLUSIVE and policy.is_required
        ]

    def tokens(self, path, row, levels):
        """Return tokens of the exclusive domains that a member has on a row."""
        return tuple(
            token(self.uuid, policy, _domain(levels[policy.level], row))
            for policy in self.exclusive
            if path in policy.a and policy.level in levels
        )

    def unknown_level(self, levels):
        """Return the text that names a policy on a level that is not configured any more; None if
        there is none."""
        for policy in self.definition.policies:
            if policy.level not in levels:
                return (
                    f'policy {policy.name} is on level {policy.level}, '
                    'which is not configured any more'
                )
        return None

    def admits(self, policy, levels, claim, row):
        """Return whether a claim of the group, on that row, may be in a domain of an exclusive
        policy.

        This is so for claims of members of the policy, for claims of former members that are still
        in the domain, and for planned claims of any member, because the plan decides on their
        places.
        """
        is_former = claim.member not in self.definition.members
        if claim.member in policy.a or (claim.state == PLANNED and not is_former):
            return True
        own = token(self.uuid, policy, _domain(levels[policy.level], row))
        return is_former and own in claim.fences

    def shares(self, member, other):
        """Return whether two members (paths) are in one exclusive policy."""
        return any(member in policy.a and other in policy.a for policy in self.exclusive)

    def insiders(self, tokens, row, levels):
        """Return paths of the members that may be in each of these exclusive domains (tokens) of
        the row."""
        owners = {token(self.uuid, policy, _domain(levels[policy.level], row)): policy.a
                  for policy in self.exclusive}  # fmt: skip
        return {fence: owners.get(fence, ()) for fence in tokens}

    def kept_tokens(self, claim, row, levels, put=()):
        """Return the tokens that a server's claim keeps on a host where the plan does not place
        it, until it leaves. These are current exclusive domains that the claim is in, or that are
        ``put`` there for other members."""
        if claim.member not in self.definition.members:
            return claim.fences
        return tuple(
            fence
            for fence in self.tokens(claim.member, row, levels)
            if fence in claim.fences or fence in put
        )

    def closed_domains(self, path, row, levels, nodes):
        """Return each ClosedDomain that a member has on a row, by token: all nodes (UUIDs) of the
        domain, and its Domain."""
        closed = {}
        for policy in self.exclusive:
            if path in policy.a and policy.level in levels:
                level = levels[policy.level]
                rows = (level.ids == level.ids[row]).nonzero()[0]
                inside = frozenset(nodes[member_row].uuid for member_row in rows.tolist())
                name = _domain(level, row)
                own = token(self.uuid, policy, name)
                closed[own] = ClosedDomain(own, inside, Domain(policy.level, name, self.uuid))
        return closed


def _domain(level, row):
    return level.names[level.ids[row]]


def read(record):
    """Return the LoadedGroup of a GroupRecord. Raises IncompatibleObject."""
    try:
        plain = json.loads(record.definition)
        definition, source = Definition.from_plain(plain['definition']), plain['source']
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        what = f'definition of placement group {record.uuid}'
        raise errors.IncompatibleObject(
            what, f'another release ({error})', 'that of this one'
        ) from None
    return LoadedGroup.of(record, definition, source)


class Library:
    """Groups, read from the store (GroupRecords) on request. Parsed definitions are cached."""

    def __init__(self, store):
        self._store = store
        self._read: dict[tuple[str, int], LoadedGroup] = {}

    def find(self, uuid, project_id=None):
        """Return the LoadedGroup of that UUID, of this project if one is named.

        Raises GroupNotFound, and IncompatibleObject for one that another release has written.
        """
        group = self.peek(uuid, project_id)
        if isinstance(group, GroupRecord):
            group = read(group)
            self.keep(group)
        return group

    def peek(self, uuid, project_id=None):
        """Return the LoadedGroup; if its definition is not cached, the GroupRecord, because
        parsing may take long.

        Raises GroupNotFound.
        """
        record = self._store.top_group(uuid, whole=False)
        if record is None or (project_id is not None and record.project_id != project_id):
            raise errors.GroupNotFound(uuid)
        known = self._read.get((uuid, record.generation))
        if known is None:
            record = self._store.top_group(uuid)
            if record is None:
                raise errors.GroupNotFound(uuid)
            return record
        return dataclasses.replace(known, record=record)

    def keep(self, known):
        """Cache a LoadedGroup."""
        while len(self._read) >= MAX_DEFINITIONS:
            del self._read[next(iter(self._read))]
        self._read[known.uuid, known.record.generation] = known


@dataclasses.dataclass(frozen=True, slots=True)
class LoadedMember:
    """Where a member is. ``planned`` is its planned claim. ``held`` has the claims of its
    instances, confirmed ones first, then the latest first.

    For a plan it has a ``request``, and a ``kind``, which is equal for interchangeable members.
    """

    member: str
    planned: Claim | None = None
    held: tuple[Claim, ...] = ()
    kind: str = ''
    request: Request | None = None

    @property
    def built(self):
        """The claim on the host where the member's server is; None if it has no server.

        Of several servers, the latest counts; of its claims, the confirmed one. A move that has
        not been made yet does not count.
        """
        newest = self._newest()
        return max(newest, key=lambda claim: (claim.is_confirmed, claim.created_s), default=None)

    @property
    def bound(self):
        """The pending claim on the host that the server moves to; None if it does not move."""
        claims = [
            claim for claim in self._newest() if not claim.is_confirmed and claim is not self.built
        ]
        return claims[0] if claims else None

    def _newest(self):
        since: dict[str, float] = {}
        for claim in self.held:
            since[claim.consumer_uuid] = min(
                claim.created_s, since.get(claim.consumer_uuid, claim.created_s)
            )
        newest = max(since, key=lambda consumer: since[consumer], default=None)
        return [claim for claim in self.held if claim.consumer_uuid == newest]

    def on(self, node_uuid):
        """Return the server's claim on a node, else the planned claim there; None if it has
        neither."""
        claims = (self.built, self.bound, self.planned)
        return next(
            (claim for claim in claims if claim is not None and claim.node_uuid == node_uuid), None
        )

    @property
    def position(self):
        """The claim on the host where the member is, or will be; None if it has no host."""
        if self.planned:
            return self.planned
        return min(
            self.held, key=lambda claim: (claim.is_confirmed, -claim.created_s), default=None
        )

    @property
    def node_uuid(self):
        return self.position and self.position.node_uuid


def member_states(known, claims, requests=None):
    """Return a LoadedMember for each member, given the claims of the group; for a plan also its
    MemberRequests."""
    by_path: dict[str, list[Claim]] = {}
    for claim in claims:
        by_path.setdefault(claim.member, []).append(claim)
    states = []
    for path in known.definition.members:
        claims = by_path.get(path, ())
        planned = next((claim for claim in claims if claim.state == PLANNED), None)
        built = (claim for claim in claims if claim.state != PLANNED)
        order = sorted(
            built, key=lambda claim: (claim.is_confirmed, claim.created_s), reverse=True
        )
        states.append(LoadedMember(path, planned, tuple(order)))
    if requests is None:
        return states
    kinds = [requests.kinds[state.member] for state in states]
    return [
        dataclasses.replace(state, kind=kind, request=requests.of_kind[kind])
        for state, kind in zip(states, kinds, strict=True)
    ]


def others(cluster, claims, admits=lambda _claim, _row: True):
    """Return rows, bool [H], with instances other than those of these claims that it ``admits``,
    by claim and row.

    The instance of a claim counts on each host where it has one until it has moved away.
    """
    own = np.zeros(len(cluster.hosts), dtype=np.int64)
    for claim in claims:
        node = cluster.node(claim.node_uuid)
        if node is not None and claim.consumer_uuid in node.claims:
            own[node.row] += admits(claim, node.row)
    return cluster.hosts.num_instances > own


def rules(cluster, known, policies, index, claims, levels):
    """Return the policies as Rules of a group problem. ``index`` maps each member's path to its
    number."""
    names = list(levels)
    return [
        Rule.of(
            policy,
            index,
            names,
            others(cluster, claims, functools.partial(known.admits, policy, levels))
            if policy.kind == EXCLUSIVE
            else None,
        )
        for policy in policies
    ]
