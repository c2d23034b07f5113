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
"""A search for news that would bring a scheduler out of step with the store, whatever becomes of
them.

Several schedulers on one store do what may happen; their news arrive late, twice, in another
order, or never. What each knows of a node is still what its generation says, and one look makes
all of them equal.
"""

import collections
import json

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from nova_sched.claims.sql import SqlClaimStore
from nova_sched.engine.sync.changes import ChangePublisher
from nova_sched.engine.sync.store_poller import StorePoller
from nova_sched.rpc.change_events import from_plain, to_plain
from nova_sched.tests.unit.claims.databases import cleared
from nova_sched.tests.unit.engine.test_machine import Engines, database, search
from nova_sched.tests.unit.engine.world import World, fresh, picture

__all__ = ['database']


class Gossips(Engines):
    """Three schedulers that hear of each other, if they do. ``mail`` has what is on its way to
    each."""

    count = 3

    def __init__(self):
        self.mail = collections.defaultdict(list)
        super().__init__()

    def engine(self):
        made = World(
            self.open(),
            super().engine().scheduler._placer.rules,
            news=ChangePublisher(lambda news: None),
        )
        made.scheduler.replica_sync.publisher._send = lambda news: self.post(made, news)
        return made

    def post(self, origin, news):
        for place, engine in enumerate(self.engines):
            if engine is not origin:
                self.mail[place].append(json.dumps(to_plain(news)))

    def flush(self):
        for engine in self.engines:
            engine.scheduler.replica_sync.publisher.flush()

    def hear(self, place, text):
        engine = self.engines[place]
        engine.scheduler.receive(from_plain(**json.loads(text)))
        engine.loop.turn()

    @rule(data=st.data(), again=st.sampled_from([False, False, False, True]))
    def one_message_arrives(self, data, again):
        """Not the oldest, as it may be; and it may arrive once more."""
        self.flush()
        place = data.draw(st.integers(0, len(self.engines) - 1), 'engine')
        if self.mail[place]:
            which = data.draw(st.integers(0, len(self.mail[place]) - 1), 'message')
            text = self.mail[place][which] if again else self.mail[place].pop(which)
            self.hear(place, text)

    @rule(data=st.data())
    def all_messages_arrive(self, data):
        self.flush()
        place = data.draw(st.integers(0, len(self.engines) - 1), 'engine')
        arriving, self.mail[place] = self.mail[place], []
        for text in arriving:
            self.hear(place, text)

    @rule(data=st.data())
    def messages_are_lost(self, data):
        self.flush()
        self.mail.pop(data.draw(st.integers(0, len(self.engines) - 1), 'engine'), None)

    @rule(data=st.data())
    def heal(self, data):
        engine = self.one(data)
        engine.call(engine.state_sync.heal)

    @rule(data=st.data())
    def look(self, data):
        """As the watch does, once in a while at every node."""
        engine = self.one(data)
        watch = StorePoller(
            engine.context,
            lambda method, *args: engine.call(getattr(engine.state_sync, method), *args),
        )
        watch._next_expiry = float('inf')
        watch.look()
        assert picture(engine.cluster) == picture(fresh(self.open()))
        assert self.up_to_date(engine, engine.store.heads().items())


def test_gossips():
    search(Gossips, 40)


def test_gossips_on_one_database(database):
    class OnSqlite(Gossips):
        def stores(self):
            clean = cleared(database)
            return lambda: SqlClaimStore(clean)

    search(OnSqlite, 20)


class AllHear(Gossips):
    """Three schedulers to whom every message gets through before anything else happens.

    Then each of them always knows everything, and none ever reads all nodes.
    """

    @invariant()
    def all_know_all(self):
        self.flush()
        for place, engine in enumerate(self.engines):
            arriving, self.mail[place] = self.mail[place], []
            for text in arriving:
                self.hear(place, text)
            while engine.scheduler.replica_sync.wake.is_set():
                engine.call(engine.state_sync.heal)
        true = picture(fresh(self.open()))
        for engine in self.engines:
            assert self.up_to_date(engine, self.open().heads().items())
            assert picture(engine.cluster) == true


def test_all_hear():
    search(AllHear, 25)
