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
"""How long each filter and weigher takes: measured in one decision of many."""

import time
from typing import Any

from nova_sched.engine.catalog import Rules
from nova_sched.measures import catalogue

EVERY = 1000  # decisions for one that is measured: it is a full pass, ten times as long as usual
FILTER, WEIGHER = 'filter', 'weigher'


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
        return Rules(*(_measured(some, kind) for some, kind in kinds))


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
