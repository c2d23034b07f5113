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
"""CPUs, pages and devices that claims hold, read as plain JSON: what is given twice, or is not there."""

import collections
import json


def overdrawn(report, claims):
    """What two claims share on a node, and what they take beyond what it has.

    The report has what counted claims hold among what is in use.
    """
    held, new = collections.Counter(), collections.Counter()
    for claim in claims:
        found = parts(claim)
        held.update(found)
        if not claim['counted']:
            new.update(found)
    name, free = report['host'], _free(report)
    for thing, times in held.items():
        if thing[0] == 'cpu' and times > 1:
            yield f'{name}: {times} claims hold {thing}'
    for thing, count in new.items():
        if count > free[thing]:
            yield f'{name}: {count} of {thing} are given, and {free[thing]} are free'


def parts(claim):
    """How many of each thing a claim holds: CPUs for itself, pages of a size in a cell, like devices."""
    found = collections.Counter()
    plain = json.loads(claim['parts'])
    for cell in map(_data, _data(json.loads(plain['cells']))['cells'] if plain['cells'] else ()):
        alone = [*(cell['cpu_pinning_raw'] or {}).values(), *(cell['cpuset_reserved'] or ())]
        found.update(('cpu', cpu) for cpu in alone)
        if size_kb := cell['pagesize']:
            found['pages', cell['id'], size_kb] += cell['memory'] * 1024 // size_kb
    for _, pool in plain['devices']:
        found[_kind(_data(pool))] += _data(pool)['count']
    return found


def _free(report):
    """The same for what the node reports as free."""
    free = collections.Counter()
    cells, pools = report['numa_topology'], report['pci_pools']
    for cell in map(_data, _data(json.loads(cells))['cells'] if cells else ()):
        free.update(('cpu', cpu) for cpu in {*cell['pcpuset']} - {*cell['pinned_cpus']})
        for size in map(_data, cell['mempages']):
            free['pages', cell['id'], size['size_kb']] = size['total'] - size['used'] - size['reserved']
    for pool in map(_data, _data(json.loads(pools))['objects'] if pools else ()):
        free[_kind(pool)] += pool['count']
    return free


def _kind(pool):
    tags = tuple(sorted(pool['tags'].items()))
    return 'device', pool['vendor_id'], pool['product_id'], pool['numa_node'], tags


def _data(thing):
    return thing['nova_object.data']
