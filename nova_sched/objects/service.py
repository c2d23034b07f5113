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

"""Services: the daemons on hosts, and whether they are alive."""

from nova_sched.objects import base, fields


@base.register
class Service(base.PersistentMixin, base.NovaObject, base.DictCompat):
    """One daemon on one host."""

    VERSION = '1.22'
    ADDED_IN = {
        'compute_node': '1.1',
        'last_seen_up': '1.13',
        'forced_down': '1.14',
        'version': '1.16',
        'uuid': '1.21',
    }

    fields = {
        'id': fields.IntegerField(read_only=True),
        'uuid': fields.UUIDField(),
        'host': fields.StringField(nullable=True),
        'binary': fields.StringField(nullable=True),
        'topic': fields.StringField(nullable=True),
        'report_count': fields.IntegerField(),
        'disabled': fields.BooleanField(),
        'disabled_reason': fields.StringField(nullable=True),
        'availability_zone': fields.StringField(nullable=True),
        'compute_node': fields.ObjectField('ComputeNode'),
        'last_seen_up': fields.DateTimeField(nullable=True),
        'forced_down': fields.BooleanField(),
        'version': fields.IntegerField(),
    }


@base.register
class ServiceList(base.NovaList):
    """Services."""

    VERSION = '1.19'

    fields = {
        'objects': fields.ListOfObjectsField('Service'),
    }
