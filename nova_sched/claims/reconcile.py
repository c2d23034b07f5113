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
"""Compares a node's report with the claims on it: settles claims and computes unclaimed usage."""

import collections
import dataclasses
import math
from collections.abc import Mapping
from typing import NamedTuple

from nova_sched.claim import PCPU, VCPU, Claim
from nova_sched.claims import nova_node
from nova_sched.state.report import Report


class Settled(NamedTuple):
    """``claims`` by consumer as they are after the report; ``ended`` as they were before it.

    ``foreign`` is usage by resource class.
    """

    claims: Mapping[str, Claim]
    ended: tuple[Claim, ...]
    foreign: Mapping[str, int]
    foreign_instances: int

    def changed(self, before):
        """The claims that differ from ``before``."""
        return [claim for consumer, claim in self.claims.items() if claim != before[consumer]]


def newest(reports):
    """node UUID -> the newest of its reports; the last one, if the order is unknown."""
    found: dict[str, Report] = {}
    for report in reports:
        last = found.get(report.node_uuid)
        if last is None or report.order.is_after(last.order, math.inf):
            found[report.node_uuid] = report
    return found


def absent(report, claims):
    """Consumers that the node had and no longer lists: their claims end, except for open moves.

    The first report after a caller has confirmed a claim may be older than the confirmation, and
    ends nothing. Nor does a report that may have been sent before the claim last changed.
    """
    if report.instances is None or report.nova is not None:
        return []
    return [
        consumer
        for consumer, claim in claims.items()
        if claim.is_confirmed
        and not claim.unseen
        and consumer not in report.instances
        and claim.changed_s <= report.order.since_s
    ]


def keeps_source(claim, consumer, node_uuid):
    """Whether a claim keeps alive its consumer's claim on that other node."""
    return claim.keeps_source and claim.consumer_uuid == consumer and claim.node_uuid != node_uuid


def settle(report, claims, moving=frozenset(), now_s=0.0):
    """Settle the claims (by consumer) of the node that made the report.

    With a list of instances: a claim whose instance is listed is confirmed. A confirmed claim that
    is no longer listed ends. A claim that the node does not know yet stays as it is. Without a
    list, no state changes, and the confirmed claims explain the usage. The claims in ``moving``,
    by (consumer, node), stay, listed or not. A resize in place that was not settled in time is
    taken back: the report has its real usage.

    For a node of a stock Nova cloud: see ``nova_node``.
    """
    if report.nova is not None:
        return _settle_nova(report, claims, now_s)
    gone = {
        consumer
        for consumer in absent(report, claims)
        if (consumer, report.node_uuid) not in moving
    }
    kept, explained = {}, []
    for consumer, claim in claims.items():
        if consumer in gone:
            continue
        if claim.resizing and claim.overdue(now_s):
            claim = claim.reverted()
        if report.instances is not None and consumer in report.instances:
            claim = claim.confirmed()
        if report.instances is not None and claim.unseen:
            claim = dataclasses.replace(claim, unseen=False)
        if report.instances is not None and consumer not in report.instances:
            if claim.counted:  # an open move keeps it, but the node has freed its hardware
                claim = dataclasses.replace(claim, counted=False)
        elif claim.is_confirmed:
            if claim.parts and not claim.counted:
                claim = dataclasses.replace(claim, counted=True)
            explained.append(claim)
        before = claims[consumer]
        if (claim.state, claim.resizing) != (before.state, before.resizing):
            claim = claim.stamped(before, now_s)
        kept[consumer] = claim
    if report.instances is None:
        strangers = report.num_instances - len(explained)
    else:
        strangers = len(report.instances - claims.keys())
    ended = tuple(claims[consumer] for consumer in claims if consumer in gone)
    return Settled(kept, ended, foreign_use(report, explained), max(0, strangers))


def _settle_nova(report, claims, now_s):
    found = nova_node.settle(report.nova, claims, report.order.covers, now_s)
    kept = {}
    for consumer, claim in found.claims.items():
        before = claims[consumer]
        kept[consumer] = claim if claim is before else claim.stamped(before, now_s)
    foreign: collections.Counter = collections.Counter()
    for amounts in found.unclaimed.values():
        foreign.update(amounts)
    strangers = report.nova.keys() - claims.keys() - {nova_node.NAMELESS}
    ended = tuple(claims[consumer] for consumer in found.ended)
    return Settled(kept, ended, dict(foreign), len(strangers))


def foreign_use(report, explained):
    """Usage that the node reports in excess of its reserved amounts and of these claims; never
    negative."""
    claimed = dict.fromkeys(report.used, 0)
    for claim in explained:
        for name, amount in claim.resources.items():
            # A node that does not count dedicated CPUs separately counts them among its vCPUs.
            counted = VCPU if name == PCPU and PCPU not in report.used else name
            claimed[counted] = claimed.get(counted, 0) + amount
    return {
        name: left
        for name, used in report.used.items()
        if (left := used - _reserved(report, name) - claimed[name]) > 0
    }


def _reserved(report, name):
    inventory = report.inventories.get(name)
    return inventory.reserved if inventory else 0
