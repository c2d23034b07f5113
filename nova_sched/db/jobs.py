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
"""The states of jobs, and the statements about them, built once."""

import sqlalchemy as sa

from nova_sched.db import bulk
from nova_sched.db.tables import JOBS, QUOTA_HOLDS, QUOTA_USAGE

QUEUED, DONE, FAILED, CANCELLED = 'queued', 'done', 'failed', 'cancelled'
ENDS = (DONE, FAILED, CANCELLED)
CREATE = 'create'

CHUNK = 500  # rows deleted in one transaction, so that other transactions wait only briefly

PUT_JOBS, DROP_JOBS = bulk.Insert(JOBS), bulk.Delete(JOBS)
COLUMNS = tuple(JOBS.columns.keys())
READ_JOBS, LOCK_JOBS = bulk.Select(JOBS, *COLUMNS), bulk.Select(JOBS, 'uuid', lock=True)

KEY: sa.BindParameter = sa.bindparam('key')
NOW_S: sa.BindParameter = sa.bindparam('now_s')
UUIDS: sa.BindParameter = sa.bindparam('uuids', expanding=True)
IS_QUEUED = JOBS.c.state == QUEUED
FIND = sa.select(JOBS).where(JOBS.c.uuid == KEY)
LOCK = FIND.where(IS_QUEUED).with_for_update()
# One statement for the job, its instance's hold and the project's usage: in the order in which all
# are locked.
LOCK_ALL = (
    sa.select(
        JOBS, QUOTA_HOLDS.c.amounts, QUOTA_HOLDS.c.project_id.label('holder'), QUOTA_USAGE.c.used
    )
    .join(QUOTA_HOLDS, QUOTA_HOLDS.c.instance_uuid == JOBS.c.instance_uuid)
    .join(QUOTA_USAGE, QUOTA_USAGE.c.project_id == QUOTA_HOLDS.c.project_id)
    .where(JOBS.c.uuid == KEY, IS_QUEUED)
    .with_for_update()
)
LOCK_HOLD = (
    sa.select(
        QUOTA_HOLDS.c.instance_uuid,
        QUOTA_HOLDS.c.amounts,
        QUOTA_HOLDS.c.project_id.label('holder'),
        QUOTA_USAGE.c.used,
    )
    .join(QUOTA_USAGE, QUOTA_USAGE.c.project_id == QUOTA_HOLDS.c.project_id)
    .where(QUOTA_HOLDS.c.instance_uuid == KEY)
    .with_for_update()
)
LOCK_CREATES = (
    sa.select(JOBS)
    .where(JOBS.c.instance_uuid == KEY, JOBS.c.kind == CREATE, IS_QUEUED)
    .order_by(JOBS.c.uuid)
    .with_for_update()
)
CREATES = sa.select(JOBS.c.uuid).where(JOBS.c.instance_uuid == KEY, JOBS.c.kind == CREATE)
SETTLE = (
    sa.update(JOBS)
    .where(JOBS.c.uuid.in_(UUIDS))
    .values(
        state=sa.bindparam('now_state'),
        host=sa.bindparam('now_host'),
        tries=sa.bindparam('now_tries'),
        why=sa.bindparam('now_why'),
        updated_s=NOW_S,
    )
)
TOUCH = sa.update(JOBS).where(JOBS.c.uuid.in_(UUIDS), IS_QUEUED).values(updated_s=NOW_S)
OVERDUE = (
    sa.select(JOBS)
    .where(IS_QUEUED, JOBS.c.updated_s < sa.bindparam('before_s'))
    .order_by(JOBS.c.updated_s, JOBS.c.uuid)
    .limit(sa.bindparam('most'))
)
OLD = (
    sa.select(JOBS.c.uuid)
    .where(JOBS.c.state.in_(ENDS), JOBS.c.updated_s < sa.bindparam('before_s'))
    .limit(CHUNK)
)
