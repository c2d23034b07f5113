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

"""The node's identity over restarts: its UUID and the number of its starts, each in a file."""

import contextlib
import os
import uuid
from collections.abc import Callable
from pathlib import Path

from nova_sched import errors, words
from nova_sched.agent import sysfs


def node_uuid(path: Path, new: Callable[[], uuid.UUID] = uuid.uuid4) -> str:
    """Return the UUID in the file. Create the file with a new UUID if it does not exist.

    Raise BadMachineFacts if the file has other content, or can be neither read nor created. With
    a new UUID, the node's instances would stay allocated on a compute node that no longer exists.
    """
    with contextlib.suppress(FileExistsError):
        if not os.path.exists(path):
            _create(path, str(new()))
    content = sysfs.text(path)
    try:
        return str(uuid.UUID(content))
    except ValueError as error:
        why = (
            f'{content[:40]!r} is not a UUID; restore the file, '
            'or remove it if this node has no instances'
        )
        raise errors.BadMachineFacts(str(path), why) from error


def _create(path: Path, content: str) -> None:
    """Create the file with all of its content or not at all.

    Raise FileExistsError if another process created it first.
    """
    draft = path.with_name(f'{path.name}.{os.getpid()}')
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open('w') as file:
            file.write(f'{content}\n')
            file.flush()
            os.fsync(file.fileno())
        # A link, unlike a rename, does not replace a file that another process has just made.
        try:
            path.hardlink_to(draft)
        finally:
            draft.unlink()
    except FileExistsError:
        raise
    except OSError as error:
        raise errors.BadMachineFacts(str(path), error.strerror or str(error)) from error


class ReportCount:
    """The number of the next report and of the current start; the file ``path`` stores the latter.

    Only one process may use the file. Raises BadMachineFacts if the file can be neither read nor
    written.
    """

    def __init__(self, path: Path):
        self._path = path
        self.sequence = 0
        self.boot = self._read() + 1
        self._write()

    def next(self) -> dict[str, int]:
        """Return the arguments of a report that number it."""
        self.sequence += 1
        return {'boot': self.boot, 'sequence': self.sequence}

    def pass_by(self, boot: int) -> None:
        """Continue after a start that the scheduler knows and this file does not, for a file from
        a backup."""
        if boot >= self.boot:
            self.boot, self.sequence = boot + 1, 0
            self._write()

    def _read(self) -> int:
        if not self._path.exists():
            return 0
        try:
            return words.whole(sysfs.text(self._path))
        except ValueError as error:
            why = f'{error}; remove the file'
            raise errors.BadMachineFacts(str(self._path), why) from None

    def _write(self) -> None:
        draft = self._path.with_name(f'{self._path.name}.{os.getpid()}')
        try:
            with draft.open('w') as file:
                file.write(f'{self.boot}\n')
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._path)
        except OSError as error:
            raise errors.BadMachineFacts(str(self._path), error.strerror or str(error)) from error
