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
"""Compares a node's report with the claims on it: settles claims, and finds what no claim is for.

The usage of a node is the sum of its claims and of its *unclaimed* rows.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple

from nova_sched.claim import PCPU, VCPU, Claim
from nova_sched.claims import nova_node
from nova_sched.claims.values import NAMELESS, Rows, sums
from nova_sched.state.report import Report, ReportOrder


class Before(NamedTuple):
    """A node before a report: its ``generation``, and what is known of the report that was applied
    last.

    That one gave the node the generation ``reported_at``. ``listed`` returns the instances that it
    lists; None: it has no list. ``unclaimed`` are the rows that it left.
    """

    generation: int = 0
    reported_at: int = 0
    order: ReportOrder = ReportOrder()
    listed: Callable[[], frozenset[str] | None] = lambda: None
    unclaimed: Rows = {}

    def has_seen(self, report, claim):
        """Whether the sender of a report knew, before it looked at its node, of the last change of
        this claim.

        A generation that the node has not reached is of another database, and says nothing.
        """
        seen = report.order.seen
        return seen is not None and claim.changed_at <= seen <= self.generation

    def is_newer(self, report, claim):
        """Whether a report was certainly made after the last change of this claim: its sender had
        seen that, or, without such a word, the report before was applied after it."""
        if report.order.seen is None:
            return claim.changed_at <= self.reported_at
        return self.has_seen(report, claim)


NEW_NODE = Before()


class Settled(NamedTuple):
    """``claims`` by consumer as they are after the report; ``ended`` as they were before it.

    ``unclaimed`` and ``foreign_instances``: as in NodeFacts.
    """

    claims: Mapping[str, Claim]
    ended: tuple[Claim, ...]
    unclaimed: Rows
    foreign_instances: int

    @property
    def foreign(self):
        """Unclaimed usage by resource class."""
        return sums(self.unclaimed)

    def changed(self, before):
        """The claims that differ from ``before``."""
        return [claim for consumer, claim in self.claims.items() if claim != before[consumer]]


def newest(reports):
    """node UUID -> the newest of its reports; the last one, if the order is unknown."""
    latest: dict[str, Report] = {}
    for report in reports:
        last = latest.get(report.node_uuid)
        if last is None or report.order.is_after(last.order, 0):
            latest[report.node_uuid] = report
    return latest


def absent(report, claims, before):
    """Consumers that the node had and no longer lists: their claims end, except for open moves.

    Silence counts only if the report was evidently made after the claim last changed: its sender
    had seen that change. Of a sender that does not tell what it has seen, the node's own word
    counts: the report before this one, by their numbers, lists the consumer.
    """
    if report.instances is None or report.nova is not None:
        return []
    silent = [
        consumer
        for consumer, claim in claims.items()
        if claim.is_confirmed
        and consumer not in report.instances
        and before.is_newer(report, claim)
    ]
    if report.order.seen is not None or not silent:
        return silent
    listed = before.listed() if report.order.is_numbered_after(before.order) else None
    return [consumer for consumer in silent if consumer in (listed or ())]


def keeps_source(claim, consumer, node_uuid):
    """Whether a claim keeps alive its consumer's claim on that other node."""
    return claim.keeps_source and claim.consumer_uuid == consumer and claim.node_uuid != node_uuid


def settle(report, claims, moving=frozenset(), now_s=0.0, before=NEW_NODE):
    """Settle the claims (by consumer) of the node that made the report; ``before`` is the node
    before it.

    With a list of instances: a claim whose instance is listed is confirmed, unless the report may
    be older than the claim. A confirmed claim that is evidently no longer listed ends (see
    ``absent``). A claim that the node does not know yet stays as it is. Without a list, no state
    changes. An instance that is listed without amounts has gone, unless its claim has none: it
    confirms no claim, which may be that of its next stay, and uses no hardware. The claims in
    ``moving``, by (consumer, node), stay, listed or not, and so do those that are ``awaited``. A
    resize in place that was not settled in time is taken back if the report tells that the old
    size runs; else both sizes stay: a clock that has jumped tells nothing of the guest.

    For a node of a stock Nova cloud: see ``nova_node``.
    """
    if report.nova is not None:
        return _settle_nova(report, claims, now_s, before)
    gone = {
        consumer
        for consumer in absent(report, claims, before)
        if (consumer, report.node_uuid) not in moving and not claims[consumer].awaited
    }
    users = report.instances  # of hardware
    if report.held is not None:
        users = {consumer for consumer, amounts in report.held.items() if amounts}
    kept, generation = {}, before.generation + 1
    for consumer, was in claims.items():
        if consumer in gone:
            continue
        claim = was
        if claim.is_given_up and _runs_old_size(report, claim, before):
            claim = claim.reverted()
        is_there = users is not None and (
            consumer in users or (consumer in report.instances and not was.resources)
        )
        # The list holds for the claim as it is now if its sender has seen the claim, or does not
        # say what it has seen.
        if is_there and (report.order.seen is None or before.has_seen(report, was)):
            claim = claim.confirmed()
        counted = claim.counted
        if users is not None and consumer not in users:
            counted = False  # an open move keeps it, but the node has freed its hardware
        elif claim.is_confirmed and claim.parts and before.is_newer(report, was):
            counted = True
        if counted != claim.counted:
            claim = dataclasses.replace(claim, counted=counted)
        kept[consumer] = claim if claim == was else claim.stamped(was, now_s, generation)
    ended = tuple(claims[consumer] for consumer in claims if consumer in gone)
    return Settled(kept, ended, *_unclaimed(report, claims, kept, before))


