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

A case is a host and a request. Nova's class judges its host state; ours judges the same state, and all hosts
at once as columns that came by the report path. Seeds are fixed. Filters that Nova has removed (RamFilter,
CoreFilter, DiskFilter, their Aggregate forms, AvailabilityZoneFilter, RetryFilter) have no class to compare with.
"""

import math

import numpy as np
import pytest
from nova import objects
from nova.scheduler.weights import HostWeightHandler

from nova_sched.engine import decide
from nova_sched.tests import rules
from nova_sched.tests.nova_client import raising, random_requests
from nova_sched.tests.nova_client.dice import Dice
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

WORLDS, HOSTS, REQUESTS = 20, 12, 10
SHOWN = 5  # differences that a failure prints


@pytest.fixture(scope='module')
def worlds():
    """The hosts that all rules are tried on."""
    objects.register_all()
    dice = Dice('worlds')
    return [World(dice, HOSTS) for _ in range(WORLDS)]


def rounds(name, trial, worlds):
    """For each world, dealt anew: the options, set on both sides meanwhile, and requests as (words, spec)."""
    dice = Dice(name)
    for world in worlds:
        options = trial.options(dice)
        world.serve(dice)
        world.gather(dice, trial.metadata)
        asked = [trial.request(dice, world) for _ in range(REQUESTS)]
        with both(options):
            yield (
                world,
                options,
                [(one, random_requests.spec(**{'instance_uuid': dice.uuid()} | one)) for one in asked],
            )


class Differences:
    """What our answers differ in, as texts, and which cases were met in which Nova itself raises."""

    def __init__(self, cases):
        self.cases = cases
        self.met = set()
        self.texts = []

    def compare(self, nova, alone, among):
        """One request: Nova's answer for each host, ours for the host alone, and ours for it among all.

        Yields the places where they differ.
        """
        for place, theirs in enumerate(nova):
            if not (self._agree([theirs], theirs, alone[place]) and self._agree(nova, theirs, among[place])):
                yield place

    def _agree(self, all_theirs, theirs, ours):
        """Whether our answer is right for a host, where Nova answers ``all_theirs`` for those in question."""
        if isinstance(ours, Raised) and not isinstance(theirs, Raised):
            # Nova asks one host after the other, and stops at the first thing that is not met. Whether it comes to
            # what is wrong with the request is then a matter of luck; it takes no host that way.
            unlucky = any(isinstance(one, Raised) for one in all_theirs) or True not in all_theirs
            return unlucky and any(raising.is_right(case, ours) for case in self.cases)
        if not isinstance(theirs, Raised):
            return same(theirs, ours)
        case = raising.case_of(self.cases, theirs.error)
        if case is not None:
            self.met.add(case.what)
        return case is not None and raising.is_right(case, ours)


def differences(name, trial, faces, cases, worlds):
    """All differences of one rule."""
    found = Differences(cases)
    for world, options, requests in rounds(name, trial, worlds):
        sides = faces(name)
        for words, spec in requests:
            answers = [face(world, spec) for face in (sides.nova, sides.scalar, sides.columns)]
            for place in found.compare(*answers):
                state = world.states[place]
                nova, alone, among = (str(side[place]) for side in answers)
                found.texts.append(
                    f'Nova {nova} / ours alone {alone} / among all {among}\n  {words}\n  options {options}\n'
                    f'  aggregates {[one.metadata for one in state.aggregates]}\n  {vars(state)}'
                )
    return found


@pytest.mark.parametrize('name', sorted(NOVA_FILTERS))
def test_filter(name, worlds):
    found = differences(name, FILTERS[name], FilterFaces, raising.FILTERS.get(name, ()), worlds)
    assert not found.texts, f'{len(found.texts)} differences\n' + '\n'.join(found.texts[:SHOWN])
    assert found.met == {case.what for case in found.cases}


@pytest.mark.parametrize('name', sorted(NOVA_WEIGHERS))
def test_weigher(name, worlds):
    found = differences(name, WEIGHERS[name], WeigherFaces, raising.WEIGHERS.get(name, ()), worlds)
    assert not found.texts, f'{len(found.texts)} differences\n' + '\n'.join(found.texts[:SHOWN])
    assert found.met == {case.what for case in found.cases}


@pytest.mark.parametrize('name', sorted(NOVA_WEIGHERS))
def test_weights_as_they_are_summed(name, worlds):
    """Scaled to 0..1 over the hosts of a round and multiplied, for rounds of no host to all hosts."""
    dice = Dice(f'sums of {name}')
    for world, _, requests in rounds(name, WEIGHERS[name], worlds):
        theirs, ours = NOVA_WEIGHERS[name](), rules.WEIGHERS[name]()
        for _, spec in requests:
            rows = np.array(sorted(dice.some(range(HOSTS), HOSTS)), dtype=np.intp)
            states = [world.states[row] for row in rows]
            weighed = ask(HostWeightHandler().get_weighed_objects, [theirs], states, spec)
            if isinstance(weighed, Raised):
                continue  # test_weigher judges it
            weights = {id(one.obj): one.weight for one in weighed}
            found = decide.weigh((ours,), world.hosts, rows, request_of(spec)).tolist()
            for state, weight in zip(states, found, strict=True):
                assert math.isclose(weight, weights[id(state)], rel_tol=1e-9, abs_tol=1e-12)


@pytest.mark.parametrize('flag', ['run_filter_once_per_request', 'RUN_ON_REBUILD'])
def test_when_filters_are_asked(flag):
    theirs = {name: getattr(one, flag) for name, one in NOVA_FILTERS.items()}
    assert {name: getattr(rules.FILTERS.get(name), flag, None) for name in theirs} == theirs


def test_every_rule_of_nova_is_here():
    assert sorted(NOVA_FILTERS.keys() - rules.FILTERS.keys()) == []
    assert sorted(NOVA_WEIGHERS.keys() - rules.WEIGHERS.keys()) == []
