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
"""The file of comparisons: one line of JSON for each, in a few files of bounded size."""

import json
import logging
from collections.abc import Iterator, Mapping
from logging import handlers
from pathlib import Path
from typing import Any

from nova_sched import files

NAME = 'shadow.jsonl'
MIB = 1024 * 1024


class _Lines(handlers.RotatingFileHandler):
    def _open(self):
        return open(self.baseFilename, self.mode, encoding=self.encoding, opener=files.private)

    def handleError(self, record):  # noqa: N802, its name is that of the library
        """Pass on the error that is being handled."""
        raise


class Journal:
    """Appends lines to shadow.jsonl in ``folder``. May be used from any thread.

    A file of ``file_size`` MiB becomes shadow.jsonl.1, that one .2, and so on; ``files`` of them
    are kept in all. Raises OSError.
    """

    def __init__(self, folder, file_size=64, files=5):
        self._lines = _Lines(
            Path(folder, NAME), maxBytes=file_size * MIB, backupCount=files - 1, encoding='utf-8'
        )

    def write(self, line: Mapping[str, Any]) -> None:
        self._lines.emit(logging.makeLogRecord({'msg': json.dumps(line)}))

    def close(self) -> None:
        self._lines.close()


def lines(folder, since: str) -> Iterator[dict[str, Any]]:
    """The lines from a time on (ISO 8601 in UTC), oldest first. A line that was cut off is
    skipped."""
    number = {path: path.name.removeprefix(NAME).lstrip('.') for path in _files(folder)}
    for path in sorted(number, key=lambda path: -int(number[path] or 0)):
        with path.open(encoding='utf-8', errors='replace') as file:
            for text in file:
                try:
                    line = json.loads(text)
                except ValueError:
                    continue
                if isinstance(line, dict) and str(line.get('time', '')) >= since:
                    yield line


def _files(folder):
    return [
        path
        for path in Path(folder).glob(f'{NAME}*')
        if path.name == NAME or path.name.removeprefix(f'{NAME}.').isdigit()
    ]
