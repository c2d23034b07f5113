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
"""JsonFilter."""

import functools
import itertools
import json
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nova_sched import errors
from nova_sched.filters import Filter
from nova_sched.filters.reasons import listed
from nova_sched.state.facts import EVERYTHING, NOTHING
from nova_sched.state.host_state import ATTRIBUTES, NUMBERS

MAX_TERMS = 250  # of one query, with the steps of paths: each may need the values of every host
ALL, ANY = 'and', 'or'


class Column(NamedTuple):
    """The values of an expression on all rows: the distinct values, and for each row its index
    into them; None: every row has the first value."""

    values: list
    places: np.ndarray | None = None


def _compared(relation):
    """Return a function: whether the first value has the relation to each of the remaining ones;
    false if there are none."""

    def holds(values):
        results = [relation(values[0], other) for other in values[1:]]
        return bool(results) and all(results)

    return holds


# The result of an operator on its arguments, without those that are None. The result of `not` is a
# list. The operators around it treat a list as true if any element is true.
OPERATORS: dict[str, Callable[[list], Any]] = {
    '=': _compared(operator.eq),
    '<': _compared(operator.lt),
    '>': _compared(operator.gt),
    '<=': _compared(operator.le),
    '>=': _compared(operator.ge),
    'in': lambda values: values[0] in values[1:] if values else False,
    'not': lambda values: [not value for value in values],
}


def _refusal(why):
    return errors.InvalidRequest('scheduler hint query', why)


def read(text):
    """Return the query as plain values; empty if there is none. Raises InvalidRequest."""
    try:
        query = json.loads(text) if text else []
    except (TypeError, ValueError, RecursionError) as error:
        raise _refusal(f'it is not JSON: {error}') from None
    # A text is the list of its characters, as in Nova.
    if query and not isinstance(query, list | str):
        raise _refusal('it is not a list')
    return query or []


class Judgement:
    """Evaluates a query and its terms on every host; values that hosts share are judged once."""

    def __init__(self, hosts):
        self._hosts = hosts
        self._terms = 0
        self._known: dict[str, Column] = {}

    def holds(self, query):
        """Return a bool for each row. A list is true if any element is true. Raises
        InvalidRequest."""
        return self._rows(
            self._apply, query, lambda value: any(value) if isinstance(value, list) else value
        )

    def holds_within(self, term):
        """Return the same for a term of an `and`, which is true if it has no value."""
        return self._rows(self._column, term, lambda value: value is None or bool(value))

    def _rows(self, judge, term, truth):
        try:
            column = judge(term)
        except TypeError as error:
            raise _refusal(str(error)) from None
        except RecursionError:
            raise _refusal('it is nested too deeply') from None
        truths = np.array([truth(value) for value in column.values], dtype=bool)
        return (
            self._hosts.everywhere(truths[0]) if column.places is None else truths[column.places]
        )

    def _column(self, term):
        self._count(1)
        if isinstance(term, list):
            return self._apply(term)
        if isinstance(term, str) and term.startswith('$'):
            if term not in self._known:
                self._known[term] = self._attribute(term)
            return self._known[term]
        return Column([None if term == '' else term])

    def _count(self, terms):
        self._terms += terms
        if self._terms > MAX_TERMS:
            raise _refusal(f'it has more than {MAX_TERMS} terms')

    def _attribute(self, term):
        """Return the values of `$name`, or of `$name.key` if the attribute is a mapping."""
        name, *path = term[1:].split('.', MAX_TERMS + 1)
        self._count(len(path))
        values, places = self._hosts.values(name)
        for key in path:
            if all(value is None for value in values):
                return Column([None])
            values = [_part(value, key, term) for value in values]
        return Column(values, places)

    def _apply(self, query):
        if not query:
            return Column([True])
        name, *terms = query
        columns = [self._column(term) for term in terms]
        if name in (ALL, ANY):
            return _joined(columns, name == ALL)
        if not isinstance(name, str) or name not in OPERATORS:
            raise _refusal(
                'it has an unknown operator; known are ' + ' '.join([*OPERATORS, ALL, ANY])
            )
        return self._judged(OPERATORS[name], columns)

    def _judged(self, rule, columns):
        """Return the rule's results: over the values of the one column that varies, or over rows
        if several do."""
        varying = {id(column): column for column in columns if column.places is not None}
        if not varying:
            return Column(
                [rule([column.values[0] for column in columns if column.values[0] is not None])]
            )
        by_row = len(varying) > 1
        (first, *_) = varying.values()
        lists = [_spread(column, by_row) for column in columns]
        results = [
            rule([value for value in values if value is not None])
            for values in zip(*lists, strict=False)
        ]
        places = np.arange(len(results)) if by_row else first.places
        if all(isinstance(value, bool) for value in results):
            return Column([False, True], np.array(results, dtype=np.intp)[places])
        return Column(results, places)


