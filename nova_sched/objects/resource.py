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

"""Named resources that instances hold, for example persistent memory."""

from nova_sched.objects import base, fields


@base.register
class ResourceMetadata(base.NovaObject):
    """A driver's data about a resource; the base of all kinds."""

    VERSION = '1.0'

    fields = {}


@base.register
class LibvirtVPMEMDevice(ResourceMetadata):
    """A persistent memory namespace."""

    VERSION = '1.0'

    fields = {
        'label': fields.StringField(),
        'name': fields.StringField(),
        'size': fields.IntegerField(),
        'devpath': fields.StringField(),
        'align': fields.IntegerField(),
    }


@base.register
class Resource(base.NovaObject):
    """One named resource of a provider."""

    VERSION = '1.0'

    fields = {
        'provider_uuid': fields.UUIDField(),
        'resource_class': fields.ResourceClassField(),
        'identifier': fields.StringField(),
        'metadata': fields.ObjectField('ResourceMetadata', subclasses=True),
    }


@base.register
class ResourceList(base.NovaList):
    """Resources."""

    VERSION = '1.0'

    fields = {
        'objects': fields.ListOfObjectsField('Resource'),
    }
