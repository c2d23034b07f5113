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

"""NUMA topologies that instances ask for."""

from nova_sched.objects import base, enums, fields


@base.register
class InstanceNUMACell(base.EphemeralObject, base.DictCompat):
    """One guest cell: memory in MiB, page size in KiB."""

    VERSION = '1.6'
    ADDED_IN = {
        'pagesize': '1.1',
        'cpu_topology': '1.2',
        'cpu_pinning_raw': '1.2',
        'cpu_policy': '1.3',
        'cpu_thread_policy': '1.3',
        'cpuset_reserved': '1.4',
        'pcpuset': '1.5',
    }

    # CPU ids are integers here, and strings on the wire.
    cpu_pinning = fields.DictProxyField('cpu_pinning_raw')

    fields = {
        'id': fields.IntegerField(),
        'cpuset': fields.SetOfIntegersField(),
        'pcpuset': fields.SetOfIntegersField(),
        'cpuset_reserved': fields.SetOfIntegersField(nullable=True, default=None),
        'memory': fields.IntegerField(),
        'pagesize': fields.IntegerField(nullable=True, default=None),
        'cpu_topology': fields.ObjectField('VirtCPUTopology', nullable=True),
        'cpu_pinning_raw': fields.DictOfIntegersField(nullable=True, default=None),
        'cpu_policy': enums.CPUAllocationPolicyField(nullable=True, default=None),
        'cpu_thread_policy': enums.CPUThreadAllocationPolicyField(nullable=True, default=None),
    }

    def obj_complete_older(self):
        """Converts versions before 1.5, in which ``cpuset`` held the pinned CPUs of a dedicated
        cell."""
        if 'pcpuset' in self or 'cpuset' not in self:
            return
        pinned = self.cpu_policy == 'dedicated'
        self.pcpuset = self.cpuset if pinned else set()
        if pinned:
            self.cpuset = set()


@base.register
class InstanceNUMATopology(base.NovaObject, base.DictCompat):
    """The guest cells of an instance."""

    VERSION = '1.3'

    fields = {
        'id': fields.IntegerField(),
        'instance_uuid': fields.UUIDField(),
        'cells': fields.ListOfObjectsField('InstanceNUMACell'),
        'emulator_threads_policy': enums.CPUEmulatorThreadsPolicyField(nullable=True),
    }

    def __len__(self):
        return len(self.cells)
