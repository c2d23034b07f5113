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
"""The functional tests of bad input over RabbitMQ, to the direct server."""

from nova_sched.tests.functional.harness import started, steady, two_hosts
from nova_sched.tests.functional.test_rpc_bad_input import *  # noqa: F403
from nova_sched.tests.functional.test_rpc_bad_reports import *  # noqa: F403
from nova_sched.tests.integration.rpc_servers import mostly_direct

__all__ = ['mostly_direct', 'started', 'steady', 'two_hosts']
