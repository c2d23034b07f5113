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
"""CPUs, pages and devices that claims hold, read as plain JSON: what is given twice, or is not
there."""

import collections
import json


def overdrawn(report, claims):
    """What two claims share on a node, and what they take beyond what it has.

    The report has what counted claims hold among what is in use, and may have that of others that
    it lists.
    """
    held, new = collections.Counter(), collections.Counter()
    for claim in claims:
        found = parts(claim)
        held.update(found)
        if not claim['counted'] and claim['consumer_uuid'] not in (report['instances'] or ()):
            new.update(found)
    name, has = report['host'], free(report)
    for thing, times in held.items():
        if thing[0] == 'cpu' and times > 1:
            yield f'{name}: {times} claims hold {thing}'
    for thing, count in new.items():
        if count > has[thing]:
            yield f'{name}: {count} of {thing} are given, and {has[thing]} are free'


def parts(claim):
    """How many of each thing a claim holds: CPUs for itself, pages of a size in a cell, like
    devices."""
    found = collections.Counter()
    if not claim['parts']:
        return found
    plain = json.loads(claim['parts'])
    for cell in map(_data, _data(json.loads(plain['cells']))['cells'] if plain['cells'] else ()):
        alone = [*(cell['cpu_pinning_raw'] or {}).values(), *(cell['cpuset_reserved'] or ())]
        found.update(('cpu', cpu) for cpu in alone)
        if size_kb := cell['pagesize']:
            found['pages', cell['id'], size_kb] += cell['memory'] * 1024 // size_kb
    for _, pool in plain['devices']:
        found[_kind(_data(pool))] += _data(pool)['count']
    return found


def free(report):
    """The same for what the node reports as free."""
    found, pools = collections.Counter(), report['pci_pools']
    for cell in _cells(report):
        found.update(('cpu', cpu) for cpu in {*cell['pcpuset']} - {*cell['pinned_cpus']})
        for size in map(_data, cell['mempages']):
            found['pages', cell['id'], size['size_kb']] = (
                size['total'] - size['used'] - size['reserved']
            )
    for pool in map(_data, _data(json.loads(pools))['objects'] if pools else ()):
        found[_kind(pool)] += pool['count']
    return found


def cells_of_cpus(report):
    """dedicated CPU -> NUMA cell that it is in."""
    return {cpu: cell['id'] for cell in _cells(report) for cpu in cell['pcpuset']}


def _cells(report):
    text = report['numa_topology']
    return [_data(cell) for cell in _data(json.loads(text))['cells']] if text else []


def _kind(pool):
    tags = tuple(sorted(pool['tags'].items()))
    return 'device', pool['vendor_id'], pool['product_id'], pool['numa_node'], tags


def _data(thing):
    return thing['nova_object.data']
