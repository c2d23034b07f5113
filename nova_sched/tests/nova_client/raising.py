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
"""Inputs on which Nova's own rules raise, and so fail the whole request; and what ours do instead."""

from typing import Any, NamedTuple

from nova_sched import errors


class Case(NamedTuple):
    """``error`` is the name of what Nova raises, with a text of its message. ``ours`` are the answers that are
    right for us then: verdicts, weights, or types of errors."""

    what: str
    error: str
    text: str
    ours: tuple[Any, ...]
    why: str


EITHER = (True, False)
# Extra specs and the metadata of aggregates are held against each other by the same operators.
NO_NUMBER = Case(
    'a number is asked for, and the host has none or what is asked is none',
    'ValueError',
    'could not convert string to float',
    (False, errors.InvalidRequest),
    'what is no number is never at least 8; a flavor that asks for `>= many` is wrong',
)
NO_WORD = Case(
    'no word follows <or>',
    'IndexError',
    'pop from empty list',
    (errors.InvalidRequest,),
    'the flavor is wrong',
)
FILTERS: dict[str, list[Case]] = {
    'ComputeCapabilitiesFilter': [NO_NUMBER, NO_WORD],
    'AggregateInstanceExtraSpecsFilter': [NO_NUMBER, NO_WORD],
}
WEIGHERS: dict[str, list[Case]] = {}


def case_of(cases, error):
    """The case that an error of Nova's belongs to, or None."""
    for case in cases:
        if type(error).__name__ == case.error and case.text in str(error):
            return case
    return None


def is_right(case, answer):
    """Whether our answer, a value or a Raised, is right in this case."""
    raised = getattr(answer, 'error', None)
    return any(
        isinstance(raised, right) if isinstance(right, type) else raised is None and answer == right
        for right in case.ours
    )
