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
"""A search for an order of messages that breaks a promise: late, doubled, overtaken, lost, by
wrong clocks.

Callers ask three schedulers for hosts, confirm, delete, and ask again when they have no answer;
hosts report. Every message may be delivered at any time after it was sent, to any scheduler,
several times or never. The own clock of a scheduler is up to an hour off.

The promise: a caller that was told a host has the claim there, and nowhere else, until it says
otherwise.
"""

import dataclasses
import itertools
import types

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from nova_sched import errors
from nova_sched.claims import ClaimSelector
from nova_sched.engine.clock import Received, StoreClock, handling
from nova_sched.engine.cycle import PLACE, Order
from nova_sched.engine.scheduler import REPORT
from nova_sched.state.report import ReportOrder
from nova_sched.tests.builders import NOW, report, request, uuid_of
from nova_sched.tests.stores import MemoryClaimStore
from nova_sched.tests.unit.claims.batteries.steps import check_books
from nova_sched.tests.unit.engine.test_machine import search
from nova_sched.tests.unit.engine.world import World

HOSTS = ('host-0', 'host-1', 'host-2')
NAMES = ('A', 'B')
WRONG_S = (0.0, 3600.0, -3600.0)

places = st.integers(0, len(WRONG_S) - 1)
at_once = st.none() | places | places


@dataclasses.dataclass(eq=False)
class Message:
    """``work`` has it handled by an engine; returns the answer."""

    work: object
    answered: object = lambda answer: None


class Server:
    """One instance and the caller that looks after it. ``told``: the host that the caller knows
    of."""

    def __init__(self, name):
        self.uuid, self.told, self.runs, self.ignored = uuid_of(name), None, False, ()
        self.waits = None  # for the answer to this message


