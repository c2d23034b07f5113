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
"""The namespace `stats`: reports of compute nodes, and operators' settings of compute
services."""

import collections
import dataclasses

import oslo_messaging as messaging

from nova_sched import words
from nova_sched.engine.loop import Deferred
from nova_sched.rpc import reports, translate
from nova_sched.rpc.messages import begins, expected
from nova_sched.state.report import MAX_AMOUNT

VERSION = '1.2'


class StatsEndpoint:
    target = messaging.Target(namespace='stats', version=VERSION)

    def __init__(self, scheduler):
        self._scheduler = scheduler

    @expected
    @begins
    def update_resource_stats(
        self,
        context,
        name,
        stats,
        instances=None,
        inventories=None,
        cell_uuid=None,
        boot=None,
        sequence=None,
        seen=None,
    ):
        """Take the report of one node of host ``name``; ``stats`` is a ComputeNode.

        ``instances`` are the UUIDs of all instances on it, or (since 1.2) a mapping of UUIDs to
        the amounts that each holds, by resource class. None: the report has no list. ``seen``
        (since 1.2) is the node's generation in the last answer that the sender had before it
        looked at the node; 0 without one. A claim that has changed since is neither confirmed nor
        ended by the list. ``boot`` and ``sequence`` (since 1.1, whole numbers from 1) are the
        number of the sender's start, and of the report since that start. A report that is older
        than the last accepted one changes nothing. Nor does one of another UUID than the known
        node of that host and name, until it is of a later start and has seen that node.

        Returns the accepted facts: the node's generation in the store, the state of each claim on
        it, the unclaimed usage by resource class, and all usage that is counted there; whether the
        report was ``stale``, with the ``boot`` of the last accepted one; and ``version``, the
        version of this namespace that the next report may use. A sender whose report was stale
        looks again, and repeats it with that generation as ``seen``. Raises BadReport, and changes
        nothing.
        """
        report = reports.report(stats, name, instances, inventories, cell_uuid)
        order = reports.order(seen, boot, sequence)
        outcome = self._scheduler.begin_report(dataclasses.replace(report, order=order))
        return Deferred(outcome, lambda: _accepted(outcome.result()))

    @expected
    def update_service(self, context, name, service):
        """Apply an operator's settings to the compute service of host ``name``, and record its
        last heartbeat."""
        self._scheduler.call(
            self._scheduler.state_sync.set_service,
            words.name(name, 'name'),
            *translate.service(service),
        )

    @expected
    def remove_node(self, context, name, nodename, generation=None):
        """Remove a node of host ``name``, and its claims. Raises NodeNotFound.

        ``generation`` (since 1.2) is one that the caller has seen of the node. Raises Outdated if
        the node has reported or got claims since; and without it, if it has confirmed claims.
        """
        if generation is not None:
            words.number(generation, 'generation', MAX_AMOUNT, least=0)
        node = words.name(name, 'name'), words.name(nodename, 'nodename')
        self._scheduler.call(self._scheduler.state_sync.remove_node, *node, generation)


def _accepted(facts):
    """What ``update_resource_stats`` returns."""
    return {
        'node': facts.report.node_uuid,
        'generation': facts.generation,
        'claims': {claim.consumer_uuid: claim.state for claim in facts.claims},
        'foreign': dict(facts.foreign),
        'counted': _counted(facts),
        'stale': facts.stale,
        'boot': facts.report.order.boot,
        'version': VERSION,
    }


def _counted(facts):
    """The scheduler's record of a node: ``capacity`` and ``used`` by resource class, and ``sizes``
    of claims.

    Claims of one size are listed together, because a node has hundreds of instances of few sizes.
    """
    used, sizes = collections.Counter(facts.foreign), collections.defaultdict(list)
    for claim in facts.claims:
        used.update(claim.resources)
        sizes[tuple(sorted(claim.resources.items()))].append(claim.consumer_uuid)
    return {
        'capacity': {
            name: inventory.capacity for name, inventory in facts.report.inventories.items()
        },
        'used': dict(used),
        'sizes': [{'resources': dict(size), 'instances': uuids} for size, uuids in sizes.items()],
    }
