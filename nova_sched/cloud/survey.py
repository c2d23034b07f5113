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
"""What two requests tell of all providers of Placement, so that most nodes need only one more."""

from nova_sched.cloud.placement import NodeProviders

# A summary of all trees costs Placement as much as to read one in a hundred of them in full.
FEW, SHARE = 30, 0.01


class Survey:
    """All provider trees at one moment, and what is used of them.

    ``since_s`` is the time of ``clock`` before they were read. What a node has in place of
    allocations is what Placement sums up and which instances Nova has there. This is the same
    unless a server is being built or moved; then the generation of the provider rises soon, and
    the next comparison has its allocations read.
    """

    def __init__(self, placement, clock):
        self.since_s = clock()
        self._placement = placement
        self._trees = placement.provider_trees()
        self._summaries = None

    def summarize(self, nodes):
        """Read what is used, unless that was done, or would cost more than reading this number of
        nodes in full."""
        if self._summaries is None and nodes > max(FEW, len(self._trees) * SHARE):
            self._summaries = {}
            self._summaries = self._placement.summaries()

    def generations(self, root_uuid):
        """The generations of the providers of a tree; none if there is no such tree."""
        tree = self._trees.get(root_uuid, {})
        return {uuid: one['generation'] for uuid, one in tree.items()}

    def has_all(self, root_uuid):
        """Whether it has summaries of all providers of a tree."""
        tree = self._trees.get(root_uuid)
        return bool(tree and self._summaries) and tree.keys() <= self._summaries.keys()

    def node(self, uuid, instances):
        """The NodeProviders of a compute node that has these instances, with one request for each
        of its providers."""
        tree = self._trees[uuid]
        return NodeProviders(
            uuid,
            {
                name: {
                    'parent_provider_uuid': one['parent_provider_uuid'],
                    'inventories': self._placement.inventories(name),
                    'traits': self._summaries[name].traits,
                }
                for name, one in tree.items()
            },
            self.generations(uuid),
            sums={name: self._summaries[name].used for name in tree},
            instances=instances,
        )
