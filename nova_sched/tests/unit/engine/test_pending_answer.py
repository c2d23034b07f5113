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
"""An order that the engine decides meanwhile."""

import types
from concurrent.futures import Future

import pytest

from nova_sched import errors
from nova_sched.engine.groups.member_resolver import ReplanRequired
from nova_sched.engine.pending_answer import LookRequired, PendingAnswer


def placement(result=None, error=None):
    """A decided order; its replan returns the request in a list, its look raises the refusal."""
    future = Future()
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)

    def look(refusal):
        raise refusal

    return PendingAnswer(future, lambda request: [request], look)


def test_it_waits_until_the_loop_has_decided():
    future = Future()
    made = PendingAnswer(future, None)
    assert made.waits()
    future.set_result(['host'])
    assert (made.waits(), made.result()) == (False, ['host'])


def test_a_refusal_does_not_wait():
    made = placement(error=errors.NoValidHost('full'))
    assert not made.waits()
    with pytest.raises(errors.NoValidHost):
        made.result()


def test_a_refusal_is_told_as_its_caller_wants_it():
    def told(refusal):
        return errors.NoValidHost(f'told: {refusal.reason}')

    with pytest.raises(errors.NoValidHost, match='told: full'):
        placement(error=errors.NoValidHost('full')).result(told)
    assert placement(result=['host']).result(told) == ['host']


def test_a_group_is_replanned_by_who_asks_for_the_result():
    request = types.SimpleNamespace(member_placement=types.SimpleNamespace(member='g.a'))
    made = placement(error=ReplanRequired(request))
    assert (made.waits(), made.result()) == (True, [request])


def test_hosts_are_looked_at_by_who_asks_for_the_result():
    made = placement(error=LookRequired(errors.NoValidHost('full')))
    assert made.waits()
    with pytest.raises(errors.NoValidHost, match='told'):
        made.result(lambda refusal: errors.NoValidHost(f'told: {refusal.reason}'))
