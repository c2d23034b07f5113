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

"""Options of the [agent] group: the compute node's side."""

from oslo_config import cfg

GROUP = 'agent'
OPTS = [
    cfg.IntOpt(
        'report_interval', default=10, min=1, mutable=True, help='Seconds between two reports of this node.'
    ),
    cfg.StrOpt('nodename', help='Name of the node; the host name if unset.'),
    cfg.StrOpt(
        'state_path',
        default='/var/lib/nova-sched',
        help="Directory that keeps this node's UUID and the list of its instances.",
    ),
    cfg.StrOpt(
        'instances_path',
        default='/var/lib/nova/instances',
        help='Directory whose file system holds the instances.',
    ),
    cfg.FloatOpt('cpu_allocation_ratio', default=4.0, min=0.0, help='vCPUs sold for each CPU.'),
    cfg.FloatOpt('ram_allocation_ratio', default=1.0, min=0.0, help='Memory sold for each unit of memory.'),
    cfg.FloatOpt('disk_allocation_ratio', default=1.0, min=0.0, help='Disk sold for each unit of disk.'),
    cfg.IntOpt('reserved_host_cpus', default=0, min=0, help='CPUs kept for the host.'),
    cfg.IntOpt('reserved_host_memory_mb', default=512, min=0, help='MiB of memory kept for the host.'),
    cfg.IntOpt('reserved_host_disk_mb', default=0, min=0, help='MiB of disk kept for the host.'),
    cfg.StrOpt('cpu_dedicated_set', help='CPUs for dedicated use, as `2-7,^4`; the rest is shared.'),
    cfg.MultiStrOpt(
        'device_spec',
        default=[],
        help='PCI devices that instances may have: JSON objects with `vendor_id`, `product_id`, `address` '
        '(a pattern) and tags such as `physical_network`. None by default.',
    ),
    cfg.StrOpt('cell_uuid', help='UUID of the cell of this node; the scheduler has a default.'),
]


def register_opts(conf):
    conf.register_opts(OPTS, group=GROUP)
