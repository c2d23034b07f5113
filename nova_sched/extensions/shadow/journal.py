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
"""The file of comparisons: one line of JSON for each, in a few files of bounded size; and the
report on some time of it."""

import collections
import json
import logging
from collections.abc import Iterator, Mapping
from logging import handlers
from pathlib import Path
from typing import Any

import numpy as np

from nova_sched import files
from nova_sched.extensions.shadow.comparison import OUTCOMES

NAME = 'shadow.jsonl'
MIB = 1024 * 1024
MAX_EXAMPLES = 3  # request ids that stand for a rule


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
    """Return the lines from a time on (ISO 8601 in UTC), oldest first. A line that was cut off is
    skipped."""
    older = [
        path
        for path in Path(folder).glob(f'{NAME}.*')
        if path.name.removeprefix(f'{NAME}.').isdecimal()
    ]
    older.sort(key=lambda path: -int(path.suffix[1:]))
    for path in [*older, *Path(folder).glob(NAME)]:
        with path.open(encoding='utf-8', errors='replace') as file:
            for text in file:
                try:
                    line = json.loads(text)
                except ValueError:
                    continue
                if isinstance(line, dict) and str(line.get('time', '')) >= since:
                    yield line


def summed(comparisons):
    """Return the report on lines of the journal, as plain values.

    ``calls``, ``servers``, and how many calls came to each outcome; ``p50_ms``, ``p99_ms`` and
    ``max_ms`` of the shadow's decisions, None without any; ``partial``: calls while a part of the
    cloud could not be read; ``rules``: of each filter or weigher that made a difference the
    ``kind``, the ``rule``, the number of ``servers`` and some ``requests``; ``missed``: counts of
    what was not compared; ``hosts_left_out``: why hosts get no servers, by the last line about it.
    """
    outcomes, missed = collections.Counter(), collections.Counter()
    rules, took_ms, servers, partial = {}, [], 0, 0
    hosts_left_out, first, last = {}, None, None
    for line in comparisons:
        first, last = first or line['time'], line['time']
        if 'hosts_left_out' in line:
            hosts_left_out = line['hosts_left_out']
            missed.update(line['missed'])
            continue
        outcomes[line['outcome']] += 1
        took_ms.append(line['took_ms'])
        servers += len(line['servers'])
        partial += 'unreadable' in line
        for server in line['servers']:
            for kind in ('filter', 'weigher'):
                if kind in server:
                    requests = rules.setdefault((kind, server[kind]), [])
                    requests.append(line['request_id'])
    p50, p99, most = (
        np.percentile(took_ms, [50, 99, 100]).round(3).tolist() if took_ms else [None] * 3
    )
    return {
        'first': first,
        'last': last,
        'calls': len(took_ms),
        'servers': servers,
        **{name: outcomes[name] for name in OUTCOMES},
        'partial': partial,
        'p50_ms': p50,
        'p99_ms': p99,
        'max_ms': most,
        'rules': [
            {
                'kind': kind,
                'rule': rule,
                'servers': len(requests),
                'requests': list(dict.fromkeys(requests))[:MAX_EXAMPLES],
            }
            for (kind, rule), requests in sorted(
                rules.items(), key=lambda item: (-len(item[1]), item[0])
            )
        ],
        'missed': dict(missed),
        'hosts_left_out': hosts_left_out,
    }
