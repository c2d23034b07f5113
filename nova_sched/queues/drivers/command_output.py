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
"""The end of what a command prints, with a bound on the disk that it takes meanwhile."""

import fcntl
import os
import tempfile
from typing import Self

TAIL = 4096  # bytes of a stream that are kept
LONGEST = 2**20  # bytes of a stream on disk, between two calls of ``bound``


class CommandOutput:
    """One stream of a command, in a file without a name: a child process that is left behind
    would keep a pipe open forever."""

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115, see __exit__
        # The command has the same position in the file: what it writes must go to the end anyway.
        flags = fcntl.fcntl(self.file, fcntl.F_GETFL)
        fcntl.fcntl(self.file, fcntl.F_SETFL, flags | os.O_APPEND)

    def bound(self) -> None:
        """Drop all but the end of a long stream. What comes at this moment may be lost."""
        if os.fstat(self.file.fileno()).st_size > LONGEST:
            kept = self._tail()
            self.file.truncate(0)
            self.file.write(kept)

    @property
    def text(self) -> str:
        """The end of the stream, without characters that would steer a terminal."""
        found = self._tail().decode(errors='replace')
        return ''.join(one if one.isprintable() or one in '\n\t' else '\ufffd' for one in found)

    def _tail(self) -> bytes:
        size = self.file.seek(0, os.SEEK_END)
        self.file.seek(max(0, size - TAIL))
        return self.file.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
