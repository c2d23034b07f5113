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
"""What is kept of failed attempts."""

import pytest

from nova_sched import errors
from nova_sched.queues import failures


@pytest.mark.parametrize(
    'count, kept',
    [
        pytest.param(0, [], id='none'),
        pytest.param(1, ['h0'], id='one'),
        pytest.param(7, ['h2', 'h3', 'h4', 'h5', 'h6'], id='the latest stay'),
    ],
)
def test_failures(count, kept):
    known = None
    for number in range(count):
        known = failures.added(known, errors.BuildFailed(f'h{number}', 'why', 'out', 'err'))
    assert failures.read(known) == [
        {'host': host, 'why': 'why', 'stdout': 'out', 'stderr': 'err'} for host in kept
    ]
