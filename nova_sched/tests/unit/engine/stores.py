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
"""Claim stores with a will of their own."""

import threading

from nova_sched import errors
from nova_sched.claims import ClaimStore, PlacementOutcome
from nova_sched.tests.stores import MemoryClaimStore


class Unsteady(MemoryClaimStore):
    """A store that is away while ``away`` is set; it counts what it was asked in vain.

    ``forgets`` is how many of the next calls are done, but do not get through to the caller any
    more.
    """

    def __init__(self):
        super().__init__()
        self.away = threading.Event()
        self.asked_in_vain = 0
        self.forgets = 0


def _unsteady(name):
    work = getattr(MemoryClaimStore, name)

    def call(self, *args, **words):
        if self.away.is_set():
            self.asked_in_vain += 1
            raise errors.StoreUnavailable('it is away')
        found = work(self, *args, **words)
        if self.forgets:
            self.forgets -= 1
            raise errors.StoreUnavailable('the answer is lost')
        return found

    return call


for _name in ClaimStore.__abstractmethods__:
    setattr(Unsteady, _name, _unsteady(_name))


class Contested(MemoryClaimStore):
    """Another scheduler commits first: the next of ``rivals`` (lists of placements) just before
    each commit.

    ``commits`` notes the consumers of each commit of ours.
    """

    def __init__(self):
        super().__init__()
        self.rivals = []
        self.commits = []

    def commit(self, placements):
        if self.rivals and (rival := self.rivals.pop(0)):
            assert all(outcome.won for outcome in super().commit(rival))
        self.commits.append([claim.consumer_uuid for one in placements for claim in one.claims])
        return super().commit(placements)


class Miser(Contested):
    """A store in which every claim is lost."""

    def commit(self, placements):
        self.commits.append([claim.consumer_uuid for one in placements for claim in one.claims])
        return [PlacementOutcome(False) for _ in placements]


class Generous(MemoryClaimStore):
    """A store in which every claim is won, whatever there is."""

    def commit(self, placements):
        return [PlacementOutcome(True) for _ in placements]


class Squeamish(Contested):
    """A store that breaks over the claims of some consumers."""

    def __init__(self, *consumers):
        super().__init__()
        self.consumers = consumers

    def commit(self, placements):
        if any(
            claim.consumer_uuid in self.consumers for one in placements for claim in one.claims
        ):
            raise OverflowError('too much for this column')
        return super().commit(placements)
