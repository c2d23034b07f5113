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
"""What is known of a top group: its record, what it is, and where each of its members is now."""

import dataclasses
import json
import uuid
from collections.abc import Mapping

from nova_sched import errors
from nova_sched.claims import Record
from nova_sched.groups.definition import EXCLUSIVE, Definition
from nova_sched.groups.members import member_spec
from nova_sched.objects.claim import PLANNED, Claim
from nova_sched.state.request import Request
from nova_sched.state.spec import READERS

KEPT = 64  # definitions that were read last


def consumer_of(group_uuid, path):
    """Whom a member's planned claim is made for: nobody else's UUID, and always the same."""
    return str(uuid.uuid5(uuid.UUID(group_uuid), path))


def token(group_uuid, policy, domain):
    """The token of the fence round one domain of an exclusive policy."""
    return str(uuid.uuid5(uuid.UUID(group_uuid), f'{policy.name}\n{policy.level}\n{domain}'))


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """A top group: its record, its definition, the ``source`` that this was read from (plain values), and a
    Request for each member by path, made out for the consumer of its planned claim. Members of one of the
    ``kinds``, by path, may change places.
    """

    record: Record
    definition: Definition
    source: Mapping
    requests: Mapping[str, Request]
    kinds: Mapping[str, str]

    @classmethod
    def of(cls, record, definition, source):
        """Raises InvalidRequest for a member that makes no sense as a request."""
        made: dict[str, Request] = {}
        requests, kinds = {}, {}
        for path, member in definition.members.items():
            kind = kinds[path] = member.description
            if kind not in made:
                made[kind] = _request(path, member, record)
            requests[path] = dataclasses.replace(made[kind], instance_uuid=consumer_of(record.uuid, path))
        return cls(record, definition, source, requests, kinds)

    @property
    def uuid(self):
        return self.record.uuid

    def text(self):
        """For ``Record.definition``."""
        return json.dumps({'definition': self.definition.to_plain(), 'source': dict(self.source)})

    @property
    def exclusive(self):
        """The policies that put up fences."""
        return [one for one in self.definition.policies if one.kind == EXCLUSIVE and one.is_required]

    def tokens(self, path, row, levels):
        """Tokens of the exclusive domains that a member is part of on a row."""
        return tuple(
            token(self.uuid, policy, _domain(levels[policy.level], row))
            for policy in self.exclusive
            if path in policy.a and policy.level in levels
        )

    def unknown_level(self, levels):
        """Which policy is on a level that the configuration does not name any more, in words; else None."""
        for policy in self.definition.policies:
            if policy.level not in levels:
                return f'policy {policy.name} is on level {policy.level}, which is not configured any more'
        return None

    def has_inside(self, claim, row, levels):
        """Whether a claim of the group, on that row, is of no outsider: of a member, or of one that was and
        is still behind the fences of today."""
        if claim.member in self.requests:
            return True
        today = {token(self.uuid, policy, _domain(levels[policy.level], row)) for policy in self.exclusive}
        return bool(claim.fences) and today.issuperset(claim.fences)

    def walls(self, path, row, levels, nodes):
        """The same with all nodes (UUIDs) of each domain."""
        found = {}
        for policy in self.exclusive:
            if path in policy.a and policy.level in levels:
                level = levels[policy.level]
                rows = (level.ids == level.ids[row]).nonzero()[0]
                inside = frozenset(nodes[one].uuid for one in rows.tolist())
                found[token(self.uuid, policy, _domain(level, row))] = inside
        return found


def _domain(level, row):
    return level.names[level.ids[row]]


def _request(path, member, record):
    spec = member_spec.spec_of(member, record.project_id, record.user_id)
    facts = {}
    for name, reader in READERS.items():
        try:
            facts[name] = reader(spec)
        except (ValueError, TypeError, AttributeError) as error:
            raise errors.InvalidRequest(f'member {path}, {name}', str(error)) from None
    return Request(**facts, spec=spec)


def _read(record):
    try:
        plain = json.loads(record.definition)
        definition, source = Definition.from_plain(plain['definition']), plain['source']
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        what = f'definition of top group {record.uuid}'
        raise errors.IncompatibleObject(what, f'another release ({error})', 'that of this one') from None
    return Known.of(record, definition, source)


class Library:
    """Top groups, read from the store when they are asked for; what their text means is kept for a while."""

    def __init__(self, store):
        self._store = store
        self._read: dict[tuple[str, int], Known] = {}

    def find(self, uuid, project_id=None):
        """The Known of that UUID, of this project if one is named.

        Raises GroupNotFound, and IncompatibleObject for one that another release has written.
        """
        record = self._store.top_group(uuid, whole=False)
        if record is None or (project_id is not None and record.project_id != project_id):
            raise errors.GroupNotFound(uuid)
        known = self._read.get((uuid, record.generation))
        if known is None:
            record = self._store.top_group(uuid)
            if record is None:
                raise errors.GroupNotFound(uuid)
            known = _read(record)
            self.keep(known)
        return dataclasses.replace(known, record=record)

    def keep(self, known):
        """Remember what was read, or made."""
        while len(self._read) >= KEPT:
            del self._read[next(iter(self._read))]
        self._read[known.uuid, known.record.generation] = known


@dataclasses.dataclass(frozen=True, slots=True)
class Spot:
    """Where a member is now. ``planned`` is its planned claim, ``held`` those of its instances, what was
    built last first.

    ``stays``: it is not to be moved. ``kind`` is equal for members that may change places.
    """

    member: str
    kind: str
    request: Request
    planned: Claim | None = None
    held: tuple[Claim, ...] = ()
    stays: bool = False

    @property
    def booked(self):
        return (self.planned, *self.held) if self.planned else self.held

    @property
    def position(self):
        """The claim that says where it is, or where it is bound for; None: nowhere."""
        if self.planned:
            return self.planned
        return min(self.held, key=lambda claim: (claim.is_confirmed, -claim.created_s), default=None)

    @property
    def node_uuid(self):
        return self.position and self.position.node_uuid


def spots(known, claims, settled=lambda claim: True):
    """A Spot for each member, given the claims of the group: an instance that is ``settled`` stays."""
    by_path: dict[str, list[Claim]] = {}
    for claim in claims:
        by_path.setdefault(claim.member, []).append(claim)
    return [_spot(path, known.kinds[path], request, by_path.get(path, ()), settled)
            for path, request in known.requests.items()]  # fmt: skip


def _spot(path, kind, request, claims, settled):
    planned = next((claim for claim in claims if claim.state == PLANNED), None)
    built = (claim for claim in claims if claim.state != PLANNED)
    held = tuple(sorted(built, key=lambda claim: (claim.is_confirmed, claim.created_s), reverse=True))
    stays = planned is None and any(map(settled, held))
    return Spot(path, kind, request, planned, held, stays)
