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
"""More requests at once than there is room for, from several processes, to several schedulers."""

from nova_sched.tests.hardware_objects import HOST, node_fields
from nova_sched.tests.integration import audit

FILTERS = 'ComputeFilter,NUMATopologyFilter,PciPassthroughFilter'
SILENCE_S = 30  # no daemon ends here, but the machine may be busy


def test_what_fits_is_placed_and_the_rest_is_refused(cloud):
    for name in ('one', 'two'):
        cloud.daemon(name, claims__refresh_interval=0.1)
    cloud.add(50, vcpus=16)
    callers = cloud.callers(500, processes=4, each=125, vcpus=2, silence_s=SILENCE_S)
    callers.go()
    assert callers.outcomes() == {None: 400, 'NoValidHost': 100}
    assert audit.faults(cloud.database) == []
    assert audit.placed(cloud.database) == callers.chosen()


def test_cpus_pages_and_devices_are_given_once(cloud):
    for name in ('one', 'two'):
        cloud.daemon(name, claims__refresh_interval=0.1, filter_scheduler__enabled_filters=FILTERS)
    cloud.add(10, **node_fields(HOST))
    callers = cloud.callers(80, processes=4, each=20, vcpus=2, pieces=True, silence_s=SILENCE_S)
    callers.go()
    assert callers.outcomes() == {None: 60, 'NoValidHost': 20}
    assert audit.faults(cloud.database) == []
    assert audit.placed(cloud.database) == callers.chosen()
    held = [audit.parts(claim) for claim in audit.rows(cloud.database, 'claims')[0]]
    assert [sum(found.values()) for found in held] == [2 + 256 + 1] * 60
