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
"""Names of failure domains in the goal `drain`, such as `rack=r1`."""

import dataclasses

import numpy as np

from nova_sched import errors
from nova_sched.rebalance import DRAIN
from nova_sched.suggestion import suggestion


def with_hosts(scope, hosts, levels):
    """The scope with each `LEVEL=NAME` of the goal replaced by the hosts of that domain. Runs in
    the loop.

    ``levels`` are those of DomainTopology.look. Where the part before the sign is no level, the
    whole is a name as any other. Raises InvalidRequest for a domain without hosts.
    """
    names: list[str] = []
    for name in scope.goal.names:
        level, sign, domain = name.partition('=')
        is_domain = scope.goal.kind == DRAIN and sign and level in levels
        names += _hosts_of(hosts, levels[level], domain) if is_domain else [name]
    goal = dataclasses.replace(scope.goal, names=tuple(dict.fromkeys(names)))
    return dataclasses.replace(scope, goal=goal)


def _hosts_of(hosts, level, domain):
    if domain not in level.names:
        why = f'no host is in {level.name} {domain}{suggestion(domain, level.names)}'
        raise errors.InvalidRequest('goal', why)
    rows = np.flatnonzero(level.ids == level.names.index(domain))
    return [hosts.nodes[row].host for row in rows.tolist()]
