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
"""Asks Placement for allocation candidates before a request is refused.

Placement may know better than the host state: a provider has changed since it was read, or the
request takes resources of a sharing provider, which belongs to no host.
"""

import collections
import dataclasses
import json
import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future

from nova_sched import errors
from nova_sched.claim import PCPU, VCPU
from nova_sched.filters.child_providers import ChildProviders
from nova_sched.filters.required_traits import RequiredTraits
from nova_sched.filters.resource_capacity import ResourceCapacity
from nova_sched.logs import Problems
from nova_sched.state.report import DISABLED_TRAIT
from nova_sched.state.traits import OWNER

LOG = logging.getLogger(__name__)

# The rules that Placement judges too.
JUDGED = frozenset(rule.__name__ for rule in (RequiredTraits, ResourceCapacity, ChildProviders))
FRESH_S = 1.0  # for so long, an answer serves all requests of its kind
MAX_CANDIDATES = 1000  # in an answer, as in Nova
MOST_READ = 20  # nodes that one answer makes the mirror read


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """An allocation request of Placement for a compute node. ``shared`` are the amounts by class
    that it takes from sharing providers, outside of groups."""

    node_uuid: str
    document: Mapping
    shared: Mapping[str, int]


@dataclasses.dataclass(slots=True)
class Answer:
    """Placement's answer to the requests of one kind: a Future of candidates by node UUID.

    ``read`` are the nodes that were read because of it. ``reading`` is held meanwhile, so that no
    other request of the kind is refused by what the host state had before.
    """

    since_s: float
    candidates: Future = dataclasses.field(default_factory=Future)
    read: set[str] = dataclasses.field(default_factory=set)
    reading: threading.Lock = dataclasses.field(default_factory=threading.Lock)


class CandidateReader:
    """Reads the allocation candidates of refused requests: once a second for those of one
    kind, whatever their number. May be used from any thread but the loop's."""

    def __init__(self, scheduler, placement, mirror, clock=time.monotonic):
        self._scheduler, self._placement, self._mirror = scheduler, placement, mirror
        self._clock = clock
        self._answers, self._lock = dict[str, Answer](), threading.Lock()
        self._problems = Problems(LOG)

    def requests_after(self, requests, refusal):
        """Return the requests of a refused call as they are to be decided again.

        If Placement names nodes that the host state refuses, they are read again. Otherwise, if
        it names nodes whose candidates take from sharing providers, the requests have these
        allocation requests. Without an answer of Placement, the requests are unchanged.
        """
        request = requests[0]
        steps = refusal.details['filters'] if refusal.details else ()
        # Whether a rule that Placement judges too has removed hosts.
        is_about_providers = any(
            step['filter'] in JUDGED and step['seen'] > step['left'] for step in steps
        )
        if request.is_rebuild or not is_about_providers:
            return requests
        try:
            answer = self._ask(request)
            candidates = answer.candidates.result()
        except errors.SchedError as error:
            self._problems.begin(
                'candidates', '%s; requests are refused without asking Placement', error
            )
            return requests
        self._problems.end('candidates', 'Placement tells its allocation candidates again')
        if self._read_stale(request, answer, candidates):
            return requests
        return _with_candidates(
            requests, [candidate for candidate in candidates.values() if candidate.shared]
        )

    def _read_stale(self, request, answer, candidates):
        """Read the nodes that only the host state refuses. Returns whether any of them passes
        now."""
        named = {uuid for uuid, candidate in candidates.items() if not candidate.shared}
        refused = named - self._passing(request, named)
        if not refused:
            return False
        with answer.reading:
            stale = sorted(refused - answer.read)[:MOST_READ]
            if stale:
                LOG.debug('Placement has room on nodes %s: they are read again', ', '.join(stale))
                self._mirror.read_nodes(stale)
                answer.read.update(stale)
        return bool(self._passing(request, refused))

    def _passing(self, request, nodes):
        questions = self._scheduler.questions
        return set(self._scheduler.call(questions.passing, request, JUDGED, sorted(nodes)))

    # The answers.

    def _ask(self, request):
        """The Answer for requests of this kind."""
        scope = self._scheduler.call(self._scheduler.nova_hosts.scope, request)
        wanted = queries(request, *scope)
        key, now_s = json.dumps(wanted, sort_keys=True), self._clock()
        with self._lock:
            self._answers = {
                kind: answer
                for kind, answer in self._answers.items()
                if answer.since_s > now_s - FRESH_S or not answer.candidates.done()
            }
            if key in self._answers:
                return self._answers[key]
            answer = self._answers[key] = Answer(now_s)
        try:
            answer.candidates.set_result(self._candidates(wanted))
        except BaseException as error:
            answer.candidates.set_exception(error)
            raise
        return answer

    def _candidates(self, wanted):
        """A Candidate by node UUID; where there is a choice, one that takes nothing shared."""
        candidates: dict[str, Candidate] = {}
        for query in wanted:
            answer = self._placement.allocation_candidates(query)
            roots = {
                uuid: summary['root_provider_uuid']
                for uuid, summary in answer['provider_summaries'].items()
            }
            for document in answer['allocation_requests']:
                candidate = self._candidate(document, roots)
                if candidate is not None:
                    known = candidates.setdefault(candidate.node_uuid, candidate)
                    if known.shared and not candidate.shared:
                        candidates[candidate.node_uuid] = candidate
            if candidates:
                break
        return candidates

    def _candidate(self, document, roots):
        """The Candidate of an allocation request; None if it has no compute node, or takes a
        whole group from a sharing provider, which no claim can express."""
        taken = document['allocations']
        nodes = {roots[uuid] for uuid in taken if self._mirror.host_of(roots[uuid]) is not None}
        if len(nodes) != 1:
            return None
        (node,) = nodes
        sharing = [uuid for uuid in taken if roots[uuid] != node]
        for suffix, providers in document['mappings'].items():
            if suffix and not set(providers).isdisjoint(sharing):
                return None
        shared = collections.Counter()
        for uuid in sharing:
            shared.update(taken[uuid]['resources'])
        return Candidate(node, document, shared)


