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
"""What the scheduler of the cloud has done with a request, as Placement and Nova show it later."""

import dataclasses

PLACED, REFUSED, UNKNOWN = 'placed', 'refused', 'unknown'
FAILED = 'error'  # the vm_state of a server whose builds have failed


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """PLACED on a node; REFUSED; or UNKNOWN. ``host`` is None if the mirror does not know it."""

    outcome: str
    node_uuid: str | None = None
    host: str | None = None


class Choices:
    """Looks for the choices. It only reads; raises a SchedError if Nova or Placement does not
    answer."""

    def __init__(self, cells, placement, mirror):
        self._cells, self._placement, self._mirror = cells, placement, mirror

    def find(self, instance_uuid, ignored=frozenset()):
        """Returns the Choice for an instance, or None while Nova still waits for one.

        ``ignored`` are the hosts that the request leaves out: what a server that moves has there
        is older than the choice.
        """
        # Before the allocations: a call that has ended by then has written its allocations.
        is_waiting = self._mirror.waits_for_host([instance_uuid])
        for node_uuid in self._nodes(instance_uuid):
            host = self._mirror.host_of(node_uuid)
            if host not in ignored:
                return Choice(PLACED, node_uuid, host)
        return None if is_waiting else self._without_allocations(instance_uuid, ignored)

    def _nodes(self, instance_uuid):
        """UUIDs of the compute nodes on which an instance has allocations."""
        nodes = dict.fromkeys(
            uuid if self._mirror.host_of(uuid) is not None else self._placement.root_of(uuid)
            for uuid in self._placement.allocations_of(instance_uuid).providers
        )
        return [uuid for uuid in nodes if uuid is not None]

    def _without_allocations(self, instance_uuid, ignored):
        """Nova makes the server in its cell once a host is chosen; a server that moves was there
        before."""
        rows = (cell.instance(instance_uuid) for cell in self._cells)
        row = next((row for row in rows if row is not None), None)
        if row is None or row.host in ignored:
            return Choice(REFUSED)
        if row.host is not None:  # its allocations have gone since, for example with the server
            return Choice(PLACED, None, row.host)
        return Choice(UNKNOWN if row.deleted or row.vm_state == FAILED else REFUSED)
