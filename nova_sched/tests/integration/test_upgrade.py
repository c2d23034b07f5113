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
"""The same cloud of an earlier release on database servers."""

import pytest

from nova_sched.tests.functional import test_upgrade as battery
from nova_sched.tests.functional.test_upgrade import cloud, conf

__all__ = ['cloud', 'conf']


@pytest.fixture(params=['postgresql', 'mariadb'])
def connection(request):
    return request.getfixturevalue(request.param).fresh()


test_the_claims_stand = battery.test_the_claims_stand
test_the_group_stands_and_is_built_on = battery.test_the_group_stands_and_is_built_on
test_the_servers_and_quotas_of_queues_stand = battery.test_the_servers_and_quotas_of_queues_stand
test_a_job_that_waited_is_done = battery.test_a_job_that_waited_is_done
