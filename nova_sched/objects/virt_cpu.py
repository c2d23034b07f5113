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

"""Virtual CPUs as a guest sees them."""

from nova_sched.objects import base, enums, fields


@base.register
class VirtCPUFeature(base.NovaObject):
    """One CPU feature and what to do with it."""

    VERSION = '1.0'

    fields = {
        'policy': enums.CPUFeaturePolicyField(nullable=True),
        'name': fields.StringField(),
    }


@base.register
class VirtCPUTopology(base.NovaObject):
    """Sockets, cores and threads of a guest."""

    VERSION = '1.0'

    fields = {
        'sockets': fields.IntegerField(nullable=True, default=1),
        'cores': fields.IntegerField(nullable=True, default=1),
        'threads': fields.IntegerField(nullable=True, default=1),
    }


@base.register
class VirtCPUModel(base.NovaObject):
    """The CPU model of a guest."""

    VERSION = '1.0'

    fields = {
        'arch': enums.ArchitectureField(nullable=True),
        'vendor': fields.StringField(nullable=True),
        'topology': fields.ObjectField('VirtCPUTopology', nullable=True),
        'features': fields.ListOfObjectsField('VirtCPUFeature', default=[]),
        'mode': enums.CPUModeField(nullable=True),
        'model': fields.StringField(nullable=True),
        'match': enums.CPUMatchField(nullable=True),
    }
