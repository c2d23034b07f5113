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
"""The list of this node's instances, in a small file that survives a restart of the agent."""

import contextlib
import dataclasses
import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nova_sched import errors, files
from nova_sched.claim import (
    CONFIRMED,
    DISK_GB,
    MEMORY_MB,
    MOVES,
    PCPU,
    VCPU,
    Claim,
    Resizing,
)
from nova_sched.extensions.agent import usage
from nova_sched.hardware.machine import HardwareAllocation

BUILDING, ACTIVE, RESIZED = 'building', 'active', 'resized'  # Nova's vm_state
SPAWNING = 'spawning'  # Nova's task_state while it builds


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LocalInstance:
    """One instance on this node; ``resources`` are its claimed amounts by resource class.

    ``parts`` are the CPUs, pages and devices that it holds, ``devices`` the PCI addresses of
    these. ``move`` is the kind of move that brings it from another host (see MOVES), until that is
    confirmed or reverted. During a resize on this host, ``resizing`` has both sizes and
    ``new_devices`` the addresses of the new size. ``resources`` are then the sum of both sizes;
    ``parts`` and ``devices`` are those of the old size. ``hidden``: it is being built for a job of
    a queue, and reports omit it until it is built. ``claim_uuid`` is the claim by which it came
    here or got its size; None: whoever brought it did not name one.
    """

    uuid: str
    resources: Mapping[str, int]
    vm_state: str = BUILDING
    project_id: str | None = None
    os_type: str | None = None
    parts: HardwareAllocation | None = None
    devices: frozenset[str] = frozenset()
    move: str | None = None
    resizing: Resizing | None = None
    new_devices: frozenset[str] = frozenset()
    hidden: bool = False
    claim_uuid: str | None = None

    def to_plain(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return fields | {
            'resources': dict(self.resources),
            'parts': self.parts and self.parts.to_json(),
            'devices': sorted(self.devices),
            'resizing': self.resizing and self.resizing.to_json(),
            'new_devices': sorted(self.new_devices),
        }

    @property
    def all_devices(self) -> frozenset[str]:
        """Return the addresses of all devices that the instance holds exclusively."""
        return self.devices | self.new_devices

    @property
    def is_open(self) -> bool:
        """Whether a resize, or the move that brought it here, can still be reverted."""
        return self.move is not None or self.resizing is not None

    @property
    def claim_name(self) -> str | None:
        """Return the UUID by which calls name its claim: that of its open resize, or its own; None
        if it is not known."""
        return self.resizing.uuid if self.resizing else self.claim_uuid

    def may_be(self, claim: str | None) -> bool:
        """Return whether it may be here by this claim, or by its open resize: a name that the call
        does not give, or the node does not know, contradicts nothing."""
        known = {self.claim_uuid, self.claim_name}
        return claim is None or not known.isdisjoint((None, claim))

    def may_settle(self, claim: str | None) -> bool:
        """Return whether a move or resize is open that may be the one of this name."""
        return self.is_open and (claim is None or self.claim_name in (None, claim))

    def named(self, claim: str | None) -> 'LocalInstance':
        """Return the instance, here by this claim."""
        if self.resizing is None:
            return dataclasses.replace(self, claim_uuid=claim)
        return dataclasses.replace(self, resizing=dataclasses.replace(self.resizing, uuid=claim))

    def claim(self, node_uuid: str) -> Claim:
        """Return the claim of the instance on this node."""
        return Claim(
            self.uuid,
            node_uuid,
            self.resources,
            CONFIRMED,
            project_id=self.project_id,
            parts=self.parts,
            move=self.move,
            resizing=self.resizing,
        )

    def finished(self, node_uuid: str) -> 'LocalInstance':
        """Return the instance after a confirmed move or resize, in its new size."""
        devices = self.new_devices if self.resizing else self.devices
        done = self._settled(self.claim(node_uuid).finished(), devices)
        return dataclasses.replace(done, claim_uuid=self.claim_name)

    def reverted(self, node_uuid: str) -> 'LocalInstance | None':
        """Return the instance in its old size; None if it returns to its source host."""
        if self.resizing is None:
            return None
        return self._settled(self.claim(node_uuid).reverted(), self.devices)

    def _settled(self, claim: Claim, devices: frozenset[str]) -> 'LocalInstance':
        return dataclasses.replace(
            self,
            resources=claim.resources,
            vm_state=ACTIVE,
            parts=claim.parts,
            devices=devices,
            move=claim.move,
            resizing=claim.resizing,
            new_devices=frozenset(),
        )

    def guest(self, both: bool = False) -> usage.InstanceUsage:
        """Return the instance as the node's report counts it.

        During a resize, amounts are the sum of both sizes, but CPUs, pages and devices are the old
        ones only, unless ``both`` are asked for. The scheduler holds the new ones in addition to
        the report until the resize is settled.
        """
        dedicated = self.resources.get(PCPU, 0)
        new = self.resizing.parts if both and self.resizing else None
        fitted = [parts.cells for parts in (self.parts, new) if parts and parts.cells]
        return usage.InstanceUsage(
            uuid=self.uuid,
            vcpus=self.resources.get(VCPU, 0) + dedicated,
            memory_mb=self.resources.get(MEMORY_MB, 0),
            disk_gb=self.resources.get(DISK_GB, 0),
            dedicated=dedicated,
            vm_state=self.vm_state,
            task_state=SPAWNING if self.vm_state == BUILDING else None,
            os_type=self.os_type,
            project_id=self.project_id,
            cells=usage.cells(*fitted),
            devices=self.all_devices if both else self.devices,
        )


class LocalInstances:
    """The list by UUID. A change is on disk before it is visible, or it is not made.

    Raises BadMachineFacts if the file has other content: a node that lost its list would be filled
    twice. One thread at a time may change the list; any thread may read it.
    """

    def __init__(self, path: Path):
        self._path = path
        self._by_uuid = _read(path)

    def __iter__(self):
        return iter(self._by_uuid.values())

    def __len__(self) -> int:
        return len(self._by_uuid)

    def __contains__(self, instance_uuid: str) -> bool:
        return instance_uuid in self._by_uuid

    def get(self, instance_uuid: str) -> LocalInstance | None:
        return self._by_uuid.get(instance_uuid)

    def put(self, instance: LocalInstance) -> None:
        """Add an instance, or replace it. Raise BadMachineFacts if the file cannot be written."""
        self._replace({**self._by_uuid, instance.uuid: instance})

    def remove(self, instance_uuid: str) -> None:
        """Remove an instance that is in the list. Raise BadMachineFacts if the file cannot be
        written."""
        self._replace(
            {name: instance for name, instance in self._by_uuid.items() if name != instance_uuid}
        )

    def _replace(self, by_uuid: dict[str, LocalInstance]) -> None:
        _write(self._path, by_uuid)
        # a new dict each time, so that a reader never iterates over one that changes
        self._by_uuid = by_uuid


def _read(path: Path) -> dict[str, LocalInstance]:
    try:
        content = path.read_text()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise errors.BadMachineFacts(str(path), str(error)) from error
    try:
        return {
            instance.uuid: instance
            for instance in map(_instance, json.loads(content)['instances'])
        }
    except (ValueError, TypeError, KeyError, AttributeError, errors.Invalid) as error:
        why = (
            f'it is not a list of instances ({error}); restore it, or remove it if this node has '
            'none'
        )
        raise errors.BadMachineFacts(str(path), why) from error


def _instance(fields: Any) -> LocalInstance:
    """Return an instance from its stored fields.

    Raise ValueError, TypeError, AttributeError or Invalid for anything else.
    """
    parts, resizing = fields.get('parts'), fields.get('resizing')
    addresses = {
        name: frozenset(map(str, fields.get(name, ()))) for name in ('devices', 'new_devices')
    }
    read = LocalInstance(
        **fields
        | addresses
        | {
            'parts': None if parts is None else HardwareAllocation.from_json(parts),
            'resizing': None if resizing is None else Resizing.from_json(resizing),
        }
    )
    uuid.UUID(read.uuid)
    sizes = [read.resources, *((read.resizing.old, read.resizing.new) if read.resizing else ())]
    if not all(type(amount) is int and amount >= 0 for size in sizes for amount in size.values()):
        raise ValueError(f'resources of instance {read.uuid}')
    if read.vm_state not in (BUILDING, ACTIVE, RESIZED):
        raise ValueError(f'vm_state of instance {read.uuid}')
    if read.move not in (None, *MOVES):
        raise ValueError(f'move of instance {read.uuid}')
    if type(read.hidden) is not bool:
        raise ValueError(f'whether instance {read.uuid} is hidden')
    if read.claim_uuid is not None:
        uuid.UUID(read.claim_uuid)
    return read


def _write(path: Path, by_uuid: Mapping[str, LocalInstance]) -> None:
    """Replace the file atomically; the content is on disk when this returns."""
    draft = path.with_name(f'{path.name}.new')
    content = json.dumps(
        {'instances': [instance.to_plain() for instance in by_uuid.values()]}, indent=1
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(draft, 'w', opener=files.private) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        # The new name is in the directory, which must be synced to disk too.
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise errors.BadMachineFacts(str(path), error.strerror or str(error)) from error
