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

"""Key pairs of users."""

from nova_sched.objects import base, fields


@base.register
class KeyPair(base.PersistentMixin, base.NovaObject, base.DictCompat):
    """One SSH key pair."""

    VERSION = '1.4'

    fields = {
        'id': fields.IntegerField(),
        'name': fields.StringField(),
        'user_id': fields.StringField(nullable=True),
        'fingerprint': fields.StringField(nullable=True),
        'public_key': fields.StringField(nullable=True),
        'type': fields.StringField(),
    }


@base.register
class KeyPairList(base.NovaList):
    """Key pairs."""

    VERSION = '1.3'

    fields = {
        'objects': fields.ListOfObjectsField('KeyPair'),
    }
