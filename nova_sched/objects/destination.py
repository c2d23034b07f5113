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

"""The requested destination of an instance."""

from nova_sched.objects import base, fields


@base.register
class Destination(base.NovaObject):
    """A host, node, cell or aggregates that the request is limited to."""

    VERSION = '1.4'
    ADDED_IN = {
        'cell': '1.1',
        'aggregates': '1.2',
        'allow_cross_cell_move': '1.3',
        'forbidden_aggregates': '1.4',
    }

    fields = {
        'host': fields.StringField(),
        'node': fields.StringField(nullable=True),
        'cell': fields.ObjectField('CellMapping', nullable=True),
        'aggregates': fields.ListOfStringsField(nullable=True, default=None),
        'allow_cross_cell_move': fields.BooleanField(default=False),
        'forbidden_aggregates': fields.SetOfStringsField(nullable=True, default=None),
    }
