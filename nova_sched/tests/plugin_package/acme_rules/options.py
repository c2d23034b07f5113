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
"""The options of these rules, in Nova's group."""

import copy

from oslo_config import cfg

from nova_sched.conf import CONF

GROUP = 'filter_scheduler'
OPTS = [
    cfg.IntOpt(
        'largest_instance_mb',
        default=0,
        min=0,
        mutable=True,
        help='Memory (MiB) of the largest instance that SizeLimitFilter lets onto hosts '
        'whose aggregates set no limit of their own; 0 is no limit.',
    ),
    cfg.FloatOpt(
        'quiet_weight_multiplier',
        default=1.0,
        mutable=True,
        help='Weight of hosts with few instances in the sum; negative fills the busy ones first.',
    ),
    cfg.IntOpt(
        'keep_free_mb',
        default=1024,
        min=0,
        mutable=True,
        help='Memory (MiB) that KeepFreeFilter leaves free on each host.',
    ),
    cfg.FloatOpt(
        'small_host_weight_multiplier',
        default=1.0,
        mutable=True,
        help='Weight of hosts with few CPUs in the sum.',
    ),
]

CONF.register_opts(OPTS, group=GROUP)


def list_opts():
    """All options by group, as oslo.config asks for them."""
    return [(GROUP, copy.deepcopy(OPTS))]
