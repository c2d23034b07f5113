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
"""Hosts for the tests, with a few GPUs, each a child provider of 1000 units."""

import numpy as np

from nova_sched.extensions.optimize.packing.host_resources import HostResources
from nova_sched.extensions.optimize.packing.mix import DeviceDemand, Size
from nova_sched.hardware.providers import Provider, ProviderTree, Stock

GPU = 'CUSTOM_GPU'


def tree(*free, traits=(), total=1000, name=GPU):
    """The child providers of a host with so much free of each; None: no device."""
    devices = [
        Provider(str(place), {name: Stock(total, used=total - one)}, frozenset(traits), '', '')
        for place, one in enumerate(free, 1)
    ]
    return ProviderTree('0', (Provider('0'), *devices)) if devices else None


def host_resources(trees, empty=None, machines=None, **free):
    """Hosts with these trees and machines; a word has the free units of a class, by host."""
    columns = {name: np.array(units) for name, units in free.items()}
    capacity = {name: np.full(len(trees), max(units)) for name, units in free.items()}
    has = np.zeros(len(trees), bool) if empty is None else np.array(empty)
    return HostResources(columns, capacity, list(trees), has, 0, machines)


def size(vcpus=0, milli=0, count=1, required=(), name=GPU):
    device = DeviceDemand(name, milli, count, frozenset(required)) if milli else None
    return Size((('VCPU', vcpus),) if vcpus else (), device)
