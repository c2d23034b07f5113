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
"""Answers to decided orders: the Selections, the log line, the figures and the decision record."""

import dataclasses
import functools
import itertools
import json
import logging
import time
from collections.abc import Mapping
from typing import Any

from nova_sched import errors
from nova_sched.engine import measuring
from nova_sched.engine.decide import best, survivors, weigh
from nova_sched.engine.explain import reasons
from nova_sched.engine.explain.decision_log import PLACED, REFUSED, pass_on
from nova_sched.hardware import Overdrawn
from nova_sched.measures.catalogue import MEASURES, RECORDS_SKIPPED
from nova_sched.state.host_aggregate import zones

LOG = logging.getLogger(__name__)

# The version of Placement's API whose form an allocation request has.
ALLOCATION_VERSION = '1.36'
LOST = 'lost'  # an outcome beside PLACED and REFUSED


class Answers:
    """Answers the callers of decided orders, and records the decisions. Runs in the loop only."""

    def __init__(self, context):
        self._context = context

    def placed(self, message, decision, answer, settings):
        """Answer an order with the hosts of its instances: for each a list of Selected."""
        self._context.figures.placed += len(decision.rows)
        message.answer(answer)
        # The caller does not wait for the log and the record.
        hosts = dict.fromkeys(chosen[0].host for chosen in answer)
        what = 'chose ' + ', '.join(hosts)
        details = functools.partial(reasons.placement, decision, answer)
        self._record(
            message,
            PLACED,
            decision.steps,
            what,
            details if decision.noted else None,
            settings,
            len(decision.rows),
        )
        for claim in decision.superseded if decision.replaced else ():
            LOG.info(
                'Request %s has replaced claim %s of request %s for instance %s',
                message.work.request_id,
                claim.uuid,
                claim.request_id,
                claim.consumer_uuid,
                extra={'context': message.work.context},
            )

    def refused(self, message, error, settings):
        """Answer an order that found no host (NoValidHost)."""
        self._context.figures.refused += 1
        message.fail(error)
        details, what = error.details, error.reason
        if details is None:
            size = len(self._context.cluster)
            details = reasons.bare(error.reason, size, len(message.work.requests))
        else:
            what = reasons.in_short(details)
        details = {**details, 'for_tenants': error.for_tenants}
        self._record(message, REFUSED, error.steps, what, lambda: details, settings)

    def lost(self, message, decision, settings):
        """Answer an order whose hosts other requests claimed first, each time."""
        self._context.figures.refused += 1
        error = errors.TooManyConflicts(message.attempts + 1)
        message.fail(error)
        what = 'another request claimed each host first'
        details = functools.partial(reasons.conflict, decision, error.reason)
        self._record(message, LOST, decision.steps, what, details, settings)

    def _record(self, message, outcome, steps, what, details, settings, instances=0):
        """Log one line for a decision, tell the listeners, and pass on its record: ``details()``
        returns what the record has of the outcome, None if it is not kept."""
        order, took_s = message.work, time.monotonic() - message.since_s
        self._context.figures.answered_s.append(took_s)
        for tell in self._context.seams.answered:
            tell(order, outcome)
        if MEASURES.is_on:
            measuring.answered(outcome, steps, took_s, instances)
        LOG.info(
            'Decided %s: %d instances, first %s; hosts %d -> %d, %s; attempt %d, %.1f ms',
            order.request_id or '-',
            len(order.requests),
            order.requests[0].instance_uuid,
            len(self._context.cluster),
            steps[-1].left if steps else 0,
            what,
            message.attempts + 1,
            took_s * 1000,
            extra={'context': order.context},
        )
        if details is not None:
            effort = {'attempts': message.attempts + 1, 'took_ms': round(took_s * 1000, 3)}
            kind = PLACED if outcome == PLACED else REFUSED
            pass_on(self._context, settings, order, kind, lambda: {**details(), **effort})
        elif MEASURES.is_on:
            RECORDS_SKIPPED.add()


