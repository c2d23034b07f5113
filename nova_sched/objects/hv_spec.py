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

"""The kinds of guests that a hypervisor runs."""

from nova_sched.objects import base, enums


@base.register
class HVSpec(base.NovaObject):
    """One supported triple of architecture, hypervisor type and guest mode."""

    VERSION = '1.2'

    fields = {
        'arch': enums.ArchitectureField(),
        'hv_type': enums.HVTypeField(),
        'vm_mode': enums.VMModeField(),
    }

    @classmethod
    def from_list(cls, triple):
        """Returns the object for ``[arch, hv_type, vm_mode]``."""
        arch, hv_type, vm_mode = triple
        return cls(arch=arch, hv_type=hv_type, vm_mode=vm_mode)

    def to_list(self):
        return [self.arch, self.hv_type, self.vm_mode]
