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

"""A claim: the resources of one consumer on one node, and its state transitions; a plain value."""

import dataclasses
import json
import math
import operator
import uuid
from collections.abc import Mapping

from nova_sched.hardware.machine import HardwareAllocation

PLANNED = 'planned'  # a group member that is not created yet
PENDING = 'pending'  # chosen and returned to the conductor
CONFIRMED = 'confirmed'  # the node reports the instance

VCPU, MEMORY_MB, DISK_GB, PCPU = 'VCPU', 'MEMORY_MB', 'DISK_GB', 'PCPU'

# The reasons why a consumer comes from another node. With a resize or a migration, the source
# keeps its claim until the move is settled, regardless of its reports. With a live migration or an
# evacuation, the source claim ends when the source no longer lists the consumer.
RESIZE = 'resize'
MIGRATION = 'migration'
LIVE_MIGRATION = 'live-migration'
EVACUATION = 'evacuation'
MOVES = (RESIZE, MIGRATION, LIVE_MIGRATION, EVACUATION)
KEEPING_THE_SOURCE = frozenset([RESIZE, MIGRATION])
# These end on another host than they begin.
TO_ANOTHER_HOST = frozenset([LIVE_MIGRATION, EVACUATION])


@dataclasses.dataclass(frozen=True, slots=True)
class Resizing:
    """The old and new size of a consumer that is resized on its node: amounts by class, and the
    new ``parts``.

    ``uuid`` identifies the resize: the UUID of the claim that asked for it, whose request was
    ``request_id``. None: written by an older release.
    """

    old: Mapping[str, int]
    new: Mapping[str, int]
    parts: HardwareAllocation | None = None
    uuid: str | None = None
    request_id: str | None = None

    @property
    def together(self):
        """Return the resources for both sizes. Only one size runs at a time, but the old disk is
        kept until the resize is settled."""
        amounts = {}
        for name in (*self.old, *self.new):
            old, new = self.old.get(name, 0), self.new.get(name, 0)
            amounts[name] = old + new if name == DISK_GB else max(old, new)
        return amounts

    def to_json(self):
        parts = self.parts and self.parts.to_json()
        sizes = {'old': dict(self.old), 'new': dict(self.new)}
        names = {'uuid': self.uuid, 'request_id': self.request_id}
        return json.dumps({**sizes, 'parts': parts, **names}, sort_keys=True)

    @classmethod
    def from_json(cls, text):
        """Read the text that ``to_json`` wrote."""
        plain = json.loads(text)
        parts = plain['parts'] and HardwareAllocation.from_json(plain['parts'])
        names = plain.get('uuid'), plain.get('request_id')
        return cls(plain['old'], plain['new'], parts, *names)


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """A claim: the resources of one consumer on one node.

    ``resources`` maps Placement's resource classes to whole amounts (VCPU and PCPU: CPUs,
    MEMORY_MB: MiB, DISK_GB: GiB). ``created_s``, ``changed_s`` and ``expires_s`` are seconds since
    the epoch by the store's clock, which sets the first two. ``changed_s`` is the time when the
    store last wrote the claim, and ``changed_at`` the generation that its node got then;
    ``number`` orders the claims of a consumer by the placements that they are the result of; that
    of its first one is 1.
    ``changed_at`` and ``number`` are not compared.
    ``expires_s`` None never expires; of a confirmed claim: see ``awaited`` and ``is_given_up``.
    ``parts`` are the CPUs, pages and devices that it holds in addition. ``counted``:
    the usage in the node's report includes them. ``image_properties`` are those of the consumer's
    image, as text. ``move`` is the reason why the consumer comes from another node (one of MOVES).
    During a resize on this node, ``resizing`` has both sizes: ``resources`` is their combined
    need, ``parts`` are the old ones. For a member of a group, ``top_group`` is the group's UUID,
    and ``member`` its path there. ``fences`` are the tokens of the exclusive domains that the
    claim belongs to. An exclusive domain lasts as long as any claim has its token. ``ends_s`` is
    when the consumer is expected to end, in seconds since the epoch by the store's clock; None:
    not known.
    """

    consumer_uuid: str
    node_uuid: str
    resources: Mapping[str, int]
    state: str = PENDING
    project_id: str | None = None
    user_id: str | None = None
    group_uuid: str | None = None
    request_id: str | None = None
    created_s: float = 0.0
    changed_s: float = 0.0
    changed_at: int = dataclasses.field(default=0, compare=False)
    number: int = dataclasses.field(default=0, compare=False)
    expires_s: float | None = None
    parts: HardwareAllocation | None = None
    counted: bool = False
    image_properties: Mapping[str, str] = dataclasses.field(default_factory=dict)
    move: str | None = None
    resizing: Resizing | None = None
    top_group: str | None = None
    member: str | None = None
    fences: tuple[str, ...] = ()
    ends_s: float | None = None
    uuid: str = dataclasses.field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def key(self):
        """Return consumer and node: one consumer holds at most one claim on one node."""
        return self.consumer_uuid, self.node_uuid

    @property
    def expected_end_s(self):
        """Return ``ends_s``; inf: not known."""
        return math.inf if self.ends_s is None else self.ends_s

    @property
    def is_confirmed(self):
        return self.state == CONFIRMED

    @property
    def is_provisional(self):
        """Return whether it may be taken back: it is not confirmed, or a resize of it is open."""
        return self.resizing is not None or self.state != CONFIRMED

    @property
    def is_on_its_way(self):
        """Return whether it is pending for a move: its number says that its consumer had another
        claim when it was made, and may have left that since. Nobody tells which of two moves is
        the later one, so that it gives way to its own request alone."""
        return not self.is_confirmed and bool(self.move or self.number > 1)

    def is_unheard(self, claims):
        """Return whether its node has still to tell whether it has the consumer, given all claims
        of that: the consumer was asked back, or a later claim elsewhere is confirmed, too."""
        others = (claim for claim in claims if claim.node_uuid != self.node_uuid)
        return self.is_confirmed and (
            self.awaited
            or any(other.is_confirmed and other.order() >= self.order() for other in others)
        )

    @property
    def is_open(self):
        """Return whether it is of a move or a resize that is not settled."""
        return bool(self.move or self.resizing)

    @property
    def name(self):
        """Return the UUID by which calls name the claim: that of its open resize, or its own."""
        return (self.resizing and self.resizing.uuid) or self.uuid

    def order(self):
        """Return a key that orders the claims of one consumer by age. The time decides only where
        an older release made them."""
        return self.number, self.created_s

    def has_uuid(self, uuid):
        """Return whether a UUID identifies this claim or its open resize."""
        return uuid in (self.uuid, self.name)

    def is_of(self, request_id):
        """Return whether a request has asked for the claim, or for its open resize."""
        own = self.request_id, self.resizing and self.resizing.request_id
        return request_id is not None and request_id in own

    @property
    def keeps_source(self):
        """Return whether the source node keeps its claim regardless of its reports."""
        return self.move in KEEPING_THE_SOURCE

    @property
    def uncounted(self):
        """Return the hardware allocations that the usage in the node's report does not
        include."""
        new = self.resizing.parts if self.resizing else None
        return tuple(parts for parts in (None if self.counted else self.parts, new) if parts)

    @property
    def all_parts(self):
        """Return all hardware allocations: the old one, and the new one of a resize in place."""
        new = self.resizing.parts if self.resizing else None
        return tuple(parts for parts in (self.parts, new) if parts)

    # State transitions.

    def stamped(self, before, now_s, generation, number=0):
        """Return the claim as the store keeps it from ``now_s`` on, replacing the claim
        ``before`` (None: no claim). ``generation`` is the one that its node gets now. A new claim
        gets this number."""
        if before is not None and before.has_uuid(self.uuid):
            until_s = self.expires_s
            if until_s and self.changed_s != before.changed_s:
                until_s += now_s - self.changed_s  # the decision may be older than its commit
                if self.name == before.name:
                    until_s = max(until_s, before.expires_s or 0.0)
            changes = {'changed_s': now_s, 'changed_at': generation, 'expires_s': until_s}
            return dataclasses.replace(self, **changes)
        left_s = None if self.expires_s is None else now_s + self.expires_s - self.created_s
        # Runs for each new claim: this takes half as long as dataclasses.replace.
        values = [*_VALUES(self)]
        values[_CREATED], values[_CHANGED], values[_EXPIRES] = now_s, now_s, left_s
        values[_CHANGED_AT], values[_NUMBER] = generation, number
        return Claim(*values)

    def spared(self, watched_s, now_s):
        """Return the claim with the time left from ``now_s`` on that it had when it was last
        changed, or, if the clock had jumped by then, at ``watched_s``."""
        left_s = self.expires_s - self.changed_s
        if left_s <= 0:
            left_s = self.expires_s - watched_s
        return dataclasses.replace(self, expires_s=now_s + left_s)

    def merged_with(self, later):
        """Return this claim merged with a later claim of the same consumer on the same node.

        A pending claim is replaced, unless the later one only says by which kind of move the
        consumer comes: whoever was told the claim keeps its UUID. A confirmed claim is resized,
        unless it has that size, or gets it by the open resize, which is given more time. The same
        claim again can change only its position in a group, and, while it is pending, that it is
        of several requests: not that of a move, which is of the request that has named its kind.
        """
        regrouped = self.in_group_of(later)
        if self.uuid == later.uuid:
            is_shared = not (self.is_confirmed or self.move)
            return regrouped.asked_by(later.request_id) if is_shared else regrouped
        times = {'changed_s': later.created_s, 'expires_s': later.expires_s}
        if later.move and self.move in (None, later.move) and self.is_for(later):
            asked = {'move': later.move, 'request_id': later.request_id}
            return dataclasses.replace(regrouped, **asked, **times)
        if not self.is_confirmed:
            return later if later.top_group else later.in_group_of(self)
        sizes = self.resizing or Resizing(self.resources, self.resources, self.parts)
        # A copy of the request that has opened the resize may have picked other CPUs or devices.
        is_copy = bool(self.resizing) and sizes.request_id == later.request_id is not None
        if sizes.new == later.resources and (is_copy or sizes.parts == later.parts):
            return dataclasses.replace(regrouped, **times) if self.resizing else regrouped
        resizing = Resizing(sizes.old, later.resources, later.parts, later.uuid, later.request_id)
        both = self.resources_while(later.resources)
        return dataclasses.replace(regrouped, resources=both, resizing=resizing, **times)

    def resources_while(self, new):
        """Return what a confirmed claim holds while it is resized to ``new``, amounts by class.

        An open resize may have been settled with either size, and nobody has said so yet: until
        the later one is settled, the claim holds no less than before.
        """
        if not self.resizing:
            return Resizing(self.resources, new).together
        both = Resizing(self.resizing.old, new).together
        held = self.resources.items()
        return both | {name: max(amount, both.get(name, 0)) for name, amount in held}

    def is_for(self, later):
        """Return whether this pending claim is what a later one of the same consumer on the same
        node asks for.

        The same request may have picked other CPUs or devices. A late request for a host does not
        take the claim of a move from its caller.
        """
        is_repeat = self.request_id is not None and self.request_id == later.request_id
        names = 'resources', 'group_uuid', 'top_group', 'member', 'fences'
        return (
            self.state == PENDING
            and all(getattr(self, name) == getattr(later, name) for name in names)
            and (is_repeat or self.parts == later.parts)
        )

    def asked_by(self, request_id):
        """Return the claim as one that this request asks for, too. It then belongs to no single
        request, so that a late call of the other request does not end it."""
        if self.request_id == request_id is not None:
            return self
        return dataclasses.replace(self, request_id=None)

    def in_group_of(self, other):
        """Return the claim with the other claim's position in a group, if that has one."""
        names = 'top_group', 'member', 'fences'
        if other.top_group is None or all(
            getattr(self, name) == getattr(other, name) for name in names
        ):
            return self
        return dataclasses.replace(self, **{name: getattr(other, name) for name in names})

    def confirmed(self):
        """Return the claim confirmed: the node has the consumer. A move or a resize stays open
        until it is settled."""
        if self.is_confirmed and not self.awaited:
            return self
        return dataclasses.replace(self, state=CONFIRMED, expires_s=None)

    def finished(self):
        """Return the claim after the move or resize is settled, with the new size.

        A resize gives the claim its UUID: the call that has settled it may be repeated. No call
        ends the wait for a consumer that is ``awaited``: it may be of an earlier stay.
        """
        until_s = self.expires_s if self.awaited else None
        done = dataclasses.replace(self, state=CONFIRMED, expires_s=until_s, move=None)
        if self.resizing is None:
            return self if done == self else done
        new = self.resizing
        sizes = {'resources': new.new, 'parts': new.parts, 'resizing': None}
        return dataclasses.replace(done, uuid=self.name, counted=False, **sizes)

    def reverted(self):
        """Return the claim after the resize is reverted: with the old size."""
        return dataclasses.replace(
            self, resources=self.resizing.old, resizing=None, expires_s=None
        )

    def renewed(self, now_s, lifetime_s, generation):
        """Return the claim with ``lifetime_s`` seconds left (None: it never expires); None unless
        it is pending, or is being resized. ``generation`` is the one that its node gets now."""
        if not (self.resizing or self.state == PENDING):
            return None
        until_s = None if lifetime_s is None else now_s + lifetime_s
        return dataclasses.replace(self, expires_s=until_s, changed_s=now_s, changed_at=generation)

    def returning(self, until_s):
        """Return the claim on the source of a move when the other node does not have the consumer
        any more: it may be on its way back."""
        return self if self.is_provisional else dataclasses.replace(self, expires_s=until_s)

    def asked_back(self, later):
        """Return the claim on a node that the consumer may have left, if a later claim is to bring
        it back in the size that it had: it is awaited as long as that would be pending, and is of
        the later claim's request."""
        move = later.move or (self.move if self.awaited else None)
        back = self.returning(later.expires_s)
        names = {'request_id': later.request_id, 'move': move}
        return dataclasses.replace(back, changed_s=later.created_s, **names)

    @property
    def awaited(self):
        """Return whether the consumer may be on its way back to this node, which has not listed
        it since."""
        return not self.is_provisional and self.expires_s is not None

    def overdue(self, now_s):
        """Return whether the claim has waited too long by this time, and that is not noted."""
        is_over = self.expires_s is not None and self.expires_s <= now_s
        return is_over and not self.is_given_up

    def expired(self):
        """Return the claim after it has waited too long; None: it ends. A resize in place stays
        open until it is evident which size runs."""
        if not self.is_confirmed:
            return None
        return dataclasses.replace(self, expires_s=0.0 if self.resizing else None)

    @property
    def is_given_up(self):
        """Return whether a resize in place was not settled in time."""
        return self.resizing is not None and self.expires_s == 0.0


_NAMES = [field.name for field in dataclasses.fields(Claim)]
_VALUES = operator.attrgetter(*_NAMES)
_CREATED, _CHANGED, _CHANGED_AT, _NUMBER, _EXPIRES = map(
    _NAMES.index, ('created_s', 'changed_s', 'changed_at', 'number', 'expires_s')
)
