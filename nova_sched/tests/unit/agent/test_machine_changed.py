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

"""Tests of what makes a report worth sending at once."""

import pytest

from nova_sched import objects
from nova_sched.agent import machine
from nova_sched.tests.unit.agent.builders import CELLS, facts, guest, node, processor


@pytest.mark.parametrize(
    'found, guests, options, is_new',
    [
        pytest.param({}, [], {}, False, id='nothing'),
        pytest.param({'disk_free_gb': 59}, [], {}, False, id='free disk moves all the time'),
        pytest.param({'metrics': '[1]'}, [], {}, False, id='metrics move all the time'),
        pytest.param({'cells': CELLS[::-1]}, [], {}, False, id='another order'),
        pytest.param({'memory_mb': 6145}, [], {}, True, id='memory'),
        pytest.param({'disk_gb': 101}, [], {}, True, id='disk'),
        pytest.param({'cells': CELLS[:1]}, [], {}, True, id='a cell'),
        pytest.param(
            {'processor': processor(features=('avx',))}, [], {}, True, id='a CPU feature'
        ),
        pytest.param({}, [guest()], {}, True, id='an instance'),
        pytest.param({}, [], {'device_spec': [{}]}, True, id='a device'),
        pytest.param({}, [], {'cpu_allocation_ratio': 2.0}, True, id='a ratio'),
    ],
)
def test_changed(found, guests, options, is_new):
    assert machine.changed(node(), node(facts(**found), guests, **options)) is is_new


def test_a_task_that_ends_is_a_change():
    busy, idle = (node(guests=[guest(task_state=state)]) for state in ('spawning', None))
    assert machine.changed(busy, idle) is True


def test_the_first_report_is_news():
    assert machine.changed(None, node()) is True


def test_the_report_crosses_the_wire_unchanged():
    made = node(guests=[guest()], device_spec=[{}])
    again = objects.ComputeNode.obj_from_primitive(made.obj_to_primitive())
    again.obj_reset_changes(recursive=True)
    assert machine.changed(made, again) is False
    assert again.metrics == made.metrics
