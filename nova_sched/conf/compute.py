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
"""Options of Nova's [compute] group that a placement depends on."""

from oslo_config import cfg

GROUP = 'compute'
OPTS = [
    cfg.BoolOpt(
        'packing_host_numa_cells_allocation_strategy',
        default=False,
        mutable=True,
        help='A guest goes into the NUMA cells that are fuller already; else into the '
        'emptier ones. Compute nodes need the same value.',
    ),
]


def register_opts(conf):
    conf.register_opts(OPTS, group=GROUP)
