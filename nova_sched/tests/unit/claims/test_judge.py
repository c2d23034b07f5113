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
"""Tests of the judgement: tables, and a search for a batch on which it differs from a naive
model."""

import dataclasses
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nova_sched.claim import CONFIRMED, PENDING, PLANNED, VCPU, Claim, Resizing
from nova_sched.claims import Placement
from nova_sched.claims.judge import ConsumerClaims, NodeUsage, judge
from nova_sched.state.report import Inventory
from nova_sched.tests.builders import runs_of
from nova_sched.tests.cases import cases
from nova_sched.tests.rows import table

GOLD = 'CUSTOM_GOLD'


def usage(total, used=0, generation=5, **inventory):
    return NodeUsage({VCPU: Inventory(total, **inventory)}, {VCPU: used}, generation)


def claim(consumer, node, vcpus=1, **fields):
    return Claim(consumer, node, {VCPU: vcpus}, **fields)


def names(*claims):
    return frozenset(one.uuid for one in claims)


@table(
    'inventory, used, asked, fits',
    {
        'exact fit': ({'total': 4}, 0, 4, True),
        'one short': ({'total': 4}, 1, 4, False),
        'beside the reserve': ({'total': 4, 'reserved': 1}, 0, 3, True),
        'into the reserve': ({'total': 4, 'reserved': 1}, 0, 4, False),
        'ratio': ({'total': 4, 'ratio': 2.0}, 4, 4, True),
        'one consumer gets no more than the total': ({'total': 4, 'ratio': 2.0}, 0, 5, False),
        'the reserve is for all together': ({'total': 4, 'reserved': 3, 'ratio': 4.0}, 0, 4, True),
        'one consumer gets no more than max_unit': ({'total': 4, 'max_unit': 2}, 0, 3, False),
        'capacity 7.5': ({'total': 5, 'ratio': 1.5}, 3, 4, True),
        'is 7': ({'total': 5, 'ratio': 1.5}, 3, 5, False),
        'nothing on a node above its capacity': ({'total': 4}, 5, 0, False),
    },
)
def test_fits(inventory, used, asked, fits):
    one = NodeUsage({VCPU: Inventory(**inventory)}, {VCPU: used}, 0)
    assert one.fits({VCPU: asked}) == fits


def test_a_class_without_inventory_never_fits():
    assert not NodeUsage({}, {}, 0).fits({VCPU: 1})
    assert NodeUsage({}, {}, 0).fits({})


A, B = 'a', 'b'
HERE, THERE, LARGE = claim(A, 'm'), claim(A, 'n'), claim(A, 'm', 4)
KNOWN = claim(A, 'm', 3, state=CONFIRMED)