def _runs_old_size(report, claim, before):
    """Whether a report that was made after a resize in place says that the instance has its old
    size."""
    amounts = report.held and report.held.get(claim.consumer_uuid)
    if not (amounts and before.has_seen(report, claim)):
        return False
    old, new = (_counted(report, size) for size in (claim.resizing.old, claim.resizing.new))
    is_old, is_new = (
        all(amount == size.get(name, 0) for name, amount in amounts.items()) for size in (old, new)
    )
    return is_old and not is_new


def _settle_nova(report, claims, now_s, before):
    has_seen = functools.partial(before.has_seen, report)
    settled = nova_node.settle(report.nova, claims, has_seen, before.unclaimed)
    kept, generation = {}, before.generation + 1
    for consumer, claim in settled.claims.items():
        was = claims[consumer]
        kept[consumer] = claim if claim is was else claim.stamped(was, now_s, generation)
    strangers = report.nova.keys() - claims.keys() - {NAMELESS}
    ended = tuple(claims[consumer] for consumer in settled.ended)
    return Settled(kept, ended, settled.unclaimed, len(strangers))


def _unclaimed(report, were, claims, before):
    """The unclaimed rows after a report, and the number of unclaimed instances. ``were`` are the
    claims as they were before the report, ``claims`` after it.

    Where the report tells the amounts of each instance, these are the rows, and nothing is
    subtracted from anything. A claimed instance counts by its claim, and what it holds beyond that
    is unclaimed. Where it tells totals alone, the unclaimed usage is the most that it can be: the
    report may be older than a change of a claim, so it is less only by what the node's claims
    certainly held when it was made.
    """
    if report.held is not None:
        held = {consumer: _counted(report, amounts) for consumer, amounts in report.held.items()}
        more = [
            _less(amounts, _counted(report, claims[consumer].resources))
            for consumer, amounts in held.items()
            if consumer in claims and amounts != claims[consumer].resources
        ]
        rows = {consumer: amounts for consumer, amounts in held.items() if consumer not in claims}
        others = sums([_left(report, held.values()), *more])
        return _with_nameless(rows, others), len(rows)
    if report.instances is None:
        here = [claim for claim in were.values() if claim.is_confirmed]
    else:
        here = [were[consumer] for consumer in claims.keys() & report.instances]
    known = [claim for claim in here if before.is_newer(report, claim)]
    most = _left(report, map(_least, known))
    if report.instances is None:
        return _with_nameless({}, most), max(0, report.num_instances - len(known))
    strangers = report.instances - claims.keys()
    in_doubt = len(known) < len(here) or any(claim.resizing for claim in known)
    if in_doubt and strangers <= before.unclaimed.keys():
        # An instance that no claim is for keeps its size: these hold no more than they did. But
        # the report has what claimed instances may hold beyond their claims.
        least = _left(report, [claims[claim.consumer_uuid].resources for claim in here])
        last = sums(before.unclaimed)
        for name, amount in most.items():
            if least.get(name, 0) <= (kept := last.get(name, 0)) <= amount:
                most[name] = kept
    return _with_nameless({consumer: {} for consumer in strangers}, most), len(strangers)


def _with_nameless(rows, amounts):
    amounts = {name: amount for name, amount in amounts.items() if amount}
    return {**rows, NAMELESS: amounts} if amounts else rows


def _less(amounts, claimed):
    return {name: max(0, amount - claimed.get(name, 0)) for name, amount in amounts.items()}


def _least(claim):
    """The least that a claim's instance uses: a guest that is resized has one of two sizes."""
    if claim.resizing is None:
        return claim.resources
    old, new = claim.resizing.old, claim.resizing.new
    return {name: min(amount, new.get(name, 0)) for name, amount in old.items()}


def _left(report, held):
    """Usage that the node reports in excess of its reserved amounts and of these amounts; never
    negative."""
    known = sums([dict.fromkeys(report.used, 0), *(_counted(report, amounts) for amounts in held)])
    return {
        name: left
        for name, used in report.used.items()
        if (left := used - _reserved(report, name) - known[name]) > 0
    }


def _counted(report, amounts):
    """The amounts as the node counts them: without dedicated CPUs of their own, those are among
    its vCPUs."""
    if PCPU not in amounts or PCPU in report.used:
        return amounts
    among = sums([{VCPU: amounts[PCPU]}, amounts])
    del among[PCPU]
    return among


def _reserved(report, name):
    inventory = report.inventories.get(name)
    return inventory.reserved if inventory else 0
