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
"""Options of the [cluster] group: where a scheduler learns of hosts."""

from oslo_config import cfg

AUTO, REPORTS, NOVA = 'auto', 'reports', 'nova'

READ_FROM_NOVA = 'hosts are read from Nova ([cluster] source = nova)'
SET_BY_NOVA = (
    f"{READ_FROM_NOVA}: Nova's API disables and enables compute services (openstack compute "
    'service set)'
)

GROUP = 'cluster'
OPTS = [
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


def register_opts(conf):
    conf.register_opts(OPTS, group=GROUP)


def reads_nova(conf):
    """Whether the scheduler reads hosts from Nova's databases and from Placement."""
    if conf.cluster.source == AUTO:
        return bool(conf.api_database.connection)
    return conf.cluster.source == NOVA
