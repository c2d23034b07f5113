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
"""A search for what brings a scheduler out of step with the store.

Several schedulers on one store do what may happen. What each knows of a node is what its
generation says, and one poll makes all of them equal.
"""

from hypothesis import strategies as st
from hypothesis.stateful import rule

from nova_sched.engine.sync.store_poller import StorePoller
from nova_sched.tests.unit.engine.test_machine import Engines, search
from nova_sched.tests.unit.engine.world import fresh, picture


class Polling(Engines):
    """Three schedulers that read the store in both ways: their stale nodes, and all."""

    count = 3

    @rule(data=st.data())
    def heal(self, data):
        engine = self.one(data)
        engine.call(engine.state_sync.heal)

    @rule(data=st.data())
    def poll(self, data):
        """As the thread does, once in a while of every node."""
        engine = self.one(data)
        watch = StorePoller(
            engine.context,
            lambda method, *args: engine.call(getattr(engine.state_sync, method), *args),
        )
        watch._next_expiry = float('inf')
        watch.poll()
        assert picture(engine.cluster) == picture(fresh(self.open()))
        assert self.up_to_date(engine, engine.store.heads().items())


def test_polling():
    search(Polling, 40)
