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
"""What holds for all trees and requests, checked on random ones against brute force."""

import collections
import dataclasses
import itertools

from hypothesis import given
from hypothesis import strategies as st

from nova_sched.hardware import providers
from nova_sched.tests.unit.hardware.providers.builders import MILLI, ROOT

TRAITS = ['FAST', 'NEAR']
CLASSES = [MILLI, 'CUSTOM_VF']
some_traits = st.sets(st.sampled_from(TRAITS)).map(frozenset)
no_traits = st.just(frozenset()) | some_traits
a_stock = st.builds(
    providers.Stock,
    total=st.integers(1, 4),
    reserved=st.integers(0, 1),
    ratio=st.sampled_from([1.0, 2.0]),
    max_unit=st.none() | st.integers(1, 3),
    step_size=st.sampled_from([1, 1, 2]),
    used=st.integers(0, 2),
)


@st.composite
def trees(draw):
    """A node with up to four providers below it, each under one of those before it."""
    found = [providers.Provider(ROOT, draw(stocks(['VCPU'])), draw(some_traits))]
    for number in range(draw(st.integers(0, 4))):
        parent = draw(st.sampled_from(found)).uuid
        found.append(
            providers.Provider(f'p{number}', draw(stocks(CLASSES)), draw(some_traits), parent)
        )
    return providers.ProviderTree(ROOT, tuple(found))


def stocks(names):
    return st.dictionaries(st.sampled_from(names), a_stock)


@st.composite
def requests(draw):
    suffixes = [str(number) for number in range(draw(st.integers(0, 3)))]
    amounts = st.dictionaries(
        st.sampled_from([*CLASSES, 'VCPU']), st.integers(1, 3), min_size=1, max_size=2
    )
    amounts = amounts.map(lambda found: tuple(sorted(found.items())))
    a_subtree = st.sets(st.sampled_from(suffixes or ['0']), min_size=2).map(frozenset)
    subtrees = draw(st.just([]) | st.lists(a_subtree, max_size=2)) if len(suffixes) > 1 else []
    bare = frozenset[str]().union(*subtrees)
    return providers.ProviderRequest(
        groups=tuple(
            providers.ResourceGroup(
                one,
                () if one in bare and draw(st.booleans()) else draw(amounts),
                draw(no_traits),
                draw(no_traits),
            )
            for one in suffixes
        ),
        isolate=draw(st.booleans()),
        subtrees=tuple(subtrees),
        loose=draw(st.just(()) | amounts),
        required=draw(no_traits),
        forbidden=draw(no_traits),
    )


def may_be(tree, asked, chosen):
    """Whether these providers (one a group, then one a loose amount) meet the request, rule by
    rule."""
    groups, rest = asked.groups, chosen[len(asked.groups) :]
    uses = collections.Counter()
    for group, one in zip(groups, chosen, strict=False):
        if group.required - one.traits or group.forbidden & one.traits:
            return False
        uses.update({(one.uuid, name, units): 1 for name, units in group.resources})
    for (name, units), one in zip(asked.loose, rest, strict=True):
        if asked.forbidden & one.traits:
            return False
        uses.update({(one.uuid, name, units): 1})
    total = collections.Counter()
    for (uuid, name, units), times in uses.items():
        stock = tree.stock(uuid, name)
        if stock is None or units < stock.min_unit or units % stock.step_size:
            return False
        total[uuid, name] += units * times
    for (uuid, name), units in total.items():
        stock = tree.stock(uuid, name)
        capacity = int((stock.total - stock.reserved) * stock.ratio) - stock.used
        if units > capacity or units > min(stock.total, stock.max_unit or stock.total):
            return False
    if asked.required - frozenset().union(*(one.traits for one in rest)):
        return False
    if asked.isolate and len({one.uuid for one in chosen[: len(groups)]}) < len(groups):
        return False
    by_suffix = dict(zip((group.suffix for group in groups), chosen, strict=False))
    return all(under_one(tree, [by_suffix[one] for one in subtree]) for subtree in asked.subtrees)


