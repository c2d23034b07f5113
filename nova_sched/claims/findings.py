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
"""The data that an audit reads, all from one moment, and the kinds of findings."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from nova_sched.claim import Claim
from nova_sched.claims import GroupRecord, ServerGroupPolicy
from nova_sched.state.report import Inventory, Report

ERROR, NOTE = 'error', 'note'

# Kinds of findings. The tool prints these texts, so each of them must be meaningful.
DRIFT, CAPACITY, ORPHAN, DUPLICATE, MARK = 'drift', 'capacity', 'orphan', 'duplicate', 'mark'
OVERDUE, UNLISTED, SHARED, POLICY = 'overdue', 'unlisted', 'shared', 'policy'
EMPTY_GROUP, OPEN_MOVE, OPEN_RESIZE = 'empty-group', 'open-move', 'open-resize'
STRAY, FENCE, OUTSIDER, UNFENCED = 'stray', 'fence', 'outsider', 'unfenced'
MOVING, UNCLAIMED = 'moving', 'unclaimed'  # moves of rebalances
UNREADABLE = 'unreadable'
LEAKED, MISSING, DOUBLED = 'leaked', 'missing', 'doubled'  # allocations in Placement


@dataclasses.dataclass(frozen=True, slots=True)
class Remedy:
    """``repair``: the audit's repair; ``advice``: a manual repair. Empty for none."""

    repair: str = ''
    advice: str = ''


KINDS = {
    DRIFT: Remedy('the recorded usage of the node is computed again'),
    CAPACITY: Remedy(
        advice='the node gets no more claims until its usage fits again: move instances away, '
        'or correct its inventories'
    ),
    ORPHAN: Remedy('the claim ends'),
    DUPLICATE: Remedy('the older claims end'),
    MARK: Remedy('the mark is set again'),
    OVERDUE: Remedy('the claim ends, as any running scheduler would end it'),
    UNLISTED: Remedy(
        advice="the node's next report ends it; if it does not: "
        'nova-sched-manage claim release --force'
    ),
    SHARED: Remedy(
        advice='move one of the instances away, or end a claim whose instance is not there:'
        ' nova-sched-manage claim release'
    ),
    POLICY: Remedy(advice='move members to other hosts'),
    EMPTY_GROUP: Remedy('the group is removed, as schedulers do from time to time'),
    OPEN_MOVE: Remedy(advice='confirm the move, or take it back'),
    MOVING: Remedy(
        advice='nova-sched-manage rebalance show says why; if the migration hangs, abort it'
    ),
    UNCLAIMED: Remedy(
        advice="make room on the host, and after the host's next report: "
        'nova-sched-manage claim create'
    ),
    OPEN_RESIZE: Remedy(advice='confirm the resize, or take it back'),
    STRAY: Remedy('the claim ends'),
    FENCE: Remedy('the exclusive domain ends, as any running scheduler would end it'),
    OUTSIDER: Remedy(advice='move the instance away, or the members of the group'),
    UNFENCED: Remedy(advice='plan the group again: nova-sched-manage group update'),
    UNREADABLE: Remedy(
        advice='run the release that wrote the row, or correct it in the database; until then '
        'the audit says nothing else of its node'
    ),
    LEAKED: Remedy(
        advice='if no other service owns the consumer, remove its allocations: '
        'openstack resource provider allocation delete'
    ),
    MISSING: Remedy(
        advice='let Nova write them: nova-manage placement heal_allocations --instance'
    ),
    DOUBLED: Remedy(
        advice='remove those on the host where the server does not run: '
        'openstack resource provider allocation unset --provider'
    ),
}


@dataclasses.dataclass(frozen=True, slots=True)
class AuditedNode:
    """A node's row and report. ``used`` and ``foreign`` are amounts by resource class.

    ``reported_at`` is its generation after that report.
    """

    uuid: str
    host: str
    nodename: str
    seen_s: float
    reported_at: int
    inventories: Mapping[str, Inventory]
    used: Mapping[str, int]
    foreign: Mapping[str, int]
    report: Report | None = None
    fences: frozenset[str] = frozenset()
    foreign_instances: int = 0

    @property
    def place(self):
        """The host, and the node name where it differs."""
        return self.host if self.nodename == self.host else f'{self.host} / {self.nodename}'


@dataclasses.dataclass(frozen=True, slots=True)
class AuditedMove:
    """A move of a rebalance; its claim on the destination has its UUID as the request ID.

    ``why`` of one that was handed over or confirmed: why its server has no claim there.
    """

    uuid: str
    rebalance_uuid: str
    server: str
    destination: str
    state: str
    started_s: float | None = None
    why: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class UnreadableRow:
    """A row of a node or of a claim that another release, or an operator, has written."""

    why: str
    node_uuid: str
    host: str | None = None
    consumer_uuid: str | None = None
    claim_uuid: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """All nodes by UUID, claims (oldest first), hard policies of server groups, records of top
    groups, and moves of rebalances that are in flight, have a claim, or should have one.

    ``marks`` maps each claim's UUID to the consumer in its column ``unconfirmed``, or None. The
    database rejects a second claim with the same value.

    Nodes with ``unreadable`` rows are left out, with their claims; ``uncertain`` are the consumers
    of those.
    """

    nodes: Mapping[str, AuditedNode]
    claims: tuple[Claim, ...]
    policies: tuple[ServerGroupPolicy, ...] = ()
    marks: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    records: tuple[GroupRecord, ...] = ()
    moves: tuple[AuditedMove, ...] = ()
    unreadable: tuple[UnreadableRow, ...] = ()
    uncertain: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class AuditFinding:
    """One contradiction: ``words`` is text for operators; the values of both sides are for
    scripts.

    ``found`` is the value in the snapshot. ``expected`` is the value that its other rows, or a
    rule, require. A note is not an error: it is information, or a state that will pass.
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
        """Identifies the finding, whatever the values are."""
        return self.kind, self.node_uuid, self.consumer_uuid, self.claim_uuid, self.group_uuid

    @property
    def is_error(self):
        return self.severity == ERROR

    @property
    def repair(self):
        """The audit's repair; empty for none."""
        return KINDS[self.kind].repair

    @property
    def advice(self):
        """The manual repair; empty for none."""
        return KINDS[self.kind].advice
