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
"""What all tests share: the backend they run under, and the private servers.

``NOVA_SCHED_TEST_BACKEND`` is ``threading`` (the default) or ``eventlet``; functional tests pass under both.
"""

import os
import signal

import pytest
from oslo_service import backend

from nova_sched.tests.fixtures.mariadb import mariadb
from nova_sched.tests.fixtures.postgresql import postgresql
from nova_sched.tests.fixtures.rabbitmq import rabbitmq

__all__ = ['mariadb', 'postgresql', 'rabbitmq']

BACKEND = backend.BackendType(os.environ.get('NOVA_SCHED_TEST_BACKEND', 'threading'))

# Before anything imports oslo.messaging, which settles on eventlet if nobody has chosen.
if BACKEND is backend.BackendType.EVENTLET:
    import eventlet

    eventlet.monkey_patch()
backend.init_backend(BACKEND)


def pytest_configure():
    # Whoever ends a run with SIGTERM gets what Ctrl-C gives: the private servers end too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_report_header():
    return f'oslo.service backend: {BACKEND.value}'


@pytest.fixture(scope='session')
def service_backend() -> str:
    """Value of the option service_backend for a daemon that a test starts."""
    return BACKEND.value
