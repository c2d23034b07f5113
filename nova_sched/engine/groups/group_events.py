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
"""Tells of plans of groups, and of those that were refused or deleted: notifications, metrics,
and the decision log, which keeps the refused ones."""

import contextlib
import dataclasses
import time

from nova_sched import errors
from nova_sched.engine.explain.decision_log import REFUSED as LOG_REFUSED
from nova_sched.measures import catalogue

CREATE, UPDATE, REPLAN, BUILD, DELETE = 'create', 'update', 'replan', 'build', 'delete'  # causes
PLANNED, REFUSED, DELETED = 'planned', 'refused', 'deleted'  # events; the first two are results
DRY_RUN, OVER_QUOTA, CONFLICT, FAILED = 'dry run', 'over quota', 'conflict', 'failed'  # results
FILTERS = 'filters'  # the stage of a plan that no search was made for
OF_GROUP = 'uuid name project_id user_id generation serial'.split()
OF_MEMBER = 'path state instance_uuid host'.split()


class GroupEvents:
    """Tells ``context.events``, if there are any, and ``context.decision_log``. Its methods may be
    called from any thread."""

    def __init__(self, context):
        self._context = context

    def planned(self, cause, view):
        """A plan is claimed. Return its GroupView."""
        self._tell(PLANNED, cause, view, lambda: {'expires': view.expires_s, **_members(view)})
        return view

    def deleted(self, view):
        """The plan of a group is deleted. ``view`` has the members that are left."""
        self._tell(DELETED, DELETE, view, lambda: _members(view))

    @contextlib.contextmanager
    def refusals(self, cause, record, dry_run):
        """Tell if this block, which changes the group of a GroupRecord, raises a refusal; its
        record has the UUID of the group as request id."""
        try:
            yield
        except (errors.GroupRefused, errors.QuotaExceeded, errors.LimitsUnknown) as error:
            if not dry_run:
                reason = str(error)
                self._tell(REFUSED, cause, record, lambda: {'reason': reason})
                self._keep(cause, record, reason, getattr(error, 'details', None))
            raise

    def _keep(self, cause, record, reason, details):
        """Keep the decision record of a refused plan. It has the fields of that of a request, and
        ``group``: the group, the ``cause``, and the ``details`` of the GroupRefused."""
        if not self._context.settings().explain_retention_s:
            return
        now_s, hosts = self._context.clock(), len(self._context.cluster)
        self._context.decision_log.put(
            lambda: {
                'request_id': record.uuid,
                'time': now_s,
                'outcome': LOG_REFUSED,
                'asked': {
                    'instances': [],
                    'flavor': None,
                    'resources': {},
                    'extra_specs': {},
                    'image': None,
                    'zone': None,
                    'policy': None,
                    'project_id': record.project_id,
                    'user_id': record.user_id,
                },
                'reason': reason,
                'hosts': hosts,
                'instances': record.members,
                'found': 0,
                'filters': [],
                'placed': [],
                'group': {
                    'name': record.name,
                    'generation': record.generation,
                    'cause': cause,
                    'details': details or {},
                },
            }
        )

    def _tell(self, event, cause, group, more):
        """``group`` is a GroupView or a GroupRecord; ``more()`` returns further facts."""
        if self._context.events is None:
            return
        now_s = self._context.clock()

        def make():
            facts = {name: getattr(group, name) for name in OF_GROUP}
            return {**facts, 'time': now_s, 'cause': cause, **more()}

        self._context.events.group(event, make)


def _members(view):
    return {
        'members': [{name: getattr(member, name) for name in OF_MEMBER} for member in view.members]
    }


@dataclasses.dataclass(slots=True)
class MeasuredPlan:
    """One attempt: ``stage`` is what found the placement or that there is none."""

    result: str
    stage: str = FILTERS


@contextlib.contextmanager
def measured(dry_run):
    """A MeasuredPlan; the metrics count its result at the end of the block."""
    plan, begin_s = MeasuredPlan(DRY_RUN if dry_run else PLANNED), time.monotonic()
    try:
        yield plan
    except errors.GroupRefused:
        plan.result = REFUSED
        raise
    except errors.QuotaExceeded:
        plan.result = OVER_QUOTA
        raise
    except BaseException:
        if plan.result != CONFLICT:
            plan.result = FAILED
        raise
    finally:
        catalogue.GROUP_PLANS.add(plan.result, plan.stage)
        catalogue.GROUP_PLAN_SECONDS.observe(time.monotonic() - begin_s, plan.result)
