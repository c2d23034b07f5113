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
"""`fragmentation`: how much of the free capacity usual requests can use."""

import argparse

from nova_sched.cmd.manage import arguments, asking, output, tables
from nova_sched.cmd.manage.arguments import TIMEOUT, option

MAX_ROWS = 10
LIMIT = 100  # of a scheduler's answer


def show(args, conf):
    """Show how many of the usual sizes still fit, and which capacity is stranded

    Asks a running scheduler. Sizes are those of the mix of requests that the schedulers have
    counted; without history, those of the flavors. 'In one piece' is how many would fit if all
    that is free were on one host. Of a resource, what is free and cannot be used by a size of the
    mix alone is stranded; it is the mean over the requests that ask for the resource, and
    of devices (child providers) in thousandths of one. The worst hosts are those of which usual
    requests can use least: their potential is in thousandths of a device, or of a mean host.

    Keys: hosts, empty_hosts, stranded (units by resource class), sizes (resources, devices
    (resource_class, units, count, traits) or null, numa_cells, pci_devices, share, fit,
    fit_in_one_piece), zones (zone, hosts, empty_hosts, fit (in the order of sizes), stranded),
    worst_hosts (host, node, potential, stranded).
    """
    answer = asking.ask(
        args,
        conf,
        'ExplainClient',
        lambda scheduler: scheduler.fragmentation(args.zone, args.aggregate, args.limit),
    )
    output.show(args, answer, text=page)
    return 0


def page(answer):
    """The answer for people."""
    hosts = tables.count(answer['hosts'], 'host')
    lines = [f'{hosts}, {answer["empty_hosts"]} of them without servers.']
    stranded = {name: units for name, units in answer['stranded'].items() if units}
    lines += [tables.fill(tables.amounts(stranded) or 'nothing', 'Stranded: ')]
    if not answer['sizes']:
        return '\n'.join([*lines, 'No request was counted, and there are no flavors.'])
    lines += ['', tables.table(SIZES, answer['sizes'])]
    lines += ['', tables.table(ZONES, answer['zones'])] if len(answer['zones']) > 1 else []
    lines += ['', tables.table(HOSTS, answer['worst_hosts'])] if answer['worst_hosts'] else []
    return '\n'.join(lines)


def size(row):
    """What a size asks for, in words."""
    parts = [tables.amounts(row['resources'])] if row['resources'] else []
    if device := row['devices']:
        word = ' '.join([device['resource_class'], *device['traits']])
        parts.append(f'{device["count"]} x {device["units"]} {word}')
    parts += [tables.count(row['numa_cells'], 'NUMA cell')] if row['numa_cells'] else []
    parts += [tables.count(row['pci_devices'], 'PCI device')] if row['pci_devices'] else []
    return ', '.join(parts)


SIZES = {
    'Size': size,
    'Share': lambda row: f'{row["share"]:.1%}',
    'Fit': lambda row: row['fit'],
    'In one piece': lambda row: row['fit_in_one_piece'],
}
ZONES = {
    'Zone': lambda row: row['zone'],
    'Hosts': lambda row: row['hosts'],
    'Empty': lambda row: row['empty_hosts'],
    'Fit, by size': lambda row: ' / '.join(map(str, row['fit'])),
    'Stranded': lambda row: tables.amounts(row['stranded']),
}
HOSTS = {
    'Worst host': tables.place,
    'Potential': lambda row: row['potential'],
    'Stranded': lambda row: tables.amounts(row['stranded']),
}


def _limit(text):
    number = arguments.from_1(text)
    if number > LIMIT:
        raise argparse.ArgumentTypeError(f'it is more than {LIMIT}')
    return number


VERBS = (
    (
        'show',
        show,
        option('--zone', metavar='NAME', help='only hosts of this availability zone'),
        option(
            '--aggregate', metavar='AGGREGATE', help='only hosts of this aggregate, by id or name'
        ),
        option(
            '--limit',
            metavar='N',
            type=_limit,
            default=MAX_ROWS,
            help=f'how many sizes and hosts to show ({MAX_ROWS})',
        ),
        TIMEOUT,
    ),
)
