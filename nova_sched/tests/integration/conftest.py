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
"""What the integration tests share: database servers, and a cloud before them."""

import pytest

from nova_sched.conf.scheduler import DIRECT, OSLO
from nova_sched.db import engine, schema
from nova_sched.db.limits import DEFAULT
from nova_sched.tests.cases import ONLY_THOROUGH
from nova_sched.tests.integration.cloud import Cloud
from nova_sched.tests.integration.messages import hear
from nova_sched.tests.unit.claims.databases import cleared


def pytest_collection_modifyitems(items):
    """Mark all but one RPC server for each backend as ONLY_THOROUGH.

    pytest calls this hook before that of the outer conftest.py, which leaves the marked ones out.
    """
    for item in items:
        values = item.callspec.params.values() if hasattr(item, 'callspec') else ()
        if ('eventlet' in values and OSLO in values) or (
            'threading' in values and DIRECT in values
        ):
            item.add_marker(ONLY_THOROUGH)


@pytest.fixture(scope='module', params=['postgresql', 'mariadb'])
def server(request):
    """One database server after the other."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope='module')
def url(server):
    """A database of the module's own."""
    return server.fresh()


@pytest.fixture(scope='module')
def upgraded(url):
    """The same with its tables; what is sent to it can be listened to, and locks are held for any
    time."""
    made = hear(engine.create(url, DEFAULT.for_upgrade()))
    schema.upgrade(made)
    yield made
    made.dispose()


@pytest.fixture
def database(upgraded):
    """The same without any content."""
    return cleared(upgraded)


@pytest.fixture
def cloud(rabbitmq, tmp_path):
    """A cloud on RabbitMQ and SQLite."""
    made = Cloud(tmp_path, rabbitmq.fresh(), f'sqlite:///{tmp_path}/claims.sqlite')
    yield made
    made.close()
