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
"""Every order of the steps of Nova and of two readers, on a node with three devices.

A server is built with one device, gets another size with two in place, and is deleted. Each reader
takes its own time between the generation, Placement, the instances, the row, and its report.
"""

import collections
from typing import Any, NamedTuple

import pytest

from nova_sched.claim import CONFIRMED, VCPU, Claim
from nova_sched.claims.nova_node import settle, uses
from nova_sched.hardware.machine import HardwareAllocation

DEVICES, MOST = 3, 100_000
READERS = 2
ONE, TWO = (HardwareAllocation(devices=(('a', count),)) for count in (1, 2))


class Read(NamedTuple):
    """What a reader has read so far."""

    seen: int = -1
    allocations: Any = None
    is_tracked: bool | None = None
    row: int | None = None


class World(NamedTuple):
    """``step`` is the next one of Nova; the rest is what each part has at the moment.

    ``changed_at`` is of the claim; ``reported_at`` is the generation after the last report, and
    ``reported`` is the row that it brought: its devices in use.
    """

    step: int = 0
    claim: Claim | None = None
    changed_at: int = 0
    generation: int = 1
    reported_at: int = 1
    reported: int = 0
    allocations: tuple[tuple[str, int], ...] = ()
    is_tracked: bool = False
    row: int = 0
    needed: int = 0  # what the server has, or is promised
    reads: tuple[Read, ...] = (Read(),) * READERS

    @property
    def free(self):
        """The devices that a scheduler takes for free."""
        held = self.claim.uncounted if self.claim else ()
        return DEVICES - self.reported - sum(count for one in held for _, count in one.devices)


def put(world, claim):
    at = world.generation + 1
    return world._replace(claim=claim, changed_at=at, generation=at)


def make(world, vcpus, parts):
    made = Claim('A', 'node', {VCPU: vcpus}, parts=parts, uuid=f'claim of {vcpus}')
    claim = made if world.claim is None else world.claim.merged_with(made)
    return put(world, claim)


def confirm(world):
    """The scheduler that has written the allocation."""
    return world if world.claim is None else put(world, world.claim.confirmed())


def step(change, **facts):
    return lambda world: (change(world) if change else world)._replace(**facts)


BUILD = [
    step(lambda world: make(world, 1, ONE), needed=1),
    step(None, allocations=(('A', 1),)),
    step(confirm),
    step(None, row=1),
    step(None, is_tracked=True),
]
RESIZE = [
    step(None, allocations=(('M', 1),)),
    step(lambda world: make(world, 2, TWO), needed=3),
    step(None, allocations=(('A', 2), ('M', 1))),
    step(None, row=3),
    step(None, row=2, needed=2),
    step(None, allocations=(('A', 2),)),
]
DELETE = [step(None, row=0, needed=0, is_tracked=False), step(None, allocations=())]
STEPS = [*BUILD, *RESIZE, *DELETE]


def moves(world):
    """(name, the world after it) of all that can happen next."""
    if world.step < len(STEPS):
        yield f'Nova {world.step}', STEPS[world.step](world)._replace(step=world.step + 1)
    for number, read in enumerate(world.reads):
        if read.seen < 0:
            after = read._replace(seen=world.generation)
        elif read.allocations is None:
            after = read._replace(allocations=world.allocations)
        elif read.is_tracked is None:
            after = read._replace(is_tracked=world.is_tracked)
        elif read.row is None:
            after = read._replace(row=world.row)
        else:
            yield f'reader {number} reports', reading(report(world, read), number, Read())
            continue
        yield f'reader {number} reads', reading(world, number, after)


def reading(world, number, read):
    return world._replace(
        reads=tuple(read if place == number else one for place, one in enumerate(world.reads))
    )


def report(world, read):
    if read.seen < world.reported_at:
        return world
    held = {consumer: {VCPU: amount} for consumer, amount in read.allocations}
    here = frozenset('A' if read.is_tracked else '')
    found = uses(held, {'M': 'A'}, here, here)
    claims = {} if world.claim is None else {'A': world.claim}
    node = settle(found, claims, lambda _: world.changed_at <= read.seen, {})
    claim = node.claims.get('A')
    if claim != world.claim or read.row != world.reported:
        world = world._replace(generation=world.generation + 1, reported=read.row)
        if claim != world.claim:
            world = world._replace(claim=claim, changed_at=world.generation)
    return world._replace(reported_at=world.generation)


def normal(world):
    """The same world, with generations as small as they can be, and readers in an order."""
    values = sorted(
        {world.changed_at, world.generation, world.reported_at, *(r.seen for r in world.reads)}
        - {-1}
    )
    small = {value: place + 1 for place, value in enumerate(values)} | {-1: -1}
    return world._replace(
        changed_at=small[world.changed_at],
        generation=small[world.generation],
        reported_at=small[world.reported_at],
        reads=tuple(
            sorted((read._replace(seen=small[read.seen]) for read in world.reads), key=repr)
        ),
    )


def key(world):
    claim = world.claim and (
        world.claim.state,
        world.claim.resources[VCPU],
        world.claim.counted,
        world.claim.parts,
        world.claim.resizing is not None,
    )
    return (*world[:1], claim, *world[2:])


def quiet(world):
    """The world after Nova's last step, when one reader has read it once more."""
    world = reading(world, 0, Read())
    for _ in range(5):
        world = next(after for name, after in moves(world) if name.startswith('reader 0'))
    return world


def wrong(world):
    if world.free > DEVICES - world.needed:
        return f'{world.free} devices are free, and {world.needed} of {DEVICES} are needed'
    runs = len(BUILD) <= world.step <= len(BUILD) + len(RESIZE)
    if runs and (world.claim is None or world.claim.state != CONFIRMED):
        return f'the server runs, and its claim is {world.claim}'
    if world.step == len(STEPS):
        left = quiet(world)
        if left.claim is not None or left.free != DEVICES:
            return f'it is deleted, and {left.claim} stays'
    return None


@pytest.mark.parametrize('first, last', [(0, len(BUILD)), (len(BUILD), len(STEPS))])
def test_no_order_frees_what_is_needed(first, last):
    """From a state that a reader has read, in which Nova does some of its steps."""
    begin = World()
    for change in STEPS[:first]:
        begin = quiet(change(begin)._replace(step=begin.step + 1))
    paths, waiting = {key(begin): ()}, collections.deque([begin])
    while waiting:
        world = waiting.popleft()
        path = paths[key(world)]
        assert wrong(world) is None, (wrong(world), path)
        for name, after in moves(world):
            after = normal(after)
            if after.step <= last and key(after) not in paths:
                paths[key(after)] = (*path, name)
                waiting.append(after)
    assert len(paths) < MOST


def test_each_step_is_read_as_it_is():
    """By a reader that reads all after each step."""
    world, seen = World(), []
    for change in STEPS:
        world = quiet(change(world))
        claim = world.claim
        seen.append((claim and claim.resources[VCPU], world.free))
    assert seen == [
        (1, 2), (1, 2), (1, 2), (1, 1), (1, 2),
        (1, 2), (2, 0), (3, 0), (3, -2), (3, -1), (2, 1),
        (2, 3), (None, 3),
    ]  # fmt: skip
