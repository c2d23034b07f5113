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
"""Problems that are logged once, until they are over."""

import logging
from typing import Any


class Troubles:
    """The current problems by kind, for one log. May be used from any thread."""

    def __init__(self, log: logging.Logger):
        self._log = log
        self._kinds = set[str]()

    def complain(self, kind: str, text: str, *args: Any) -> None:
        """Log a problem, if none of its kind was logged since the last relief."""
        if kind not in self._kinds:
            self._kinds.add(kind)
            self._log.error(text, *args)

    def relieve(self, kind: str, text: str) -> None:
        """Log the end of a kind of problem, if there was one."""
        if kind in self._kinds:
            self._kinds.discard(kind)
            self._log.info(text)


def line(error: Exception) -> str:
    """Returns the message of an error, without the remote traceback that a bus may append."""
    return f'{type(error).__name__}: {error}'.partition('\n')[0]
