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

"""Reads small kernel files (/sys, /proc) as text, numbers and link names."""

import os
from pathlib import Path

from nova_sched import errors


def text(path: Path) -> str:
    """Return the content without surrounding white space. Raise BadMachineFacts if it is
    unreadable."""
    try:
        return path.read_text(errors='replace').strip()
    except OSError as error:
        raise errors.BadMachineFacts(str(path), error.strerror or str(error)) from error


def number(path: Path, base: int = 10) -> int:
    """Return the content as a whole number. Raise BadMachineFacts if it is not one."""
    content = text(path)
    try:
        return int(content, base)
    except ValueError as error:
        raise errors.BadMachineFacts(str(path), f'not a number: {content[:40]!r}') from error


def optional_number(path: Path) -> int | None:
    """As ``number``, but None if the file does not exist or has -1, the kernel's value
    for none."""
    value = number(path) if os.path.exists(path) else -1
    return value if value >= 0 else None


def link_name(path: Path) -> str | None:
    """Return the last part of a link's target, or None if the link does not exist."""
    try:
        return path.readlink().name
    except OSError:
        return None


def children(path: Path) -> list[Path]:
    """Return the entries of a directory, sorted by name; empty if the directory does not
    exist."""
    return sorted(path.glob('*'))
