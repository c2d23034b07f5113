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
"""Attributes of hosts by any name, which extra specs may refer to."""

import functools
from collections.abc import Mapping

import numpy as np

from nova_sched.state.host_state import ATTRIBUTES, NUMBERS, OF_NODE, OF_REPORT, RATIOS
from nova_sched.state.spec import read

TEXTS = frozenset(['cpu_info', 'host_ip', 'hypervisor_type'])
VERSION = 'hypervisor_version'
MISSING = object()


def _public(thing, name):
    """Returns an attribute that holds data: no private one and no method."""
    value = MISSING if name.startswith('_') else read(thing, name, MISSING)
    return MISSING if callable(value) else value


def fact(thing, name):
    """Returns the attribute of a Nova-like object, regardless of its stats; None if it has
    none."""
    value = _public(thing, name)
    return None if value is MISSING else value


def _stats(thing):
    stats = read(thing, 'stats')
    return stats if isinstance(stats, Mapping) else {}


def attribute(thing, name):
    """Returns the attribute of a Nova-like object. If it is missing or None, returns the entry of
    its stats, else None."""
    value = _public(thing, name)
    return _stats(thing).get(name) if value is MISSING or value is None else value


def has_attribute(thing, name):
    """Whether the object has the attribute, even if it is None, or its stats have the entry."""
    return _public(thing, name) is not MISSING or name in _stats(thing)


def rows_with(hosts, name):
    """Rows whose host state has the attribute, or whose stats have the entry."""
    if name in ATTRIBUTES or name not in hosts.stat_names:
        return hosts.everywhere(name in ATTRIBUTES)
    return np.fromiter(
        (name in node.report.stats for node in hosts.nodes), dtype=bool, count=hosts.rows
    )


def map_attribute(hosts, name, judge):
    """``judge(value)`` of each row's attribute or, where that is None, of its stats' entry.

    A row without a value is False. Columns are evaluated once for each distinct value; other
    attributes are read for each row.
    """

    def verdict(value):
        return value is not None and judge(value)

    if name in TEXTS:
        mask, missing = hosts.map(name, verdict), hosts.map(name, lambda value: value is None)
    elif name in NUMBERS or name in RATIOS or name == VERSION:
        column = getattr(hosts, name)
        values, places = np.unique(column, return_inverse=True)
        mask = np.array([judge(value) for value in values.tolist()], dtype=bool)[places]
        missing = hosts.everywhere(False)
        if name == VERSION:  # the only number that a node need not report; a reported 0 is valid
            for row in np.flatnonzero(column == 0).tolist():
                missing[row] = hosts.nodes[row].report.hypervisor_version is None
        mask &= ~missing
    elif name in ATTRIBUTES:
        return hosts.map_rows(range(hosts.rows), lambda state: verdict(attribute(state, name)))
    else:
        mask, missing = hosts.everywhere(False), hosts.everywhere(True)
    if name in hosts.stat_names:
        verdict_once = functools.cache(verdict)
        for row in np.flatnonzero(missing).tolist():
            mask[row] = verdict_once(hosts.nodes[row].report.stats.get(name))
    return mask


def values(hosts, name):
    """Returns the values of an attribute, and for each row the index of its value; a value of
    None: the row has none.

    Numbers are listed once. Other values may be listed once for each row.
    """
    if name in NUMBERS or name in RATIOS:
        distinct, places = np.unique(getattr(hosts, name), return_inverse=True)
        return distinct.tolist(), places
    if name in OF_NODE:
        row_values = [getattr(node, name) for node in hosts.nodes]
    elif name in OF_REPORT:
        row_values = [getattr(node.report, OF_REPORT[name]) for node in hosts.nodes]
    elif name in ATTRIBUTES:
        row_values = [fact(hosts.state(row), name) for row in range(hosts.rows)]
    else:
        return [None], np.zeros(hosts.rows, dtype=np.intp)
    return row_values, np.arange(hosts.rows)
