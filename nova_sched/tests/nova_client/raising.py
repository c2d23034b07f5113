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

from typing import NamedTuple

from nova_sched import errors


class Case(NamedTuple):
    """``error`` is the name of what Nova raises, with a text in its message. ``ours`` is our answer: a verdict, an
    error, or None where either verdict may be right."""

    what: str
    error: str
    text: str
    ours: bool | type | None
    why: str


FILTERS: dict[str, list[Case]] = {}
WEIGHERS: dict[str, list[Case]] = {}


def case_of(cases, error):
    """The case that an error of Nova's belongs to, or None."""
    for case in cases:
        if type(error).__name__ == case.error and case.text in str(error):
            return case
    return None


def as_expected(case, answer):
    """Whether our answer, a verdict or a Raised, is what the case says."""
    raised = getattr(answer, 'error', None)
    if isinstance(case.ours, type):
        return isinstance(raised, case.ours)
    return raised is None and (case.ours is None or answer == case.ours)


__all__ = ['FILTERS', 'WEIGHERS', 'as_expected', 'case_of', 'errors']
