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
"""A node of a Nova cloud at each step of what Nova does, by reads that are early or late."""

import dataclasses

import pytest

from nova_sched.claim import CONFIRMED, PENDING, VCPU, Claim, Resizing
from nova_sched.claims.nova_node import settle, uses
from nova_sched.claims.values import NAMELESS
from nova_sched.hardware.machine import HardwareAllocation

NOW = 1000.0
MIGRATIONS = {'mA': 'A', 'mB': 'B'}
OLD, NEW = (HardwareAllocation(devices=(name,)) for name in ('old', 'new'))


def claimed(vcpus, state=CONFIRMED, **fields):
    return Claim('A', 'node', {VCPU: vcpus}, state, parts=OLD, **fields)


def pending(vcpus):
    return claimed(vcpus, PENDING, expires_s=NOW + 60)


def counted(vcpus):
    return claimed(vcpus, counted=True)


def resizing(old, new, expires_s=NOW + 60):
    sizes = Resizing({VCPU: old}, {VCPU: new}, NEW, 'resize')
    both = sizes.together[VCPU]
    return dataclasses.replace(counted(both), resizing=sizes, expires_s=expires_s)


def test_a_later_resize_of_an_open_one_holds_no_less():
    """Nova has settled the open one, with either size, and the node was not read since."""
    open_one = dataclasses.replace(resizing(2, 4, None), resources={VCPU: 6})
    later = Claim('A', 'node', {VCPU: 1}, uuid='later')
    both = open_one.merged_with(later)
    assert (both.name, both.resizing.new, both.resources) == ('later', {VCPU: 1}, {VCPU: 6})
    found = settle({'A': use_of({'A': 1, 'mA': 4})}, {'A': both}, lambda _: True, {})
    assert found.claims['A'].resources == {VCPU: 5}
    refused = dataclasses.replace(both, expires_s=0.0)
    found = settle({'A': use_of({'mA': 4})}, {'A': refused}, lambda _: True, {})
    assert (found.claims['A'].resources, found.claims['A'].resizing) == ({VCPU: 4}, None)


def test_the_old_size_of_a_resize_is_that_of_its_migration():
    """The one before, from 4 to 2, was settled, and the node was not read since. It is not held
    for the old size any more, and a resize that is refused gets the size that runs."""
    again = resizing(4, 2, None).merged_with(Claim('A', 'node', {VCPU: 1}, uuid='again'))
    found = settle({'A': use_of({'A': 1, 'mA': 2})}, {'A': again}, lambda _: True, {})
    claim = found.claims['A']
    assert (claim.resources, claim.resizing.old) == ({VCPU: 3}, {VCPU: 2})
    assert (claim.reverted().resources, claim.finished().resources) == ({VCPU: 2}, {VCPU: 1})
    found = settle({'A': use_of({'mA': 2})}, {'A': again}, lambda _: True, {})
    assert found.claims['A'].resizing.old == {VCPU: 2}


def use_of(allocated):
    amounts = {consumer: {VCPU: vcpus} for consumer, vcpus in allocated.items()}
    return uses(amounts, MIGRATIONS, frozenset(), frozenset('A'))['A']


def shown(claim):
    """The claim in words: `held` is hardware that is not in use by the row of the node."""
    if claim is None:
        return None
    held = [some for parts in claim.uncounted for some in parts.devices]
    words = [claim.state, str(claim.resources.get(VCPU, 0))]
    words += ['resizing'] if claim.resizing else []
    return ' '.join([*words, 'held', *held] if held else words)


