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
"""The facts that rules declare to read, and the cache of verdicts on facts that last.

A filter declares what it reads of the hosts (``HostFacts``) and of the request (names of facts).
From this the scheduler derives which verdicts it caches, which filters it runs again as hosts
fill up, and which queues have the same hosts.
"""

import collections
import enum
import functools
import operator
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

MAX_ANSWERS = 256  # most are masks, with a byte for each host
# Changes of rows that are remembered: more than one turn of the loop makes, in which 16,000 hosts
# send a heartbeat, or a large group is planned.
MAX_CHANGES = 2**15
RESOURCES, CLASSES, HARDWARE = 'resources', 'resource_classes', 'pieces'
OWN_HOSTS = 'own_hosts'  # a fact of a request: the hosts that have its instance already


class HostFacts(enum.Flag):
    """What a filter may read of hosts, by the events that change it."""

    LASTING = enum.auto()  # aggregates, traits, names, texts such as the hypervisor's type
    REPORTED = enum.auto()  # the service, metrics, stats: they change by reports and with time
    AMOUNTS = enum.auto()  # inventories, and how much of them is in use
    COUNTS = enum.auto()  # how many instances a host has, and how many operations in progress
    MEMBERS = enum.auto()  # which instances a host has, and for which groups it is exclusive
    CELLS = enum.auto()  # NUMA cells: their CPUs and pages
    DEVICES = enum.auto()  # PCI devices
    PROVIDERS = enum.auto()  # child providers


NOTHING, EVERYTHING = HostFacts(0), ~HostFacts(0)
LASTING = HostFacts.LASTING
CLAIMED = HostFacts.AMOUNTS | HostFacts.COUNTS | HostFacts.MEMBERS  # each claim changes these
HELD = HostFacts.CELLS | HostFacts.DEVICES | HostFacts.PROVIDERS  # claims with hardware these too


def amount_of(resource_class: str) -> str:
    """Return the name of a fact of a request: how much of one resource class it asks for."""
    return f'{RESOURCES}:{resource_class}'


def fact_of(request: Any, name: str) -> Hashable:
    """Return a fact of a request as a value that can be compared: equal values are equal facts.

    Facts are the fields of ``state.request.Request``, ``resource_classes``, ``amount_of`` a
    class, and OWN_HOSTS, which the instance stands for.
    """
    if name.startswith(f'{RESOURCES}:'):
        return request.resources.get(name.partition(':')[2], 0)
    if name == OWN_HOSTS:
        return request.instance_uuid
    value = getattr(request, name)
    if name == HARDWARE:
        return value.key
    return repr(sorted(value.items())) if isinstance(value, Mapping) else value


class AnswerCache:
    """A cache of answers by question; all are dropped when lasting facts change, which is rare.

    No claim or ordinary report changes a lasting fact of a host.
    """

    def __init__(self, most=MAX_ANSWERS):
        self._answers = collections.OrderedDict()
        self._most = most

    def __len__(self):
        return len(self._answers)

    def forget(self):
        self._answers.clear()

    def get(self, question, ask):
        """Return the answer to a question (hashable); calls ``ask()`` if it is not known."""
        answer = self._answers.get(question)
        if answer is None:
            if len(self._answers) >= self._most:
                self._answers.popitem(last=False)
            answer = self._answers[question] = ask()
            if isinstance(answer, np.ndarray):
                answer.setflags(write=False)
        else:
            self._answers.move_to_end(question)
        return answer


class ChangedRows:
    """The rows whose facts changed, in order, with the facts.

    A reader remembers ``end`` and asks for the changes since. When rows are added or removed, or
    lasting facts change, nothing that a reader has kept is valid any more (``forget``).
    """

    def __init__(self, most=MAX_CHANGES):
        self._rows: list[int] = []
        self._facts: list[int] = []
        self._first, self._most = 0, most

    @property
    def end(self):
        """The position after the latest change."""
        return self._first + len(self._rows)

    def mark(self, row, facts):
        """Record that these facts of a row may have changed; ``facts`` is a HostFacts' value."""
        self._rows.append(row)
        self._facts.append(facts)
        if len(self._rows) > self._most:
            half = self._most // 2
            del self._rows[:half], self._facts[:half]
            self._first += half

    def forget(self):
        self._first = self.end + 1
        self._rows, self._facts = [], []

    def since(self, position):
        """Return the changed rows (a set) and the value of all changed facts; None: nothing that
        was kept then is valid any more."""
        if position < self._first:
            return None
        skipped = position - self._first
        return set(self._rows[skipped:]), functools.reduce(operator.or_, self._facts[skipped:], 0)
