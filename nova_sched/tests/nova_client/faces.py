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
"""What a rule answers: Nova's about its host states, ours about the same states and about all
columns."""

import dataclasses
import math

import numpy as np
from nova.scheduler import filters, weights

from nova_sched.rpc import translate
from nova_sched.tests import rules
from nova_sched.tests.nova_client import listed
from nova_sched.tests.nova_client.worlds import across

NOVA_FILTERS = {one.__name__: one for one in filters.all_filters()}
NOVA_WEIGHERS = {one.__name__: one for one in weights.all_weighers()}


@dataclasses.dataclass(frozen=True)
class Raised:
    """An answer that never came."""

    error: Exception

    def __str__(self):
        return f'{type(self.error).__name__}: {self.error}'


def ask(question, *args):
    """The answer, or what was raised instead."""
    try:
        return question(*args)
    except Exception as error:  # noqa: BLE001 - which inputs a rule raises on, and what, is what is compared
        return Raised(error)


def request_of(spec):
    """The Request that our door makes of Nova's RequestSpec."""
    return translate.requests(across(spec.obj_to_primitive()), [spec.instance_uuid])[0]


class FilterFaces:
    """One filter of each side."""

    def __init__(self, name):
        self.theirs, self.ours = NOVA_FILTERS[name](), rules.FILTERS[name]()
        self._kept = {}

    def nova(self, world, spec):
        """Nova's verdict on each host."""
        return self._one_by_one(self.theirs, world, spec)

    def nova_of(self, state, spec):
        """Nova's verdict on one host state."""
        return ask(self.theirs._filter_one, state, spec)

    def claimed(self, state, spec):
        """True for a host that Nova lets pass, or what it raises when it claims for the
        request there."""
        claim = listed.NEXT.get(type(self.theirs).__name__)
        found = ask(claim, state, spec) if claim else None
        return found if isinstance(found, Raised) else True

    def scalar(self, world, spec):
        """Ours on the same host states."""
        return self._one_by_one(self.ours, world, spec)

    @staticmethod
    def _one_by_one(rule, world, spec):
        world.forget()
        return [ask(rule._filter_one, state, spec) for state in world.states]

    def columns(self, world, spec):
        """Ours on all rows at once; what was raised, for each row, if anything was."""
        found = ask(self._mask, world, spec)
        return [found] * len(world.states) if isinstance(found, Raised) else found.tolist()

    def _mask(self, world, spec):
        request, rows = request_of(spec), np.arange(len(world.states))
        if request.is_rebuild and not self.ours.RUN_ON_REBUILD:
            return np.ones(len(rows), dtype=bool)
        mask = np.zeros(len(rows), dtype=bool)
        mask[rows[self.ours.judge(world.hosts, request, rows)]] = True
        self._check_kept(world, request, mask)
        self._check_words(world, request, np.flatnonzero(~mask))
        return mask

    def _check_kept(self, world, request, mask):
        """Two requests on which a rule says that its verdict depends alike have the same
        verdict."""
        on = self.ours.depends_on(request)
        if on is not None:
            assert self._kept.setdefault((id(world), on), mask).tolist() == mask.tolist(), on

    def _check_words(self, world, request, refused):
        """The rule can say why, and names no host."""
        for rows in (refused, refused[:1]):
            if len(rows):
                why = ask(self.ours.why, world.hosts, request, rows)
                assert isinstance(why, str), f'why: {why}'
                asked = repr(request)  # what the caller said may be said to him
                assert not any(host in why and host not in asked for host in world.names), why


class WeigherFaces:
    """One weigher of each side."""

    def __init__(self, name):
        self.theirs, self.ours = NOVA_WEIGHERS[name](), rules.WEIGHERS[name]()

    def nova(self, world, spec):
        """Nova's raw weight and multiplier of each host."""
        return [self.nova_of(state, spec) for state in world.states]

    def nova_of(self, state, spec):
        """The same of one host state."""
        return ask(self._weigh, self.theirs, state, spec)

    def scalar(self, world, spec):
        """Ours of the same host states."""
        return [ask(self._weigh, self.ours, state, spec) for state in world.states]

    @staticmethod
    def _weigh(rule, state, spec):
        return rule._weigh_object(state, spec), rule.weight_multiplier(state)

    def columns(self, world, spec):
        """Ours of all rows at once; what was raised, for each row, if anything was."""
        found = ask(self._column, world, spec)
        return [found] * len(world.states) if isinstance(found, Raised) else found

    def _column(self, world, spec):
        rows = np.arange(len(world.states))
        raw = self.ours.raw(world.hosts, rows, request_of(spec))
        multiplier = np.broadcast_to(self.ours.multiplier(world.hosts, rows), len(rows))
        raw = np.zeros(len(rows)) if raw is None else raw
        return list(zip(raw.tolist(), multiplier.tolist(), strict=True))


def same(one, other):
    """Whether two answers are the same, but for the last digit of a float."""
    if isinstance(one, tuple):
        return isinstance(other, tuple) and all(map(math.isclose, one, other))
    return one == other
