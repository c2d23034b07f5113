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

"""Options of Nova's [workarounds] group."""

from oslo_config import cfg

GROUP = 'workarounds'
OPTS = [
    cfg.BoolOpt(
        'disable_fallback_pcpu_query',
        default=False,
        mutable=True,
        help='Place servers with dedicated CPUs only on hosts that reserve such CPUs '
        '([compute] cpu_dedicated_set on the compute node). Without it, a host that '
        'reserves none may use shared CPUs for them. NUMATopologyFilter then reads the '
        'free CPUs from its NUMA cells.',
    ),
]


def register_opts(conf):
    conf.register_opts(OPTS, group=GROUP)
