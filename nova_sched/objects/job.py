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
"""The messages of the queues: a job for a compute node, and its outcome."""

from nova_sched.objects import base, fields

CREATE, DELETE, RESIZE, MIGRATE = 'create', 'delete', 'resize', 'migrate'
KINDS = (CREATE, DELETE, RESIZE, MIGRATE)
DONE, FAILED = 'done', 'failed'
OUTCOMES = (DONE, FAILED)


JobKindField = fields.enum_field('JobKind', ' '.join(KINDS))
JobOutcomeField = fields.enum_field('JobOutcome', ' '.join(OUTCOMES))


@base.register
class QueueJob(base.NovaSchedObject):
    """One operation on one instance.

    ``spec`` is the request, with the new size for a resize; null for a delete. ``queue`` is the
    flavor queue that it was first sent to, null if it went to the queue of a node. ``source`` is
    the current host of the instance in a resize or a migration. ``claimed``: its claim exists
    already, on the node to whose queue it was sent. ``alternates`` are then the hosts and nodes
    (JSON text of pairs) to try after that one. ``tried`` are hosts where it failed. ``reply_to``
    is the queue for the outcome; null: no reply is expected. ``failures`` is what drivers said of
    failed attempts (JSON text, see queues.messages), since 1.1.

    A delete that has a ``source`` removes only what a move has left there; if it is ``claimed``,
    a build that nobody wants.
    """

    VERSION = '1.1'

    fields = {
        'uuid': fields.UUIDField(),
        'kind': JobKindField(),
        'instance_uuid': fields.UUIDField(),
        'spec': fields.ObjectField('RequestSpec', nullable=True),
        'queue': fields.StringField(nullable=True),
        'source': fields.StringField(nullable=True),
        'claimed': fields.BooleanField(),
        'alternates': fields.StringField(nullable=True),
        'tried': fields.ListOfStringsField(),
        'project_id': fields.StringField(nullable=True),
        'user_id': fields.StringField(nullable=True),
        'request_id': fields.StringField(nullable=True),
        'reply_to': fields.StringField(nullable=True),
        'created_at': fields.DateTimeField(nullable=True),
        'failures': fields.StringField(nullable=True),
    }


@base.register
class QueueResult(base.NovaSchedObject):
    """The outcome of a job. ``claim`` is the resulting claim of the instance; ``why`` is for
    users."""

    VERSION = '1.0'

    fields = {
        'job': fields.ObjectField('QueueJob'),
        'outcome': JobOutcomeField(),
        'host': fields.StringField(nullable=True),
        'nodename': fields.StringField(nullable=True),
        'tries': fields.IntegerField(),
        'why': fields.StringField(nullable=True),
        'claim': fields.ObjectField('ClaimInfo', nullable=True),
    }
