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
"""What a stub receives and answers."""

import datetime
from dataclasses import dataclass, field

REGION = 'RegionOne'


@dataclass(frozen=True)
class Request:
    """``path`` has the words below the service's own; ``body`` is what the JSON says."""

    method: str
    path: tuple[str, ...]
    headers: dict[str, str]
    body: object


@dataclass(frozen=True)
class Answer:
    """``body`` is sent as JSON; None sends no body."""

    status: int
    body: object = None
    headers: dict[str, str] = field(default_factory=dict)


def stamp(later_s: float = 0) -> str:
    """The time in so many seconds, as the APIs write it."""
    time = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=later_s)
    return time.strftime('%Y-%m-%dT%H:%M:%S.000000Z')


def versions(url: str, **words: str) -> Answer:
    """The document at the root of a service: one version, with its address."""
    version = {'status': 'CURRENT', 'links': [{'rel': 'self', 'href': url}], **words}
    return Answer(300, {'versions': [version]})
