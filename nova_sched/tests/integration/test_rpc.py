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
"""The functional tests of the namespaces over RabbitMQ, on oslo.messaging's server.

What no bus can change, as moves and policies, is tested on the bus inside a process alone.
"""

import threading

import pytest

from nova_sched.tests.functional.harness import (
    daemon,
    error_name,
    outcome,
    started,
    steady,
    two_hosts,
)
from nova_sched.tests.functional.test_rpc_candidates import *  # noqa: F403
from nova_sched.tests.functional.test_rpc_claims import *  # noqa: F403
from nova_sched.tests.functional.test_rpc_conductor import *  # noqa: F403
from nova_sched.tests.functional.test_rpc_explain import *  # noqa: F403
from nova_sched.tests.functional.test_rpc_scheduler import *  # noqa: F403
from nova_sched.tests.functional.test_rpc_stats import *  # noqa: F403
from nova_sched.tests.functional.test_rpc_tolerance import *  # noqa: F403
from nova_sched.tests.functional.test_rpc_versions import *  # noqa: F403
from nova_sched.tests.integration.rpc_servers import mostly_oslo

__all__ = ['daemon', 'mostly_oslo', 'started', 'steady', 'two_hosts']


@pytest.mark.parametrize(
    'method, version, refusal',
    [
        pytest.param('no_such_method', '4.5', 'NoSuchMethod', id='unknown method'),
        pytest.param('select_destinations', '5.0', 'UnsupportedVersion', id='unknown version'),
    ],
)
def test_no_heartbeats_for_a_call_that_was_refused(daemon, method, version, refusal):
    assert error_name(outcome(lambda: daemon.raw(method, version, monitor_s=4))) == refusal
    assert [thread for thread in threading.enumerate() if '_watchdog' in thread.name] == []
