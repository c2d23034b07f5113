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
"""ChildProviders, always on: what Placement's nested providers and groups of resources do for Nova."""

import collections
import itertools

import numpy as np

from nova_sched.filters import Filter
from nova_sched.hardware import providers
from nova_sched.state import demand

MOST_OPENED = 100  # nodes that an explanation looks into


class ChildProviders(Filter):
    """Each group of resources is met by one provider of the node: a device below it, or the node itself.

    The provider has all of the group's resources free, its required traits and none of the forbidden
    ones. With group_policy isolate, each group has a provider of its own. Of a resource class outside of
    groups that only devices have, one device gives the whole amount.
    """

    def mask(self, hosts, request):
        if not self._concerns(hosts, request):
            return True
        return self.judge(hosts, request, np.arange(hosts.rows))

    def judge(self, hosts, request, rows):
        if not self._concerns(hosts, request):
            return True
        fits = np.ones(len(rows), dtype=bool)
        for places, asked in _alike(hosts, request, rows):
            if asked:
                fits[places] = self._takes(hosts, request, asked, rows[places])
        return fits

    def why(self, hosts, request, rows):
        some = (hosts.nodes[row] for row in rows[:MOST_OPENED])
        return providers.nearest_miss(node.below(request) for node in some)

    @staticmethod
    def _concerns(hosts, request):
        return bool(request.groups) or not hosts.child_classes.isdisjoint(request.resources)

    def _takes(self, hosts, request, asked, rows):
        """Rows that take what is asked: by their devices, by the node itself, or by both together."""
        named = any(group.in_tree for group in asked.groups)
        fits = np.zeros(len(rows), dtype=bool)
        if not named:
            fits = hosts.map_shapes(rows, (self.name, asked), lambda tree: _fits(tree, asked))
        may_help = hosts.everywhere(named)
        for name in {name for group in asked.groups for name, _ in group.resources}:
            may_help |= hosts.has_class(name)
        left = ~fits & may_help[rows]
        bare = left & ~hosts.map_shapes(rows, 'any', lambda tree: True)
        if not named and bare.any():
            fits[bare] = _node_takes(hosts, request, asked)[rows[bare]]
            left &= ~bare
        for place in np.flatnonzero(left):
            fits[place] = _fits(*hosts.nodes[rows[place]].below(request))
        return fits


def _fits(tree, asked):
    return providers.Summary.of(tree).may_take(asked) and providers.fit(tree, asked) is not None


def _alike(hosts, request, rows):
    """Rows that are asked for the same: (places among the rows, what is asked of them)."""
    loose = [name for name in request.resources if name in hosts.child_classes]
    columns = [~hosts.has_class(name)[rows] & hosts.has_below(name)[rows] for name in loose]
    traits = sorted(request.required_traits) if loose else []
    if traits:
        some = np.logical_or.reduce(columns)
        columns += [some & ~hosts.has_trait(trait)[rows] for trait in traits]
    if not columns:
        yield np.arange(len(rows)), demand.asked_below(request, (), ())
        return
    kinds, kind_of = np.unique(np.array(columns), axis=1, return_inverse=True)
    for number, kind in enumerate(kinds.T):
        only_below = itertools.compress(loose, kind)
        missing = itertools.compress(traits, kind[len(loose) :])
        asked = demand.asked_below(request, list(only_below), list(missing))
        yield np.flatnonzero(kind_of.ravel() == number), asked


def _node_takes(hosts, request, asked):
    """Nodes that meet every group by themselves, which have no devices."""
    if asked.isolate and len(asked.groups) > 1:
        return hosts.everywhere(False)
    sums, fits = collections.Counter(request.resources), hosts.everywhere(True)
    for group in asked.groups:
        for trait in group.required:
            fits &= hosts.has_trait(trait)
        for trait in group.forbidden:
            fits &= ~hosts.has_trait(trait)
        for name, units in group.resources:
            fits &= hosts.fits(name, units)
            sums[name] += units
    for name in {name for group in asked.groups for name, _ in group.resources}:
        fits &= hosts.fits(name, sums[name])
    return fits
