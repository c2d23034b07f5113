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
"""Reads and writes versioned objects as the plain values of their JSON text. Fast, for tens of
thousands of objects."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from nova_sched import errors, words

MALFORMED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    errors.Invalid,
)
MAX_COUNT = 2**43  # of any count: no machine has more, and sums fit into a column


@contextlib.contextmanager
def reading(name: str) -> Iterator[None]:
    """Convert any exception from reading a malformed object into MalformedObject."""
    try:
        yield
    except MALFORMED as error:
        raise errors.MalformedObject(name, f'{type(error).__name__} {error}') from None


def data(primitive: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the fields of an object, which must be of this class."""
    if primitive['nova_object.name'] != name:
        raise ValueError(f'{primitive["nova_object.name"]} is not {name}')
    return primitive['nova_object.data']


def count(value: Any) -> int:
    """Return a count; raises ValueError if it is out of range."""
    return words.whole(value, most=MAX_COUNT)


def primitive(name: str, version: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object of this class with these fields."""
    return {
        'nova_object.name': name,
        'nova_object.namespace': 'nova',
        'nova_object.version': version,
        'nova_object.data': dict(fields),
    }
