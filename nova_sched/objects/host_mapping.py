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

"""Which cell a host belongs to."""

from nova_sched.objects import base, fields


@base.register
class HostMapping(base.TimestampedMixin, base.NovaObject):
    """One host and its cell."""

    VERSION = '1.0'

    fields = {
        'id': fields.IntegerField(read_only=True),
        'host': fields.StringField(),
        'cell_mapping': fields.ObjectField('CellMapping'),
    }


@base.register
class HostMappingList(base.NovaList):
    """Host mappings."""

    VERSION = '1.1'

    fields = {
        'objects': fields.ListOfObjectsField('HostMapping'),
    }
