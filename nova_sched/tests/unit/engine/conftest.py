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
"""Fixtures of the engine: databases, and two small hosts."""

import pytest

from nova_sched.db import engine, schema
from nova_sched.tests.builders import report
from nova_sched.tests.unit.claims.databases import cleared
from nova_sched.tests.unit.engine.stores import Contested
from nova_sched.tests.unit.engine.world import World, fresh, picture


@pytest.fixture(scope='package')
def upgraded():
    """A database in memory; ``cleared`` empties it."""
    made = engine.create('sqlite://')
    schema.upgrade(made)
    yield made
    made.dispose()


@pytest.fixture
def database(upgraded):
    return cleared(upgraded)


@pytest.fixture
def world():
    """Two hosts with 4 CPUs each; at the end a scheduler that starts now knows the same."""
    made = World(Contested())
    made.report(report(vcpus=4), report('host-1', vcpus=4))
    yield made
    made.state_sync.refresh()
    assert picture(made.cluster) == picture(fresh(made.store))
