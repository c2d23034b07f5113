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
"""What schemathesis makes up from the document, sense and nonsense: no answer may surprise."""

import pytest
import schemathesis
from schemathesis.checks import positive_data_acceptance
from schemathesis.config import OperationConfig, OperationsConfig, SchemathesisConfig

from nova_sched.tests.builders import uuid_of
from nova_sched.tests.cases import cases
from nova_sched.tests.unit.api.backend import (
    Backend,
    Manager,
    Planner,
    Ranker,
    Rebalances,
    group,
)
from nova_sched.tests.unit.api.callers import configuration, rest
from nova_sched.tests.unit.api.test_identity import keystone, with_keystone

__all__ = ['keystone']

# for each operation, plus the cases that its parameters and bodies have at their limits
EXAMPLES = cases(30)
TOKEN = {'X-Auth-Token': 'good'}
# By operation: what stands as the last one of the page before, which must be there.
MARKERS = {
    'GET /v1/groups': uuid_of('app'),
    'GET /v1/queues': 'flavor.tiny',
}


def groups():
    """Generation 3 is what the document has for an example of If-Match."""
    return {one.uuid: one for one in (group('app', generation=3), group('db'))}


def marked(operation, marker):
    return OperationConfig.from_dict(
        {'include-name': operation, 'parameters': {'query.marker': marker}}
    )


def config():
    made = SchemathesisConfig(seed=1)
    project = made.projects.default
    project.generation.update(max_examples=EXAMPLES, deterministic=True)
    project.parameters = {'path.uuid': uuid_of('app')}
    project.operations = OperationsConfig(operations=[marked(*one) for one in MARKERS.items()])
    project.checks.missing_required_header.expected_statuses = ['401', '428']
    for check in (project.checks.positive_data_acceptance, project.checks.negative_data_rejection):
        check.expected_statuses = [*check.expected_statuses, '412']
    return made


BACKEND, MANAGER, REBALANCES = Backend(), Manager(), Rebalances()
API = rest(
    with_keystone(configuration(auth_strategy='keystone')),
    BACKEND,
    MANAGER,
    rank=Ranker().rank_hosts,
    plan=Planner().plan_moves,
    rebalances=REBALANCES,
)
SCHEMA = schemathesis.openapi.from_wsgi('/v1/openapi.json', API, config=config())


@pytest.fixture(autouse=True)
def token(keystone):
    roles = ['admin', 'member', 'reader']
    keystone.add_token_data('good', user_id='ann', project_id='red', role_list=roles)


def test_the_document_is_one_of_openapi():
    SCHEMA.validate()


@SCHEMA.parametrize()
def test_an_operation(case):
    BACKEND.groups = groups()
    MANAGER.flavors = Manager('tiny').flavors
    REBALANCES.rows = Rebalances('app').rows
    # Whether a text is a template, extra specs or moves make sense, or a rebalance is there, no
    # schema can say.
    may_be_refused = [positive_data_acceptance] if _is_read_further(case) else []
    case.call_and_validate(headers=TOKEN, excluded_checks=may_be_refused)


READ_FURTHER = (
    'POST /v1/groups',
    'POST /v1/groups/validate',
    'PUT /v1/groups/{uuid}',
    'POST /v1/flavors',
    'POST /v1/external-scheduler',
    'GET /v1/rebalances',
    'POST /v1/rebalance/plan',
    'POST /v1/rebalances',
)


def _is_read_further(case):
    return case.operation.label in READ_FURTHER
