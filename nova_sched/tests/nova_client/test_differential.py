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
"""Nova's rules against ours on the same random hosts and requests: no difference.

A case is a host and a request. Nova's class judges its host state; ours judges the same state, and
all hosts at once as columns that came by the report path. Seeds are fixed. Filters that Nova has
removed (RamFilter, CoreFilter, DiskFilter, their Aggregate forms, AvailabilityZoneFilter,
RetryFilter) have no class to ask.
"""

import math

import numpy as np
import pytest
from nova import objects
from nova.scheduler.filters import extra_specs_ops
from nova.scheduler.weights import HostWeightHandler

from nova_sched.engine import decide
from nova_sched.filters.extra_specs import matches
from nova_sched.tests import rules
from nova_sched.tests.nova_client import listed, random_requests
from nova_sched.tests.nova_client.dice import WORDS, Dice
from nova_sched.tests.nova_client.faces import (
    NOVA_FILTERS,
    NOVA_WEIGHERS,
    FilterFaces,
    Raised,
    WeigherFaces,
    ask,
    request_of,
    same,
)
from nova_sched.tests.nova_client.settings import both
from nova_sched.tests.nova_client.trials import FILTERS, WEIGHERS
from nova_sched.tests.nova_client.worlds import World

WORLDS, HOSTS = 20, 15
PAIRS = 30_000  # of a value and an extra spec
SHOWN = 5  # differences that a failure prints


@pytest.fixture(scope='module')
def worlds():
    """The hosts that all rules are tried on."""
    objects.register_all()
    dice = Dice('worlds')
    with pytest.MonkeyPatch.context() as patch:
        # The only thing that any rule of Nova reads from a database; its instances are at hand.
        patch.setattr(objects.CellMapping, 'get_by_uuid', lambda context, uuid: None)
        yield [World(dice, HOSTS) for _ in range(WORLDS)]


def rounds(name, trial, worlds):
    """Each world, dealt again, with requests as (words, spec); options are set on both sides
    meanwhile."""
    dice = Dice(name)
    for world in worlds:
        options = trial.options(dice)
        world.serve(dice)
        world.gather(dice, trial.metadata)
        with both(options):
            requests = [trial.request(dice, world) for _ in range(trial.requests)]
            yield (
                world,
                [
                    (f'{words} {options}', random_requests.spec(dice.uuid(), words))
                    for words in requests
                ],
            )


class Differences:
    """What our answers differ in, as texts, and which of the listed cases were met."""

    def __init__(self, cases):
        self.cases = cases
        self.met = set()
        self.texts = []

    def compare(self, sides, world, words, spec):
        """One request on all hosts, by Nova's rule and by both faces of ours."""
        nova, alone, among = (
            face(world, spec) for face in (sides.nova, sides.scalar, sides.columns)
        )
        for place, state in enumerate(world.states):
            theirs = self._meant(sides, state, spec, nova[place], alone[place])
            if not (
                self.agree(theirs, alone[place], [theirs])
                and self.agree(theirs, among[place], nova)
            ):
                self.texts.append(
                    f'Nova {nova[place]} / ours alone {alone[place]} / among all {among[place]}\n'
                    f'  {words}\n  aggregates {[one.metadata for one in state.aggregates]}\n'
                    f'  {vars(state)}'
                )

    def _meant(self, sides, state, spec, theirs, ours):
        """Nova's answer, or what it comes to: of an input that is mended, or when the host is
        claimed."""
        if theirs is True and ours is False:
            theirs = sides.claimed(state, spec)
        if isinstance(theirs, Raised):
            case = self._case_of(theirs)
            if case is not None and case.mend is not None:
                return sides.nova_of(case.mend(state), spec)
        return theirs

    def _case_of(self, raised):
        case = listed.case_of(self.cases, raised.error)
        if case is not None:
            self.met.add(case.what)
        return case

    def agree(self, theirs, ours, all_theirs=()):
        """Whether our answer for a host is right, where Nova answers ``all_theirs`` for those in
        question."""
        if isinstance(theirs, Raised):
            case = self._case_of(theirs)
            return case is not None and listed.is_right(case, ours)
        if isinstance(ours, Raised):
            # Nova asks host by host, and stops at the first thing that is not met: whether it
            # comes to what is wrong with a request is a matter of luck, and without luck it takes
            # no host.
            fails = set(all_theirs) == {False} or any(
                isinstance(one, Raised) for one in all_theirs
            )
            return fails and any(listed.is_right(case, ours) for case in self.cases)
        return same(theirs, ours)


