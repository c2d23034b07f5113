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
"""Exclusive domains: which nodes carry which token, which claims have it, and what changes both.

A domain is closed by the placement of a group, and it grows and shrinks as nodes join and leave
it. It ends with a placement of its group, or when ``swept``. A claim that ends leaves it alone.
"""

import dataclasses
from typing import NamedTuple

from nova_sched.claims.judge import enters


class Change(NamedTuple):
    """A change of exclusive domains: ``tenants`` (see ExclusiveDomains), and ``marks``: node UUID
    -> its tokens."""

    tenants: dict
    marks: dict


class ExclusiveDomains:
    """The exclusive domains on some nodes, as the placements of a batch change them.

    The nodes' ``usages`` have the tokens that each carries. ``ending`` are tokens that end when no
    claim has them. ``tenants`` (node UUID -> consumer -> tokens of its claim) covers all nodes
    that carry one of these, and all nodes of the domains that placements close.
    """

    def __init__(self, usages, tenants=None, ending=frozenset()):
        self.changed = set()  # nodes whose tokens have changed
        self._closed: dict = {}  # token -> the ClosedDomain that was to be closed or spread
        self._usages, self._ending = usages, ending
        self._tenants: dict = {} if tenants is None else tenants

    def after(self, changes, put=()):
        """Return the Change if claims change and the exclusive domains ``put`` are closed.

        ``changes`` are (consumer, node) -> claim before, claim after. Returns None if a claim
        would not have the tokens of its node, or if a domain in ``put`` would contain an outsider.
        """
        tenants, marks = self._tenants, {}
        if tenants:
            tenants = self._follow(changes)
            borne = _tokens(tenants)
            marks = self._without(self._ending - borne)
            for closed in put:
                self._closed[closed.token] = closed
                for node in closed.nodes & self._usages.keys() if closed.token in borne else ():
                    if self._usages[node].foreign_instances or any(
                        closed.token not in tokens for tokens in tenants[node].values()
                    ):
                        return None
                    marks[node] = marks.get(node, self._usages[node].fences) | {closed.token}
        return Change(tenants, marks) if enters(changes, self._usages, marks) else None

    def spread(self, closed):
        """Return the Change if all nodes of an exclusive domain carry its token, whichever claims
        are on them.

        The token must be one of ``ending``. If the domain is known, nodes outside of it lose the
        token unless a claim there has it.
        """
        token, marks = closed.token, {}
        if token in _tokens(self._tenants):
            self._closed[token] = closed
            for node, usage in sorted(self._usages.items()):
                if node in closed.nodes:
                    marks[node] = usage.fences | {token}
                elif closed.domain is not None and not any(
                    token in tokens for tokens in self._tenants.get(node, {}).values()
                ):
                    marks[node] = usage.fences - {token}
        return Change(self._tenants, marks)

    def swept(self):
        """Return the Change that ends those of ``ending`` that no claim has."""
        return Change(self._tenants, self._without(self._ending - _tokens(self._tenants)))

    def growth(self, change):
        """How many more exclusive domains there are after the change."""
        before, after = self._alive(), set()
        for node, usage in self._usages.items():
            after |= change.marks.get(node, usage.fences)
        return len(after) - len(before)

    def adopt(self, change):
        """Apply the change."""
        self._tenants = change.tenants
        for node, tokens in change.marks.items():
            usage = self._usages[node]
            if usage.fences != tokens:
                usage.fences, usage.changed = tokens, True
                self.changed.add(node)

    @property
    def closed(self):
        """The exclusive domains that were to be closed and are, by token, if their domain is
        known."""
        alive = self._alive() if self._closed else ()
        return {
            token: closed
            for token, closed in self._closed.items()
            if closed.domain is not None and token in alive
        }

    @property
    def ended(self):
        """Those of ``ending`` that no node carries any more."""
        return self._ending - self._alive() if self._ending else self._ending

    def _alive(self):
        return {token for usage in self._usages.values() for token in usage.fences}

    def _follow(self, changes):
        """The tenants after changes."""
        tenants = dict(self._tenants)
        for (consumer, node), (_, new) in changes.items():
            if node in tenants:
                others = {
                    tenant: tokens
                    for tenant, tokens in tenants[node].items()
                    if tenant != consumer
                }
                tenants[node] = (
                    others if new is None else others | {consumer: frozenset(new.fences)}
                )
        return tenants

    def _without(self, tokens):
        """node UUID -> its tokens after these end; only nodes for which that is a difference."""
        return {
            node: usage.fences - tokens
            for node, usage in self._usages.items()
            if not usage.fences.isdisjoint(tokens)
        }


def _tokens(tenants):
    return {
        token
        for by_consumer in tenants.values()
        for tokens in by_consumer.values()
        for token in tokens
    }


def dropped(placements, claims):
    """Tokens that the placements of groups take from these claims: those of the claims that they
    change or end, and that none of their claims has."""
    guarded = [placement for placement in placements if placement.guard]
    consumers = {claim.consumer_uuid for placement in guarded for claim in placement.claims}
    consumers |= {consumer for placement in guarded for consumer, _ in placement.releases}
    before = {
        token for claim in claims if claim.consumer_uuid in consumers for token in claim.fences
    }
    return frozenset(before) - {
        token for placement in guarded for claim in placement.claims for token in claim.fences
    }


# The nodes of a domain.


def carried(tokens, domains, known, borne):
    """The tokens that a node carries now; it carried ``tokens`` before.

    ``domains`` has the name of its domain by level, ``known`` the exclusive Domains by token.
    ``borne`` are the tokens of the claims on the node. A token of an unknown domain stays, and so
    does a token of a claim.
    """
    here = {token for token, domain in known.items() if domains.get(domain.level) == domain.name}
    return frozenset((tokens - (known.keys() - borne)) | here)


def moved_hosts(before, after):
    """Hosts that may be in other domains after a change of one aggregate; either may be None."""
    old, new = (aggregate.hosts if aggregate else frozenset() for aggregate in (before, after))
    if before and after and before.metadata == after.metadata:
        return old ^ new
    return old | new


def filled(placements, nodes_of):
    """The placements, with all nodes of the domains that they close; ``nodes_of`` returns those of
    a ClosedDomain."""
    whole = []
    for placement in placements:
        if put(placement):
            domains = tuple(
                dataclasses.replace(closed, nodes=nodes_of(closed)) for closed in put(placement)
            )
            guard = dataclasses.replace(placement.guard, closed_domains=domains)
            placement = dataclasses.replace(placement, guard=guard)
        whole.append(placement)
    return whole


def put(placement):
    """The exclusive domains that a placement closes."""
    return placement.guard.closed_domains if placement.guard else ()
