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
"""Moves whose scheduler dies or stands still anywhere, and whose conductors fail, are silent or
late, or tell twice: every server keeps its claim where it runs, and has one in the end."""

import collections

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from nova_sched import errors
from nova_sched.claim import VCPU
from nova_sched.db.rebalances import ENDS, HANDED_OVER, HELD, OPEN, WAITING
from nova_sched.extensions.optimize.moves import DONE, FAILED, RUNNING
from nova_sched.tests.cases import cases
from nova_sched.tests.unit.claims.databases import cleared
from nova_sched.tests.unit.engine.rebalance.moving_world import (
    HOSTS,
    SERVERS,
    Conductors,
    Direct,
    MovingWorld,
    move,
)

STEPS = {state: place for place, state in enumerate((WAITING, HELD, HANDED_OVER))}
STEPS |= {state: len(STEPS) for state in ENDS}


class Died(BaseException):
    """The scheduler's process has ended."""


class Fuse:
    """Calls ``blow`` when it has been asked ``left`` times; None: never."""

    def __init__(self):
        self.left, self.blow = None, None

    def burn(self):
        if self.left is None:
            return
        self.left -= 1
        if self.left < 0:
            self.left = None
            self.blow()

    def set(self, left, blow):
        self.left, self.blow = left, blow


class Mortal(Direct):
    """May die or stand still before and after each call."""

    def __init__(self, world, fuse):
        super().__init__(world)
        self._fuse = fuse

    def call(self, work, *args):
        self._fuse.burn()
        found = super().call(work, *args)
        self._fuse.burn()
        return found


class Migrating(Conductors):
    """Conductors that record moves; ``going`` maps each one that runs to (server, source host,
    destination host)."""

    def __init__(self, moving, fuse):
        super().__init__()
        self._moving, self._fuse = moving, fuse
        self.going, self.known = {}, {}

    def request(self, server):
        self._fuse.burn()
        return super().request(server)

    def start(self, entry, source, destination):
        self._fuse.burn()
        if self.is_away:
            raise errors.NoAnswer('start', 'no conductor runs')
        if entry.uuid in self.known:
            return self.known[entry.uuid]
        claims = [one.uuid for one in self._moving.store.claims(entry.server)]
        if entry.claim_uuid not in claims:
            raise errors.MoveRefused('the claim has ended')
        assert entry.server in self._moving.running[source[0]]
        assert entry.server not in [server for server, _, _ in self.going.values()]
        self.going[entry.uuid] = entry.server, source[0], destination[0]
        self.known[entry.uuid] = RUNNING, None
        self._fuse.burn()
        return RUNNING, None

    def end(self, move_uuid, outcome):
        server, source, destination = self.going.pop(move_uuid)
        if outcome == DONE:
            self._moving.migrate(server, source, destination)
        self.known[move_uuid] = outcome, None if outcome == DONE else 'it was too busy'


