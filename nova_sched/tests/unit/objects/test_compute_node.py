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

"""Claims on the object itself."""

from nova_sched import objects
from nova_sched.objects.claim import MEMORY_MB
from nova_sched.tests.unit.objects import reference


def test_a_node_can_tell_its_usage():
    plain = objects.from_primitive(reference.wire('object-ComputeNode-plain.json')['primitive'])
    usage = plain.usage(MEMORY_MB)
    assert (usage.total, usage.used) == (plain.memory_mb, plain.memory_mb_used)
    plain.take(MEMORY_MB, 1024)
    assert plain.memory_mb_used == usage.used + 1024
    assert plain.free_ram_mb == plain.memory_mb - plain.memory_mb_used
