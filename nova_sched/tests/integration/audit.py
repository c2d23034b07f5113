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

from nova_sched.tests.integration import audit_hardware


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
        found += audit_hardware.overdrawn(told[uuid], on_it)
    return found
