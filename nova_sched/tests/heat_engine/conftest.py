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
"""A cloud, the real Heat engine before it, and a cloud without anything in it for each test."""

import pytest

from nova_sched.tests.fixtures.interpreter import interpreter
from nova_sched.tests.heat_engine import cloud as clouds
from nova_sched.tests.heat_engine import engine as engines
from nova_sched.tests.heat_engine import process
from nova_sched.tests.heat_engine.templates import fresh_name

PYTHON = pytest.StashKey()


def pytest_sessionstart(session):
    # Not in a fixture: making an environment may take longer than any test is given.
    if not session.config.option.collectonly:
        session.config.stash[PYTHON] = interpreter()


@pytest.fixture(scope='session')
def whole(tmp_path_factory):
    """The cloud and the engine."""
    with clouds.running() as cloud:
        engines.configure(tmp_path_factory.mktemp('heat'))
        engine = engines.Engine(cloud)
        yield cloud, engine
        engine.stop()


@pytest.fixture
def cloud(whole):
    made = whole[0]
    made.clear()
    return made


@pytest.fixture
def heat(whole, cloud):
    return whole[1]


@pytest.fixture
def stack(heat):
    """A stack, made to be complete: ``stack(template, **words of Engine.create)``."""

    def stack(template, **more):
        made = heat.create(fresh_name(), template, **more)
        assert made['stack_status'] == 'COMPLETE', made['stack_status_reason']
        return made

    return stack


@pytest.fixture(scope='session')
def ours(pytestconfig, tmp_path_factory):
    """A scheduler with its API, and the reader of templates."""
    with process.running(pytestconfig.stash[PYTHON], tmp_path_factory.mktemp('ours')) as made:
        yield made


@pytest.fixture
def read(cloud, ours):
    """What our own reader makes of the last template that was sent; nothing may be wrong with
    it."""

    def read():
        told = ours.ask('read', (cloud.asked('PUT') or cloud.asked('POST'))[-1])
        assert told.get('error') is None
        assert told['warnings'] == []
        return told

    return read
