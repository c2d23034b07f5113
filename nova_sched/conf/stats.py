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

"""Options of the [stats] group: limits and defaults of compute nodes' reports."""

from oslo_config import cfg

GROUP = 'stats'
OPTS = [
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


def register_opts(conf):
    conf.register_opts(OPTS, group=GROUP)
