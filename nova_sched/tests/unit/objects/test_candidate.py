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
"""What is told of a host that is offered."""

import datetime

import pytest

from nova_sched import objects
from nova_sched.objects import object_io

SOME = '7a9f961e-91b7-5eec-ba67-426d5c717816'


def candidate(**fields):
    defaults = {
        'uuid': SOME,
        'instance_uuid': SOME,
        'compute_node_uuid': SOME,
        'host': 'a',
        'nodename': 'n',
        'rank': 1,
        'expires_at': datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    }
    return objects.Candidate(**defaults | fields)


def test_a_candidate_crosses_the_wire():
    written = objects.to_primitive(candidate())
    assert written[object_io.NAMESPACE] == 'nova_sched'
    assert written[object_io.VERSION] == '1.0'
    assert written[object_io.DATA]['expires_at'] == '2026-01-01T00:00:00Z'
    assert set(written[object_io.DATA]) == set(objects.Candidate.fields)
    assert objects.to_primitive(objects.from_primitive(written)) == written


@pytest.mark.parametrize(
    'fields',
    [
        pytest.param({'uuid': 'x'}, id='no UUID'),
        pytest.param({'rank': 'first'}, id='rank'),
        pytest.param({'host': None}, id='nowhere'),
        pytest.param({'expires_at': None}, id='for ever'),
    ],
)
def test_what_is_no_candidate(fields):
    with pytest.raises(ValueError):
        candidate(**fields)
