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
"""Answers that the loop has still to decide."""

from nova_sched.engine.groups.member_resolver import ReplanRequired


class PollRequired(Exception):
    """No host was found, but hosts may have changed: ``refusal`` (NoValidHost) stands only if none
    is found after a poll."""

    def __init__(self, refusal):
        super().__init__(str(refusal))
        self.refusal = refusal


# What the loop decides instead of an answer: what is to be done first takes time.
WORK = ReplanRequired, PollRequired


class Deferred:
    """The answer of a call, which may not be there yet.

    ``future`` ends when the loop has decided; ``finish()`` then makes the answer, or raises.
    ``is_slow``: that waits for something else too, even if the loop has decided.
    """

    def __init__(self, future, finish, is_slow=False):
        self.future = future
        self._finish = finish
        self._is_slow = is_slow

    def waits(self):
        """Whether ``result`` would wait now."""
        if self._is_slow or not self.future.done():
            return True
        return isinstance(self.future.exception(), WORK)

    def then(self, finish):
        """The Deferred of what ``finish`` makes once this answer can be had."""
        return Deferred(self.future, finish, self._is_slow)

    def result(self):
        """The answer. Waits for it."""
        return self._finish()
