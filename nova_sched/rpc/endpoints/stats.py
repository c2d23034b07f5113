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
"""The namespace `stats` 1.1: reports of compute nodes, and operators' settings of compute
services."""

import collections
import dataclasses
import math

import oslo_messaging as messaging

from nova_sched import words
from nova_sched.rpc import reports, translate
from nova_sched.rpc.deferred import Deferred, begins
from nova_sched.rpc.failures import expected


class StatsEndpoint:
    target = messaging.Target(namespace='stats', version='1.1')

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
    ):
        """Take the report of one node of host ``name``; ``stats`` is a ComputeNode.

        ``boot`` and ``sequence`` (since 1.1, whole numbers from 1) are the number of the sender's
        start, and of the report since that start. A report that is older than the last accepted
        one changes nothing. Without them, the age is judged by the time when the report was sent,
        and by the ComputeNode's ``updated_at``.

        Returns the accepted facts: the node's generation in the store, the state of each claim on
        it, the unclaimed usage by resource class, and all usage that is counted there; and whether
        the report was ``stale``, with the ``boot`` of the last accepted one. Raises BadReport, and
        changes nothing.
        """
        made = reports.report(stats, name, instances, inventories, cell_uuid)
        order = reports.order(stats, boot, sequence, math.inf)
        told = self._scheduler.begin_report(dataclasses.replace(made, order=order))
        return Deferred(told, lambda: _accepted(told.result()))

    @expected
    def update_service(self, context, name, service):
        """Apply an operator's settings to the compute service of host ``name``, and record its
        last sign of life."""
        self._scheduler.call(
            self._scheduler.state_sync.set_service,
            words.name(name, 'name'),
            *translate.service(service),
        )

    @expected
    def remove_node(self, context, name, nodename):
        """Remove a node of host ``name``, and its claims. Raises NodeNotFound."""
        node = words.name(name, 'name'), words.name(nodename, 'nodename')
        self._scheduler.call(self._scheduler.state_sync.remove_node, *node)


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
