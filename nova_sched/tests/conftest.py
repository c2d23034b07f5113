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

``OS_DEFAULT__SERVICE_BACKEND`` is ``threading`` (the default) or ``eventlet``, for the tests as
for the daemons that they start; the functional tests pass under both.
"""

import gc
import os
import shutil
import signal
import tempfile
from pathlib import Path

import hypothesis
import pytest

from nova_sched.cmd import backend
from nova_sched.tests import cases
from nova_sched.tests.fixtures.mariadb import mariadb
from nova_sched.tests.fixtures.postgresql import postgresql
from nova_sched.tests.fixtures.rabbitmq import rabbitmq

__all__ = ['mariadb', 'postgresql', 'rabbitmq']

# Nothing that this account has for itself counts: no files of its home, no cloud of an openrc file
# (options are named with two underscores).
HOME = os.environ['HOME'] = tempfile.mkdtemp(prefix='nova-sched-home-')
for name in list(os.environ):
    if name.startswith('XDG_') or (name.startswith('OS_') and '__' not in name):
        del os.environ[name]
# Before anything imports oslo.messaging, as the daemons do. The environment has the last word, so
# that a configuration file on this machine has none.
os.environ.setdefault('OS_DEFAULT__SERVICE_BACKEND', 'threading')
BACKEND = backend.choose([])


# No test is timed: other work may load the machine.
hypothesis.settings.register_profile('untimed', deadline=None)
hypothesis.settings.load_profile('untimed')

TESTS = Path(__file__).parent
# The files that take longest come first, so that the workers end at about the same time. (Since
# release 9, pytest ignores the order of files on its command line if their folder is there, too.)
LONGEST = [
    TESTS / name
    for name in (
        'unit/extensions/simulator/test_storm.py',
        'explorer/test_explorer.py',
        'unit/cmd/manage/test_asking.py',
        'unit/cmd/test_startup.py',
        'fuzz/test_corpus.py',
        'unit/engine/test_numa_fleet.py',
        'unit/extensions/shadow/test_watcher.py',
        'unit/cmd/test_web_server.py',
        'unit/claims/test_contract.py',
        'functional/test_upgrade.py',
        'functional/test_agent_lives.py',
        'functional/test_agent.py',
        'functional/test_queues.py',
        'functional/test_notify.py',
        'functional/test_sim.py',
        'functional/test_nova_source.py',
        'functional/test_public_reports.py',
        'functional/hostile/test_every_operation.py',
        'integration/test_benchmarks.py',
        'integration/test_queue_crowd.py',
        'integration/test_direct_server.py',
        'integration/test_queue_broker.py',
        'integration/test_outage.py',
        'integration/test_kill.py',
        'integration/test_claim_store.py',
        'integration/test_core_alone.py',
        'integration/test_mistakes.py',
        'integration/test_queues.py',
        'integration/test_rpc.py',
        'integration/test_agent.py',
        'integration/test_servers.py',
        'integration/test_vanish.py',
        'integration/test_plugins.py',
    )
]


def pytest_configure():
    # SIGTERM ends a run as Ctrl-C does: the private servers end too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_unconfigure():
    shutil.rmtree(HOME, ignore_errors=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection():
    # Tens of thousands of tests stay until the end: looking for garbage among them takes longer
    # than to collect them.
    gc.disable()


def pytest_collection_modifyitems(config, items):
    cases.deselect(config, items)
    places = {path: place for place, path in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def no_garbage_at_the_bottom(request):
    """What nests deeply uses up the stack: a finalizer of what other tests have left, which fails
    there, would fail this test."""
    if 'deep' not in request.node.name:
        yield
        return
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def pytest_report_header():
    return f'oslo.service backend: {BACKEND}'


@pytest.fixture(scope='session')
def service_backend() -> str:
    """Value of the option service_backend for a daemon that a test starts."""
    return BACKEND
