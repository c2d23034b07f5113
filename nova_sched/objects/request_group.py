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

"""Resources requested from providers other than the compute node itself."""

from nova_sched.objects import base, fields


@base.register
class RequestGroup(base.EphemeralObject):
    """Resources and traits that one provider must give."""

    VERSION = '1.3'
    ADDED_IN = {
        'requester_id': '1.1',
        'provider_uuids': '1.1',
        'in_tree': '1.2',
        'forbidden_aggregates': '1.3',
    }

    fields = {
        'use_same_provider': fields.BooleanField(default=True),
        'resources': fields.DictOfIntegersField(default={}),
        'required_traits': fields.SetOfStringsField(default=set()),
        'forbidden_traits': fields.SetOfStringsField(default=set()),
        'aggregates': fields.ListOfListsOfStringsField(default=[]),
        'forbidden_aggregates': fields.SetOfStringsField(default=set()),
        'requester_id': fields.StringField(nullable=True, default=None),
        'provider_uuids': fields.ListOfUUIDField(default=[]),
        'in_tree': fields.UUIDField(nullable=True, default=None),
    }


@base.register
class RequestLevelParams(base.NovaObject):
    """Demands on the request as a whole."""

    VERSION = '1.1'
    ADDED_IN = {'same_subtree': '1.1'}

    fields = {
        'root_required': fields.SetOfStringsField(default=set()),
        'root_forbidden': fields.SetOfStringsField(default=set()),
        'same_subtree': fields.ListOfListsOfStringsField(default=[]),
    }
