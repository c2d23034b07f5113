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

"""NUMA topologies of compute nodes."""

from nova_sched.objects import base, fields, json_text


@base.register
class NUMAPagesTopology(base.NovaObject):
    """Memory pages of one size (KiB) in one cell: counts."""

    VERSION = '1.1'
    ADDED_IN = {'reserved': '1.1'}

    fields = {
        'size_kb': fields.IntegerField(),
        'total': fields.IntegerField(),
        'used': fields.IntegerField(default=0),
        'reserved': fields.IntegerField(default=0),
    }


@base.register
class NUMACell(base.NovaObject):
    """One host cell: CPUs by id, memory in MiB."""

    VERSION = '1.5'
    ADDED_IN = {
        'pinned_cpus': '1.1',
        'siblings': '1.1',
        'mempages': '1.2',
        'network_metadata': '1.3',
        'pcpuset': '1.4',
        'socket': '1.5',
    }

    fields = {
        'id': fields.IntegerField(read_only=True),
        'cpuset': fields.SetOfIntegersField(),
        'pcpuset': fields.SetOfIntegersField(),
        'memory': fields.IntegerField(),
        'cpu_usage': fields.IntegerField(default=0),
        'memory_usage': fields.IntegerField(default=0),
        'pinned_cpus': fields.SetOfIntegersField(),
        'siblings': fields.ListOfSetsOfIntegersField(),
        'mempages': fields.ListOfObjectsField('NUMAPagesTopology'),
        'network_metadata': fields.ObjectField('NetworkMetadata'),
        'socket': fields.IntegerField(nullable=True),
    }


@base.register
class NUMATopology(base.NovaObject):
    """The NUMA cells of a host."""

    VERSION = '1.2'

    fields = {
        'cells': fields.ListOfObjectsField('NUMACell'),
    }

    def __len__(self):
        return len(self.cells)

    @classmethod
    def from_json(cls, text):
        """Returns the topology that a ComputeNode carries as text. Raises MalformedObject."""
        return json_text.read(text, cls)

    def to_json(self):
        return json_text.write(self)


@base.register
class NUMATopologyLimits(base.NovaObject):
    """The allocation ratios of a host's NUMA cells."""

    VERSION = '1.1'
    ADDED_IN = {'network_metadata': '1.1'}

    fields = {
        'cpu_allocation_ratio': fields.FloatField(),
        'ram_allocation_ratio': fields.FloatField(),
        'network_metadata': fields.ObjectField('NetworkMetadata'),
    }