def under_one(tree, some):
    def is_under(one, top):
        return one.uuid == top.uuid or (
            one.parent is not None and is_under(tree.by_uuid[one.parent], top)
        )

    return any(all(is_under(one, top) for one in some) for top in some)


@given(trees(), requests())
def test_a_fit_is_found_if_there_is_one_and_keeps_every_rule(tree, asked):
    pieces = len(asked.groups) + len(asked.loose)
    ways = itertools.product(tree.providers, repeat=pieces)
    found = providers.fit(tree, asked)
    assert (found is not None) is any(may_be(tree, asked, way) for way in ways)
    assert (providers.why_not(tree, asked) == '') is (found is not None)
    if found is not None:
        by_suffix = {one.suffix: one.provider_uuid for one in found if one.suffix}
        by_class = {
            name: one.provider_uuid for one in found if not one.suffix for name in one.resources
        }
        chosen = [by_suffix[group.suffix] for group in asked.groups] + [
            by_class[name] for name, _ in asked.loose
        ]
        assert may_be(tree, asked, [tree.by_uuid[uuid] for uuid in chosen])


@given(trees(), requests(), st.integers(1, 4))
def test_what_fits_needs_no_search_to_be_known(tree, asked, count):
    several = (dataclasses.replace(one, suffix=str(n)) for one in asked.groups[:1]
               for n in range(count))  # fmt: skip
    alike = dataclasses.replace(asked, groups=tuple(several), subtrees=(), loose=(),
                                required=frozenset())  # fmt: skip
    for one in (asked, alike):
        assert providers.fits(tree, one) is (providers.fit(tree, one) is not None)


@given(trees(), requests())
def test_what_is_taken_can_be_given_back(tree, asked):
    found = providers.fit(tree, asked)
    if found is not None:
        taken = providers.take(tree, found)
        assert providers.hold(tree, found) == taken
        assert providers.give_back(taken, found) == tree
        assert providers.less_known(taken, found) == tree
        assert [providers.Allotted.from_plain(one.to_plain()) for one in found] == list(found)


@given(trees(), st.lists(requests(), max_size=6))
def test_no_unit_is_given_twice(tree, several):
    now, given_out = tree, collections.Counter()
    for asked in several:
        found = providers.fit(now, asked)
        if found is not None:
            now = providers.take(now, found)
            given_out.update(
                (one.provider_uuid, name)
                for one in found
                for name in one.resources
                for _ in range(one.resources[name])
                if one.provider_uuid != ROOT
            )
    for provider in tree.children:
        for name, stock in provider.stocks.items():
            assert (
                now.stock(provider.uuid, name).used == stock.used + given_out[provider.uuid, name]
            )
            assert now.stock(provider.uuid, name).free >= min(stock.free, 0)


@given(trees(), requests())
def test_a_summary_rules_out_nothing_that_fits(tree, asked):
    if providers.fit(tree, asked) is not None:
        assert tree.summary.may_take(asked)


@given(trees(), requests())
def test_shapes_fit_as_their_trees_do(tree, asked):
    assert (providers.fit(tree.shape, asked) is None) is (providers.fit(tree, asked) is None)
    assert tree.shape.shape == tree.shape
    assert hash(tree.shape.shape) == hash(tree.shape)


@given(trees(), requests(), st.permutations('xyz'))
def test_names_of_groups_do_not_matter(tree, asked, names):
    called = dict(zip((group.suffix for group in asked.groups), names, strict=False))
    other = dataclasses.replace(
        asked,
        groups=tuple(
            dataclasses.replace(group, suffix=called[group.suffix]) for group in asked.groups
        ),
        subtrees=tuple(frozenset(called[one] for one in some) for some in asked.subtrees),
    )
    assert other.anonymous == asked.anonymous
    assert (providers.fit(tree, asked.anonymous) is None) is (providers.fit(tree, asked) is None)
