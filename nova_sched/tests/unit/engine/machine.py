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
"""A machine whose clock is wrong, and a store that answers after a while."""

from nova_sched import errors
from nova_sched.engine.clock import StoreClock

HOUR_S = 3600.0


class Machine:
    """A machine whose own clock is wrong, and a store that answers after a while."""

    def __init__(self, wrong_s=0.0, answer_s=0.0):
        self.moment, self.store_s = 100.0, 5000.0
        self.wrong_s, self.answer_s, self.away = wrong_s, answer_s, False

    def passes(self, seconds):
        self.moment += seconds
        self.store_s += seconds

    def ask(self):
        if self.away:
            raise errors.StoreUnavailable('away')
        self.passes(self.answer_s / 2)
        now_s = self.store_s
        self.passes(self.answer_s / 2)
        return now_s

    def clock(self, **words):
        return StoreClock(
            self.ask, lambda: self.moment, lambda: self.store_s + self.wrong_s, **words
        )
