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

"""Networks that instances ask for, and the NUMA cells from which nodes reach them."""

from nova_sched.objects import base, fields


@base.register
class NetworkMetadata(base.NovaObject):
    """Physical networks, and whether tunnels are used."""

    VERSION = '1.0'

    fields = {
        'physnets': fields.SetOfStringsField(),
        'tunneled': fields.BooleanField(),
    }


@base.register
class NetworkRequest(base.NovaObject):
    """One requested network or port of a server."""

    VERSION = '1.3'
    ADDED_IN = {'pci_request_id': '1.1', 'tag': '1.2', 'arq_uuid': '1.3', 'device_profile': '1.3'}

    fields = {
        'network_id': fields.StringField(nullable=True),
        'address': fields.IPAddressField(nullable=True),
        'port_id': fields.UUIDField(nullable=True),
        'pci_request_id': fields.UUIDField(nullable=True),
        'tag': fields.StringField(nullable=True),
        'arq_uuid': fields.UUIDField(nullable=True),
        'device_profile': fields.StringField(nullable=True),
    }


@base.register
class NetworkRequestList(base.NovaList):
    """Network requests."""

    VERSION = '1.1'

    fields = {
        'objects': fields.ListOfObjectsField('NetworkRequest'),
    }