# What is allocated on the node, the instances that its row counts, the claim of A before, the
# claim after, and the rows that no claim is for.
BOOT = [
    ('claimed, not allocated yet', {}, '', pending(2), 'pending 2 held old', {}),
    (
        'allocated, nova-compute has not begun',
        {'A': 2},
        '',
        pending(2),
        'confirmed 2 held old',
        {},
    ),
    ('nova-compute has its row', {'A': 2}, 'A', claimed(2), 'confirmed 2', {}),
    ('both at once', {'A': 2}, 'A', pending(2), 'confirmed 2', {}),
    ('it was counted already', {'A': 2}, '', counted(2), 'confirmed 2', {}),
    ('it has failed', {}, '', claimed(2), None, {}),
    ('it has failed before it was allocated', {}, '', pending(2), 'pending 2 held old', {}),
    ('by another scheduler', {'A': 2}, 'A', None, None, {'A': 2}),
    ('with another size', {'A': 3}, 'A', pending(2), 'confirmed 3', {}),
    ('another server', {'B': 3}, 'B', pending(2), 'pending 2 held old', {'B': 3}),
]
RESIZE_IN_PLACE = [
    ('the old size is noted', {'mA': 2}, 'A', counted(2), 'confirmed 2', {}),
    ('claimed', {'mA': 2}, 'A', resizing(2, 4), 'confirmed 4 resizing held new', {}),
    ('never allocated', {'mA': 2}, 'A', resizing(2, 4, 0.0), 'confirmed 2', {}),
    ('allocated', {'mA': 2, 'A': 4}, 'A', resizing(2, 4), 'confirmed 6 resizing held new', {}),
    (
        'to be confirmed by the user, after long',
        {'mA': 2, 'A': 4},
        'A',
        resizing(2, 4, 0.0),
        'confirmed 6 resizing held new',
        {},
    ),
    ('confirmed', {'A': 4}, 'A', resizing(2, 4), 'confirmed 4', {}),
    ('confirmed, the row is not known', {'A': 4}, '', resizing(2, 4), 'confirmed 4 held new', {}),
    ('reverted', {'A': 2}, 'A', resizing(2, 4), 'confirmed 2', {}),
    ('confirmed, and smaller', {'A': 2}, 'A', resizing(4, 2), 'confirmed 2', {}),
    ('reverted, and larger', {'A': 4}, 'A', resizing(4, 2), 'confirmed 4', {}),
    ('deleted', {}, 'A', resizing(2, 4, None), None, {}),
    (
        'deleted before it was allocated, or it was elsewhere and comes again',
        {},
        '',
        resizing(2, 4),
        'confirmed 4 resizing held new',
        {},
    ),
    ('the same, after long', {}, '', resizing(2, 4, 0.0), None, {}),
    ('of an unclaimed server', {'mA': 2}, 'A', pending(4), 'pending 4 held old', {'A': 2}),
    ('the same, allocated', {'mA': 2, 'A': 4}, 'A', pending(4), 'confirmed 6 held old', {}),
    ('the same, confirmed', {'A': 4}, 'A', claimed(6), 'confirmed 4', {}),
    ('without any claim', {'mA': 2, 'A': 4}, 'A', None, None, {'A': 6}),
]
LEAVING = [
    ('a migration has it', {'mA': 2}, '', counted(2), 'confirmed 2', {}),
    ('it was never read before', {'mA': 2}, '', claimed(2), 'confirmed 2', {}),
    ('it has left, or its migration is confirmed', {}, '', counted(2), None, {}),
    ('it came back', {'A': 2}, 'A', counted(2), 'confirmed 2', {}),
    ('evacuated, the host is down', {'A': 2}, '', counted(2), 'confirmed 2', {}),
    ('evacuated, the host is back', {}, '', counted(2), None, {}),
    ('shelved and offloaded', {}, '', counted(2), None, {}),
    ('deleted, its allocation is there', {'A': 2}, '', counted(2), 'confirmed 2', {}),
    ('deleted', {}, '', counted(2), None, {}),
    ('unclaimed', {'mA': 2}, '', None, None, {'A': 2}),
    ('the migration of another one', {'mB': 2}, '', counted(2), None, {'B': 2}),
]
ARRIVING = [  # a migration, cold or live, an evacuation, an unshelved server
    ('claimed', {}, '', pending(2), 'pending 2 held old', {}),
    ('allocated', {'A': 2}, '', pending(2), 'confirmed 2 held old', {}),
    ('nova-compute has its row', {'A': 2}, 'A', claimed(2), 'confirmed 2', {}),
    ('it did not come, or it is reverted', {}, '', claimed(2), None, {}),
]
NAMELESS_USE = [
    ('no claim', {NAMELESS: 5, 'B': 0}, '', None, None, {NAMELESS: 5, 'B': 0}),
    ('a claim since', {NAMELESS: 5}, '', pending(2), 'pending 2 held old', {NAMELESS: 5}),
]
TABLE = {
    'boot': BOOT,
    'resize in place': RESIZE_IN_PLACE,
    'leaving': LEAVING,
    'arriving': ARRIVING,
    'nameless': NAMELESS_USE,
}


