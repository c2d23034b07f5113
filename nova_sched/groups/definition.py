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
"""The definition of a group: members and groups by path, and their policies, as plain values."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

AFFINITY, ANTI_AFFINITY, SPREAD, EXCLUSIVE = 'affinity', 'anti-affinity', 'spread', 'exclusive'
NEAR, APART = 'near', 'apart'
KINDS = (AFFINITY, ANTI_AFFINITY, SPREAD, EXCLUSIVE, NEAR, APART)
RELATIONS = frozenset([NEAR, APART])  # kinds between two sets of members


@dataclasses.dataclass(frozen=True, slots=True)
class MemberFlavor:
    """The demand of a server: memory and swap in MiB, disks in GiB, with Nova's extra specs."""

    vcpus: int
    memory_mb: int
    root_gb: int = 0
    ephemeral_gb: int = 0
    swap: int = 0
    extra_specs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    name: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Image:
    """The image of a server; ``properties`` as in Glance (``hw_architecture``, ``trait:...``)."""

    id: str | None = None
    name: str | None = None
    properties: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    disk_format: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """One planned server of a group.

    ``path`` is unique in the group: the names of the groups around the member and its name, joined
    by /. ``boots_from_volume``: the host need not hold its root disk.
    """

    path: str
    flavor: MemberFlavor
    image: Image | None = None
    availability_zone: str | None = None
    hints: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    boots_from_volume: bool = False

    @property
    def description(self):
        """Return the inputs of the member's own placement, as text.

        Members of equal descriptions are interchangeable.
        """
        plain = self.to_plain()
        del plain['path']
        return json.dumps(plain, sort_keys=True)

    def to_plain(self):
        """Return the member as values that JSON can carry."""
        plain = _fields(self)
        plain['flavor'] = _fields(self.flavor)
        plain['image'] = self.image and _fields(self.image)
        return plain


@dataclasses.dataclass(frozen=True, slots=True)
class GroupPolicy:
    """One policy on members ``a``, or a relation between them and the members ``b``, by path.

    ``name`` states, for users, where the policy is defined. ``level`` is a level's name.
    ``weight`` None: required; else the cost of each breach (see ``groups.arrays.policies``).
    ``most``, for anti-affinity: members in one domain. ``min_domains``, ``max_skew`` (None: any),
    for spread.
    """

    name: str
    kind: str
    level: str
    a: tuple[str, ...]
    b: tuple[str, ...] = ()
    weight: float | None = None
    most: int = 1
    min_domains: int = 1
    max_skew: int | None = None

    @property
    def is_required(self):
        return self.weight is None


@dataclasses.dataclass(frozen=True, slots=True)
class Definition:
    """A whole top-level group: its members, and nested ``groups`` (path -> paths of members
    below).

    ``warnings`` are for the template's author, for example a property that placement does not
    read.
    """

    members: Mapping[str, Member]
    policies: tuple[GroupPolicy, ...] = ()
    groups: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    description: str = ''
    warnings: tuple[str, ...] = ()

    def to_plain(self):
        """Return the definition as values that JSON can carry. They are not to be changed."""
        plain = _fields(self)
        plain['members'] = {path: member.to_plain() for path, member in self.members.items()}
        plain['policies'] = [_fields(policy) for policy in self.policies]
        return plain

    def summary(self):
        """Return ``members`` and ``policies`` as lists of mappings, and ``warnings``, for users.

        A member has path, flavor (its name, or null), vcpus, memory_mb, disk_gb (local),
        availability_zone. A policy has name, kind, level, members, others (the other side of a
        relation), weight (null: required). An anti-affinity also has most (members in a domain),
        a spread min_domains and max_skew (null: any).
        """
        members = [
            {
                'path': member.path,
                'flavor': member.flavor.name,
                'vcpus': member.flavor.vcpus,
                'memory_mb': member.flavor.memory_mb,
                'disk_gb': (0 if member.boots_from_volume else member.flavor.root_gb)
                + member.flavor.ephemeral_gb,
                'availability_zone': member.availability_zone,
            }
            for member in self.members.values()
        ]
        policies = [
            {
                'name': policy.name,
                'kind': policy.kind,
                'level': policy.level,
                'members': list(policy.a),
                'others': list(policy.b),
                'weight': policy.weight,
                'most': policy.most,
                'min_domains': policy.min_domains,
                'max_skew': policy.max_skew,
            }
            for policy in self.policies
        ]
        return {'members': members, 'policies': policies, 'warnings': list(self.warnings)}

    @classmethod
    def from_plain(cls, plain):
        """Return the definition from the result of ``to_plain``, also after a round trip through
        JSON."""
        policies = (
            {**policy, 'a': tuple(policy['a']), 'b': tuple(policy['b'])}
            for policy in plain['policies']
        )
        return cls(
            members={
                path: Member(
                    **{
                        **member,
                        'flavor': MemberFlavor(**member['flavor']),
                        'image': member['image'] and Image(**member['image']),
                    }
                )
                for path, member in plain['members'].items()
            },
            policies=tuple(GroupPolicy(**policy) for policy in policies),
            groups={path: tuple(members) for path, members in plain['groups'].items()},
            description=plain['description'],
            warnings=tuple(plain['warnings']),
        )


def _fields(instance):
    """The fields of a dataclass by name; unlike ``dataclasses.asdict``, without copies."""
    return {name: getattr(instance, name) for name in instance.__slots__}