def _with_candidates(requests, candidates):
    """The requests with the allocation requests of these candidates: of those that share the same
    classes as most of them."""
    if not candidates:
        return requests
    kinds = collections.Counter(frozenset(candidate.shared) for candidate in candidates)
    ((classes, _),) = kinds.most_common(1)
    documents = {
        candidate.node_uuid: json.dumps(candidate.document)
        for candidate in candidates
        if candidate.shared.keys() == classes
    }
    return [
        dataclasses.replace(
            request,
            resources={
                name: units for name, units in request.resources.items() if name not in classes
            },
            allocation_requests=documents,
        )
        for request in requests
    ]


# The query of a request.


def queries(request, in_tree=None, zone=(), is_owned=False):
    """Return the queries of a request, in order: parameters by name. The next one is asked if the
    one before finds nothing.

    ``in_tree`` is the UUID of the only compute node that the caller allows, if there is one.
    ``zone`` are the UUIDs of the aggregates of its availability zone. ``is_owned``: all providers
    of Nova have the trait OWNER_NOVA.
    """
    owner = {OWNER} if is_owned else set()
    request = request.from_nova() if is_owned else request
    wanted = [request.resources]
    if request.fallback_vcpus:
        resources = {name: units for name, units in request.resources.items() if name != PCPU}
        wanted.append({**resources, VCPU: request.fallback_vcpus})
    # In the tree of a node, Placement finds nothing that is shared with it.
    trees = [None] if in_tree is None else [in_tree, None]
    return [
        _query(request, resources, tree, zone, owner) for tree in trees for resources in wanted
    ]


def _query(request, resources, in_tree, zone, owner):
    query = {
        'limit': MAX_CANDIDATES,
        'resources': _amounts(resources.items()),
        'required': _traits(request.required_traits, request.forbidden_traits),
        'root_required': _traits(
            {*request.root_required, *owner}, {*request.root_forbidden, DISABLED_TRAIT}
        ),
        'in_tree': in_tree,
        'member_of': _aggregates(request.destination, zone),
        'same_subtree': [','.join(sorted(suffixes)) for suffixes in request.same_subtree],
        'group_policy': request.group_policy if len(request.groups) > 1 else None,
    }
    for group in request.groups:
        query[f'resources{group.suffix}'] = _amounts(group.resources)
        query[f'required{group.suffix}'] = _traits(group.required, group.forbidden)
        query[f'in_tree{group.suffix}'] = group.in_tree
    return {name: value for name, value in query.items() if value}


def _amounts(amounts):
    return ','.join(f'{name}:{units}' for name, units in sorted(amounts))


def _traits(required, forbidden):
    return ','.join([*sorted(required), *(f'!{trait}' for trait in sorted(forbidden))])


def _aggregates(destination, zone):
    """Placement takes sets of aggregates: the provider is in one of each, and in none of the
    forbidden ones."""
    sets = [*destination.aggregates, zone] if destination else [zone]
    parameters = [f'in:{",".join(sorted(aggregates))}' for aggregates in sets if aggregates]
    if destination and destination.forbidden_aggregates:
        parameters.append(f'!in:{",".join(sorted(destination.forbidden_aggregates))}')
    return parameters
