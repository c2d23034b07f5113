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
"""The worker of a node. Here: what it needs of its node, and of the shared claim store."""

from collections.abc import Callable, Collection
from typing import Any, Protocol

from nova_sched.state.report import Report
from nova_sched.state.request import Request


class NodeApi(Protocol):
    """One compute node with its list of instances, which survives the process.

    An instance that is ``hidden`` is being built for a job: it holds its resources, and no report
    lists it until ``built``. Every method may raise BadMachineFacts if the list cannot be written.
    """

    @property
    def host(self) -> str: ...

    @property
    def nodename(self) -> str: ...

    def facts(self) -> Report:
        """Return the node with all of its instances, including hidden ones."""

    def hidden(self) -> Collection[str]:
        """Return the UUIDs of the hidden instances."""

    def holds(self, instance_uuid: str) -> bool:
        """Whether the instance is here permanently, that is not hidden."""

    def has_two_sizes(self, instance_uuid: str) -> bool:
        """Return whether a resize of the instance is neither confirmed nor reverted."""

    def begin(self, request: Request, move: str | None = None) -> None:
        """Add a hidden instance; ``move`` is the kind of move that brings it from another host.

        An instance that is hidden already is replaced. Raises ComputeResourcesUnavailable.
        """

    def built(self, instance_uuid: str, claim: str) -> None:
        """Mark a hidden instance as built, or one with two sizes as resized; this claim of it is
        about to be confirmed. Raises NotFound."""

    def claim_name(self, instance_uuid: str) -> str | None:
        """Return the name of the claim by which an instance is here; None if it is not known."""

    def keep(self, instance_uuid: str) -> None:
        """Keep a hidden instance permanently. Raises NotFound."""

    def undo(self, instance_uuid: str, failed: bool = False) -> Any:
        """Remove a hidden instance; ``failed``: its build failed. Ignores an instance that is not
        here."""

    def destroy(self, instance_uuid: str) -> bool:
        """Remove an instance. Returns whether it was here."""

    def resize(self, request: Request) -> None:
        """Give an instance that is here two sizes. Raises ComputeResourcesUnavailable."""

    def confirm_resize(self, instance_uuid: str) -> None:
        """Keep the new size. Raises NotFound."""

    def revert_resize(self, instance_uuid: str) -> None:
        """Restore the old size. Raises NotFound."""

    def watch(self, callback: Callable[[], None]) -> None:
        """Call a function after every change of the node's instances, from any thread."""


class NodeClaims(Protocol):
    """The shared claim store; its methods return ClaimInfo objects.

    Every method may raise NoAnswer, StoreUnavailable or StoreFull, or an error of the bus. The
    operation is then done or not, and may be repeated.
    """

    def instance_claim(
        self, spec_obj: Any, instance_uuid: str, host: str, nodename: str, new: bool = False
    ) -> Any:
        """Raise ComputeResourcesUnavailable, NodeNotFound; if ``new`` AlreadyPlaced."""

    def resize_claim(
        self, spec_obj: Any, instance_uuid: str, host: str, nodename: str, move: str = 'resize'
    ) -> Any:
        """Raise ComputeResourcesUnavailable, NodeNotFound."""

    def claim_alternate(
        self,
        spec_obj: Any,
        instance_uuid: str,
        failed_host: str,
        host: str,
        nodename: str,
        *,
        context: Any = None,
        claim: str | None = None,
    ) -> Any:
        """Raise ComputeResourcesUnavailable, NodeNotFound, ClaimNotFound, Outdated."""

    # ``claim`` is the name of a ClaimInfo. Each of these raises ClaimNotFound, and Outdated if the
    # claim is not as the caller knew it.

    def confirm_claim(
        self, instance_uuid: str, host: str, *, claim: str | None = None
    ) -> list[Any]: ...

    def revert_claim(self, instance_uuid: str, *, claim: str | None = None) -> list[Any]: ...

    def abort_claim(
        self,
        instance_uuid: str,
        host: str | None = None,
        *,
        claim: str | None = None,
        confirmed: bool = False,
    ) -> list[Any]: ...

    def show(self, instance_uuid: str) -> list[Any]: ...
