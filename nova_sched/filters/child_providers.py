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
"""ChildProviders, always on: the equivalent of Placement's nested providers and request groups."""

import collections
import itertools

import numpy as np

from nova_sched.filters import Filter
from nova_sched.hardware import Steps, providers
from nova_sched.state import demand
from nova_sched.state.facts import LASTING, RESOURCES, HostFacts, amount_of

MAX_OPENED = 100  # nodes that an explanation examines at most
MAX_KINDS = 2**16
CONCERNS = ('groups', 'resource_classes')
READ = ('group_policy', 'same_subtree', 'required_traits', 'forbidden_traits')


class ChildProviders(Filter):
    """Each group of resources is met by one provider of the node: a device below it, or the node
    itself.

    The provider has all of the group's resources free, its required traits and none of the
    forbidden ones. With group_policy isolate, each group has a separate provider. If only devices
    have a resource class outside of groups, one device gives the whole amount.
    """

    for_tenants = 'they do not have the requested devices and resources'
    host_facts = LASTING | HostFacts.AMOUNTS | HostFacts.PROVIDERS
    request_facts = (*CONCERNS, *READ, RESOURCES, 'fallback_vcpus')

    def request_facts_for(self, hosts, request):
        """Without groups, it reads only the amounts of the classes that child providers have."""
        if request.groups:
            return self.request_facts
        if not self._concerns(hosts, request):
            return CONCERNS
        return (*CONCERNS, *READ, *map(amount_of, list(hosts.child_classes)))

    def mask(self, hosts, request):
        if not self._concerns(hosts, request):
            return True
        return self.judge(hosts, request, np.arange(hosts.rows))

    def judge(self, hosts, request, rows):
        if not self._concerns(hosts, request):
            return True
        fits = np.ones(len(rows), dtype=bool)
        for places, provider_request in _alike(hosts, request, rows):
            if provider_request:
                fits[places] = self._takes(hosts, request, provider_request, rows[places])
        return fits

    def why(self, hosts, request, rows):
        rows = _unlike(hosts, request, rows[:MAX_OPENED])
        return providers.nearest_miss(hosts.below(row, request) for row in rows)

    @staticmethod
    def _concerns(hosts, request):
        return bool(request.groups) or not hosts.child_classes.isdisjoint(request.resource_classes)

    def _takes(self, hosts, request, provider_request, rows):
        """Return which rows can meet the request: by their devices, by the node itself, or by
        both together."""
        if any(group.in_tree for group in provider_request.groups):
            return self._opened(hosts, request, provider_request, rows)
        question = self.name, provider_request.anonymous
        steps = Steps(providers.SHARED_STEPS, pause=hosts.pause)
        fits = hosts.map_shapes(
            rows, question, lambda tree: providers.fits(tree, provider_request, steps)
        )
        names = frozenset().union(*(group.classes for group in provider_request.groups))
        by_itself = _any_of(hosts.has_class, names, rows) & ~fits
        if not by_itself.any():
            return fits
        # Devices that have none of the groups' resource classes do not help.
        helped = by_itself & _any_of(hosts.has_below, names, rows)
        if provider_request.loose or not all(group.resources for group in provider_request.groups):
            helped = by_itself
        fits[helped] = self._opened(hosts, request, provider_request, rows[helped])
        alone = by_itself & ~helped
        fits[alone] = _node_takes(hosts, request, provider_request)[rows[alone]]
        return fits

    def _opened(self, hosts, request, provider_request, rows):
        """Return the same for nodes that are examined one by one, with what the node itself
        has."""
        question = (
            self.name,
            provider_request.anonymous,
            tuple(sorted(request.resources.items())),
            request.fallback_vcpus,
            request.required_traits,
            request.forbidden_traits,
        )
        steps = Steps(providers.SHARED_STEPS, pause=hosts.pause)

        def takes(real, row):
            tree, wanted = real.below(row, request)
            return providers.fits(tree, wanted, steps)

        return hosts.map_each(rows, question, takes)


def _any_of(question, names, rows):
    """Return which of the rows satisfy the predicate for at least one of the names."""
    return np.logical_or.reduce(
        [question(name)[rows] for name in names] or [np.zeros(len(rows), dtype=bool)]
    )


def _unlike(hosts, request, rows):
    """Return one row of those with equal devices, where these alone decide; and the other
    rows."""
    if not hosts.child_classes.isdisjoint(request.resource_classes) or any(
        group.in_tree for group in request.groups
    ):
        return rows
    names = frozenset().union(*(group.classes for group in request.groups))
    own = (hosts.nodes[row].report.inventories for row in rows.tolist())
    chosen = np.array([not names.isdisjoint(inventories) for inventories in own], dtype=bool)
    _, first = np.unique(hosts.shape[rows], return_index=True)
    chosen[first] = True
    return rows[chosen]


def _alike(hosts, request, rows):
    """Yield sets of rows that need the same from child providers: (positions among the rows, the
    request)."""
    loose = [name for name in request.resources if name in hosts.child_classes]
    columns = [~hosts.has_class(name)[rows] & hosts.has_below(name)[rows] for name in loose]
    traits = sorted(request.required_traits) if loose else []
    if traits:
        some = np.logical_or.reduce(columns)
        columns += [some & ~hosts.has_trait(trait)[rows] for trait in traits]
    if not columns:
        yield slice(None), demand.asked_below(request, [], [])
        return
    kinds = np.zeros(len(rows), dtype=np.int64)
    for column in columns:
        kinds = 2 * kinds + column
        if kinds.max(initial=0) > MAX_KINDS:  # renumber, so that any number of columns fits
            kinds = np.unique(kinds, return_inverse=True)[1]
    for kind in np.flatnonzero(np.bincount(kinds)):
        places = np.flatnonzero(kinds == kind)
        said = [bool(column[places[0]]) for column in columns]
        only_below = itertools.compress(loose, said)
        missing = itertools.compress(traits, said[len(loose) :])
        yield places, demand.asked_below(request, list(only_below), list(missing))


def _node_takes(hosts, request, provider_request):
    """Return the nodes that meet every group themselves; only valid for nodes without devices."""
    if provider_request.isolate and len(provider_request.groups) > 1:
        return hosts.everywhere(False)
    sums, fits = collections.Counter(request.resources), hosts.everywhere(True)
    for group in provider_request.groups:
        for trait in group.required:
            fits &= hosts.has_trait(trait)
        for trait in group.forbidden:
            fits &= ~hosts.has_trait(trait)
        for name, units in group.resources:
            fits &= hosts.fits(name, units)
            sums[name] += units
        for name in group.classes:
            fits &= hosts.fits(name, sums[name])
    return fits