class Moves(RuleBasedStateMachine):
    """A test brings ``clean``, which returns an empty database."""

    def __init__(self):
        super().__init__()
        self.fuse = Fuse()
        self.moving = moving = MovingWorld(self.clean(), in_flight=2)
        moving.scheduler = Mortal(moving.world, self.fuse)
        moving.conductors = self.conductors = Migrating(moving, self.fuse)
        self.runner = moving.another()
        for place, server in enumerate(SERVERS):
            moving.boot(HOSTS[place % 2], server)
        moving.report(HOSTS[2])
        self.rebalances, self.told, self.seen = [], [], {}
        self.losers = set()  # servers whose claim on a destination has expired

    @rule(
        servers=st.lists(st.sampled_from(SERVERS), min_size=1, max_size=3, unique=True),
        destination=st.sampled_from(HOSTS),
        is_outdated=st.booleans(),
    )
    def plan(self, servers, destination, is_outdated):
        self._plan(servers, destination, is_outdated)

    def _plan(self, servers, destination, is_outdated=False):
        where = {one: host for host, here in self.moving.running.items() for one in here}
        moves = []
        for server in servers:
            source = HOSTS[0] if is_outdated else where[server]
            if source != destination:
                moves.append(move(server, source, destination))
        self.rebalances.append(self.moving.rebalances.create(moves))

    @rule()
    def turn(self):
        self.runner.turn()

    def _plan_one(self, server, destination):
        """A move that may start next."""
        self._plan([server], destination)

    @rule(calls=st.integers(0, 12), server=st.sampled_from(SERVERS), to=st.sampled_from(HOSTS))
    def die(self, calls, server, to):
        def blow():
            raise Died

        self._plan_one(server, to)
        self.fuse.set(calls, blow)
        try:
            self.runner.turn()
        except Died:
            self.runner = self.moving.another()
        self.fuse.left = None

    @rule(
        calls=st.integers(0, 12),
        server=st.sampled_from(SERVERS),
        to=st.sampled_from(HOSTS),
        outcome=st.sampled_from([DONE, FAILED, None]),
    )
    def stand_still(self, calls, server, to, outcome):
        """Meanwhile another scheduler goes on with its moves, and some of them may end."""

        def blow():
            self.moving.wait()
            self.moving.another().turn()
            for ended in list(self.conductors.going) if outcome else []:
                self.conductors.end(ended, outcome)
                self.told.append((ended, *self.conductors.known[ended]))
                self.runner.tell(*self.told[-1])

        self._plan_one(server, to)
        self.fuse.set(calls, blow)
        self.runner.turn()
        self.fuse.left = None

    @rule()
    def wait(self):
        self.moving.wait()

    @rule(is_away=st.booleans())
    def leave(self, is_away):
        self.conductors.is_away = is_away

    @rule(data=st.data(), outcome=st.sampled_from([DONE, FAILED]))
    def end(self, data, outcome):
        if self.conductors.going:
            ended = data.draw(st.sampled_from(sorted(self.conductors.going)))
            self.conductors.end(ended, outcome)
            self.told.append((ended, *self.conductors.known[ended]))

    @rule(data=st.data())
    def tell(self, data):
        """An outcome arrives: soon, late, or once more."""
        if self.told:
            self.runner.tell(*data.draw(st.sampled_from(self.told)))

    @rule()
    def expire(self):
        """No scheduler ran for longer than a pending claim lives."""
        self.moving.age(7200)
        self.losers |= {claim.consumer_uuid for claim in self.moving.store.expire()}

    @rule(host=st.sampled_from(HOSTS))
    def report(self, host):
        self.moving.report(host)

    @rule(host=st.sampled_from(HOSTS), disabled=st.booleans())
    def disable(self, host, disabled):
        set_service = self.moving.world.state_sync.set_service
        self.moving.world.call(set_service, host, disabled, None, None, 0.0)

    @rule(data=st.data())
    def stop(self, data):
        if self.rebalances:
            self.moving.rebalances.stop(data.draw(st.sampled_from(self.rebalances)))

    @invariant()
    def every_server_has_its_claim_where_it_runs(self):
        for host, here in self.moving.running.items():
            for server in here:
                hosts = [one for one, _, _ in self.moving.hosts(server)]
                assert host in hosts or server in self.losers
                assert len(hosts) <= 2

    @invariant()
    def no_host_has_too_much(self):
        used = collections.Counter()
        for claim in self.moving.store.claims():
            used[claim.node_uuid] += claim.resources[VCPU]
        assert max(used.values()) <= 4

    @invariant()
    def states_only_go_forward(self):
        flying = 0
        for rebalance in self.rebalances:
            for one in self.moving.rebalances.moves(rebalance):
                before = self.seen.get(one.uuid, WAITING)
                assert STEPS[before] <= STEPS[one.state]
                assert before not in ENDS or before == one.state
                self.seen[one.uuid] = one.state
                flying += one.state in (HELD, HANDED_OVER)
        assert flying <= 2

    def unclaimed(self):
        """Servers that have lost their claim, and a move tells why they have none."""
        moves = [one for made in self.rebalances for one in self.moving.rebalances.moves(made)]
        return self.losers & {one.server for one in moves if one.state == 'confirmed' and one.why}

    def teardown(self):
        self.conductors.is_away = False
        for _ in range(20):
            for ended in list(self.conductors.going):
                self.conductors.end(ended, DONE)
            for host in HOSTS:
                self.moving.report(host)
            self.moving.wait()
            if not self.runner.turn():
                break
        for host, here in self.moving.running.items():
            for server in here:
                claims = [(one, state) for one, state, _ in self.moving.hosts(server)]
                assert claims == [(host, 'confirmed')] or (
                    claims == [] and server in self.unclaimed()
                )
        counts = collections.Counter(self.seen.values())
        for rebalance in self.rebalances:
            for one in self.moving.rebalances.moves(rebalance):
                assert one.state not in OPEN, counts
                assert one.why or one.state == 'confirmed'


def test_moves(upgraded):
    class OnSqlite(Moves):
        def clean(self):
            return cleared(upgraded)

    # No shrinking: a long example now is worth more than a short one after the time is up.
    chosen = settings(max_examples=cases(25), stateful_step_count=30, phases=[Phase.generate])
    run_state_machine_as_test(OnSqlite, settings=chosen)
