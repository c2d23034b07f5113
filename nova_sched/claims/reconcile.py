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

import dataclasses
from collections.abc import Callable, Mapping
from typing import NamedTuple

from nova_sched.claim import PCPU, VCPU, Claim
from nova_sched.state.report import Report, ReportOrder


class Before(NamedTuple):
    """A node before a report: its ``generation``, and what is known of the report that was applied
    last.

    That one gave the node the generation ``reported_at``. ``listed`` returns the instances that it
    lists; None: it has no list.
    """

    generation: int = 0
    reported_at: int = 0
    order: ReportOrder = ReportOrder()
    listed: Callable[[], frozenset[str] | None] = lambda: None

    def has_seen(self, report, claim):
        """Whether the sender of a report knew, before it looked at its node, of the last change of
        this claim.

        A generation that the node has not reached is of another database, and says nothing.
        """
        seen = report.order.seen
        return seen is not None and claim.changed_at <= seen <= self.generation

    def has_told(self, consumer, claim):
        """Whether the last report lists the consumer, and its claim has not changed since."""
        return claim.changed_at <= self.reported_at and consumer in (self.listed() or ())


NEW_NODE = Before()


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
        if last is None or report.order.is_after(last.order, 0):
            found[report.node_uuid] = report
    return found


def absent(report, claims, before):
    """Consumers that the node had and no longer lists: their claims end, except for open moves.

    Silence counts only if the report was evidently made after the claim last changed: its sender
    had seen that change. Of a sender that does not tell what it has seen, the node's own word
    counts: the report before this one, by their numbers, lists the consumer.
    """
    if report.instances is None:
        return []
    silent = [
        (consumer, claim)
        for consumer, claim in claims.items()
        if claim.is_confirmed and consumer not in report.instances
    ]
    if report.order.seen is not None:
        return [consumer for consumer, claim in silent if before.has_seen(report, claim)]
    if not report.order.is_numbered_after(before.order):
        return []
    return [consumer for consumer, claim in silent if before.has_told(consumer, claim)]


def keeps_source(claim, consumer, node_uuid):
    """Whether a claim keeps alive its consumer's claim on that other node."""
    return claim.keeps_source and claim.consumer_uuid == consumer and claim.node_uuid != node_uuid


def settle(report, claims, moving=frozenset(), now_s=0.0, before=NEW_NODE):
    """Settle the claims (by consumer) of the node that made the report; ``before`` is the node
    before it.

    With a list of instances: a claim whose instance is listed is confirmed, unless the report may
    be older than the claim. A confirmed claim that is evidently no longer listed ends (see
    ``absent``). A claim that the node does not know yet stays as it is. Without a list, no state
    changes, and the confirmed claims explain the usage. The claims in ``moving``, by (consumer,
    node), stay, listed or not. A resize in place that was not settled in time is taken back: the
    report has its real usage.
    """
    gone = {
        consumer
        for consumer in absent(report, claims, before)
        if (consumer, report.node_uuid) not in moving
    }
    kept, explained = {}, []
    for consumer, claim in claims.items():
        if consumer in gone:
            continue
        if claim.resizing and claim.overdue(now_s):
            claim = claim.reverted()
        is_listed = report.instances is not None and consumer in report.instances
        if is_listed and (report.order.seen is None or before.has_seen(report, claim)):
            claim = claim.confirmed()
        if report.instances is not None and not is_listed:
            if claim.counted:  # an open move keeps it, but the node has freed its hardware
                claim = dataclasses.replace(claim, counted=False)
        elif claim.is_confirmed:
            if claim.parts and not claim.counted:
                claim = dataclasses.replace(claim, counted=True)
            explained.append(claim)
        elif is_listed:  # the node has it, although the report may be older than the claim
            explained.append(claim)
        if claim != (was := claims[consumer]):
            has_moved = (claim.state, claim.resizing) != (was.state, was.resizing)
            claim = claim.stamped(
                was, now_s if has_moved else was.changed_s, before.generation + 1
            )
        kept[consumer] = claim
    if report.instances is None:
        strangers = report.num_instances - len(explained)
    else:
        strangers = len(report.instances - claims.keys())
    ended = tuple(claims[consumer] for consumer in claims if consumer in gone)
    return Settled(kept, ended, foreign_use(report, explained), max(0, strangers))


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
