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
"""What the loop measures of each request, while metrics are shown or the request is traced; and in
one decision of many, how long each filter and weigher takes."""

import collections
import time
from typing import Any

from nova_sched.engine.catalog import Rules
from nova_sched.measures import catalogue
from nova_sched.measures.catalogue import MEASURES

WAIT, DECIDE, COMMIT, ANSWER, WHOLE = 'wait', 'decide', 'commit', 'answer', 'whole'
PLACEMENT = 'placement'
MAX_WAITING = 100_000  # steps of decisions that wait to be counted; further ones replace the first
EVERY = 1000  # decisions for one that is measured: it is a full pass, ten times as long as usual
FILTER, WEIGHER = 'filter', 'weigher'

_steps: collections.deque = collections.deque(maxlen=MAX_WAITING)


class Watch:
    """Watches the cycle, for the metrics while they are shown, and for the traces of orders that
    have one. ``time_slice`` is the cycle's TimeSlice. Runs in the loop only; times are those of
    ``time.perf_counter``."""

    def __init__(self, time_slice):
        self._slice = time_slice

    def begun(self, messages):
        """The loop decides these messages as a batch."""
        if not MEASURES.is_on:
            return
        catalogue.BATCH_ORDERS.observe(len(messages))
        now_s = time.monotonic()
        for message in messages:
            if not message.is_begun:
                message.is_begun = True
                catalogue.CALL_SECONDS.observe(now_s - message.since_s, WAIT)

    def hold(self):
        """From now on, others that come have to wait."""
        self._slice.hold()

    def record_hold(self, kind, messages=1):
        """Record how long each of these messages has kept all others waiting since ``hold``."""
        if MEASURES.is_on:
            record_hold(kind, self._slice.held_s() / messages)

    def decided(self, attempt, begin_s, end_s):
        """An order was decided, or its decision was paused. In a trace, each filter is an event;
        before the first decision is the wait for it."""
        message = attempt.message
        if message.rest is not None:
            return
        if MEASURES.is_on:
            catalogue.CALL_SECONDS.observe(end_s - begin_s, DECIDE)
        if (trace := message.work.trace) is not None:
            if not trace.spans:
                trace.add(WAIT, trace.begin_s, begin_s)
            ended = attempt.decision or attempt.refusal
            steps = () if ended is None else ended.steps or ()
            trace.add(DECIDE, begin_s, end_s, steps, attempt=message.attempts + 1)

    def committed(self, attempts, begin_s, end_s):
        """The claims of these attempts were tried in one transaction."""
        if MEASURES.is_on:
            catalogue.CALL_SECONDS.observe(end_s - begin_s, COMMIT)
        for attempt in attempts:
            if (trace := attempt.message.work.trace) is not None:
                won = attempt.outcome.won
                trace.add(COMMIT, begin_s, end_s, requests=len(attempts), won=won)

    def built(self, message, begin_s, end_s):
        """The answer to an order was built."""
        if MEASURES.is_on:
            catalogue.CALL_SECONDS.observe(end_s - begin_s, ANSWER)
        if (trace := message.work.trace) is not None:
            trace.add(ANSWER, begin_s, end_s)

    def writing(self, message, future):
        """The decision of an order is being written elsewhere, until the future ends."""
        if (trace := message.work.trace) is not None:
            begin_s = time.perf_counter()
            future.add_done_callback(lambda _: trace.add(PLACEMENT, begin_s, time.perf_counter()))


def record_hold(kind, seconds):
    """Record that one message of this kind has kept all others waiting for so long."""
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


class RuleTimes:
    """Picks every ``every``-th decision, and gives it rules that measure themselves."""

    def __init__(self, every=EVERY):
        self._every, self._count = every, 0

    def is_due(self):
        """Whether the rules of this decision are to be measured."""
        self._count = (self._count + 1) % self._every
        return not self._count

    def of(self, rules):
        """The Rules, each in a MeasuredRule."""
        kinds = (rules.always, FILTER), (rules.filters, FILTER), (rules.weighers, WEIGHER)
        return Rules(*(_measured(chain, kind) for chain, kind in kinds))


def _measured(rules: Any, kind: str) -> Any:
    return tuple(MeasuredRule(rule, kind) for rule in rules)


class MeasuredRule:
    """A filter or weigher that counts the time of its work. It is equal to the rule inside, so
    that answers that are kept for one serve the other."""

    def __init__(self, rule, kind):
        self._rule, self._kind = rule, kind

    def __getattr__(self, name):
        return getattr(self._rule, name)

    def __eq__(self, other):
        return other is self._rule or getattr(other, '_rule', None) is self._rule

    def __hash__(self):
        return hash(self._rule)

    def mask(self, *arguments):
        return self._measured(self._rule.mask, arguments)

    def judge(self, *arguments):
        return self._measured(self._rule.judge, arguments)

    def raw(self, *arguments):
        return self._measured(self._rule.raw, arguments)

    def _measured(self, work, arguments):
        begin_s = time.perf_counter()
        try:
            return work(*arguments)
        finally:
            catalogue.RULE_SECONDS.add(
                self._kind, self._rule.name, by=time.perf_counter() - begin_s
            )
            catalogue.RULE_SAMPLES.add(self._kind, self._rule.name)