class Late(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.now_s = NOW
        self.store = MemoryClaimStore(lambda: self.now_s)
        self.servers = {name: Server(name) for name in NAMES}
        self.sequences = {host: itertools.count(1) for host in HOSTS}
        self.seen = dict.fromkeys(HOSTS, 0)
        self.sent = []
        self.engines = []

    @initialize()
    def every_host_reports_once(self):
        for wrong_s in WRONG_S:
            self.engines.append(World(self.store, clock=self.clock(wrong_s)))
        for host in HOSTS:
            self.deliver(self.report_of(host), 0)

    def clock(self, wrong_s):
        """The store's clock as a process knows it whose own clock is wrong."""
        made = StoreClock(self.store.now_s, lambda: self.now_s - NOW, lambda: self.now_s + wrong_s)
        made.read_store()
        return made

    # Messages on their way.

    def send(self, work, answered=lambda answer: None):
        self.now_s += 0.01
        self.sent.append(Message(work, answered))
        return self.sent[-1]

    def deliver(self, message, place):
        self.now_s += 0.01
        try:
            answer = message.work(self.engines[place])
        except errors.SchedError as error:
            answer = error
        message.answered(answer)

    @rule(data=st.data(), place=places)
    def some_message_arrives(self, data, place):
        """It may arrive again."""
        if self.sent:
            self.deliver(data.draw(st.sampled_from(self.sent), 'message'), place)

    @rule(seconds=st.floats(0.1, 30.0))
    def time_passes(self, seconds):
        self.now_s += seconds

    @rule(place=places)
    def a_scheduler_refreshes(self, place):
        self.engines[place].state_sync.refresh()

    # Callers.

    @rule(name=st.sampled_from(NAMES), elsewhere=st.booleans(), place=at_once)
    def ask(self, name, elsewhere, place):
        """For a host, if there is none; or for another one, because the build has failed."""
        server = self.servers[name]
        if server.runs:
            return
        if server.told is not None and not (elsewhere and len(server.ignored) < len(HOSTS) - 1):
            return
        if server.told is not None:
            server.ignored = (*server.ignored, server.told)
        wanted = request(instance_uuid=server.uuid, ignore_hosts=list(server.ignored))
        server.told = None

        def select(engine):
            order = Order([wanted], context=types.SimpleNamespace(request_id=None))
            # A caller that has its answer waits for no other one.
            with handling(Received(lambda: server.waits is not message)):
                future = engine.loop.send(PLACE, order)
            engine.turn_until(future)
            return future.result()[0][0].host

        def answered(answer):
            if server.waits is message and not isinstance(answer, errors.SchedError):
                server.told, server.waits = answer, None

        message = server.waits = self.send(select, answered)
        self.deliver_at(place)

    def deliver_at(self, place):
        """Nothing holds up the latest message, if there is a place for it."""
        if place is not None:
            self.deliver(self.sent[-1], place)

    @rule(name=st.sampled_from(NAMES), named=st.booleans(), place=at_once)
    def build(self, name, named, place):
        """The server runs; its caller confirms that, and hears the answer or not."""
        server = self.servers[name]
        if server.told is None:
            return
        server.runs, host = True, server.told
        meant = self.named(server) if named else ClaimSelector()

        def confirm(engine):
            return engine.call(engine.claim_service.confirm_claim, server.uuid, host, meant)

        self.send(confirm)
        self.deliver_at(place)

    @rule(name=st.sampled_from(NAMES), place=places)
    def delete(self, name, place):
        """The caller ends the claim that it sees, unless the server runs: then the host has to
        report that it is gone."""
        server = self.servers[name]
        if server.told is None:
            return
        meant = self.named(server)._replace(unconfirmed=True)

        def abort(engine):
            return engine.call(engine.claim_service.abort_claim, server.uuid, None, meant)

        server.waits, host = None, server.told
        message = self.send(abort)
        server.told, server.ignored = None, ()
        self.deliver(message, place)
        if server.runs:
            server.runs = False
            self.deliver(self.report_of(host), place)

    def named(self, server):
        (there,) = self.store.claims(server.uuid)
        return ClaimSelector(there.uuid)

    # Hosts.

    @rule(host=st.sampled_from(HOSTS), place=at_once)
    def a_host_reports(self, host, place):
        self.report_of(host)
        self.deliver_at(place)

    def report_of(self, host):
        """What runs there now; the report may be delivered late."""
        here = frozenset(
            one.uuid for one in self.servers.values() if one.runs and one.told == host
        )
        order = ReportOrder(self.seen[host], 1, next(self.sequences[host]))
        made = report(
            host, vcpus=8, vcpus_used=len(here), memory_mb=8192, instances=here, order=order
        )

        def take(engine):
            future = engine.loop.send(REPORT, made)
            engine.turn_until(future)
            return future.result().generation

        def answered(generation):
            if not isinstance(generation, errors.SchedError):
                self.seen[host] = max(self.seen[host], generation)

        return self.send(take, answered)

    # What holds at any time.

    @invariant()
    def the_books_hold(self):
        check_books(self.store)
        waiting = [one.consumer_uuid for one in self.store.claims() if not one.is_confirmed]
        assert len(set(waiting)) == len(waiting)

    @invariant()
    def what_a_caller_was_told_stands(self):
        hosts = {uuid_of(f'node {host}'): host for host in HOSTS}
        for server in self.servers.values():
            if server.told is not None:
                assert [hosts[one.node_uuid] for one in self.store.claims(server.uuid)] == [
                    server.told
                ]


def test_no_order_of_messages_breaks_a_promise():
    search(Late, 80)


def test_a_boot_again_where_the_host_has_still_to_tell_that_the_last_one_is_gone():
    """The scheduler that has made the claim does not know that another one has confirmed it."""
    late = Late()
    late.every_host_reports_once()
    late.ask('A', False, 2)
    host = late.servers['A'].told
    late.build('A', False, 0)
    late.delete('A', 0)
    late.ask('A', False, 2)
    for _ in range(3):
        late.a_host_reports(host, 0)
        late.the_books_hold()
        late.what_a_caller_was_told_stands()
