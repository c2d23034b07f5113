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
"""The database that the tests of claim stores share, one after the other."""

import shutil

import pytest

from nova_sched.db import engine


@pytest.fixture(scope='package')
def sqlite(tmp_path_factory, upgraded_file):
    """A database in a file, set up as the daemon sets it up; tests clear it."""
    path = shutil.copy(upgraded_file, tmp_path_factory.mktemp('claims'))
    made = engine.create(f'sqlite:///{path}')
    yield made
    made.dispose()
