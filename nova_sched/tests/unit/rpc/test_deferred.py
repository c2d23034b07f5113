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

from concurrent.futures import Future

from nova_sched.rpc.deferred import Deferred, begins, once


def test_it_waits_for_its_future():
    future = Future()
    made = Deferred(future, lambda: future.result() * 2)
    assert made.waits()
    future.set_result(21)
    assert (made.waits(), made.result()) == (False, 42)


def test_it_may_wait_for_more():
    future = Future()
    future.set_result(1)
    assert Deferred(future, future.result, lambda: True).waits()


def test_marks():
    @begins
    def quick():
        pass

    @once
    def dear():
        pass

    assert (quick.begins, hasattr(quick, 'once')) == (True, False)
    assert (dear.once, hasattr(dear, 'begins')) == (True, False)
