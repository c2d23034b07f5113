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

"""Host aggregates: named sets of hosts with free metadata."""

from nova_sched.objects import base, fields


@base.register
class Aggregate(base.PersistentMixin, base.NovaObject):
    """A named set of hosts; its metadata steers filters and weighers."""

    VERSION = '1.3'
    obj_extra_fields = ['availability_zone']

    fields = {
        'id': fields.IntegerField(),
        'uuid': fields.UUIDField(),
        'name': fields.StringField(),
        'hosts': fields.ListOfStringsField(nullable=True),
        'metadata': fields.DictOfStringsField(nullable=True),
    }

    @property
    def availability_zone(self):
        """Returns the zone that this aggregate defines, or None."""
        return (
            self.metadata.get('availability_zone')
            if 'metadata' in self and self.metadata
            else None
        )


@base.register
class AggregateList(base.NovaList):
    """Aggregates."""

    VERSION = '1.3'

    fields = {
        'objects': fields.ListOfObjectsField('Aggregate'),
    }
