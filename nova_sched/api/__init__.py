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
"""The REST API: groups over HTTP, for clients that are not OpenStack services.

``app.make(conf, backend)`` returns a WSGI application. Its routes, parameters and bodies are
defined only in ``openapi.yaml``. The same document is served to clients.
"""

from collections.abc import Mapping
from typing import Any, Protocol


class Backend(Protocol):
    """The interface that the API needs of the scheduler: the client of the RPC namespace `groups`,
    or an object with the same methods.

    Groups are TopGroup objects, ``context`` is a RequestContext; times are seconds. With a
    ``project_id`` only groups of that project are known. All methods raise StoreUnavailable,
    NoAnswer and InvalidRequest.
    """

    def create(
        self,
        template: str | Mapping[str, Any],
        name: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        flavors: Mapping[str, Any] | None = None,
        images: Mapping[str, Any] | None = None,
        ttl: int | None = None,
        dry_run: bool = False,
        context: Any = None,
    ) -> Any:
        """Plan and claim the whole group. Raises TemplateError or GroupRefused."""

    def update(
        self,
        uuid: str,
        template: str | Mapping[str, Any],
        parameters: Mapping[str, Any] | None = None,
        flavors: Mapping[str, Any] | None = None,
        images: Mapping[str, Any] | None = None,
        generation: int | None = None,
        dry_run: bool = False,
        project_id: str | None = None,
        ttl: int | None = None,
        context: Any = None,
    ) -> Any:
        """Replace the definition. Raises also GroupNotFound, and GroupChanged if the generation is
        another."""

    def delete(
        self,
        uuid: str,
        generation: int | None = None,
        dry_run: bool = False,
        project_id: str | None = None,
        context: Any = None,
    ) -> Any:
        """Delete the group; with ``dry_run`` returns the group as it would be left. Raises
        GroupNotFound or GroupChanged."""

    def show(self, uuid: str, project_id: str | None = None, context: Any = None) -> Any:
        """Raises GroupNotFound."""

    def list(
        self,
        project_id: str | None = None,
        name: str | None = None,
        marker: str | None = None,
        limit: int | None = None,
        context: Any = None,
    ) -> Any:
        """Groups after the marker, without members, oldest first. Raises GroupNotFound for the
        marker."""

    def plan(
        self,
        uuid: str,
        project_id: str | None = None,
        replan: bool = False,
        dry_run: bool = False,
        context: Any = None,
    ) -> Any:
        """Returns the group with its members' domains. With ``replan``, members without a place
        are given one."""

    def renew(
        self,
        uuid: str,
        ttl: int | None = None,
        project_id: str | None = None,
        dry_run: bool = False,
        context: Any = None,
    ) -> Any:
        """Hold the planned claims for longer."""

    def validate(
        self,
        template: str | Mapping[str, Any],
        parameters: Mapping[str, Any] | None = None,
        flavors: Mapping[str, Any] | None = None,
        images: Mapping[str, Any] | None = None,
        context: Any = None,
    ) -> Mapping[str, Any]:
        """Returns the members, policies, warnings and contradiction of a template. Raises
        TemplateError."""
