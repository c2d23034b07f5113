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
"""What words from the wire must look like: such that every database and every log line can hold them."""

import re

from nova_sched import errors

NAME_LENGTH = 255
UUID = re.compile('[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}')
UNSTORABLE = re.compile('[\x00\ud800-\udfff]')  # NUL and halves of characters
SYMBOL = re.compile('[A-Z0-9_]{1,255}')


def is_uuid(value):
    """Whether it is the text of a UUID, as Nova writes it."""
    return isinstance(value, str) and UUID.fullmatch(value) is not None


def is_name(value):
    """Whether it is one line of text that is not empty and not too long."""
    return isinstance(value, str) and 0 < len(value) <= NAME_LENGTH and value.isprintable()


def is_text(value):
    """Whether it is text, on any number of lines, that a database takes."""
    return isinstance(value, str) and UNSTORABLE.search(value) is None


def is_symbol(value):
    """Whether it is a resource class or a trait, as Placement writes them."""
    return isinstance(value, str) and SYMBOL.fullmatch(value) is not None


def short(value):
    """A value as an error shows it: the sender knows the rest."""
    text = repr(value[:64] if isinstance(value, (str, bytes, list, tuple)) else value)
    return text if len(text) <= 80 else f'{text[:77]}...'


def uuid(value, where):
    """The UUID itself. Raises InvalidRequest."""
    if not is_uuid(value):
        raise errors.InvalidRequest(where, f'{short(value)} is no UUID')
    return value


def number(value, where):
    """The whole number itself, from 1. Raises InvalidRequest."""
    if type(value) is not int or value < 1:
        raise errors.InvalidRequest(where, f'{short(value)} is no number from 1')
    return value


def name(value, where):
    """The name itself. Raises InvalidRequest."""
    if not is_name(value):
        raise errors.InvalidRequest(where, f'{short(value)} is no name of 1 to {NAME_LENGTH} characters')
    return value
