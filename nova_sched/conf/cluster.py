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
"""Where a scheduler learns of hosts, and what it expects of their reports and failure domains."""

from oslo_config import cfg

AUTO, REPORTS, NOVA = 'auto', 'reports', 'nova'

READ_FROM_NOVA = 'hosts are read from Nova ([cluster] source = nova)'
SET_BY_NOVA = (
    f"{READ_FROM_NOVA}: Nova's API disables and enables compute services (openstack compute "
    'service set)'
)

CLUSTER_OPTS = [
    cfg.StrOpt(
        'source',
        default=AUTO,
        choices=[
            (AUTO, '`nova` where `[api_database] connection` is set, else `reports`'),
            (REPORTS, 'compute nodes report over RPC, by `update_resource_stats`'),
            (NOVA, "Nova's databases and Placement, which the scheduler reads"),
        ],
        help='Where the scheduler learns of hosts and their usage.',
    ),
    cfg.FloatOpt(
        'look_interval',
        default=2.0,
        min=0.1,
        mutable=True,
        help="Seconds between two polls of the services and the changed compute nodes of Nova's "
        'cells. Only for the source `nova`.',
    ),
    cfg.FloatOpt(
        'compare_interval',
        default=60.0,
        min=1.0,
        mutable=True,
        help='Seconds between two comparisons of all compute nodes, aggregates, host mappings '
        'and resource providers with what the scheduler knows. Only for the source `nova`.',
    ),
    cfg.IntOpt(
        'readers',
        default=4,
        min=1,
        max=64,
        help='Resource providers that are read from Placement at the same time. Only for the '
        'source `nova`.',
    ),
]
API_DATABASE_OPTS = [
    cfg.StrOpt(
        'connection',
        secret=True,
        help="URL of Nova's API database, as in nova.conf. The scheduler reads cells, host "
        'mappings and aggregates there.',
    ),
]
STATS_OPTS = [
    cfg.StrOpt(
        'cell_uuid',
        regex='[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$',
        help='UUID of the cell of nodes that do not report one, as `nova-manage cell_v2 '
        'list_cells` shows it. If unset, such nodes take part in every cell: right for '
        'a cloud with a single cell.',
    ),
    cfg.IntOpt(
        'max_report_size',
        default=4 * 1024 * 1024,
        min=1024,
        mutable=True,
        help='Characters that the nested facts of one report (NUMA, PCI, inventories, '
        'metrics) may have in all. A larger report is refused.',
    ),
]
TOPOLOGY_OPTS = [
    cfg.ListOpt(
        'levels',
        default=['host', 'rack', 'room', 'zone'],
        help='Levels of failure domains, from narrow to wide; the first must be `host`. The '
        'domain of `zone` is the availability zone. For any other level, the level is '
        'a metadata key of the aggregates of a host, and the value is the domain '
        '(`rack = r12`). Without such a key, the domain is the value under this key '
        'among the `stats` that the node reports. The name of a domain is unique at '
        'its level. A node without a domain at a level shares one with the nodes of '
        'its domain one level below.',
    ),
    cfg.ListOpt(
        'orders',
        default=[],
        help='More levels, which do not nest in the ones above: chains such as `host < '
        'power_feed`, each from `host` to its widest level.',
    ),
]
OPTS = {
    'cluster': CLUSTER_OPTS,
    'api_database': API_DATABASE_OPTS,
    'stats': STATS_OPTS,
    'topology': TOPOLOGY_OPTS,
}


def reads_nova(conf):
    """Whether the scheduler reads hosts from Nova's databases and from Placement."""
    if conf.cluster.source == AUTO:
        return bool(conf.api_database.connection)
    return conf.cluster.source == NOVA
