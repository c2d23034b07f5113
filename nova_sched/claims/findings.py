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
"""What an audit looks at, all of it as it was at one moment, and what it may find."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from nova_sched.claims import Policy, Record
from nova_sched.objects.claim import Claim
from nova_sched.state.report import Inventory, Report

ERROR, NOTE = 'error', 'note'

# Kinds of findings. What stands here is what the tool says of them, so none of it is without a
# meaning.
DRIFT, CAPACITY, ORPHAN, DUPLICATE, MARK = 'drift', 'capacity', 'orphan', 'duplicate', 'mark'
OVERDUE, UNLISTED, SHARED, POLICY = 'overdue', 'unlisted', 'shared', 'policy'
EMPTY_GROUP, OPEN_MOVE, OPEN_RESIZE = 'empty-group', 'open-move', 'open-resize'
STRAY, FENCE, OUTSIDER, UNFENCED = 'stray', 'fence', 'outsider', 'unfenced'


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """``repair``: what the audit can do about it; ``advice``: what somebody else can. Empty for
    nothing."""

    repair: str = ''
    advice: str = ''


KINDS = {
    DRIFT: Kind('the use that claims are judged by is added up again'),
    CAPACITY: Kind(
        advice='the node takes nothing more until it fits again: move instances away, or correct its figures'
    ),
    ORPHAN: Kind('the claim ends'),
    DUPLICATE: Kind('the older claims end'),
    MARK: Kind('the mark is set anew'),
    OVERDUE: Kind('the claim ends, as any running scheduler would end it'),
    UNLISTED: Kind(
        advice="the node's next report ends it; if it does not: nova-sched-manage claim release --force"
    ),
    SHARED: Kind(
        advice='move one of the instances away, or end a claim whose instance is not there:'
        ' nova-sched-manage claim release'
    ),
    POLICY: Kind(advice='move members to other hosts'),
    EMPTY_GROUP: Kind('the group is forgotten, as schedulers do from time to time'),
    OPEN_MOVE: Kind(advice='confirm the move, or take it back'),
    OPEN_RESIZE: Kind(advice='confirm the resize, or take it back'),
    STRAY: Kind('the claim ends'),
    FENCE: Kind('the fence ends'),
    OUTSIDER: Kind(advice='move the instance away, or the members of the group'),
    UNFENCED: Kind(advice='plan the group again: nova-sched-manage group update'),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """A node's row and report. ``used`` and ``foreign`` are amounts by resource class."""

    uuid: str
    host: str
    nodename: str
    seen_s: float
    inventories: Mapping[str, Inventory]
    used: Mapping[str, int]
    foreign: Mapping[str, int]
    report: Report | None = None
    fences: frozenset[str] = frozenset()
    foreign_instances: int = 0

    @property
    def place(self):
        """The host, and the node where that has another name."""
        return self.host if self.nodename == self.host else f'{self.host} / {self.nodename}'


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """All nodes by UUID, claims (oldest first), hard policies of server groups, and records of top
    groups.

    ``marks`` has for each claim, by its UUID, the consumer that the database keeps from a second
    claim that is not confirmed; None for nobody.
    """

    nodes: Mapping[str, Node]
    claims: tuple[Claim, ...]
    policies: tuple[Policy, ...] = ()
    marks: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    records: tuple[Record, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: ``words`` for people, both sides' figures for scripts.

    ``found`` is what the snapshot records, ``expected`` what its other rows, or a rule, come to. A
    note is no error: something to know, or that will pass.
    """

    kind: str
    words: str
    found: Any = None
    expected: Any = None
    severity: str = ERROR
    node_uuid: str | None = None
    host: str | None = None
    consumer_uuid: str | None = None
    claim_uuid: str | None = None
    group_uuid: str | None = None

    @property
    def about(self):
        """What tells it from other findings, whatever the figures are."""
        return self.kind, self.node_uuid, self.consumer_uuid, self.claim_uuid, self.group_uuid

    @property
    def is_error(self):
        return self.severity == ERROR

    @property
    def repair(self):
        """What the audit can do about it; empty for nothing."""
        return KINDS[self.kind].repair

    @property
    def advice(self):
        """What somebody else can do about it; empty for nothing."""
        return KINDS[self.kind].advice
