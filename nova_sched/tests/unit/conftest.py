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
"""What the unit tests share: how property tests run, and a database in a file."""

import os
import shutil

import hypothesis
import pytest

from nova_sched.db import engine, schema
from nova_sched.tests.cases import cases

# No stop watch: the machine may be busy. In CI the same cases each time: a change shall break the
# build, and not the dice.
SAME = 'CI' in os.environ
hypothesis.settings.register_profile(
    'nova_sched',
    max_examples=cases(100),
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    database=None,
    derandomize=SAME,
)
hypothesis.settings.load_profile('nova_sched')


@pytest.fixture(scope='session')
def upgraded_file(tmp_path_factory):
    """A database with its tables, to be copied: the migrations take longer than most tests."""
    path = tmp_path_factory.mktemp('upgraded') / 'db.sqlite'
    made = engine.create(f'sqlite:///{path}')
    schema.upgrade(made)
    made.dispose()
    return path


@pytest.fixture
def database(tmp_path, upgraded_file):
    """A new one with its tables: db.sqlite."""
    made = engine.create(f'sqlite:///{shutil.copy(upgraded_file, tmp_path)}')
    yield made
    made.dispose()
