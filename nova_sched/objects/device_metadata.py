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

"""Tags of an instance's devices."""

from nova_sched.objects import base, fields


@base.register
class DeviceBus(base.NovaObject):
    """The bus address of a device; the kinds of bus are not known here."""

    VERSION = '1.0'

    fields = {}


@base.register
class DeviceMetadata(base.NovaObject):
    """The tags of one device."""

    VERSION = '1.0'

    fields = {
        'bus': fields.ObjectField('DeviceBus', subclasses=True),
        'tags': fields.ListOfStringsField(),
    }


@base.register
class InstanceDeviceMetadata(base.NovaObject):
    """The tagged devices of an instance."""

    VERSION = '1.0'

    fields = {
        'devices': fields.ListOfObjectsField('DeviceMetadata', subclasses=True),
    }
