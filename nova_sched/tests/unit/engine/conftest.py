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
"""Fixtures of the engine: a machine with a wrong clock, and its pauses."""

import pytest

from nova_sched.db import engine, schema
from nova_sched.engine.clock import Pauses
from nova_sched.tests.unit.claims.databases import cleared
from nova_sched.tests.unit.engine.machine import HOUR_S, Machine


@pytest.fixture
def machine():
    return Machine(wrong_s=HOUR_S)


@pytest.fixture
def pauses(machine):
    made = Pauses(lambda: machine.moment)
    made.start(watch=False)
    return made


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
