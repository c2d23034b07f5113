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
"""Which queues one node satisfies, and how much it wants their jobs: a look after each change of
the node."""

import dataclasses
import itertools

import numpy as np

from nova_sched import service
from nova_sched.conf import CONF
from nova_sched.extensions.queues.catalogue import (
    KINDS,
    PCI,
    RESOURCE,
    TRAIT,
    ZONE,
    Catalogue,
    Special,
)
from nova_sched.extensions.queues.fit import Fit, NodeFit, with_devices
from nova_sched.groups.definition import MemberFlavor
from nova_sched.hardware import pci
from nova_sched.state.report import Inventory
from nova_sched.tests.bench.timing import by_turns, row
from nova_sched.tests.builders import aggregate, cluster, put, report

SIZES = ((20, 5), (50, 20), (250, 200))
REPORTS = 50
HAS = 8  # every so many of the special things of a kind the node has


def name(kind, number):
    return {PCI: f'dev{number}', ZONE: f'zone{number}'}.get(kind, f'CUSTOM_{number}')


def catalogue(flavors, specials):
    """Flavors of different sizes, a few with a trait of their own; special things of all kinds by
    turns."""
    aliases = {f'dev{number}': ('legacy', ({'vendor_id': '10de', 'product_id': f'{number:04x}'},))
               for number in range(specials)}  # fmt: skip
    kinds = itertools.islice(itertools.cycle(KINDS), specials)
    return Catalogue(
        1,
        tuple(
            MemberFlavor(
                1 + number % 16,
                512 * (1 + number % 20),
                number % 30,
                extra_specs={} if number % 10 else {'trait:HW_A': 'required'},
                name=f'flavor{number}',
            )
            for number in range(flavors)
        ),
        tuple(Special(kind, name(kind, number)) for number, kind in enumerate(kinds)),
        aliases,
    )


def reports(specials):
    """A node as its instances come and go."""
    mine = range(0, specials, HAS)
    pools = pci.pools_to_json([pci.PciPool('10de', f'{number:04x}', count=2) for number in mine])
    traits = frozenset(['HW_A', *(name(TRAIT, number) for number in range(2, specials, HAS))])
    custom = {name(RESOURCE, number): Inventory(4) for number in range(1, specials, HAS)}
    for number in range(REPORTS):
        used = {'vcpus_used': number % 10, 'memory_mb_used': number * 1024}
        one = report(**used, pci_pools=pools, traits=traits)
        in_use = {**one.used, **dict.fromkeys(custom, number % 5)}
        yield dataclasses.replace(one, inventories={**one.inventories, **custom}, used=in_use)


class Floor:
    """The bare comparison of what each queue takes with what is free, of three classes."""

    def __init__(self, queues):
        self._wanted = np.random.default_rng(1).integers(0, 100, (3, queues))
        self._free = np.array([[90], [80], [70]])

    def __call__(self):
        return (self._wanted <= self._free).all(axis=0)


def rows(budget_s=2.0, sizes=SIZES):
    rules = with_devices(service.rules(CONF))
    zones = [
        aggregate(1, ['host-0'], availability_zone=name(ZONE, 3)),
        aggregate(2, [], availability_zone='x'),
    ]
    for flavors, specials in sizes:
        fit = Fit(rules, catalogue(flavors, specials), CONF.queues.priority_steps)
        view, told = NodeFit(fit, zones), itertools.cycle(list(reports(specials)))
        node = cluster(0, aggregates=zones)
        put(node, next(told))
        ours = {
            'which queues': lambda: fit.judge(node),  # noqa: B023
            'which and how much': lambda: fit.priorities(node),  # noqa: B023
            'a report, which and how much': lambda: view.judge(next(told)),  # noqa: B023
        }
        samples = by_turns({**ours, 'floor': Floor(len(fit.names))}, budget_s)
        for what in ours:
            name_of_row = f'{len(fit.names):,} queues, one node: {what}'
            yield row(name_of_row, samples[what], 'bare NumPy', samples['floor'])
