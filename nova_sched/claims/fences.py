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
"""Exclusive domains: which nodes carry which token, which claims have it, and how a change of
claims changes both."""

from typing import NamedTuple


class Loose(Exception):
    """Claims with these ``tokens`` end, and it is not known whether they were the last ones."""

    def __init__(self, tokens):
        super().__init__(*sorted(tokens))
        self.tokens = frozenset(tokens)


class Change(NamedTuple):
    """A change of exclusive domains: ``tenants`` (see Fences), and ``marks``: node UUID -> its
    tokens.

    ``kept`` are nodes whose tokens do not change but that are written all the same. A transaction
    that ends an exclusive domain writes all nodes that carry its token. On Galera, a transaction
    that continues the domain must write one of them too. Otherwise both may commit on different
    servers, and some nodes of the domain lack the token.
    """

    tenants: dict
    marks: dict
    kept: frozenset = frozenset()


NOTHING = Change({}, {})


class Fences:
    """The exclusive domains on some nodes, as claims start and end there.

    The nodes' ``usages`` have the tokens that each carries. Every claim with a token is on a node
    that carries it. So all of these nodes with their claims are enough to find out whether a claim
    was the last one. ``nodes`` are all nodes that carry one of ``tokens``, or that a new exclusive
    domain contains. ``tenants`` are all claims there: (consumer, node UUID, tokens).
    """

    def __init__(self, usages, nodes=(), tenants=(), tokens=()):
        self.changed = set()  # nodes whose tokens have changed
        self._put: dict = {}  # token -> the Fence that was to be closed or spread
        self._usages, self._tokens = usages, frozenset(tokens)
        self._tenants: dict = {node: {} for node in nodes}  # node -> consumer -> its tokens
        for consumer, node, its in tenants:
            self._tenants[node][consumer] = frozenset(its)

    def after(self, changes, put=()):
        """Returns the Change if claims change and the exclusive domains ``put`` are closed.

        ``changes`` are (consumer, node) -> claim before, claim after. Returns None if a claim
        would not have the tokens of its node, or if a domain in ``put`` would contain an outsider.
        Raises Loose.
        """
        if not (put or self._tenants or self._concerned(changes)):
            return NOTHING
        loose = self._loose(changes)
        tenants = self._follow(changes)
        borne = _tokens(tenants)
        marks = self._without(loose - borne)
        self._put |= {fence.token: fence for fence in put}
        for fence in put:
            for node in fence.nodes & self._usages.keys() if fence.token in borne else ():
                if self._has_outsiders(tenants, node, fence.token):
                    return None
                marks[node] = marks.get(node, self._usages[node].fences) | {fence.token}
        kept = self._kept({fence.token for fence in put}, {node for _, node in changes})
        return Change(tenants, marks, kept) if self._enters(changes, marks) else None

    def spread(self, fence):
        """Returns the Change if all nodes of an exclusive domain carry its token, whichever claims
        are on them.

        The token must be one of ``tokens``. If the domain is known, nodes outside of it lose the
        token unless a claim there has it.
        """
        token = fence.token
        if token not in _tokens(self._tenants):
            return NOTHING
        self._put[token] = fence
        marks = {
            node: self._usages[node].fences | {token} for node in self._usages.keys() & fence.nodes
        }
        if fence.domain is not None:
            marks |= {
                node: usage.fences - {token}
                for node, usage in self._usages.items()
                if node not in fence.nodes
                and token not in _tokens({node: self._tenants.get(node, {})})
            }
        kept = self._kept({token}) if marks else frozenset()
        return Change(self._tenants, dict(sorted(marks.items())), kept)

    def swept(self):
        """Returns the Change that ends those of ``tokens`` that no claim has."""
        return Change(self._tenants, self._without(self._tokens - _tokens(self._tenants)))

    def adopt(self, change):
        """Apply the change."""
        self._tenants = change.tenants
        for node, tokens in change.marks.items():
            usage = self._usages[node]
            if usage.fences != tokens:
                usage.fences, usage.changed = tokens, True
                self.changed.add(node)
        for node in change.kept:
            self._usages[node].changed = True

    def _kept(self, tokens, written=frozenset()):
        """For each token a node that carries it, unless one of those is ``written`` anyway."""
        carriers = [
            {node for node, one in self._usages.items() if token in one.fences} for token in tokens
        ]
        return frozenset(min(nodes) for nodes in carriers if nodes and nodes.isdisjoint(written))

    @property
    def has_tokens(self):
        """Whether domains of the transaction were to be closed, or may end."""
        return bool(self._put or self._tokens)

    @property
    def standing(self):
        """The exclusive domains that were to be closed and are, by token, if their domain is
        known."""
        alive = self._alive() if self._put else ()
        return {
            token: one
            for token, one in self._put.items()
            if one.domain is not None and token in alive
        }

    @property
    def ended(self):
        """Those of ``tokens`` that no node carries any more."""
        return self._tokens - self._alive() if self._tokens else self._tokens

    def _alive(self):
        return {token for usage in self._usages.values() for token in usage.fences}

    def _concerned(self, changes):
        """Whether any of the claims or nodes has a token. Hardly any has, so this check is
        quick."""
        for (_, node), (old, new) in changes.items():
            if (old is not None and old.fences) or (new is not None and new.fences):
                return True
            if node in self._usages and self._usages[node].fences:
                return True
        return False

    def _loose(self, changes):
        """Tokens of claims that end, or that stay without them. Raises Loose for an unknown
        token."""
        found = {token for old, new in changes.values() if old is not None and old.fences
                 for token in old.fences if new is None or token not in new.fences}  # fmt: skip
        if found:
            found -= {
                token for _, new in changes.values() if new is not None for token in new.fences
            }
        if not found <= self._tokens:
            raise Loose(found)
        return found

    def _follow(self, changes):
        """The tenants after changes."""
        made = dict(self._tenants)
        for (consumer, node), (_, new) in changes.items():
            if node in made:
                mine = {one: tokens for one, tokens in made[node].items() if one != consumer}
                made[node] = mine if new is None else mine | {consumer: frozenset(new.fences)}
        return made

    def _without(self, tokens):
        """node UUID -> its tokens after these end; only nodes for which that is a difference."""
        marked = {
            node: usage.fences for node, usage in self._usages.items() if usage.fences & tokens
        }
        return {node: carries - tokens for node, carries in marked.items()}

    def _has_outsiders(self, tenants, node, token):
        there = tenants[node].values()
        return bool(self._usages[node].foreign_instances) or any(
            token not in tokens for tokens in there
        )

    def _enters(self, changes, marks):
        """Whether each claim that enters a node, or changes its tokens, has exactly the node's
        tokens."""
        for (_, node), (old, new) in changes.items():
            if (
                new is None
                or (old is not None and old.fences == new.fences)
                or node not in self._usages
            ):
                continue
            carries = marks.get(node, self._usages[node].fences)
            if (carries or new.fences) and carries != frozenset(new.fences):
                return False
        return True


def _tokens(tenants):
    return {token for mine in tenants.values() for tokens in mine.values() for token in tokens}
