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
"""The members of a server group with their nodes, and whether its policy admits one more."""

from collections.abc import Iterable, Sequence

from nova_sched.claims import ServerGroupPolicy
from nova_sched.state.request import AFFINITY


class ServerGroupMembers:
    """The members of a server group: the nodes of each member's claims, node UUID -> host."""

    def __init__(self, policy: ServerGroupPolicy, members: Iterable[Sequence[str]] = ()):
        """``members``: (consumer, node UUID, host) of each claim."""
        self.policy = policy
        self._nodes: dict[str, dict[str, str]] = {}
        for consumer, node, host in members:
            self._nodes.setdefault(consumer, {})[node] = host

    @property
    def nodes(self):
        """UUIDs of all nodes with members."""
        return {node for mine in self._nodes.values() for node in mine}

    def holds(self, consumer, node):
        return node in self._nodes.get(consumer, ())

    def after(self, moves):
        """The members after moves: (consumer, node UUID, host); the host is None for a claim that
        ends."""
        made = ServerGroupMembers(self.policy)
        made._nodes = dict(self._nodes)
        for consumer, node, host in moves:
            mine = {one: at for one, at in made._nodes.get(consumer, {}).items() if one != node}
            made._nodes[consumer] = mine if host is None else mine | {node: host}
            if not made._nodes[consumer]:
                del made._nodes[consumer]
        return made

    def admits(self, consumer, node, host):
        """Whether the policy is kept with the consumer there.

        In an affinity group, the host must be certain for each other member. One of two hosts that
        another member moves between is not certain.
        """
        others = [nodes for other, nodes in self._nodes.items() if other != consumer]
        if self.policy.kind == AFFINITY:
            return all(set(nodes.values()) == {host} for nodes in others)
        return sum(node in nodes for nodes in others) < self.policy.most