@table(
    'before, placements, after, won',
    {
        'new': ([], [Placement((claim(A, 'm'),))], {(A, 'm'): 1}, [True]),
        'elsewhere ends what waits': (
            [HERE],
            [Placement((claim(A, 'n'),), replaces=names(HERE))],
            {(A, 'n'): 1},
            [True],
        ),
        'but nothing that is not known': (
            [HERE],
            [Placement((claim(A, 'n'),)), Placement((claim(A, 'm'),))],
            {(A, 'm'): 1},
            [False, False],
        ),
        'what it releases is named, too': (
            [HERE],
            [Placement((claim(A, 'n'),), ((A, 'm'),))],
            {(A, 'm'): 1},
            [False],
        ),
        'beside a confirmed one': (
            [claim(A, 'm', state=CONFIRMED)],
            [Placement((claim(A, 'n'),))],
            {(A, 'm'): 1, (A, 'n'): 1},
            [True],
        ),
        'a confirmed one does not shrink': (
            [claim(A, 'm', 3, state=CONFIRMED)],
            [Placement((claim(A, 'm', 2),))],
            {(A, 'm'): 3},
            [True],
        ),
        'nor is it released': (
            [claim(A, 'm', 3, state=CONFIRMED)],
            [Placement((claim(A, 'm', 2),), ((A, 'm'),))],
            {(A, 'm'): 3},
            [True],
        ),
        'one that was pending': (
            [KNOWN],
            [Placement((claim(A, 'n'),), replaces=names(KNOWN), runs={})],
            {(A, 'm'): 3},
            [False],
        ),
        'there and back': (
            [],
            [
                Placement((HERE,)),
                Placement((THERE,), replaces=names(HERE)),
                Placement((claim(A, 'm', 2),), replaces=names(HERE, THERE)),
            ],
            {(A, 'm'): 2},
            [True, True, True],
        ),
        'in order': (
            [LARGE],
            [
                Placement((claim(B, 'm', 4),)),
                Placement((), ((A, 'm'),), replaces=names(LARGE)),
                Placement((claim(B, 'm', 4),)),
            ],
            {(B, 'm'): 4},
            [False, True, True],
        ),
        'one makes room for the other': (
            [LARGE],
            [Placement((claim(A, 'n', 4), claim(B, 'm', 4)), replaces=names(LARGE))],
            {(A, 'n'): 4, (B, 'm'): 4},
            [True],
        ),
        'all or nothing': (
            [LARGE],
            [Placement((claim(A, 'n', 4), claim(B, 'm', 5)), replaces=names(LARGE))],
            {(A, 'm'): 4},
            [False],
        ),
    },
)
def test_judge(before, placements, after, won):
    usages, held = {'m': usage(4), 'n': usage(4)}, ConsumerClaims(before)
    for one in before:
        usages[one.node_uuid].take(one.resources)
    outcomes = judged(placements, usages, held)
    assert [outcome.won for outcome in outcomes] == won
    assert {key: one.resources[VCPU] for key, one in remaining(before, held).items()} == after
    assert {node: one.used[VCPU] for node, one in usages.items()} == {
        node: sum(amount for (_, where), amount in after.items() if where == node)
        for node in usages
    }


def judged(placements, usages, held):
    """The outcomes of placements without groups."""
    return judge(placements, usages, held, 0.0)


def remaining(before, held):
    """The claims after the batch, by what is added and removed."""
    left = {one.key: one for one in before if held.removed.get(one.key) != one}
    assert held.removed.keys() <= {one.key for one in before}
    assert not left.keys() & held.added.keys()
    return left | held.added


def test_generations_and_changes():
    """Only nodes whose claims differ in the end are changed."""
    usages = {node: usage(4, generation=number) for number, node in enumerate('mnop')}
    held, passing = ConsumerClaims([HERE]), claim(B, 'o')
    usages['m'].take({VCPU: 1})
    outcomes = judged(
        [
            Placement((claim(A, 'n'),), replaces=names(HERE)),
            Placement((passing,)),
            Placement((), ((B, 'o'),), replaces=names(passing)),
            Placement((claim(B, 'p', 5),)),
        ],
        usages,
        held,
    )
    assert {node: one.changed for node, one in usages.items()} == {
        'm': True,
        'n': True,
        'o': False,
        'p': False,
    }
    assert [outcome.generations for outcome in outcomes] == [
        {'n': (1, 2)},
        {'o': (2, 2)},
        {'o': (2, 2)},
        {},
    ]
    assert [outcome.used for outcome in outcomes] == [{}, {}, {}, {'p': {VCPU: 0}}]


@pytest.mark.parametrize('amounts', [{'vcpus': 1}, {'vcpus': 3}], ids=['fits', 'above capacity'])
def test_a_claim_of_the_same_size_is_stamped(amounts):
    """The consumer comes back: data of the node from before must not end the claim."""
    there = claim(A, 'm', **amounts, state=CONFIRMED, changed_at=3)
    held, usages = ConsumerClaims([there]), {'m': usage(2, used=amounts['vcpus'])}
    wanted = claim(A, 'm', **amounts)
    (outcome,) = judged([Placement((wanted,), runs=runs_of([there]))], usages, held)
    (after,) = outcome.claims
    assert (outcome.won, after.uuid, after.changed_at) == (True, there.uuid, 6)
    assert after.number > there.number  # which tells who took it last
    assert (outcome.generations, usages['m'].used) == ({'m': (5, 6)}, {VCPU: amounts['vcpus']})


