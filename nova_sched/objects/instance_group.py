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

"""Server groups and their policies."""

from nova_sched.objects import base, fields


@base.register
class InstanceGroup(base.PersistentMixin, base.NovaObject, base.DictCompat):
    """Instances that are placed together or apart."""

    VERSION = '1.11'
    ADDED_IN = {'hosts': '1.10', 'policy': '1.11', '_rules': '1.11'}

    fields = {
        'id': fields.IntegerField(),
        'user_id': fields.StringField(nullable=True),
        'project_id': fields.StringField(nullable=True),
        'uuid': fields.UUIDField(),
        'name': fields.StringField(nullable=True),
        'policies': fields.ListOfStringsField(nullable=True, read_only=True),
        'members': fields.ListOfStringsField(nullable=True),
        'hosts': fields.ListOfStringsField(nullable=True),
        'policy': fields.StringField(nullable=True),
        '_rules': fields.DictOfStringsField(),
    }

    def __init__(self, *args, rules=None, **kwargs):
        if rules is not None:
            kwargs['_rules'] = rules
        super().__init__(*args, **kwargs)

    @property
    def rules(self):
        """Returns the rules of the policy, by name; values that are whole numbers are integers."""
        if '_rules' not in self:
            return {}
        return {
            name: int(value) if value.isdecimal() else value for name, value in self._rules.items()
        }

    def obj_load_attr(self, attrname):
        """Derives ``policy`` from ``policies`` or the reverse: version 1.11 replaced the list with
        ``policy``."""
        if attrname == 'policies' and 'policy' in self:
            return [self.policy] if self.policy is not None else []
        if attrname == 'policy' and 'policies' in self:
            return self.policies[0] if self.policies else None
        return super().obj_load_attr(attrname)

    def obj_make_compatible(self, primitive, target_version):
        policy = primitive.get('policy')
        super().obj_make_compatible(primitive, target_version)
        if 'policy' not in primitive and policy is not None:
            primitive['policies'] = [policy]


@base.register
class InstanceGroupList(base.NovaList):
    """Server groups."""

    VERSION = '1.8'

    fields = {
        'objects': fields.ListOfObjectsField('InstanceGroup'),
    }
