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
"""Reads the tables with plain SQL and says what is wrong in them: none of our code has a hand in
it."""

import collections
import json

import sqlalchemy as sa


def rows(database, *tables):
    """All rows of each table, as mappings, all as they were at one moment.

    A daemon that was killed may have sent a commit that the server is still about to carry out.
    """
    engine = sa.create_engine(database, poolclass=sa.NullPool)
    if engine.dialect.name != 'sqlite':
        engine = engine.execution_options(isolation_level='REPEATABLE READ')
    with engine.connect() as session:
        return [
            session.execute(sa.text(f'SELECT * FROM {name}')).mappings().all() for name in tables
        ]


def placed(database):
    """consumer -> nodes that it has claims on, by UUID."""
    found = collections.defaultdict(list)
    (claims,) = rows(database, 'claims')
    for row in claims:
        found[row['consumer_uuid']].append(row['node_uuid'])
    return dict(found)


def faults(database):
    """What cannot be: too much on a node, wrong usage of a node, an instance placed twice."""
    claims, node_rows, reports = rows(database, 'claims', 'nodes', 'reports')
    on = collections.defaultdict(collections.Counter)
    for claim in claims:
        on[claim['node_uuid']].update(json.loads(claim['resources']))
    nodes = {row['uuid']: row for row in node_rows}
    found = [f'a claim on {uuid}, which is no node' for uuid in on.keys() - nodes.keys()]
    for uuid, node in nodes.items():
        used = on[uuid] + collections.Counter()
        for amounts in json.loads(node['unclaimed']).values():
            used.update(amounts)
        if +used != +collections.Counter(json.loads(node['used'])):
            found.append(
                f'{node["host"]} has {dict(used)} in claims and unclaimed usage, '
                f'but its usage is {node["used"]}'
            )
        for name, (total, reserved, ratio, *_) in json.loads(node['inventories']).items():
            if used[name] > (total - reserved) * ratio:
                found.append(f'{node["host"]} has {total} {name}, and {used[name]} are taken')
    waiting = collections.Counter(
        claim['consumer_uuid'] for claim in claims if claim['state'] != 'confirmed'
    )
    found += [f'{uuid} has {times} claims' for uuid, times in waiting.items() if times > 1]
    told = {row['node_uuid']: json.loads(row['report']) for row in reports}
    for uuid in nodes:
        on_it = [claim for claim in claims if claim['node_uuid'] == uuid and claim['parts']]
        found += overdrawn(told[uuid], on_it)
    return found


# CPUs, pages and devices that claims hold.


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