@pytest.mark.parametrize('state', [PENDING, CONFIRMED])
def test_a_repeated_commit_changes_nothing(state):
    """Its answer was lost, and its claim may be confirmed by now."""
    made = claim(A, 'm', state=state, changed_at=3)
    held, usages = ConsumerClaims([made]), {'m': usage(2, used=1)}
    wanted = dataclasses.replace(made, state=PENDING)
    (outcome,) = judged([Placement((wanted,))], usages, held)
    assert (outcome.won, held.added, usages['m'].changed) == (True, {}, False)


# The search.

NODES, CONSUMERS = ['m', 'n', 'unknown'], ['a', 'b', 'c']

amounts = st.dictionaries(st.sampled_from([VCPU, GOLD]), st.integers(0, 6), min_size=1)
inventories = st.builds(
    Inventory,
    total=st.integers(0, 6),
    reserved=st.just(0),
    ratio=st.sampled_from([1.0, 1.5, 2.0]),
    max_unit=st.none() | st.integers(1, 6),
)
known = st.fixed_dictionaries(
    {
        node: st.tuples(st.dictionaries(st.sampled_from([VCPU, GOLD]), inventories), amounts)
        for node in NODES[:2]
    }
)


@st.composite
def holdings(draw):
    """Claims that stand at the start: of each consumer at most one that is not confirmed."""
    found = []
    for consumer in CONSUMERS:
        states = draw(
            st.lists(st.sampled_from([PENDING, PLANNED, CONFIRMED, None]), min_size=2, max_size=2)
        )
        for node, state in zip(NODES[:2], states, strict=True):
            waits = any(one.consumer_uuid == consumer and not one.is_confirmed for one in found)
            if state is not None and not (waits and state != CONFIRMED):
                found.append(Claim(consumer, node, draw(amounts), state))
    return found


@st.composite
def batches(draw, before):
    placements, used = [], list(before)
    for _ in range(draw(st.integers(1, 5))):
        consumers = draw(st.lists(st.sampled_from(CONSUMERS), unique=True, max_size=3))
        claims = []
        for consumer in consumers:
            old = [one for one in used if one.consumer_uuid == consumer]
            if old and draw(st.integers(0, 4)) == 0:
                claims.append(
                    dataclasses.replace(draw(st.sampled_from(old)), state=PENDING)
                )  # the same once more
            else:
                claims.append(Claim(consumer, draw(st.sampled_from(NODES)), draw(amounts)))
        used += claims
        releases = st.lists(
            st.tuples(st.sampled_from(CONSUMERS), st.sampled_from(NODES)), max_size=2
        )
        known = (
            [one for one in used if not one.is_confirmed]
            if draw(st.integers(0, 3))
            else draw(st.lists(st.sampled_from(used)))
            if used
            else []
        )
        placements.append(Placement(tuple(claims), tuple(draw(releases)), replaces=names(*known)))
    return placements


