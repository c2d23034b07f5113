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
"""One Nova-like host state with the methods that rules call on all hosts, for one-host rule
calls."""

import datetime
import functools
import json
import math
import time

import numpy as np

from nova_sched.claim import DISK_GB, MEMORY_MB, VCPU
from nova_sched.hardware import numa, pci, providers
from nova_sched.hardware.machine import Machine
from nova_sched.state import aggregates, demand, host_aggregate, metrics
from nova_sched.state.host_state import ATTRIBUTES, attribute, capability, fact, has_capability
from nova_sched.state.places import image_of

# Resource class: the attributes of a host state with the total, the part not free, and the ratio.
FITS = {
    VCPU: lambda state: (state.vcpus_total, state.vcpus_used, state.cpu_allocation_ratio),
    MEMORY_MB: lambda state: (
        state.total_usable_ram_mb,
        state.total_usable_ram_mb - state.free_ram_mb,
        state.ram_allocation_ratio,
    ),
    DISK_GB: lambda state: (
        state.total_usable_disk_gb,
        state.total_usable_disk_gb - state.free_disk_mb / 1024,
        state.disk_allocation_ratio,
    ),
}


class OneHost:
    """A cluster of one row. Only the attributes that a rule reads are read from the host state."""

    rows = 1
    pause = None
    is_owned = False  # its host state is one of Nova
    child_classes = frozenset[str]()  # Nova's host states have no child providers

    def __init__(self, host_state):
        self._state = host_state
        self.now_s = time.time()

    def __len__(self):
        return 1

    def __getattr__(self, name):
        value = getattr(self._state, name)
        return np.array([0 if value is None else value])

    @property
    def spare_vcpus(self):
        state = self._state
        return np.array([state.vcpus_total * state.cpu_allocation_ratio - state.vcpus_used])

    @property
    def disabled(self):
        return np.array([bool(self._service('disabled', False))])

    @property
    def forced_down(self):
        return np.array([bool(self._service('forced_down', False))])

    @property
    def seen_s(self):
        seen = self._service('last_seen_up', None) or self._service('created_at', None)
        if isinstance(seen, datetime.datetime):
            seen = (seen if seen.tzinfo else seen.replace(tzinfo=datetime.UTC)).timestamp()
        return np.array([float(seen or 0)])

    def _service(self, name, default):
        service = self._state.service
        if hasattr(service, 'get'):
            return service.get(name, default)
        return getattr(service, name, default)

    def growing(self, request, resource_class):
        """A host state does not contain the sizes of its instances."""
        return {}

    def everywhere(self, value, dtype=bool):
        return np.full(1, value, dtype=dtype)

    def fits(self, resource_class, amount):
        if resource_class not in FITS:
            return self.everywhere(False)
        total, used, ratio = FITS[resource_class](self._state)
        return self.everywhere(amount <= total and amount <= int(total * ratio) - used)

    def has_class(self, resource_class):
        return self.everywhere(resource_class in FITS)

    def named(self, hosts, nodes=None):
        return self.everywhere(
            self._state.host in hosts and (nodes is None or self._state.nodename in nodes)
        )

    def count_instances(self, uuids):
        here = self._state.instances
        return self.everywhere(sum(uuid in here for uuid in uuids), np.int64)

    @functools.cached_property
    def _images(self):
        return [image_of(instance) for instance in self._state.instances.values()]

    def count_images(self, name, text):
        return self.everywhere(sum(image.get(name) == text for image in self._images), np.int64)

    @functools.cached_property
    def _metrics(self):
        return metrics.values(self._state.metrics)

    def metric(self, name):
        return self.everywhere(self._metrics.get(name, np.nan), float)

    @property
    def free_pci_devices(self):
        return np.array([sum(pool.count for pool in pools(self._state))])

    def in_cell(self, cell_uuid):
        return self.everywhere(self._state.cell_uuid in (cell_uuid, None))

    def has_trait(self, trait):
        return self.everywhere(trait in getattr(self._state, 'traits', ()))

    def trait_names(self):
        return set(getattr(self._state, 'traits', ()))

    def has_zone(self, zone):
        return zone in host_aggregate.zones(self._state.aggregates)

    def in_zone(self, zone, default_zone):
        return self.everywhere(
            zone in (host_aggregate.zones(self._state.aggregates) or {default_zone})
        )

    @property
    def aggregates(self):
        return aggregates.OwnAggregates(self._state.aggregates)

    @property
    def aggregate_set(self):
        return self.everywhere(0, np.intp)

    def aggregate_number(self, key, default, convert):
        return aggregates.number(self._state.aggregates, key, default, convert)

    def map(self, name, judge, dtype=bool):
        value = getattr(self._state, name)
        if name == 'supported_instances':
            value = tuple(map(tuple, value or ()))
        return self.everywhere(judge(value), dtype)

    def open_to(self, tokens):
        return True  # a host state does not contain exclusive domains

    def map_machines(self, rows, question, judge):
        return self.everywhere(judge(machine(self._state)))

    def map_shapes(self, rows, question, judge):
        return self.everywhere(False)

    def map_each(self, rows, question, judge):
        return self.everywhere(judge(self, 0))

    def has_below(self, resource_class):
        return self.everywhere(False)

    def below(self, row, request):
        own, traits = FITS.keys(), frozenset(getattr(self._state, 'traits', ()))
        provider_request = demand.asked_of(request, own, (), traits)
        taken = demand.resources_on(request, own)
        tree = providers.ProviderTree(self._state.uuid)
        below = demand.with_own(tree, provider_request, self._stock, taken, traits)
        return below, provider_request

    def _stock(self, resource_class):
        if resource_class not in FITS:
            return None
        total, used, ratio = FITS[resource_class](self._state)
        return providers.Stock(total, ratio=ratio, used=math.ceil(used))

    def has_capability(self, name):
        return self.everywhere(has_capability(self._state, name))

    def map_capability(self, name, question, judge):
        value = capability(self._state, name)
        return self.everywhere(value is not None and judge(value))

    def has_attribute(self, name):
        return self.everywhere(name in ATTRIBUTES or has_capability(self._state, name))

    def map_attribute(self, name, judge):
        value = attribute(self._state, name)
        return self.everywhere(value is not None and judge(value))

    def values(self, name):
        return [fact(self._state, name)], self.everywhere(0, np.intp)

    def map_rows(self, rows, judge):
        return self.everywhere(bool(judge(self._state)))

    def state(self, row):
        return self._state


def machine(host_state):
    """Return the hardware of a Nova-like host state, from text or objects; None if it has
    none."""
    topology = host_state.numa_topology
    if topology is None and host_state.pci_stats is None:
        return None
    # An object of Nova or of nova_sched.
    cells = (
        topology
        if topology is None or isinstance(topology, str)
        else json.dumps(topology.obj_to_primitive())
    )
    return Machine(
        numa.HostTopology.from_json(cells) if cells else None,
        pools(host_state),
        host_state.cpu_allocation_ratio,
        host_state.ram_allocation_ratio,
    )


def pools(host_state):
    """Return the PCI pools of a Nova-like host state, from text or objects."""
    stats = host_state.pci_stats
    return (
        pci.pools_from_json(stats)
        if isinstance(stats, str)
        else pci.pools_of(getattr(stats, 'pools', stats))
    )
