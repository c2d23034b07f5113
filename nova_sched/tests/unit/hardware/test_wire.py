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
"""Objects as plain values."""

import pytest

from nova_sched import errors
from nova_sched.hardware import read, wire
from nova_sched.objects import NUMACell, NUMATopology
from nova_sched.tests.rows import table


def test_what_is_written_is_read():
    assert wire.data(wire.primitive('Thing', '1.0', {'id': 1}), 'Thing') == {'id': 1}


@table(
    'wrong',
    {
        'no object': [],
        'no name': {},
        'another class': {'nova_object.name': 'Other', 'nova_object.data': {}},
        'no data': {'nova_object.name': 'Thing'},
    },
)
def test_another_thing_is_malformed(wrong):
    with pytest.raises(errors.MalformedObject, match='at Thing'), wire.reading('Thing'):
        wire.data(wrong, 'Thing')


@table(
    'thing, name, value',
    {
        'set, and false': (NUMACell(id=0), 'id', 0),
        'unset': (NUMACell(id=0), 'socket', 7),
        'null': (NUMACell(socket=None), 'socket', 7),
        'no such attribute': (NUMATopology(), 'nothing', 7),
        'nothing at all': (None, 'socket', 7),
    },
)
def test_read(thing, name, value):
    assert read(thing, name, 7) == value
