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

"""A group for callers: its members with their places, and the moves that it needs."""

from nova_sched.claim import CONFIRMED, PENDING, PLANNED
from nova_sched.objects import base, fields

# Of a group: planned: all members have claims; building: some are pending or built; built: all are
# built; incomplete: some have no claim; deleting: its members are being deleted.
BUILDING, BUILT, INCOMPLETE, DELETING = 'building', 'built', 'incomplete', 'deleting'
UNPLACED = 'unplaced'  # of a member: it has no claim


GroupStatusField = fields.enum_field(
    'GroupStatus', f'{PLANNED} {BUILDING} {BUILT} {INCOMPLETE} {DELETING}'
)
MemberStateField = fields.enum_field('MemberState', f'{PLANNED} {PENDING} {CONFIRMED} {UNPLACED}')


@base.register
class GroupMember(base.NovaSchedObject):
    """One member by its path, such as `app/web/3`, and its actual or planned host.

    ``member_uuid`` is the consumer of its planned claim, ``instance_uuid`` the server that was
    created for it. ``domains`` has the name of its domain by level. Unknown values are null.
    """

    VERSION = '1.0'

    fields = {
        'path': fields.StringField(),
        'state': MemberStateField(),
        'member_uuid': fields.UUIDField(nullable=True),
        'instance_uuid': fields.UUIDField(nullable=True),
        'host': fields.StringField(nullable=True),
        'nodename': fields.StringField(nullable=True),
        'compute_node_uuid': fields.UUIDField(nullable=True),
        'availability_zone': fields.StringField(nullable=True),
        'domains': fields.DictOfStringsField(),
    }


@base.register
class GroupMove(base.NovaSchedObject):
    """A member that has to move to another host, and the reason; the caller moves it."""

    VERSION = '1.0'

    fields = {
        'path': fields.StringField(),
        'instance_uuid': fields.UUIDField(nullable=True),
        'from_host': fields.StringField(nullable=True),
        'to_host': fields.StringField(),
        'reason': fields.StringField(),
    }


@base.register
class TopGroup(base.NovaSchedObject):
    """A group.

    ``generation`` counts its definitions, ``serial`` every change of a definition or of a place.
    ``template`` is the text as it was given (JSON, if it was given as a mapping), ``parameters`` a
    JSON object. ``expires_at``: when the claims of members that are not created yet end. With
    ``dry_run`` nothing was stored, and a new group has no UUID. In a list of groups ``template``,
    ``parameters``, ``members`` and ``moves`` are not set.
    """

    VERSION = '1.0'

    fields = {
        'uuid': fields.UUIDField(nullable=True),
        'name': fields.StringField(nullable=True),
        'project_id': fields.StringField(nullable=True),
        'user_id': fields.StringField(nullable=True),
        'status': GroupStatusField(),
        'generation': fields.IntegerField(),
        'serial': fields.IntegerField(),
        'template': fields.StringField(),
        'parameters': fields.StringField(),
        'members': fields.ListOfObjectsField('GroupMember'),
        'moves': fields.ListOfObjectsField('GroupMove'),
        'warnings': fields.ListOfStringsField(),
        'dry_run': fields.BooleanField(),
        'created_at': fields.DateTimeField(nullable=True),
        'updated_at': fields.DateTimeField(nullable=True),
        'expires_at': fields.DateTimeField(nullable=True),
    }
