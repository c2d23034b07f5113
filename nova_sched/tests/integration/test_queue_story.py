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
"""The tale of three flavors and a PCI device, as `queue_story` tells it."""

import pytest

from nova_sched.tests.functional.test_agent import conf
from nova_sched.tests.integration import queue_story

__all__ = ['conf']


@pytest.mark.timeout(300)
def test_each_node_holds_the_queues_that_it_has_room_for(conf, rabbitmq, tmp_path):
    told = []
    queue_story.run(rabbitmq, tmp_path, told.append)
    checks = [line for line in told if not line.startswith(('    ', 'quota'))]
    assert len(checks) == 1 + 6 + 2 * 2 + 6
