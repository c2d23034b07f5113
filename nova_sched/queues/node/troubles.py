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
"""Trouble that is told once, until it is over."""

import logging
from typing import Any


class Troubles:
    """What is wrong at the moment, by kind, for one log. May be used from any thread."""

    def __init__(self, log: logging.Logger):
        self._log = log
        self._kinds = set[str]()

    def complain(self, kind: str, text: str, *args: Any) -> None:
        """Say something bad, if nothing of its kind was said since the last relief."""
        if kind not in self._kinds:
            self._kinds.add(kind)
            self._log.error(text, *args)

    def relieve(self, kind: str, text: str) -> None:
        """A kind of trouble is over: say so, if there was any."""
        if kind in self._kinds:
            self._kinds.discard(kind)
            self._log.info(text)


def line(error: Exception) -> str:
    """What an error says, without the traceback of the other side, which a bus may append."""
    return f'{type(error).__name__}: {error}'.partition('\n')[0]