def found(allocations, tracked, here=''):
    held = {one: {VCPU: amount} if amount else {} for one, amount in allocations.items()}
    return uses(held, MIGRATIONS, frozenset(here), frozenset(tracked))


@pytest.mark.parametrize('operation', TABLE)
def test_each_step(operation):
    wrong = []
    for name, allocations, tracked, before, after, unclaimed in TABLE[operation]:
        claims = {} if before is None else {'A': before}
        node = settle(found(allocations, tracked), claims, lambda _: True, {})
        rows = {one: amounts.get(VCPU, 0) for one, amounts in node.unclaimed.items()}
        now = node.claims.get('A')
        if (shown(now), rows) != (after, unclaimed):
            wrong.append((name, shown(now), rows))
        if node.ended != ['A'] * (before is not None and now is None):
            wrong.append((name, node.ended))
        if sum(rows.values()) + (now.resources[VCPU] if now else 0) < sum(allocations.values()):
            wrong.append((name, 'less is in use than Placement has'))
    assert wrong == []


@pytest.mark.parametrize('operation', TABLE)
def test_what_was_read_before_a_claim_changed_changes_nothing(operation):
    for name, allocations, tracked, before, _, _ in TABLE[operation]:
        if before is not None:
            rows = {'A': {VCPU: 4}, 'B': {VCPU: 2}}
            node = settle(found(allocations, tracked), {'A': before}, lambda _: False, rows)
            assert (node.claims, node.ended) == ({'A': before}, []), name
            assert node.unclaimed['A'] == rows['A'], name
            others = {one: some for one, some in node.unclaimed.items() if one != 'A'}
            assert sum(some.get(VCPU, 0) for some in others.values()) == sum(
                amount for one, amount in allocations.items() if one not in ('A', 'mA')
            ), name


@pytest.mark.parametrize('operation', TABLE)
def test_the_same_read_again_changes_nothing(operation):
    for name, allocations, tracked, before, *_ in TABLE[operation]:
        claims = {} if before is None else {'A': before}
        once = settle(found(allocations, tracked), claims, lambda _: True, {})
        again = settle(found(allocations, tracked), once.claims, lambda _: True, once.unclaimed)
        assert again.claims == once.claims, name
        assert again.unclaimed == once.unclaimed, name


@pytest.mark.parametrize(
    'allocations, before, after',
    [
        ({}, counted(2), 'confirmed 2'),
        ({}, resizing(2, 4, 0.0), 'confirmed 4 resizing held new'),
        ({}, pending(2), 'pending 2 held old'),
        ({'mA': 2}, counted(2), 'confirmed 2'),
        ({'A': 3}, counted(2), 'confirmed 3'),
        ({}, None, None),
    ],
    ids=['it runs', 'it is resized', 'it is built', 'it leaves', 'another size', 'not claimed'],
)
def test_the_claim_of_an_instance_that_the_cell_has_there_stays(allocations, before, after):
    """Whatever has removed its allocations."""
    claims = {} if before is None else {'A': before}
    node = settle(found(allocations, 'A', 'A'), claims, lambda _: True, {})
    assert (shown(node.claims.get('A')), node.ended) == (after, [])
    assert node.unclaimed == ({} if claims else {'A': {}})


def test_amounts_of_all_consumers_add_up():
    some, more = {VCPU: 1, 'MEMORY_MB': 5}, {VCPU: 2, 'DISK_GB': 3}
    held = {'A': some, 'mA': more, 'B': {}}
    mine, other = (uses(held, MIGRATIONS, frozenset(), frozenset('AB'))[one] for one in 'AB')
    assert mine.amounts == {VCPU: 3, 'MEMORY_MB': 5, 'DISK_GB': 3}
    assert (mine.is_tracked, other.is_tracked, other.amounts) == (False, True, {})


def test_classes_without_an_amount_are_no_difference():
    claim = dataclasses.replace(counted(2), resources={VCPU: 2, 'DISK_GB': 0})
    node = settle(found({'A': 2}, ''), {'A': claim}, lambda _: True, {})
    assert node.claims == {'A': claim}