class Naive:
    """Every claim in one dictionary; a placement is tried on a copy, and stands if that is
    allowed."""

    def __init__(self, nodes, before):
        self.nodes = nodes
        self.claims = {one.key: one for one in before}

    def place(self, placement):
        after, new = dict(self.claims), {}
        for key in placement.releases:
            old = after.get(key)
            if old is not None and old.resizing:
                after[key] = old.reverted()
            elif old is not None and not old.is_confirmed:
                del after[key]
        for one in placement.claims:
            old = self.claims.get(one.key)
            for key in [key for key in after if key[0] == one.consumer_uuid and key != one.key]:
                if not after[key].is_confirmed:
                    del after[key]
            same = old is not None and old.uuid == one.uuid
            if same:
                after[one.key] = old
            elif old is not None and old.is_confirmed:
                small = old.resizing.old if old.resizing else old.resources
                names = {*small, *one.resources}
                larger = {
                    name: max(small.get(name, 0), one.resources.get(name, 0)) for name in names
                }
                size = old.resizing.new if old.resizing else old.resources
                resizing = Resizing(small, one.resources, uuid=one.uuid)
                grown = dataclasses.replace(old, resources=larger, resizing=resizing)
                after[one.key] = old if size == one.resources else grown
            else:
                after[one.key] = one
            if after[one.key] != old:
                new[one.key] = after[one.key]
        won = after == self.claims or (
            self.knows(placement, after) and all(self.allows(one, after) for one in new.values())
        )
        if won:
            self.claims = after
        return won

    def knows(self, placement, after):
        """Whether it names what it takes away, repeats no claim that has ended, and knows of no
        pending claim that is confirmed."""
        made = {one.consumer_uuid: one.uuid for one in placement.claims}
        there = {(one.consumer_uuid, uuid) for one in self.claims.values()
                 for uuid in (one.uuid, one.name)}  # fmt: skip
        if any(
            one.uuid in placement.replaces and (one.consumer_uuid, one.uuid) not in there
            for one in placement.claims
        ):
            return False
        for key, old in self.claims.items():
            new = after.get(key)
            if old.state == PENDING:
                is_lost = new is None or new.uuid != old.uuid
            else:
                is_lost = old.resizing is not None and new != old
            if is_lost and old.name not in placement.replaces:
                return False
            is_other = made.get(old.consumer_uuid, old.uuid) != old.uuid
            if old.is_confirmed and is_other and old.uuid in placement.replaces:
                return False
        return True

    def allows(self, new, claims):
        if new.node_uuid not in self.nodes:
            return False
        inventory, _ = self.nodes[new.node_uuid]
        for name, amount in new.resources.items():
            has = inventory.get(name)
            if has is None or amount > has.total or (has.max_unit and amount > has.max_unit):
                return False
            if self.used(new.node_uuid, name, claims) > math.floor(has.total * has.ratio):
                return False
        return True

    def used(self, node, name, claims):
        return self.nodes[node][1].get(name, 0) + sum(
            one.resources.get(name, 0) for one in claims.values() if one.node_uuid == node
        )


@settings(max_examples=cases(150))
@given(st.data())
def test_no_batch_is_judged_differently_by_the_naive_model(data):
    nodes, before = data.draw(known), data.draw(holdings())
    placements = data.draw(batches(before))
    model = Naive(nodes, before)
    usages = {
        node: NodeUsage(inventory, dict(foreign), 7)
        for node, (inventory, foreign) in nodes.items()
    }
    for one in before:
        usages[one.node_uuid].take(one.resources)
    began = {node: dict(one.used) for node, one in usages.items()}
    held = ConsumerClaims(before)

    outcomes = judged(placements, usages, held)

    assert [outcome.won for outcome in outcomes] == [
        model.place(placement) for placement in placements
    ]
    assert remaining(before, held) == model.claims
    for node, one in usages.items():
        for name in (VCPU, GOLD):
            assert one.used.get(name, 0) == model.used(node, name, model.claims)
            grown = one.used.get(name, 0) > began[node].get(name, 0)
            assert not grown or one.used[name] <= one.inventories[name].capacity
        assert one.changed == any(node == where for _, where in (*held.added, *held.removed))
    for consumer in CONSUMERS:
        mine = [one for one in model.claims.values() if one.consumer_uuid == consumer]
        assert sum(not one.is_confirmed for one in mine) <= 1
    for placement, outcome in zip(placements, outcomes, strict=True):
        named = {one.node_uuid for one in placement.claims} | {
            node for _, node in placement.releases
        }
        seen = outcome.generations if outcome.won else outcome.used
        assert set(seen) == named & set(usages)
        for node in seen:
            if outcome.won:
                assert seen[node] == (7, 7 + usages[node].changed)
            else:
                assert seen[node] == usages[node].used
