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

"""Server-sent events, and what happens when all places are taken."""

import json

from nova_sched import errors
from nova_sched.extensions.dashboard.streams import LIFE_S, Streams


class Changes:
    """Answers one after the other; each is a version and what has changed."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    def __call__(self, version):
        self.asked.append(version)
        return self.answers.pop(0)


def events(body):
    """Names and data of the events."""
    found = []
    for text in body:
        lines = dict(line.split(': ', 1) for line in text.strip().splitlines())
        if 'event' in lines:
            found.append((lines['event'], lines['id'], json.loads(lines['data'])))
    return found


def streams(most, times):
    return Streams(most, sleep=lambda _: None, clock=iter(times).__next__)


def test_changes_follow_each_other():
    changes = Changes(('b-2', [[0, 1]]), ('b-2', []), ('b-3', [[1, 1]]))
    told = events(streams(1, [0, 1, 2, LIFE_S])._events(changes, 'b-1'))
    assert told == [('cells', 'b-2', [[0, 1]]), ('cells', 'b-3', [[1, 1]])]
    assert changes.asked == ['b-1', 'b-2', 'b-2']


def test_all_has_changed():
    told = events(streams(1, [0])._events(Changes(('c-1', None)), 'b-1'))
    assert told == [('reload', 'c-1', '')]


def test_a_stream_without_a_place_ends_at_once():
    made = streams(0, [0])
    assert events(made._events(Changes(('b-2', [[0]])), 'b-1')) == [('cells', 'b-2', [[0]])]


def test_a_stream_that_ends_leaves_its_place():
    made = streams(1, [0, 0, 0, LIFE_S, 0, 0])
    first = made._events(Changes(('b-1', [])), 'b-1')
    next(first)
    first.close()
    body = made._events(Changes(('b-1', []), ('b-1', [])), 'b-1')
    assert len(list(body)) == 3  # it stayed for a second look


def test_a_stream_ends_without_the_database():
    def changes(_):
        raise errors.StoreUnavailable('the database is away')

    made = streams(1, [0, 0])
    for _ in range(2):  # the first one has left its place
        (retry,) = made._events(changes, 'b-1')
        assert retry.startswith('retry: ')
