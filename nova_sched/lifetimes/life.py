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
"""What the claim of a server keeps for learning how long servers last."""

import json
from typing import NamedTuple


class Kind(NamedTuple):
    """Servers that are counted together: those of one project and flavor, of requests for the
    same number of servers. None: of any."""

    project: str | None = None
    flavor: str | None = None
    together: int | None = None

    @property
    def of_flavor(self) -> 'Kind':
        """All servers of the flavor."""
        return Kind(None, self.flavor)

    @property
    def weight(self) -> float:
        """What one server counts: those of one request end together, and tell less than as many
        single ones."""
        return (self.together or 1) ** -0.5


ANY = Kind()


class Life(NamedTuple):
    """A server's flavor, the number of servers in its request, and when it was first claimed
    (seconds since the epoch by the store's clock). It stays the same in moves and resizes."""

    flavor: str
    together: int
    began_s: float

    def kind(self, project: str | None) -> Kind:
        return Kind(project or '', self.flavor, self.together)

    def to_json(self) -> str:
        return json.dumps(self)

    @classmethod
    def from_json(cls, text: str) -> 'Life':
        """Reads the text that ``to_json`` wrote."""
        return cls(*json.loads(text))
