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
"""One row under the attribute names of Nova's host state, for plug-ins that were written for
Nova."""

import functools
import types
from collections.abc import Mapping

from nova_sched.state import metrics
from nova_sched.state.fields import read

MISSING = object()


class HostState:
    """A view: an attribute is read from the columns when a plug-in reads it.

    ``limits`` belongs to this view and is passed in the Selection, as in Nova. All other
    attributes are to be treated as read-only: a plug-in's changes are visible only to itself.
    """

    def __init__(self, hosts, row):
        self._hosts = hosts
        self._row = row
        self._node = hosts.nodes[row]
        self.limits = {}
        self.updated = True

    def __repr__(self):
        return (
            f'({self.host}, {self.nodename}) ram: {self.free_ram_mb}MB disk: {self.free_disk_mb}MB'
        )

    def __getattr__(self, name):
        if name.startswith('_'):
            raise AttributeError(name)
        if name in NUMBERS:
            return int(getattr(self._hosts, name)[self._row])
        if name in RATIOS:
            return float(getattr(self._hosts, name)[self._row])
        if name in OF_NODE:
            return getattr(self._node, name)
        if name in OF_REPORT:
            return getattr(self._node.report, OF_REPORT[name])
        raise AttributeError(name)

    @functools.cached_property
    def supported_instances(self):
        return [list(triple) for triple in self._node.report.supported_instances]

    @functools.cached_property
    def aggregates(self):
        return list(self._hosts.aggregates.of(self._node.host))

    @functools.cached_property
    def instances(self):
        image = self._hosts.places.image
        return {
            uuid: types.SimpleNamespace(uuid=uuid, image_properties=dict(image(uuid)))
            for uuid in self._node.instances
        }

    @functools.cached_property
    def numa_topology(self):
        """The NUMATopology as text, with the CPUs and pages of claims counted as used; None if the
        node does not report it."""
        machine = self._node.machine
        if machine is None or machine is self._node.reported:
            return self._node.report.numa_topology
        return machine.topology and machine.topology.to_json()

    @functools.cached_property
    def pci_stats(self):
        """Pools of free devices, each a flat dict; None if the node does not report them."""
        machine = self._node.machine
        if not self._node.report.pci_pools or machine is None:
            return None
        return types.SimpleNamespace(pools=[flat(pool) for pool in machine.pools if pool.count])

    @functools.cached_property
    def metrics(self):
        """Metrics as Nova reads them: percentages are whole."""
        return metrics.read(self._node.report.metrics)

    @functools.cached_property
    def service(self):
        """The service record as a dict, with times in seconds since the epoch."""
        return types.MappingProxyType(
            {
                'host': self._node.host,
                'disabled': bool(self._hosts.disabled[self._row]),
                'disabled_reason': self._node.service.disabled_reason,
                'forced_down': bool(self._hosts.forced_down[self._row]),
                'last_seen_up': float(self._hosts.seen_s[self._row]),
            }
        )


def flat(pool):
    """Return a pool of PCI devices in the form of Nova's statistics: its tags at the same level
    as the other keys."""
    return {
        'vendor_id': pool.vendor_id,
        'product_id': pool.product_id,
        'numa_node': pool.numa_node,
        'count': pool.count,
        **pool.tags,
    }


NUMBERS = frozenset(
    'vcpus_total vcpus_used total_usable_ram_mb free_ram_mb total_usable_disk_gb free_disk_mb '
    'disk_mb_used num_instances num_io_ops failed_builds'.split()
)
RATIOS = frozenset(['cpu_allocation_ratio', 'ram_allocation_ratio', 'disk_allocation_ratio'])
OF_NODE = frozenset(['uuid', 'host', 'nodename', 'cell_uuid'])
OF_REPORT = {
    'hypervisor_hostname': 'nodename',
    'hypervisor_type': 'hypervisor_type',
    'hypervisor_version': 'hypervisor_version',
    'host_ip': 'host_ip',
    'cpu_info': 'cpu_info',
    'stats': 'stats',
    'running_vms': 'running_vms',
    'current_workload': 'current_workload',
    'traits': 'traits',
}
# Attributes that are about the servers, aggregates and service of a host, or about this view: no
# capabilities of the node.
OF_OTHERS = frozenset(
    'aggregates instances limits metrics numa_topology pci_stats service updated'.split()
)
CAPABILITIES = NUMBERS | RATIOS | OF_NODE | OF_REPORT.keys() | {'supported_instances'}
ATTRIBUTES = CAPABILITIES | OF_OTHERS


# Attributes of any Nova-like host state, which extra specs may refer to.


def _public(thing, name):
    """Return an attribute that holds data: no private one and no method."""
    value = MISSING if name.startswith('_') else read(thing, name, MISSING)
    return MISSING if callable(value) else value


def fact(thing, name):
    """Return the attribute of a Nova-like object, regardless of its stats; None if it has
    none."""
    value = _public(thing, name)
    return None if value is MISSING else value


def _stats(thing):
    stats = read(thing, 'stats')
    return stats if isinstance(stats, Mapping) else {}


def attribute(thing, name):
    """Return the attribute of a Nova-like object. If it is missing or None, returns the entry of
    its stats, else None."""
    value = _public(thing, name)
    return _stats(thing).get(name) if value is MISSING or value is None else value


def capability(host_state, name):
    """Return what a Nova-like host state tells of its node under a name: the attribute or, if it
    is missing or None, the entry of its stats, else None."""
    return _stats(host_state).get(name) if name in OF_OTHERS else attribute(host_state, name)


def has_capability(host_state, name):
    """Return whether the host state has the attribute, even if it is None, or its stats have the
    entry."""
    is_attribute = name not in OF_OTHERS and _public(host_state, name) is not MISSING
    return is_attribute or name in _stats(host_state)
