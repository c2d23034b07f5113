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
"""Tells the notifications of plans of groups, and of those that were refused or deleted."""

import contextlib

from nova_sched import errors

CREATE, UPDATE, REPLAN, BUILD, DELETE = 'create', 'update', 'replan', 'build', 'delete'  # causes
PLANNED, REFUSED, DELETED = 'planned', 'refused', 'deleted'  # events
OF_GROUP = 'uuid name project_id user_id generation serial'.split()
OF_MEMBER = 'path state instance_uuid host'.split()


class GroupEvents:
    """Tells ``context.events``, if there are any. Its methods may be called from any thread."""

    def __init__(self, context):
        self._context = context

    def planned(self, cause, view):
        """A plan is claimed. Returns its GroupView."""
        self._tell(PLANNED, cause, view, lambda: {'expires': view.expires_s, **_members(view)})
        return view

    def deleted(self, view):
        """The plan of a group is deleted. ``view`` has the members that are left."""
        self._tell(DELETED, DELETE, view, lambda: _members(view))

    @contextlib.contextmanager
    def refusals(self, cause, record, dry_run):
        """Tell if this block, which changes the group of a GroupRecord, raises a refusal."""
        try:
            yield
        except (errors.GroupRefused, errors.QuotaExceeded, errors.LimitsUnknown) as error:
            if not dry_run:
                reason = str(error)
                self._tell(REFUSED, cause, record, lambda: {'reason': reason})
            raise

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
    return {'members': [{name: getattr(one, name) for name in OF_MEMBER} for one in view.members]}
