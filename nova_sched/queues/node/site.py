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
"""What a worker needs of its surroundings: the node that it works for, and the shared store of
claims."""

from collections.abc import Callable, Collection
from typing import Any, Protocol

from nova_sched.state.report import Report
from nova_sched.state.request import Request


class Site(Protocol):
    """One compute node with its own list of instances, which outlives the process.

    An instance that is ``hidden`` is being built for a job: it has its room, and no report lists
    it until ``built``. Every method may raise BadMachineFacts if the list cannot be written.
    """

    @property
    def host(self) -> str: ...

    @property
    def nodename(self) -> str: ...

    def facts(self) -> Report:
        """The node with all that it holds now, hidden instances among it."""

    def hidden(self) -> Collection[str]:
        """UUIDs of the hidden instances."""

    def holds(self, instance_uuid: str) -> bool:
        """Whether the instance is here for good, that is not hidden."""

    def begin(self, request: Request, move: str | None = None) -> None:
        """Take a hidden instance; ``move`` says what brings it from another host.

        One that is hidden already is replaced. Raises ComputeResourcesUnavailable.
        """

    def built(self, instance_uuid: str) -> None:
        """A hidden instance is there, and its claim is about to be confirmed. Raises NotFound."""

    def keep(self, instance_uuid: str) -> None:
        """A hidden instance is here for good. Raises NotFound."""

    def undo(self, instance_uuid: str, failed: bool = False) -> Any:
        """A hidden instance is gone; ``failed``: it could not be built. Nothing for one that is
        not here."""

    def destroy(self, instance_uuid: str) -> bool:
        """An instance is gone. Returns whether it was here."""

    def resize(self, request: Request) -> None:
        """An instance that is here holds two sizes. Raises ComputeResourcesUnavailable."""

    def confirm_resize(self, instance_uuid: str) -> None:
        """It has the new one. Raises NotFound."""

    def revert_resize(self, instance_uuid: str) -> None:
        """It has the old one. Raises NotFound."""

    def watch(self, callback: Callable[[], None]) -> None:
        """Have a function called after every change of what the node holds, from any thread."""


class Claims(Protocol):
    """The shared store of claims; what it returns are ClaimInfo objects.

    Every method may raise NoAnswer, StoreUnavailable or StoreFull, or what a bus raises: then what
    was asked for is done or not, and may be asked for again.
    """

    def instance_claim(
        self, spec_obj: Any, instance_uuid: str, host: str, nodename: str, new: bool = False
    ) -> Any:
        """Raises ComputeResourcesUnavailable, NodeNotFound; if ``new`` AlreadyPlaced."""

    def resize_claim(
        self, spec_obj: Any, instance_uuid: str, host: str, nodename: str, move: str = 'resize'
    ) -> Any:
        """Raises ComputeResourcesUnavailable, NodeNotFound."""

    def claim_alternate(
        self, spec_obj: Any, instance_uuid: str, failed_host: str, host: str, nodename: str
    ) -> Any:
        """Raises ComputeResourcesUnavailable, NodeNotFound."""

    def confirm_claim(self, instance_uuid: str, host: str) -> list[Any]:
        """Raises ClaimNotFound."""

    def revert_claim(self, instance_uuid: str) -> list[Any]:
        """Raises ClaimNotFound."""

    def abort_claim(self, instance_uuid: str, host: str | None = None) -> list[Any]:
        """Raises ClaimNotFound."""

    def show(self, instance_uuid: str) -> list[Any]: ...
