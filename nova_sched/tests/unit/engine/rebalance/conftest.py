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
"""One database in memory for all tests of moves, which is empty for each."""

import pytest

from nova_sched.db import engine, schema
from nova_sched.tests.unit.claims.databases import cleared


@pytest.fixture(scope='module')
def upgraded():
    made = engine.create('sqlite://')
    schema.upgrade(made)
    yield made
    made.dispose()


@pytest.fixture
def database(upgraded):
    return cleared(upgraded)
