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
"""What the loop measures of each request, while metrics are shown or the request is traced."""

import collections
import time

from nova_sched.measures import catalogue

WAIT, DECIDE, COMMIT, ANSWER, WHOLE = 'wait', 'decide', 'commit', 'answer', 'whole'
PLACEMENT = 'placement'
WAITING = 100_000  # steps of decisions that wait to be counted; further ones replace the first

_steps: collections.deque = collections.deque(maxlen=WAITING)


def stage(name, seconds):
    """A request has spent so long in a stage."""
    catalogue.CALL_SECONDS.observe(seconds, name)


def begun(messages):
    """The loop decides these messages as a batch."""
    catalogue.BATCH_ORDERS.observe(len(messages))
    now_s = time.monotonic()
    for message in messages:
        if not message.is_begun:
            message.is_begun = True
            catalogue.CALL_SECONDS.observe(now_s - message.since_s, WAIT)


def held(kind, seconds):
    """One message of this kind has kept all others waiting for so long."""
    if seconds > catalogue.LOOP_HOLD.values.get((kind,), 0.0):
        catalogue.LOOP_HOLD.set(seconds, kind)


def answered(outcome, steps, seconds, instances=0):
    """A request was answered. ``steps`` are those of its decision, which are counted later, in
    another thread."""
    catalogue.DECISIONS.add(outcome)
    catalogue.CALL_SECONDS.observe(seconds, WHOLE)
    if instances:
        catalogue.INSTANCES_PLACED.add(by=instances)
    _steps.append(steps)


def trace_decision(message, attempt, begin_s, end_s):
    """Add a decision to the trace of its order, with an event for each filter; before the first
    one, the wait for it."""
    trace = message.work.trace
    if not trace.spans:
        trace.add(WAIT, trace.begin_s, begin_s)
    ended = attempt.decision or attempt.refusal
    steps = () if ended is None else ended.steps or ()
    trace.add(DECIDE, begin_s, end_s, steps, attempt=message.attempts + 1)


def trace_writing(trace):
    """Returns a callback that adds the write of a decision, which begins now, to its trace."""
    begin_s = time.perf_counter()
    return lambda _: trace.add(PLACEMENT, begin_s, time.perf_counter())


def count_steps():
    """Count the hosts that filters saw and left. Requests of one kind often share their steps."""
    alike: dict[int, list] = {}
    while _steps:
        steps = _steps.popleft()
        alike.setdefault(id(steps), [steps, 0])[1] += 1
    for steps, times in alike.values():
        for name, seen, left in steps:
            catalogue.FILTER_SEEN.add(name, by=seen * times)
            catalogue.FILTER_LEFT.add(name, by=left * times)
