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
"""The contract of what writes won decisions in another service too, before their callers are
answered."""

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

from nova_sched.claim import Claim
from nova_sched.engine.loop import Message
from nova_sched.engine.place import Decision

LOG = logging.getLogger(__name__)

GONE = 'The caller has stopped waiting.'


@dataclasses.dataclass(frozen=True, slots=True)
class WriteOutcome:
    """What became of a decision that a Writer was given.

    If it was not ``won``, its claims end. With a ``refusal`` (a text) its caller gets that as
    NoValidHost; else its order is decided again. ``elsewhere`` has instances that the other
    service has on other nodes already, by an earlier call: they are placed on these nodes (UUIDs).
    ``taken_back``: it was written, and is gone again. A read in between may have confirmed its
    claims, which end all the same.

    Of one that was won, ``end`` is called with whether its caller got the answer. If it did not,
    because its claims have ended or its caller has left, the writer takes back what it has
    written.
    """

    won: bool
    refusal: str | None = None
    elsewhere: Mapping[str, str] = dataclasses.field(default_factory=dict)
    taken_back: bool = False
    end: Callable[[bool], None] = dataclasses.field(default=lambda _: None, compare=False)


class Writer(Protocol):
    """Writes won decisions elsewhere too, for example as allocations of another service, before
    their callers are answered."""

    def write(
        self, decision: Decision, claims: Sequence[Claim], answer: list, message: Message
    ) -> 'Future[WriteOutcome] | None':
        """Return None if there is nothing to write; else a Future of the outcome.

        It does not wait: the loop goes on. ``claims`` are those of the decision as the store has
        them, ``message`` is that of the order. If the Future fails,
        the claims of the decision end and its order is decided again.
        """


def outcome_of(done):
    """The outcome in a writer's Future; a failure counts as a loss."""
    try:
        return done.result()
    except Exception:
        LOG.exception('A placed request could not be written elsewhere')
        return WriteOutcome(won=False)
