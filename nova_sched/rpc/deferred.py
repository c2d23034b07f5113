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
"""Answers of endpoints that are made later, so that a server can take other messages meanwhile."""


class Deferred:
    """What a method returns whose answer the engine still has to decide.

    ``future`` ends when the engine has decided; ``finish()`` then makes the method's result, or
    raises. ``waits()`` returns whether ``finish`` would wait, even then.
    """

    def __init__(self, future, finish, waits=None):
        self.future = future
        self._finish = finish
        self._waits = waits

    def waits(self):
        """Whether ``result`` would wait now."""
        return self._waits() if self._waits else not self.future.done()

    def result(self):
        """The method's result. Waits for it."""
        return self._finish()


def begins(method):
    """Decorator for a method of an endpoint that never waits: it returns its result at once, or a
    Deferred."""
    method.begins = True
    return method


def once(method):
    """Decorator for a method of an endpoint that must not be repeated.

    Its message is acknowledged before it is handled, so that the bus never delivers it again. If
    the process ends meanwhile, its caller gets no answer.
    """
    method.once = True
    return method
