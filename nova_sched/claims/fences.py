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
"""Fences: which nodes carry whose token, who is behind them, and what a change of claims makes of
both."""

from typing import NamedTuple


class Loose(Exception):
    """Claims with these ``tokens`` end, and too little is known to tell whether they were the
    last."""

    def __init__(self, tokens):
        super().__init__(*sorted(tokens))
        self.tokens = frozenset(tokens)


class Change(NamedTuple):
    """What becomes of fences: ``tenants`` (see Fences), and ``marks``: node UUID -> the tokens it
    carries.

    ``kept`` are nodes that carry what they did and are written all the same. A transaction that
    ends a fence writes all nodes that carry it. On Galera one that goes on with the fence must
    write one of them too, else both may be done on different servers, and the fence has a gap.
    """

    tenants: dict
    marks: dict
    kept: frozenset = frozenset()


NOTHING = Change({}, {})


class Fences:
    """The fences on some nodes, as claims come and go there.

    The nodes' ``usages`` have the tokens that each carries. Every claim with a token is on a node
    that carries it: whoever knows all of these nodes, and the claims there, knows whether it was
    the last one. ``nodes`` are all that one of ``tokens`` is on, or that a new fence is about;
    ``tenants`` are all claims there: (consumer, node UUID, tokens).
    """

    def __init__(self, usages, nodes=(), tenants=(), tokens=()):
        self.changed = set()  # nodes whose tokens are not what they were
        self._put: dict = {}  # token -> the Fence that was to be put up, or spread
        self._usages, self._tokens = usages, frozenset(tokens)
        self._tenants: dict = {node: {} for node in nodes}  # node -> consumer -> its tokens
        for consumer, node, its in tenants:
            self._tenants[node][consumer] = frozenset(its)

    def after(self, changes, put=()):
        """What it comes to if claims change, and the fences ``put`` are put up.

        ``changes`` are (consumer, node) -> claim before, claim after. None if a claim would be
        outside of the fences of its node, or an outsider behind one that is put up. Raises Loose.
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
        """What it comes to if the nodes of a fence carry its token too, whoever is there; it must
        be one of ours. Of a domain that is known, nodes outside of it lose the token if no claim
        there has it."""
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
        """What it comes to if those of our tokens end that no claim has."""
        return Change(self._tenants, self._without(self._tokens - _tokens(self._tenants)))

    def adopt(self, change):
        """Make it so."""
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
    def standing(self):
        """Those of the fences that were to be put up which stand, by token, and whose domain is
        known."""
        alive = self._alive() if self._put else ()
        return {
            token: one
            for token, one in self._put.items()
            if one.domain is not None and token in alive
        }

    @property
    def ended(self):
        """Those of our tokens that no node carries any more."""
        return self._tokens - self._alive() if self._tokens else self._tokens

    def _alive(self):
        return {token for usage in self._usages.values() for token in usage.fences}

    def _concerned(self, changes):
        """Whether any of the claims or nodes has to do with fences. Hardly any has, so this is
        quick."""
        for (_, node), (old, new) in changes.items():
            if (old is not None and old.fences) or (new is not None and new.fences):
                return True
            if node in self._usages and self._usages[node].fences:
                return True
        return False

    def _loose(self, changes):
        """Tokens that claims had which end, or stay without them. Raises Loose for one that is not
        known."""
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
        """node UUID -> the tokens that it carries when these end, where that is a difference."""
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
        """Whether each claim that comes to a node, or is behind others than before, is behind the
        node's."""
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
