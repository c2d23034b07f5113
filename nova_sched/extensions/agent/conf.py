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

import os
from pathlib import Path

from oslo_config import cfg, types

SYSTEM_STATE = Path('/var/lib/nova-sched')


OWN_STATE = Path(os.environ.get('XDG_STATE_HOME') or os.path.expanduser('~/.local/state'))


def state_path(is_root, is_installed, own=OWN_STATE):
    """The state directory: that of the system, or that of the account on a machine without one."""
    return str(SYSTEM_STATE if is_root or is_installed else own / 'nova-sched')


GROUP = 'agent'
OPTS = [
    # The node and its reports.
    cfg.StrOpt(
        'nodename',
        help='Name of the node (`hypervisor_hostname`). If unset, it is [DEFAULT] host. Do '
        'not change it while the node has instances.',
    ),
    cfg.StrOpt(
        'cell_uuid',
        help='UUID of the cell of this node, as `nova-manage cell_v2 list_cells` shows it. '
        'If unset, the scheduler uses its [stats] cell_uuid.',
    ),
    cfg.IPOpt(
        'host_ip',
        help='Address that the node reports. If unset, it is the address of the interface '
        'with the default route.',
    ),
    cfg.IntOpt(
        'report_interval',
        default=10,
        min=1,
        mutable=True,
        help='Seconds between two reports of a node without changes; a change is reported '
        'at once. Several reports must fit into the service_down_time of the '
        'scheduler, or the node counts as down now and then.',
    ),
    cfg.IntOpt(
        'report_timeout',
        default=15,
        min=1,
        help='Seconds to wait for the answer to a report before it is repeated. The sum of '
        'this and report_interval should be well below the service_down_time of the '
        'scheduler.',
    ),
    cfg.StrOpt(
        'state_path',
        default=state_path(os.geteuid() == 0, SYSTEM_STATE.is_dir()),
        sample_default=str(SYSTEM_STATE),
        help="Directory that keeps the node's UUID (`compute_id`), the list of its "
        'instances (`instances.json`) and the number of starts of the agent '
        '(`starts`). The agent makes it if it does not exist. An agent that loses it '
        'comes back as a new node, without its instances. The default is '
        f'{SYSTEM_STATE} for root and where that directory exists. For any other '
        'account it is `nova-sched` in $XDG_STATE_HOME, which is ~/.local/state by '
        'default.',
    ),
    cfg.StrOpt(
        'instances_path',
        help='Directory that holds the disks of the instances: the size of its file system '
        'is the disk that this node reports. If unset, it is /var/lib/nova/instances '
        'where that exists, else state_path.',
    ),
    # Allocation ratios and reserved amounts.
    cfg.FloatOpt(
        'cpu_allocation_ratio',
        default=4.0,
        min=0.0,
        help='Virtual CPUs for each shared CPU (allocation ratio); 0 means 4.0. Each '
        'dedicated CPU is allocated once.',
    ),
    cfg.FloatOpt(
        'ram_allocation_ratio',
        default=1.0,
        min=0.0,
        help='Allocation ratio of memory; 0 means 1.0.',
    ),
    cfg.FloatOpt(
        'disk_allocation_ratio',
        default=1.0,
        min=0.0,
        help='Allocation ratio of disk; 0 means 1.0.',
    ),
    cfg.IntOpt(
        'reserved_host_cpus',
        default=0,
        min=0,
        help='Shared CPUs that are reserved for the host itself.',
    ),
    cfg.IntOpt(
        'reserved_host_memory_mb',
        default=512,
        min=0,
        help='MiB of memory that are reserved for the host itself.',
    ),
    cfg.IntOpt(
        'reserved_host_disk_mb',
        default=0,
        min=0,
        help='MiB of disk that are reserved for the host itself, rounded up to GiB.',
    ),
    cfg.MultiOpt(
        'reserved_huge_pages',
        item_type=types.Dict(),
        help='Huge pages of one size in one NUMA cell that are reserved for the host '
        'itself, such as for a virtual switch: `node:0,size:2048,count:64`. The size '
        'is in KiB, or has a unit, as 1GB. May be given several times.',
    ),
    # CPUs, devices, networks.
    cfg.StrOpt(
        'cpu_shared_set',
        help='CPUs that instances share, such as `0-3,8,^2`: they are the VCPU inventory. '
        'If unset, these are all CPUs that are online and not in cpu_dedicated_set.',
    ),
    cfg.StrOpt(
        'cpu_dedicated_set',
        help='CPUs that are each allocated to at most one instance, such as `4-7`: they are '
        'the PCPU inventory, for flavors with `hw:cpu_policy=dedicated`. If unset, '
        'there are none.',
    ),
    cfg.MultiStrOpt(
        'device_spec',
        default=[],
        help='PCI devices that instances may have: a JSON object with `vendor_id`, '
        '`product_id`, and `address` (a pattern, such as `*:81:00.*`) or `devname`; '
        'each may be left out. Any other key is a tag of the device, such as '
        '`physical_network`. May be given several times; without it, instances get no '
        'device.',
    ),
    cfg.Opt(
        'physnet_cells',
        type=types.Dict(value_type=types.List(item_type=types.Integer(min=0), bounds=True)),
        default={},
        help='NUMA cells that are near each physical network: `physnet0:[0],physnet1:[0,1]`.',
    ),
    cfg.ListOpt(
        'tunnel_cells',
        item_type=types.Integer(min=0),
        default=[],
        help='NUMA cells that are near the network that carries the tunnels: `0,1`.',
    ),
    cfg.Opt(
        'resources',
        type=types.Dict(value_type=types.Integer(min=1)),
        default={},
        help='Resources that cannot be detected on the machine, by resource class, such as '
        '`CUSTOM_LICENSE:10`: flavors ask for them with `resources:CUSTOM_LICENSE=1`.',
    ),
    cfg.ListOpt(
        'traits',
        default=[],
        help='Traits of this node, such as `CUSTOM_GOLD`, in addition to those that are '
        'read from its CPUs.',
    ),
    cfg.Opt(
        'facts',
        type=types.Dict(),
        default={},
        help='Additional stats that the node reports, such as its failure domains: '
        '`rack:r12,room:north`. See [topology].',
    ),
    cfg.StrOpt(
        'hypervisor_type',
        default='QEMU',
        help='Kind of the hypervisor, as images ask for it with `img_hv_type`.',
    ),
    cfg.IntOpt(
        'hypervisor_version',
        default=0,
        min=0,
        help='Version of the hypervisor as one number: 8002001 is 8.2.1, 0 is unknown.',
    ),
    cfg.BoolOpt(
        'metrics',
        default=False,
        help='Report how busy the CPUs are, under the names that the metrics weigher of '
        'Nova knows.',
    ),
]


def register_opts(conf):
    conf.register_opts(OPTS, group=GROUP)
