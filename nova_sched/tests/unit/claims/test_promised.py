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
"""Whatever the order of claims and reports, a node has promised at least what it really runs.

Random walks through a small world of one node: servers that a scheduler places, and strangers that
it does not know. At most one report is on its way, so it may be older than anything that happens
before it arrives.
"""

import itertools
import random

from nova_sched.claim import VCPU
from nova_sched.claims import ClaimSelector, Placement
from nova_sched.tests.builders import claim, report, uuid_of
from nova_sched.tests.explorer.store import ExplorerStore

NODE = uuid_of('node host-0')
SERVERS = [uuid_of(name) for name in 'AB']
STRANGERS = [uuid_of(f'stranger {number}') for number in range(8)]
SIZES = 1, 2, 4
AMOUNTS, LIST, TOTALS = 'the amounts of each instance', 'a list and totals', 'totals alone'
WALKS, STEPS = 300, 40


class World:
    """``running`` has the vCPUs of each instance that runs, ``wanted`` the size that each server
    is built or resized to. ``counted`` are the instances in the last report that has arrived."""

    def __init__(self):
        self.now_s = 0.0
        self.store = ExplorerStore(self.tick)
        self.running, self.wanted = {}, {}
        self.unborn = list(STRANGERS)
        self.counted, self.sent = set(), None
        self.send(TOTALS)
        self.arrive()

    def tick(self):
        self.now_s += 1.0
        return self.now_s

    def steps(self):
        """All that can happen next: a function and its arguments."""
        for server in SERVERS:
            yield from self._steps_of(server, self.claim_of(server))
        yield from ((self.go, stranger) for stranger in self.strangers)
        if self.unborn:
            yield from ((self.come, size) for size in SIZES)
        if self.sent is not None:
            yield (self.arrive,)
            return
        yield from ((self.send, kind) for kind in (AMOUNTS, LIST))
        # Totals do not say which claimed instance has stopped: its claim ends first.
        if all(server in self.running or server in self.wanted for server in self.claimed):
            yield self.send, TOTALS

    def _steps_of(self, server, held):
        runs, wanted = self.running.get(server), self.wanted.get(server)
        if held is None:
            # A report of its former life is not taken for one of the next.
            if not runs and (self.sent is None or server not in self.sent[1]):
                yield from ((self.claim, server, size) for size in SIZES)
            return
        if wanted and runs != wanted:
            yield self.build, server
        if wanted and runs == wanted:
            yield self.confirm, server
        if runs and not wanted and held.is_confirmed:
            yield from ((self.claim, server, size) for size in SIZES if size != runs)
        if runs and held.resizing:
            yield self.revert, server
        if runs:
            yield self.stop, server
        else:
            yield self.end, server

    @property
    def claimed(self):
        return [one for one in SERVERS if self.claim_of(one)]

    @property
    def strangers(self):
        return [one for one in STRANGERS if one in self.running]

    def claim_of(self, server):
        return next(iter(self.store.claims(server)), None)

    def claim(self, server, vcpus):
        made = claim(server, NODE, vcpus, memory_mb=0)
        assert self.store.commit([Placement((made,))])[0].won
        self.wanted[server] = vcpus

    def build(self, server):
        self.running[server] = self.wanted[server]

    def confirm(self, server):
        """The server is built, or its resize is settled."""
        self.store.finish(server, [NODE], ClaimSelector(self.claim_of(server).name))
        del self.wanted[server]

    def revert(self, server):
        held = self.claim_of(server)
        self.running[server] = held.resizing.old[VCPU]
        self.store.revert(server, ClaimSelector(held.resizing.uuid))
        self.wanted.pop(server, None)

    def stop(self, server):
        del self.running[server]
        self.wanted.pop(server, None)

    def end(self, server):
        selector = ClaimSelector(self.claim_of(server).name)
        self.store.release([(server, NODE)], selector=selector)
        self.wanted.pop(server, None)

    def go(self, stranger):
        del self.running[stranger]

    def come(self, vcpus):
        self.running[self.unborn.pop()] = vcpus

    def send(self, kind):
        words = {'num_instances': len(self.running)}
        if kind != TOTALS:
            words['instances'] = frozenset(self.running)
        if kind == AMOUNTS:
            words['held'] = {uuid: {VCPU: vcpus} for uuid, vcpus in self.running.items()}
        made = report(vcpus=1000, vcpus_used=sum(self.running.values()), **words)
        self.sent = made, set(self.running)

    def arrive(self):
        (made, self.counted), self.sent = self.sent, None
        self.store.report([made])

    def fault(self):
        """What is wrong, or None. Nobody can know of a stranger that no report has counted."""
        (facts,) = self.store.read_nodes([NODE]).nodes
        promised = facts.foreign.get(VCPU, 0) + sum(one.resources[VCPU] for one in facts.claims)
        known = self.counted.union(SERVERS)
        real = sum(vcpus for uuid, vcpus in self.running.items() if uuid in known)
        return None if promised >= real else f'{promised} promised, and {real} in use'


def walk(seed):
    """The steps to a fault, and the fault; or None."""
    dice, world, taken = random.Random(seed), World(), []
    for _ in range(STEPS):
        steps = sorted(world.steps(), key=lambda one: one[0].__name__)
        kinds = {
            step.__name__: list(some)
            for step, some in itertools.groupby(steps, lambda one: one[0])
        }
        step, *words = dice.choice(kinds[dice.choice(list(kinds))])
        step(*words)
        taken.append((step.__name__, *words))
        if fault := world.fault():
            return [*taken, fault]
    return None


def test_a_node_promises_what_it_runs():
    faults = list(filter(None, map(walk, range(WALKS))))
    assert not faults, '\n'.join(map(str, min(faults, key=len)))