def differences(name, trial, faces, cases, worlds):
    """All differences of one rule."""
    found = Differences(cases)
    for world, requests in rounds(name, trial, worlds):
        sides = faces(name)  # for each round: some rules read options when they are made
        for words, spec in requests:
            found.compare(sides, world, words, spec)
    return found


def check(found):
    """No difference, and each listed case was met: a list of what never happens would hide what
    does."""
    assert not found.texts, f'{len(found.texts)} differences\n' + '\n'.join(found.texts[:SHOWN])
    assert {case.what for case in found.cases if not case.is_rare} <= found.met


@pytest.mark.parametrize('name', sorted(NOVA_FILTERS))
def test_filter(name, worlds):
    check(differences(name, FILTERS[name], FilterFaces, listed.FILTERS.get(name, ()), worlds))


@pytest.mark.parametrize('name', sorted(NOVA_WEIGHERS))
def test_weigher(name, worlds):
    check(differences(name, WEIGHERS[name], WeigherFaces, listed.WEIGHERS.get(name, ()), worlds))


@pytest.mark.parametrize('name', sorted(NOVA_WEIGHERS))
def test_weights_as_they_are_summed(name, worlds):
    """Scaled to 0..1 over the hosts of a round and multiplied, for rounds of no host to all
    hosts."""
    dice = Dice(f'sums of {name}')
    for world, requests in rounds(name, WEIGHERS[name], worlds):
        sides = WeigherFaces(name)
        for words, spec in requests[:4]:
            rows = np.array(sorted(dice.some(range(HOSTS), HOSTS)), dtype=np.intp)
            states = [world.states[row] for row in rows]
            weighed = ask(HostWeightHandler().get_weighed_objects, [sides.theirs], states, spec)
            if isinstance(weighed, Raised):
                continue  # test_weigher judges it
            weights = {id(one.obj): one.weight for one in weighed}
            found = decide.weigh((sides.ours,), world.hosts, rows, request_of(spec)).tolist()
            for state, weight in zip(states, found, strict=True):
                assert math.isclose(weight, weights[id(state)], rel_tol=1e-9, abs_tol=1e-12), words


def test_operators_of_extra_specs():
    """A language of its own, so that it gets more cases than the rules that speak it."""
    dice, cases = Dice('operators'), [listed.NO_NUMBER, listed.NO_WORD]
    found = Differences(cases)
    for _ in range(PAIRS):
        value = None if dice.maybe(0.02) else dice.value()
        text = dice.wish((*WORDS, value or 'a', dice.word() + dice.word()))
        theirs = ask(extra_specs_ops.match, value, text)
        ours = ask(matches, value, text, 'key')
        if not found.agree(theirs, ours):
            found.texts.append(f'Nova {theirs} / ours {ours}: {value!r} {text!r}')
    check(found)


@pytest.mark.parametrize('flag', ['run_filter_once_per_request', 'RUN_ON_REBUILD'])
def test_when_filters_are_asked(flag):
    theirs = {name: getattr(one, flag) for name, one in NOVA_FILTERS.items()}
    assert {name: getattr(rules.FILTERS.get(name), flag, None) for name in theirs} == theirs


def test_every_rule_of_nova_is_here():
    assert sorted(NOVA_FILTERS.keys() - rules.FILTERS.keys()) == []
    assert sorted(NOVA_WEIGHERS.keys() - rules.WEIGHERS.keys()) == []
