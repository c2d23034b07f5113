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

"""Aggregates."""

import pytest

from nova_sched import objects


@pytest.mark.parametrize(
    'metadata, zone',
    [
        pytest.param({'availability_zone': 'az1'}, 'az1', id='zone'),
        pytest.param({'a': 'b'}, None, id='no zone'),
        pytest.param(None, None, id='null metadata'),
    ],
)
def test_the_zone_of_an_aggregate(metadata, zone):
    assert objects.Aggregate(metadata=metadata).availability_zone == zone
