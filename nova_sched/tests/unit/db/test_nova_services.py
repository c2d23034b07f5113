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
"""The record of a scheduler among Nova's services, on SQLite."""

import pytest

from nova_sched.db import engine
from nova_sched.tests.unit.db import nova_service_records


@pytest.fixture
def database(tmp_path):
    made = engine.create(f'sqlite:///{tmp_path}/nova.sqlite')
    yield made
    made.dispose()


class TestServiceRecords(nova_service_records.ServiceRecords):
    pass
