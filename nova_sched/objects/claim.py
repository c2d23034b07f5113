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

"""One consumer's hold on one node, and what each event makes of it."""

import dataclasses
import json
import operator
import uuid
from collections.abc import Mapping

from nova_sched.hardware.machine import HardwareAllocation

PLANNED = 'planned'  # a group member that is not created yet
PENDING = 'pending'  # chosen and handed to the conductor
CONFIRMED = 'confirmed'  # the node reports the instance

VCPU, MEMORY_MB, DISK_GB, PCPU = 'VCPU', 'MEMORY_MB', 'DISK_GB', 'PCPU'

# What brings a consumer to another node. The source keeps its claim until a resize or a migration
# is settled, whatever it reports; a live migration and an evacuation end there as soon as it does
# not list the consumer.
RESIZE, MIGRATION, LIVE_MIGRATION, EVACUATION = (
    'resize',
    'migration',
    'live-migration',
    'evacuation',
)
MOVES = (RESIZE, MIGRATION, LIVE_MIGRATION, EVACUATION)
KEEPING_THE_SOURCE = frozenset([RESIZE, MIGRATION])


@dataclasses.dataclass(frozen=True, slots=True)
class Resizing:
    """The sizes of a consumer that changes its size where it is: amounts by class, and the new
    ``parts``.

    ``uuid`` names the resize: that of the claim that asked for it. None: an older release has
    written it.
    """

    old: Mapping[str, int]
    new: Mapping[str, int]
    parts: HardwareAllocation | None = None
    uuid: str | None = None

    @property
    def together(self):
        """What both need: one of them runs at a time, but the old disk is kept until nobody can go
        back."""
        names = dict.fromkeys((*self.old, *self.new))
        return {
            name: self._both(name, self.old.get(name, 0), self.new.get(name, 0)) for name in names
        }

    @staticmethod
    def _both(name, old, new):
        return old + new if name == DISK_GB else max(old, new)

    def to_json(self):
        parts = self.parts and self.parts.to_json()
        sizes = {'old': dict(self.old), 'new': dict(self.new)}
        return json.dumps({**sizes, 'parts': parts, 'uuid': self.uuid}, sort_keys=True)

    @classmethod
    def from_json(cls, text):
        """From what ``to_json`` wrote."""
        plain = json.loads(text)
        parts = plain['parts'] and HardwareAllocation.from_json(plain['parts'])
        return cls(plain['old'], plain['new'], parts, plain.get('uuid'))


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """One consumer's hold on one node.

    ``resources`` maps Placement's resource classes to whole amounts (VCPU and PCPU: CPUs,
    MEMORY_MB: MiB, DISK_GB: GiB). ``created_s``, ``changed_s`` and ``expires_s`` are seconds since
    the epoch by the store's clock, which sets the first two: ``changed_s`` is when the claim was
    made or last became another one. ``expires_s`` None never expires. ``parts`` are the CPUs,
    pages and devices that it holds beside; ``counted``: the node's own report has them among what
    is in use. ``unseen``: confirmed by a caller, and no report of its node has come since.
    ``image_properties`` are those of the consumer's image, as text. ``move`` says what brings the
    consumer here from another node (one of MOVES). While it changes its size here, ``resizing``
    has both sizes: ``resources`` is what they need together, ``parts`` are the old ones. Of a
    member of a top group: ``top_group`` is the group's UUID, ``member`` its path there, and
    ``fences`` are the tokens of the fences that it is behind: it is no outsider there, and they
    stand as long as any claim has their token.
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
    expires_s: float | None = None
    parts: HardwareAllocation | None = None
    counted: bool = False
    unseen: bool = False
    image_properties: Mapping[str, str] = dataclasses.field(default_factory=dict)
    move: str | None = None
    resizing: Resizing | None = None
    top_group: str | None = None
    member: str | None = None
    fences: tuple[str, ...] = ()
    uuid: str = dataclasses.field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def key(self):
        """Consumer and node: one consumer holds at most one claim on one node."""
        return self.consumer_uuid, self.node_uuid

    @property
    def is_confirmed(self):
        return self.state == CONFIRMED

    def is_named(self, name):
        """Whether a caller means this claim, or the resize that is open on it, by a UUID."""
        return name == self.uuid or (self.resizing is not None and name == self.resizing.uuid)

    @property
    def keeps_source(self):
        """Whether the node that the consumer comes from keeps its claim, whatever it reports."""
        return self.move in KEEPING_THE_SOURCE

    @property
    def uncounted(self):
        """Parts that are held beside what the node's report has in use."""
        new = self.resizing.parts if self.resizing else None
        return tuple(parts for parts in (None if self.counted else self.parts, new) if parts)

    @property
    def all_parts(self):
        """All parts that are held: the old ones, and the new ones of a resize in place."""
        new = self.resizing.parts if self.resizing else None
        return tuple(parts for parts in (self.parts, new) if parts)

    # What becomes of it.

    def stamped(self, before, now_s):
        """The same as the store keeps it from ``now_s`` on, in place of the claim ``before``
        (None: of none)."""
        if before is not None and before.uuid == self.uuid:
            return dataclasses.replace(self, changed_s=now_s)
        left_s = None if self.expires_s is None else now_s + self.expires_s - self.created_s
        # Each new claim comes here: this takes half as long as dataclasses.replace.
        values = [*_VALUES(self)]
        values[_CREATED], values[_CHANGED], values[_EXPIRES] = now_s, now_s, left_s
        return Claim(*values)

    def merged_with(self, later):
        """What a later claim of the same consumer on the same node makes of this one.

        A claim on its way is replaced. Where the consumer is already, it changes its size. The
        same claim once more can change its place in a top group, and nothing else.
        """
        mine = self.in_group_of(later)
        if self.uuid == later.uuid:
            return mine
        if not self.is_confirmed:
            return later if later.top_group else later.in_group_of(self)
        old = self.resizing.old if self.resizing else self.resources
        resizing = Resizing(old, later.resources, later.parts, later.uuid)
        if (
            self.resizing
            and dataclasses.replace(resizing, uuid=self.resizing.uuid) == self.resizing
        ):
            return mine
        return dataclasses.replace(
            mine, resources=resizing.together, resizing=resizing, expires_s=later.expires_s
        )

    def in_group_of(self, other):
        """The same with the other one's place in a top group, if that one has any."""
        names = 'top_group', 'member', 'fences'
        if other.top_group is None or all(
            getattr(self, name) == getattr(other, name) for name in names
        ):
            return self
        return dataclasses.replace(self, **{name: getattr(other, name) for name in names})

    def confirmed(self):
        """Somebody says that the node has the consumer; a move or a resize stays open until it is
        settled.

        A report that the node made before may still be on its way, and does not tell of it.
        """
        if self.is_confirmed:
            return self
        return dataclasses.replace(self, state=CONFIRMED, expires_s=None, unseen=True)

    def finished(self):
        """The consumer runs here for good, in its new size."""
        done = dataclasses.replace(self.confirmed(), expires_s=None, move=None)
        if self.resizing is None:
            return done
        new = self.resizing
        return dataclasses.replace(
            done, resources=new.new, parts=new.parts, counted=False, resizing=None
        )

    def reverted(self):
        """The resize is taken back: the old size stays."""
        return dataclasses.replace(
            self, resources=self.resizing.old, resizing=None, expires_s=None
        )

    def overdue(self, now_s):
        """Whether its time has come: it waits for somebody who has not come by then."""
        waits = not self.is_confirmed or self.resizing is not None
        return waits and self.expires_s is not None and self.expires_s <= now_s


_NAMES = [field.name for field in dataclasses.fields(Claim)]
_VALUES = operator.attrgetter(*_NAMES)
_CREATED, _CHANGED, _EXPIRES = map(_NAMES.index, ('created_s', 'changed_s', 'expires_s'))