@dataclasses.dataclass(frozen=True, slots=True)
class Selected:
    """One host for one instance, with the data for its claim; ``allocation_request`` is JSON
    text."""

    node_uuid: str
    host: str
    nodename: str
    cell_uuid: str | None
    availability_zone: str | None
    allocation_request: str
    allocation_version: str | None
    limits: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def selections(placer, decision, settings, want_alternates):
    """A list of Selected for each instance: the chosen host, then alternates or the ranked hosts.

    They are plain values: rows may change later.
    """
    hosts, answer = placer.cluster.hosts, []
    beside = decision.ranked or [()] * len(decision.rows)
    if want_alternates and len(decision.rows) > 1:
        beside = _rank_again(placer, decision, settings.alternates)
    # What a request added to its row; None: it only checks.
    consumptions = decision.consumptions or [None] * len(decision.rows)
    for chosen, rest, request, consumption in zip(
        decision.rows, beside, decision.requests, consumptions, strict=True
    ):
        plain = None if consumption is None else json.dumps(request.resources)
        # Whether the amounts that a claim takes depend on the node, and not on the request alone.
        varies = consumption is not None and (
            bool(request.groups or request.fallback_vcpus)
            or not hosts.child_classes.isdisjoint(request.resources)
        )
        described = []
        for row in (chosen, *rest):
            resources, allotted = plain, ()
            if varies:
                try:
                    resources, allotted = _taken(
                        hosts, row, request, consumption if row == chosen else None
                    )
                except Overdrawn:
                    continue  # another request has taken this alternate
            limits = _limits(placer, row, request) if request.pieces else None
            described.append(
                select(hosts, row, request, settings.default_zone, resources, limits, allotted)
            )
        answer.append(described)
    return answer


def _rank_again(placer, decision, count):
    """For each chosen row the ``count`` best rows of its cell that can take one more instance of
    the last request, and were not chosen."""
    cells, taken = placer.cluster.hosts.cell, set(decision.rows)
    rank = functools.cache(functools.partial(_ranking, placer, decision, count + len(taken)))
    return [
        list(itertools.islice((row for row in rank(cells[chosen]) if row not in taken), count))
        for chosen in decision.rows
    ]


def _ranking(placer, decision, count, cell):
    """The ``count`` best rows of a cell for one more instance, best first; fewer if there are no
    more."""
    hosts = placer.cluster.hosts
    kind = decision.kind and decision.kind.kind
    if kind and kind.catch_up():
        kind.weights.follow(decision.requests[-1])
        rows, weights = kind.weights.top(count, hosts.cell == cell)
    else:
        request = placer.grouped(decision.requests[-1], decision.instances)
        rows = survivors(placer.rules, hosts, request).rows()
        weights = weigh(placer.rules.weighers, hosts, rows, request)
    in_cell = hosts.cell[rows] == cell
    rows, weights = rows[in_cell], weights[in_cell]
    return rows[best(weights, count)].tolist()


def _taken(hosts, row, request, consumption):
    """The amounts of the node (JSON text) and the allocations of its providers: those of the
    consumption, or those of a claim on an alternate."""
    if consumption is None:
        resources, allotted = hosts.nodes[row].demand(request)
    else:
        parts = consumption.claim.parts
        resources, allotted = consumption.claim.resources, parts.providers if parts else ()
    return json.dumps(dict(resources)), allotted


def _limits(placer, row, request):
    """Limits of the evaluated filters that the compute node has to check again."""
    return {
        name: limit
        for rule in (() if request.forced else placer.rules.filters)
        for name, limit in rule.limits(placer.cluster.hosts, request, row).items()
    }


def select(hosts, row, request, default_zone, resources=None, limits=None, allotted=()):
    """Describe a row as the answer to a request. Returns a Selected.

    ``resources`` are the amounts claimed of the node itself, as JSON text; None for a request that
    only checks. ``allotted`` are the allocations of its providers, by request group.
    """
    node = hosts.nodes[row]
    wanted = request.destination.cell_uuid if request.destination else None
    return Selected(
        node_uuid=node.uuid,
        host=node.host,
        nodename=node.nodename,
        cell_uuid=node.cell_uuid or wanted,
        availability_zone=','.join(sorted(zones(hosts.aggregates.of(node.host)))) or default_zone,
        allocation_request='null'
        if resources is None
        else request.allocation_requests.get(node.uuid)
        or allocation_request(node.uuid, resources, allotted),
        allocation_version=None if resources is None else ALLOCATION_VERSION,
        limits=limits or {},
    )


def allocation_request(node_uuid, resources, allotted=()):
    """An allocation request of Placement, as JSON text.

    Plain requests, thousands in a second, take everything from the node's own provider.
    """
    root = json.dumps(node_uuid)
    if not allotted:
        return (
            f'{{"allocations": {{{root}: {{"resources": {resources}}}}}, '
            f'"mappings": {{"": [{root}]}}}}'
        )
    amounts = {node_uuid: json.loads(resources)}
    mappings = {'': [node_uuid]}
    for provider in allotted:
        # ``resources`` includes the amounts that groups get from the node itself.
        if provider.provider_uuid != node_uuid:
            sums = amounts.setdefault(provider.provider_uuid, {})
            for name, units in provider.resources.items():
                sums[name] = sums.get(name, 0) + units
        of_group = mappings.setdefault(provider.suffix, [])
        if provider.provider_uuid not in of_group:
            of_group.append(provider.provider_uuid)
    allocations = {uuid: {'resources': units} for uuid, units in amounts.items() if units}
    return json.dumps({'allocations': allocations, 'mappings': mappings})
