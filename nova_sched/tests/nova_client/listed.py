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
"""Inputs on which Nova's own rules raise, and so fail the whole request, or contradict
themselves."""

import copy
import itertools
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from nova import exception, objects
from nova.virt import hardware

from nova_sched import errors


class Case(NamedTuple):
    """One kind of such inputs.

    ``error`` is the name of what Nova raises, with a text of its message. ``ours`` are the answers
    that are right for us then: verdicts, weights, types of errors. With ``mend``, a function from
    a host state to one that Nova can judge, the right answer is what Nova says of that one.
    ``why`` is the reason for ours. What ``is_rare`` need not come up in a run.
    """

    what: str
    error: str
    text: str
    ours: tuple[Any, ...]
    why: str
    mend: Callable[[Any], Any] | None = None
    is_rare: bool = False


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
        isinstance(raised, right)
        if isinstance(right, type)
        else raised is None and answer == right
        for right in case.ours
    )


def cpu_info_read(state):
    """The host state with its cpu_info as the mapping that the text is."""
    mended = copy.copy(state)
    try:
        found = json.loads(state.cpu_info)
    except (TypeError, ValueError):
        found = None
    info = found if isinstance(found, dict) else {}
    limit = info.get('maxphysaddr')
    mended.cpu_info = info if isinstance(limit, dict) else info | {'maxphysaddr': {}}
    return mended


def metrics_with_values(state):
    """The host state without the metrics that have no value of their own, only some by NUMA
    cell."""
    mended = copy.copy(state)
    mended.metrics = [one for one in state.metrics if 'value' in one]
    return mended


class ContradictsItself(Exception):
    """What Nova says of a whole is not what it says of the parts."""


def claim_cells(state, spec):
    """Fit the guest into the cells of the host that took it and claim it, as Nova's compute node
    does.

    Raises what Nova raises then, and ContradictsItself if no order of the host's cells fits cell
    by cell.
    """
    host = objects.NUMATopology.obj_from_primitive(state.numa_topology.obj_to_primitive())
    for cell in host.cells:
        if not cell.mempages:  # every real host has pages, and Nova cannot claim without
            total, used = cell.memory * 256, cell.memory_usage * 256
            cell.mempages = [
                objects.NUMAPagesTopology(size_kb=4, total=total, used=used, reserved=0)
            ]
    limits = objects.NUMATopologyLimits(
        cpu_allocation_ratio=state.cpu_allocation_ratio,
        ram_allocation_ratio=state.ram_allocation_ratio,
    )
    found = ContradictsItself('no order of the host cells takes each guest cell')
    for cells in itertools.permutations(host.cells, len(spec.numa_topology)):
        try:
            fitted = _fit(cells, spec.numa_topology.obj_clone(), limits)
            if fitted is not None:
                hardware.numa_usage_from_instance_numa(host, fitted)
                return
        except exception.CPUPinningInvalid as error:
            found = error
    raise found


def _fit(cells, guest, limits):
    """The guest in these host cells, each pair judged by itself; None if a pair does not fit."""
    for place, (cell, wanted) in enumerate(zip(cells, guest.cells, strict=True)):
        reserved = int(place == 0 and guest.emulator_threads_isolated)
        try:
            if hardware._numa_fit_instance_cell(cell, wanted, limits, reserved) is None:
                return None
        except exception.MemoryPageSizeNotSupported:
            return None
    return guest


# What Nova does next with a host that passed, where that may fail.
NEXT = {'NUMATopologyFilter': claim_cells}

# Extra specs are held against hosts and against the metadata of aggregates by the same operators.
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


def _bad_query(what, error, text):
    return Case(what, error, text, (errors.InvalidRequest,), 'the hint is wrong')


FILTERS: dict[str, list[Case]] = {
    'AggregateInstanceExtraSpecsFilter': [
        NO_NUMBER._replace(ours=(False, True, errors.InvalidRequest)),
        NO_WORD,
    ],
    'ComputeCapabilitiesFilter': [NO_NUMBER, NO_WORD],
    'ImagePropertiesFilter': [
        Case(
            'the image limits address bits',
            'AttributeError',
            "has no attribute 'get'",
            (),
            'Nova takes the text of cpu_info for a mapping; ours reads the text',
            cpu_info_read,
        )
    ],
    'JsonFilter': [
        _bad_query(
            'values of different kinds are compared',
            'TypeError',
            'not supported between instances of',
        ),
        _bad_query('the query is a number', 'TypeError', 'object is not subscriptable'),
        _bad_query('the query is a mapping', 'KeyError', '0'),
        _bad_query('there are several queries', 'TypeError', "can't be decoded"),
        _bad_query('the query is no JSON', 'JSONDecodeError', ''),
        _bad_query('the operator is a list', 'TypeError', 'unhashable type'),
        _bad_query('the operator is not known', 'KeyError', ''),
        _bad_query('a part is asked of what has none', 'AttributeError', "has no attribute 'get'"),
    ],
    'NUMATopologyFilter': [
        Case(
            'emulator threads beside another guest on a core that is to be isolated',
            'CPUPinningInvalid',
            '',
            (False,),
            'Nova picks a core that it then cannot claim, since a thread of it is taken',
        ),
        Case(
            'three guest cells, and one of them is too large',
            'ContradictsItself',
            'no order of the host cells',
            (False,),
            'Nova remembers which cells fit by ids of guest cells that it overwrites meanwhile',
            is_rare=True,
        ),
    ],
    'ServerGroupAntiAffinityFilter': [
        Case(
            'max_server_per_host is no number',
            'ValueError',
            'invalid literal for int()',
            (errors.InvalidRequest,),
            'the group is wrong',
        )
    ],
    'SimpleCIDRAffinityFilter': [
        Case(
            'address or size of the network make no sense',
            'AddrFormatError',
            'invalid IPNetwork',
            (errors.InvalidRequest,),
            'the hint is wrong',
        ),
        Case(
            'there are several addresses',
            'TypeError',
            'expected str instance, CoercedList found',
            (errors.InvalidRequest,),
            'the hint is wrong',
        ),
        Case(
            'the host has told no address',
            'TypeError',
            "argument of type 'NoneType' is not iterable",
            (False,),
            'nobody knows that it is near',
        ),
    ],
}
WEIGHERS: dict[str, list[Case]] = {
    'MetricsWeigher': [
        Case(
            'a metric is required that a host does not have',
            'ComputeHostMetricNotFound',
            '',
            (errors.BadConfig,),
            'the options say that it must not be; the error tells how many hosts lack it',
        ),
        Case(
            'a metric has values by NUMA cell only',
            'NotImplementedError',
            "Cannot load 'value' in the base class",
            (),
            'it cannot be weighed, and so it is missing',
            metrics_with_values,
        ),
    ]
}
