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
"""A cloud for each layout, for the whole session; it is empty when a test begins."""

import pytest

from nova_sched.tests.fixtures.interpreter import interpreter
from nova_sched.tests.fixtures.mariadb import mariadb
from nova_sched.tests.fixtures.postgresql import postgresql
from nova_sched.tests.fixtures.rabbitmq import rabbitmq
from nova_sched.tests.stock_cloud import schedulers, services
from nova_sched.tests.stock_cloud.settings import LAYOUTS

__all__ = ['mariadb', 'postgresql', 'rabbitmq']

PYTHON, CLOUD = pytest.StashKey(), pytest.StashKey()
LINES = 30  # of the scheduler's log that a failure shows


def pytest_addoption(parser):
    parser.addoption(
        '--layout',
        action='append',
        choices=list(LAYOUTS),
        help='a layout of the cloud, may be given several times; by default all',
    )
    parser.addoption(
        '--scheduler',
        choices=schedulers.KINDS,
        default=schedulers.OURS,
        help='the scheduler under test: ours, or nova-scheduler as the reference',
    )


def pytest_generate_tests(metafunc):
    if 'running' in metafunc.fixturenames:
        names = metafunc.config.option.layout or list(LAYOUTS)
        metafunc.parametrize('running', names, indirect=True, scope='session')


def pytest_sessionstart(session):
    # Not in a fixture: making an environment may take longer than any test is given.
    if not session.config.option.collectonly:
        session.config.stash[PYTHON] = interpreter()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    cloud = item.config.stash.get(CLOUD, None)
    if report.failed and cloud is not None:
        lines = cloud.scheduler.log.read_text().splitlines()[-LINES:]
        report.sections.append((str(cloud.scheduler.log), '\n'.join(lines)))
    return report


@pytest.fixture(scope='session')
def running(request, rabbitmq, tmp_path_factory):
    """The cloud of one layout."""
    layout = LAYOUTS[request.param]
    with services.running(
        layout,
        tmp_path_factory.mktemp(request.param),
        rabbitmq,
        request.getfixturevalue(layout.database),
        kind=request.config.option.scheduler,
        python=request.config.stash.get(PYTHON, None),
    ) as cloud:
        request.config.stash[CLOUD] = cloud
        yield cloud


@pytest.fixture
def cloud(running):
    """The cloud; when the test has ended, what it made is deleted, and Placement must be empty."""
    yield running
    running.clear()


@pytest.fixture
def servers(cloud):
    return cloud.servers


@pytest.fixture
def hosts(cloud):
    return cloud.hosts


@pytest.fixture
def placement(cloud):
    return cloud.placement
