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

"""A page's request, in the form in which the handlers of the REST API take theirs."""

import dataclasses
import json
from typing import Any

import flask

from nova_sched.dashboard import access


@dataclasses.dataclass(frozen=True)
class PageCall:
    """What a handler reads of ``api.calls.ApiCall``. ``request`` has the UUID of the address."""

    context: Any
    request: Any
    query: dict[str, Any] = dataclasses.field(default_factory=dict)
    body: dict[str, Any] = dataclasses.field(default_factory=dict)
    dry_run: bool = False
    root: str = ''

    def has(self, tag):
        """Pages are always drawn from a whole answer."""
        return False

    def following(self, marker, limit):
        """Pages show no links of the API."""
        return {'marker': marker, 'limit': limit}


def answer(handler, **given):
    """What a handler of the API answers to the caller of this page: its document."""
    call = PageCall(access.context(), flask.request, **given)
    return json.loads(handler(call).get_data())
