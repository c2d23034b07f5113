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
"""Answers that are made later."""

import types
from concurrent.futures import Future

import pytest

from nova_sched import errors
from nova_sched.engine.cycle import LookRequired
from nova_sched.engine.groups.member_resolver import ReplanRequired
from nova_sched.engine.loop import Deferred


def decided(result=None, error=None):
    """A Future of the loop that has ended."""
    future = Future()
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
    return future


def test_it_waits_for_its_future():
    future = Future()
    made = Deferred(future, lambda: future.result() * 2)
    assert made.waits()
    future.set_result(21)
    assert (made.waits(), made.result()) == (False, 42)


def test_a_refusal_does_not_wait():
    future = decided(error=errors.NoValidHost('full'))
    made = Deferred(future, future.result)
    assert not made.waits()
    with pytest.raises(errors.NoValidHost):
        made.result()


REQUEST = types.SimpleNamespace(member_placement=types.SimpleNamespace(member='g.a'))


@pytest.mark.parametrize(
    'error',
    [ReplanRequired(REQUEST), LookRequired(errors.NoValidHost('full'))],
    ids=['plan', 'look'],
)
def test_what_the_loop_has_left_to_its_caller_waits(error):
    assert Deferred(decided(error=error), lambda: ['host']).waits()


def test_what_is_made_of_it_waits_as_it_does():
    future = decided(1)
    for is_slow in True, False:
        made = Deferred(future, future.result, is_slow)
        then = made.then(lambda made=made: made.result() + 1)
        assert (then.future, then.waits(), then.result()) == (future, is_slow, 2)
