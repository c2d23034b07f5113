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

    ``seen`` are the generations that nodes had before they were read.
    """

    def __init__(self, placement, seen):
        self.seen, self._placement = seen, placement
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
        return {uuid: provider['generation'] for uuid, provider in tree.items()}

    def used(self, root_uuid):
        """What is used of the root of a tree; None if it has not summaries of all its
        providers."""
        tree = self._trees.get(root_uuid)
        if not (tree and self._summaries and tree.keys() <= self._summaries.keys()):
            return None
        return {name: some for name, some in self._summaries[root_uuid].used.items() if some}

    def node(self, uuid, held):
        """The NodeProviders of a compute node, with one request for each of its providers.
        ``held`` says what its consumers are allocated from the root, by consumer."""
        tree = self._trees[uuid]
        return NodeProviders(
            uuid,
            {
                name: {
                    'parent_provider_uuid': provider['parent_provider_uuid'],
                    'inventories': self._placement.inventories(name),
                    'traits': self._summaries[name].traits,
                }
                for name, provider in tree.items()
            },
            self.generations(uuid),
            {uuid: held},
            {name: self._summaries[name].used for name in tree},
        )
