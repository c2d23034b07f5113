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
"""Random queries of JsonFilter: operators over attributes, literals and other queries, right and
wrong."""

import json

OPERATORS = ('=', '<', '>', '<=', '>=', 'in', 'not', 'or', 'and')
ATTRIBUTES = (
    'free_ram_mb',
    'free_disk_mb',
    'total_usable_ram_mb',
    'total_usable_disk_gb',
    'vcpus_total',
    'vcpus_used',
    'num_instances',
    'num_io_ops',
    'failed_builds',
    'disk_mb_used',
    'cpu_allocation_ratio',
    'hypervisor_type',
    'hypervisor_version',
    'stats.tier',
    'stats.rack',
    'stats.size',
    'stats.num_instances',
    'stats.no-such-stat',
    'service.disabled',
    'service.forced_down',
    'service.disabled_reason',
    'service.no-such-thing',
    'no_such_attribute',
    'no_such_attribute.at.all',
)
# Attributes that no request should ask for, and some requests will.
ODD_ATTRIBUTES = (
    '',
    '.',
    'stats',
    'supported_instances',
    'hypervisor_type.vendor',
    'free_ram_mb.max',
    'stats.tier.x',
)
NO_QUERIES = ('', '[', '{}', '[]', '"="', '5', 'null', '{"=": 1}', '[["="]]', '["like", 1, 1]')
LITERALS = (
    0,
    1,
    8,
    16384,
    1.0,
    1.5,
    -1,
    True,
    False,
    None,
    '',
    'QEMU',
    'ironic',
    'gold',
    '1',
    '8',
    '$',
)


def hint(dice, hosts):
    """A query as the API passes it on: text in a list, as every hint."""
    kind = dice.random()
    if kind < 0.12:
        return [dice.choice(NO_QUERIES)] if dice.maybe(0.85) else dice.bag(NO_QUERIES, 2)
    return [json.dumps(_query(dice, hosts, depth=3))]


def _query(dice, hosts, depth):
    if dice.maybe(0.03):
        return []
    if depth and dice.maybe(0.35):
        deeper = [_query(dice, hosts, depth - 1) for _ in range(dice.choice((0, 1, 2, 2, 3)))]
        return [dice.choice(('and', 'or', 'not')), *deeper]
    arguments = [_argument(dice, hosts, depth) for _ in range(dice.choice((0, 1, 2, 2, 2, 2, 3)))]
    return [dice.choice(OPERATORS), *arguments]


def _argument(dice, hosts, depth):
    kind = dice.random()
    if kind < 0.45:
        return '$' + dice.choice(ATTRIBUTES)
    if kind < 0.48:
        return '$' + dice.choice(ODD_ATTRIBUTES)
    if kind < 0.58:
        return dice.choice(('$host', '$nodename', dice.choice(hosts)))
    if kind < 0.62 and depth:
        return _query(dice, hosts, depth - 1)
    return dice.choice(LITERALS)
