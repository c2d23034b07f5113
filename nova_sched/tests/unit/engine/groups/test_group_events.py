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
"""Which changes of groups are told, and for which cause."""

import contextlib
import dataclasses
import json

import pytest

from nova_sched import errors
from nova_sched.claim import PLANNED as STATE_PLANNED
from nova_sched.db import decision_log
from nova_sched.engine.groups.group_events import (
    BUILD,
    CONFLICT,
    CREATE,
    DELETE,
    DELETED,
    PLANNED,
    REFUSED,
    REPLAN,
    UPDATE,
    measured,
)
from nova_sched.measures.catalogue import GROUP_PLAN_SECONDS, GROUP_PLANS
from nova_sched.tests.unit.engine.groups.group_cloud import (
    SMALL,
    SOURCE,
    Cloud,
    definition,
    members,
)

HUGE = dataclasses.replace(SMALL, vcpus=99)


class Told:
    """Keeps what it is told of groups and of requests."""

    def __init__(self):
        self.found = []

    def group(self, event, make):
        self.found.append((event, make()))

    def refused(self, context, make):
        self.found.append((REFUSED, make()))

    def take(self):
        """(event, cause) of what was told since."""
        found, self.found = self.found, []
        return [(event, facts.get('cause')) for event, facts in found]


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def cloud(told):
    made = Cloud(4)
    made.world.context.events = told
    yield made
    made.scheduler.stop()


def test_the_life_of_a_group(cloud, told):
    group = cloud.create(definition(members('a')))
    ((event, facts),) = told.found
    assert (event, facts['cause'], facts['uuid'], facts['serial']) == (
        PLANNED,
        CREATE,
        group.uuid,
        group.serial,
    )
    assert facts['expires'] == group.expires_s
    assert facts['members'] == [
        {
            'path': 'a',
            'state': STATE_PLANNED,
            'instance_uuid': None,
            'host': group.members[0].host,
        }
    ]
    told.take()
    cloud.groups.update(group.uuid, definition(members('a', 'b')), SOURCE)
    cloud.groups.plan(group.uuid, replan=True)
    serials = [facts['serial'] for _, facts in told.found]
    assert serials == sorted({group.serial, *serials} - {group.serial})
    cloud.groups.delete(group.uuid)
    assert told.take() == [(PLANNED, UPDATE), (PLANNED, REPLAN), (DELETED, DELETE)]


def test_refusals(cloud, told):
    with pytest.raises(errors.GroupRefused) as refusal:
        cloud.create(definition(members('a', flavor=HUGE)))
    ((_, facts),) = told.found
    assert facts['reason'] == str(refusal.value)
    assert told.take() == [(REFUSED, CREATE)]
    group = cloud.create(definition(members('a')))
    with pytest.raises(errors.GroupRefused):
        cloud.groups.update(group.uuid, definition(members('a', flavor=HUGE)), SOURCE)
    assert told.take() == [(PLANNED, CREATE), (REFUSED, UPDATE)]


def test_dry_runs_and_reads_tell_nothing(cloud, told):
    group = cloud.create(definition(members('a')))
    told.take()
    cloud.groups.show(group.uuid)
    cloud.groups.update(group.uuid, definition(members('a', 'b')), SOURCE, dry_run=True)
    with pytest.raises(errors.GroupRefused):
        cloud.create(definition(members('c', flavor=HUGE)), dry_run=True)
    cloud.groups.delete(group.uuid, dry_run=True)
    assert told.take() == []


def test_a_member_that_is_planned_again_to_be_built(cloud, told):
    group = cloud.create(definition(members('a')))
    told.take()
    chosen = group.members[0].host
    cloud.scheduler.call(cloud.scheduler.state_sync.set_service, chosen, True, None, False, 0.0)
    assert cloud.build(group, 'a')[0] != chosen
    assert told.take() == [(PLANNED, BUILD)]


def refusals_of(cloud, uuid):
    cloud.scheduler.decision_log.flush()
    return cloud.scheduler.decision_log.show(uuid)


def test_the_decision_log_keeps_refused_plans(cloud, told):
    group = cloud.create(definition(members('a')))
    with pytest.raises(errors.GroupRefused) as refusal:
        cloud.groups.update(group.uuid, definition(members('a', 'b', flavor=HUGE)), SOURCE)
    (kept,) = refusals_of(cloud, group.uuid)
    assert (kept['reason'], kept['outcome'], kept['instances'], kept['hosts']) == (
        str(refusal.value),
        'refused',
        2,
        4,
    )
    assert kept['group'] == {
        'name': group.name,
        'generation': 2,
        'cause': UPDATE,
        'details': refusal.value.details,
    }
    assert kept['asked']['project_id'] == group.project_id
    assert json.loads(decision_log.dump(kept))['group'] == kept['group']


def test_a_refused_dry_run_is_not_kept(cloud, told):
    group = cloud.create(definition(members('a')))
    asked = definition(members('a', flavor=HUGE))
    with pytest.raises(errors.GroupRefused):
        cloud.groups.update(group.uuid, asked, SOURCE, dry_run=True)
    assert refusals_of(cloud, group.uuid) == []


def test_without_a_decision_log(cloud, told):
    cloud.world.settings = dataclasses.replace(cloud.world.settings, explain_retention_s=0.0)
    group = cloud.create(definition(members('a')))
    with pytest.raises(errors.GroupRefused):
        cloud.groups.update(group.uuid, definition(members('a', flavor=HUGE)), SOURCE)
    assert refusals_of(cloud, group.uuid) == []


@pytest.fixture(autouse=True)
def empty():
    GROUP_PLANS.clear()
    GROUP_PLAN_SECONDS.clear()


@pytest.mark.parametrize(
    'dry_run, result', [pytest.param(False, 'planned'), pytest.param(True, 'dry run')]
)
def test_a_plan(dry_run, result):
    with measured(dry_run) as plan:
        plan.stage = 'greedy'
    assert GROUP_PLANS.values == {(result, 'greedy'): 1}
    assert sum(GROUP_PLAN_SECONDS.values[result,][:-1]) == 1


@pytest.mark.parametrize(
    'error, result',
    [
        pytest.param(errors.GroupRefused('no room', None), 'refused', id='refused'),
        pytest.param(errors.QuotaExceeded('project', {}), 'over quota', id='over quota'),
        pytest.param(ZeroDivisionError(), 'failed', id='failed'),
    ],
)
def test_a_plan_that_ends_in_an_error(error, result):
    with contextlib.suppress(type(error)), measured(False):
        raise error
    assert GROUP_PLANS.values == {(result, 'filters'): 1}


def test_a_conflict_stays_one_when_the_plan_is_given_up():
    with contextlib.suppress(ZeroDivisionError), measured(False) as plan:
        plan.result = CONFLICT
        raise ZeroDivisionError
    assert GROUP_PLANS.values == {('conflict', 'filters'): 1}
