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

"""Options of the [topology] group: the levels of failure domains that policies of groups may
name."""

from oslo_config import cfg

GROUP = 'topology'
OPTS = [
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


def register_opts(conf):
    conf.register_opts(OPTS, group=GROUP)
