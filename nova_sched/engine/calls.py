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
"""Calls of methods in the loop: reads and changes of the host state that are not decisions.

A method that is ``pausable`` pauses while other messages wait, as decisions do.
"""

import inspect
import logging

from nova_sched import errors
from nova_sched.engine import measuring
from nova_sched.engine.time_slice import TimeSlice
from nova_sched.measures.catalogue import MEASURES
from nova_sched.state.vocab import Unfinished

LOG = logging.getLogger(__name__)

MAX_RUNS = 4  # of a method from its start with pauses; then it goes on to its end
_PAUSED, _WAITING = object(), object()


def pausable(method):
    """Mark a method that Calls may pause: one that reads and undoes all that it changes.

    While it judges many hosts for the first time, it is interrupted by Unfinished, and run again
    when they are judged. A generator pauses where it yields as well.
    """
    method.is_pausable = True
    return method


def settled(hosts, method, *args):
    """Yield while hosts are judged that the method asks for. Return what the method returns."""
    for _ in range(MAX_RUNS):
        try:
            return method(*args)
        except Unfinished as error:
            rest = error.rest
        while rest is not None:
            yield
            try:
                rest()
                rest = None
            except Unfinished as error:
                rest = error.rest
    pause, hosts.pause = hosts.pause, None
    try:
        return method(*args)
    finally:
        hosts.pause = pause


class Calls:
    """Handles messages whose work is (method, arguments). Runs in the loop only.

    The paused ones go on in turn after the new ones, one for each slice of time: a long one does
    not keep short ones waiting to its end. ``until_done`` runs work on the store, and waits while
    the store is down.
    """

    def __init__(self, hosts, loop, until_done):
        self._hosts, self._until_done = hosts, until_done
        self._has_more = False
        self._slice = TimeSlice(lambda: self._has_more or loop.has_waiting)

    def run(self, messages):
        """Answer each message. Returns those that are paused; first those that had no turn."""
        paused, waiting, self._slice.end_s = [], [], None
        new_first = sorted(messages, key=lambda message: message.rest is not None)
        for place, message in enumerate(new_first, start=1):
            self._has_more = place < len(messages)
            if MEASURES.is_on:
                self._slice.hold()
            try:
                result = self._until_done(self._go_on, message)
                if result is _PAUSED:
                    paused.append(message)
                elif result is _WAITING:
                    waiting.append(message)
                else:
                    message.answer(result)
            except errors.SchedError as error:
                message.fail(error)
            except (Exception, Unfinished) as error:
                LOG.exception('The engine failed on %s', _name(message))
                message.fail(error)
            if MEASURES.is_on:
                measuring.record_hold(_name(message), self._slice.held_s())
        return waiting + paused

    def _go_on(self, message):
        """Run the method, or what is left of it. Returns _PAUSED if something is still left, and
        _WAITING if it had no turn."""
        method, args = message.work
        if not getattr(method, 'is_pausable', False):
            return method(*args)
        rest, message.rest = message.rest, None  # after an error it starts again
        if rest is not None:
            self._slice.let()
        elif inspect.isgeneratorfunction(method):
            rest = method(*args)
        else:
            rest = settled(self._hosts, method, *args)
        is_due = self._slice.end_s is None  # the first one takes a step in any case
        result = _WAITING
        self._hosts.asked_s = message.since_s
        try:
            while not self._slice.is_over() or is_due:
                is_due, result = False, _PAUSED
                self._hosts.pause = self._slice.is_over
                next(rest)
        except StopIteration as end:
            return end.value
        finally:
            self._hosts.pause = self._hosts.asked_s = None
        message.rest = rest
        return result


def _name(message):
    return getattr(message.work[0], '__name__', 'call')
