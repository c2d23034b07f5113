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
"""Counts plans of groups by their results."""

import contextlib
import dataclasses
import time

from nova_sched import errors
from nova_sched.measures import catalogue

PLANNED, DRY_RUN, REFUSED, OVER_QUOTA, CONFLICT, FAILED = (
    'planned',
    'dry run',
    'refused',
    'over quota',
    'conflict',
    'failed',
)
FILTERS = 'filters'  # the stage of a plan that no search was made for


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
