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
"""What is read of Nova's databases, on database servers."""

import pytest

from nova_sched.db import engine
from nova_sched.tests.unit.db import nova_apis, nova_cells, nova_service_records


@pytest.fixture(scope='module')
def written(url):
    made = engine.create(url)
    yield made
    made.dispose()


@pytest.fixture
def database(written):
    return written


class TestNovaCell(nova_cells.NovaCells):
    pass


class TestNovaApi(nova_apis.NovaApis):
    pass


class TestServiceRecords(nova_service_records.ServiceRecords):
    pass
