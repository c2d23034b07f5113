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
"""Queues with a manager, which all tests of its parts have."""

import pytest

from nova_sched.tests.unit.extensions.queues.managed_queues import ManagedQueues


@pytest.fixture
def make_managed(tmp_path):
    """Make managed queues; hosts have workers, and the scheduler answers by the script."""
    made = []

    def make(*hosts, script=()):
        made.append(ManagedQueues(tmp_path, *hosts, script=script))
        return made[-1]

    yield make
    for managed in made:
        managed.engine.dispose()


@pytest.fixture
def managed(make_managed):
    return make_managed('a', 'b')