def _part(value, key, term):
    if value is None:
        return None
    try:
        return value.get(key)
    except AttributeError:
        raise _refusal(f'{term} asks for a part of what has none') from None


def _spread(column, by_row):
    if column.places is None:
        return itertools.repeat(column.values[0])
    return [column.values[place] for place in column.places.tolist()] if by_row else column.values


def _joined(columns, want_all):
    """Return whether all of the columns, or any, are true; a term without a value is ignored."""
    truths = []
    for values, places in columns:
        truth = np.array(
            [want_all if value is None else bool(value) for value in values], dtype=bool
        )
        truths.append(truth[0] if places is None else truth[places])
    joined = functools.reduce(
        np.logical_and if want_all else np.logical_or, truths, np.bool_(want_all)
    )
    return Column([False, True], joined.astype(np.intp)) if joined.ndim else Column([bool(joined)])


class JsonFilter(Filter):
    """The host meets the hint `query`, in JSON: `[">=", "$free_ram_mb", 1024]`.

    A list is an operator and its arguments, `$name` an attribute of the host and `$name.key` a
    part of it. Arguments without a value are left out, and a comparison of less than two is false.
    Raises InvalidRequest for an invalid query, for values that cannot be compared, and for more
    terms than one request may have.
    """

    for_tenants = "they do not meet the query's condition"
    request_facts = ('hints',)

    def mask(self, hosts, request):
        query = read(request.hint('query'))
        return Judgement(hosts).holds(query) if query else True

    def host_facts_for(self, request):
        """Without a query it reads no host."""
        return EVERYTHING if 'query' in request.hints else NOTHING

    def why(self, hosts, request, rows):
        query, judgement = read(request.hint('query')), Judgement(hosts)
        if query[0] == ALL and len(query) > 1:
            failed = [
                int(np.count_nonzero(~judgement.holds_within(part)[rows])) for part in query[1:]
            ]
            number, part = max(failed), query[1 + int(np.argmax(failed))]
        else:
            number, part = len(rows), query
        subject = 'the host fails' if len(rows) == 1 else f'{number} of {len(rows)} hosts fail'
        # Neither values of the query nor the values compared with them: they may be names of
        # hosts.
        names = set(_attributes(part)) & ATTRIBUTES
        on = f' on {listed(names)}' if names else ''
        return f"{subject} the query's condition{on}{_range(hosts, names, rows)}"


def _attributes(term):
    """Return the names of attributes in a term."""
    if isinstance(term, str) and term.startswith('$'):
        yield term[1:].partition('.')[0]
    for part in term if isinstance(term, list) else ():
        yield from _attributes(part)


def _range(hosts, names, rows):
    """Return the range of the rows' values as text, if the condition is about one numeric
    attribute."""
    if len(names) != 1 or not names <= NUMBERS:
        return ''
    values = getattr(hosts, *names)[rows]
    low, high = int(values.min()), int(values.max())
    return f', which is {low}' if low == high else f', which is {low} to {high}'
