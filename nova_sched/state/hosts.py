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
"""The host state for rules: the columns under Nova's names, and a few methods over all rows."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from nova_sched.claim import DISK_GB, MEMORY_MB, VCPU
from nova_sched.state.aggregates import Aggregates
from nova_sched.state.columns import Columns
from nova_sched.state.facts import AnswerCache, ChangedRows
from nova_sched.state.host_aggregate import zones
from nova_sched.state.host_state import (
    ATTRIBUTES,
    CAPABILITIES,
    NUMBERS,
    OF_NODE,
    OF_REPORT,
    RATIOS,
    HostState,
    attribute,
    capability,
    fact,
)
from nova_sched.state.places import Places
from nova_sched.state.vocab import NamesInUse, RowVerdicts

TEXTS = frozenset(['cpu_info', 'host_ip', 'hypervisor_type'])
VERSION = 'hypervisor_version'


class Hosts(Columns):
    """All hosts, for filters and weighers: they read it and never change it.

    ``now_s`` is the time of the decision, in seconds since the epoch: rules have no other clock.
    ``pause`` is called after each value that is judged (a machine, a tree, a capability), if there
    are many. If it returns True, Unfinished is raised. None: no pauses. ``asked_s`` is when the
    question was asked, in monotonic seconds: what was undecided for it stays so, however often it
    pauses. None: now.
    """

    pause: Callable[[], bool] | None = None
    asked_s: float | None = None

    def __init__(self, capacity=64):
        super().__init__(capacity)
        self.now_s = 0.0
        self.is_owned = False  # whether each provider of Nova has the trait OWNER_NOVA
        # Hosts of the cloud that have no row, because facts about them are missing.
        self.left_out = 0
        self.nodes = []  # row -> state.node.Node
        self.rows_of_host = {}  # host name -> list of rows
        self.spellings = {}  # host name in lower case -> set of host names
        self.places = Places()  # instance UUID -> set of rows that hold it
        self.names_of_children, self.names_of_stats = NamesInUse(), NamesInUse()
        self.child_classes = self.names_of_children.names  # resource classes of child providers
        self.stat_names = self.names_of_stats.names  # of the nodes' stats
        # Names of stats that describe a rack or the like.
        self.lasting_stats: frozenset[str] = frozenset()
        self.aggregates = Aggregates()
        self.cache = AnswerCache()  # results of rules that depend only on lasting data
        self.changed = ChangedRows()
        self.row_verdicts = RowVerdicts(self.changed)

    def forget(self):
        """Drop what was kept of the hosts: rows were added or removed, or lasting facts
        changed."""
        self.cache.forget()
        self.changed.forget()

    @property
    def undecided(self):
        """Return how many answers of rules are preliminary, because a search had too few
        steps."""
        columns = self.interned['machine'], self.interned['shape'], self.row_verdicts
        return sum(column.undecided for column in columns)

    # Nova's names for the resource columns.

    def _of(self, resource_class, column):
        return getattr(self.resource(resource_class), column)

    @property
    def vcpus_total(self):
        return self._of(VCPU, 'total')

    @property
    def vcpus_used(self):
        return self._of(VCPU, 'used') + self._of(VCPU, 'reserved')

    @property
    def cpu_allocation_ratio(self):
        return self._of(VCPU, 'ratio')

    @property
    def spare_vcpus(self):
        """Unused vCPUs within the allocation ratio; negative when oversubscribed."""
        return self._of(VCPU, 'spare')

    @property
    def total_usable_ram_mb(self):
        return self._of(MEMORY_MB, 'total')

    @property
    def free_ram_mb(self):
        return self._of(MEMORY_MB, 'unused')

    @property
    def ram_allocation_ratio(self):
        return self._of(MEMORY_MB, 'ratio')

    @property
    def total_usable_disk_gb(self):
        return self._of(DISK_GB, 'total')

    @property
    def free_disk_mb(self):
        return self._of(DISK_GB, 'unused') * 1024 - self.disk_slack_mb

    @property
    def disk_mb_used(self):
        return (self._of(DISK_GB, 'used') + self._of(DISK_GB, 'reserved')) * 1024

    @property
    def disk_allocation_ratio(self):
        return self._of(DISK_GB, 'ratio')

    # Queries.

    def everywhere(self, value, dtype=bool):
        """Return a column that is the same on all rows."""
        return np.full(self.rows, value, dtype=dtype)

    def fits(self, resource_class, amount):
        """Rows that can give the amount of a resource class to one consumer."""
        resource = self.resources.get(resource_class)
        return self.everywhere(False) if resource is None else resource.fits(amount)

    def has_class(self, resource_class):
        """Rows whose node itself has an inventory of a resource class."""
        resource = self.resources.get(resource_class)
        return self.everywhere(False) if resource is None else resource.total > 0

    @property
    def has_exclusive_domains(self):
        """Whether any host was ever in an exclusive domain."""
        return len(self.interned['fences'].values) > 1

    def open_to(self, tokens):
        """Rows that are in no exclusive domains except those with these tokens; True: all rows."""
        if not self.has_exclusive_domains:
            return True
        return self.map('fences', lambda fences: fences is None or fences <= tokens)

    def named(self, hosts, nodes=None):
        """Rows of these hosts (exact names), and of these nodes if any are given."""
        mask = self.everywhere(False)
        for host in hosts:
            mask[self.rows_of_host.get(host, [])] = True
        if nodes is not None:
            for row in np.flatnonzero(mask):
                mask[row] = self.nodes[row].nodename in nodes
        return mask

    def named_loosely(self, hosts):
        """Rows of these hosts, whose names are given in lower case."""
        return self.named([name for host in hosts for name in self.spellings.get(host, ())])

    def in_cell(self, cell_uuid):
        """Rows of a cell; a node that never reported its cell may be in any."""
        known, unknown = self.cells.find(cell_uuid), self.cells.find(None)
        return (self.cell == (-1 if known is None else known)) | (
            self.cell == (-1 if unknown is None else unknown)
        )

    def count_instances(self, uuids):
        """Return how many of these instances each row holds."""
        counts = self.everywhere(0, np.int64)
        for uuid in uuids:
            for row in self.places.get(uuid, ()):
                counts[row] += 1
        return counts

    def growing(self, request, resource_class):
        """Return, for each row with the instance: the sum of both of its sizes, and whether there
        is capacity for it."""
        growths = ((row, self.nodes[row].growth(request, resource_class))
                   for row in self.places.get(request.instance_uuid, ()))  # fmt: skip
        return {row: both for row, both in growths if both is not None}

    def count_images(self, name, text):
        """Return how many instances of an image with that property each row holds, as far as
        images are known."""
        return self.places.count_images((name, text), self.rows)

    def metric(self, name):
        """Return the metric of each row: NaN where it is not reported, NO_VALUE where it is
        reported but not as a number."""
        return self.metric_columns.column(name, self.nodes)

    def has_trait(self, trait):
        number = self.traits.find(trait)
        return self.everywhere(False) if number is None else self.trait_sets.has(number, self.rows)

    def trait_names(self):
        """Names of the traits that a host, or a child provider, has."""
        known = (trait for trait in self.traits.values if trait is not None)
        names = {trait for trait in known if self.has_trait(trait).any()}
        trees = [tree for tree in self.interned['shape'].values if tree is not None]
        return names.union(*(provider.traits for tree in trees for provider in tree.children))

    def has_zone(self, zone):
        """Whether any aggregate names the zone."""
        return self.aggregates.has_zone(zone)

    def in_zone(self, zone, default_zone):
        """Rows of a zone; hosts without a zone in their aggregates are in the default zone."""
        return self.aggregates.map(
            self.aggregate_set, lambda aggregates: zone in (zones(aggregates) or {default_zone})
        )

    def aggregate_number(self, key, default, convert):
        """Return the numeric override of each row by aggregate metadata; a plain default if there
        is none."""
        if key not in self.aggregates.keys:
            return default
        numbers = functools.partial(
            self.aggregates.numbers, self.aggregate_set, key, default, convert
        )
        if isinstance(default, np.ndarray):
            return numbers()
        return self.cache.get((key, default, convert), numbers)

    def map(self, name, judge, dtype=bool):
        """Return ``judge(value)`` of an interned column, for each row; called once for each
        distinct value."""
        return self.interned[name].map(getattr(self, name), judge, dtype)

    def map_machines(self, rows, question, judge):
        """Return ``judge(machine)`` for the given rows; the machine is None if the node reports
        no hardware.

        Equal machines are evaluated once, and again only when a claim or a report changes them.
        ``question`` is hashable, and an equal one has the same answers.
        """
        return self.interned['machine'].map_kept(
            self.machine[rows], question, judge, self.pause, self.asked_s
        )

    def machines(self, rows):
        """Return the machines of the rows, each distinct one once, those of most rows first."""
        slots, counts = np.unique(self.machine[rows], return_counts=True)
        values = self.interned['machine'].values
        return [values[slot] for slot in slots[np.argsort(-counts, kind='stable')]]

    def map_shapes(self, rows, question, judge):
        """Return ``judge(tree)`` of the child providers of the given rows; False for a node
        without any.

        Equal trees are evaluated once, as machines are. Their UUIDs are not those of the node.
        """
        return self.interned['shape'].map_kept(
            self.shape[rows],
            question,
            lambda tree: tree is not None and judge(tree),
            self.pause,
            self.asked_s,
        )

    def has_below(self, resource_class):
        """Rows with a child provider that has an inventory of the class."""
        if resource_class not in self.child_classes:
            return self.everywhere(False)
        rows = np.arange(self.rows)
        return self.map_shapes(
            rows, ('class', resource_class), lambda tree: resource_class in tree.classes
        )

    def has_trait_below(self, trait):
        """Rows with a child provider that has the trait."""
        rows = np.arange(self.rows)
        return self.map_shapes(
            rows,
            ('trait', trait),
            lambda tree: any(trait in provider.traits for provider in tree.children),
        )

    def map_each(self, rows, question, judge):
        """Return ``judge(hosts, row)`` for the given rows: again only when the row changes.

        ``question`` is hashable, and an equal one has the same answers.
        """
        return self.row_verdicts.map_kept(
            rows, self, question, lambda row: judge(self, row), self.pause, self.asked_s
        )

    def below(self, row, request):
        """Return the tree of a row's providers, and the request's demand on them."""
        return self.nodes[row].below(request)

    def has_capability(self, name):
        """Return which rows tell of their node under this name: as an attribute of the host
        state, or in its stats."""
        if name in CAPABILITIES or name not in self.stat_names:
            return self.everywhere(name in CAPABILITIES)
        return np.fromiter(
            (name in node.report.stats for node in self.nodes), dtype=bool, count=self.rows
        )

    def map_capability(self, name, question, judge):
        """Return ``judge(value)`` of each row's capability of this name (see
        ``host_state.capability``); False for a row without it.

        Each distinct number or text is evaluated once, other values are read row by row. The
        verdicts on what nodes report are kept: ``question`` is hashable, and an equal one has the
        same answers.
        """

        def verdict(value):
            return value is not None and judge(value)

        # Of these only the version may be unreported; it is 0 then, which may also be reported.
        is_number = name in NUMBERS or name in RATIOS
        if is_number or (name == VERSION and self.hypervisor_version.all()):
            values, places = np.unique(getattr(self, name), return_inverse=True)
            return np.array([judge(value) for value in values.tolist()], dtype=bool)[places]
        if name in TEXTS and name not in self.stat_names:
            slots = getattr(self, name)
            return self.interned[name].map_kept(slots, question, verdict, self.pause, self.asked_s)
        if name not in CAPABILITIES and name not in self.stat_names:
            return self.everywhere(False)
        return self.map_each(
            np.arange(self.rows),
            question,
            lambda hosts, row: verdict(capability(hosts.state(row), name)),
        )

    # For plug-ins, which may ask for any attribute of a host state.

    def has_attribute(self, name):
        """Return the rows whose host state has the attribute, or whose stats have the entry."""
        return self.everywhere(True) if name in ATTRIBUTES else self.has_capability(name)

    def map_attribute(self, name, judge):
        """Return ``judge(value)`` of each row's attribute or, where that is None, of its stats'
        entry; False for a row without either."""

        def verdict(state):
            value = attribute(state, name)
            return value is not None and judge(value)

        return self.map_rows(range(self.rows), verdict)

    def values(self, name):
        """Return the values of an attribute, not of stats, and for each row the index of its
        value; a value of None: the row has none.

        Numbers are listed once. Other values may be listed once for each row.
        """
        if name in NUMBERS or name in RATIOS:
            distinct, places = np.unique(getattr(self, name), return_inverse=True)
            return distinct.tolist(), places
        if name in OF_NODE:
            row_values = [getattr(node, name) for node in self.nodes]
        elif name in OF_REPORT:
            row_values = [getattr(node.report, OF_REPORT[name]) for node in self.nodes]
        elif name in ATTRIBUTES:
            row_values = [fact(self.state(row), name) for row in range(self.rows)]
        else:
            return [None], np.zeros(self.rows, dtype=np.intp)
        return row_values, np.arange(self.rows)

    def map_rows(self, rows, judge):
        """Return ``judge(host_state)`` for the given rows only; other rows are False."""
        mask = self.everywhere(False)
        for row in rows:
            mask[row] = bool(judge(self.state(row)))
        return mask

    def state(self, row):
        """Return a host state with Nova's attribute names, for one row."""
        return HostState(self, row)

    def what_if(self, rows=None):
        """Return a view of these hosts in which columns can be replaced; the hosts themselves do
        not change.

        ``rows`` (an array) are the rows of the view, of which one may occur several times; their
        columns are copies, each made at its first use. None: all rows, whose columns are shared
        until they are replaced.
        """
        view = WhatIf.__new__(WhatIf)
        if rows is None:
            vars(view).update(vars(self))
        else:
            view.rows, view.cache = len(rows), AnswerCache()
        view.real, view.members, view.is_real = self, {}, False
        view.picked = slice(None) if rows is None else rows
        return view

    def view(self, rows):
        """Return a ``what_if`` of these rows (an array) in which nothing is replaced."""
        view = self.what_if(rows)
        view.is_real = True
        return view


class WhatIf(Hosts):
    """Hosts as they would be, made by ``Hosts.what_if``.

    ``members`` are instances that the hosts would have in addition: UUID -> their number on each
    row.
    """

    real: Hosts
    picked: Any  # an array of rows, or a slice of all
    members: dict[str, np.ndarray]
    is_real: bool  # whether no column was replaced
    resources: Any

    def __getattr__(self, name):
        """Make what a view of some rows does not have yet, from the real hosts."""
        if name == 'nodes':
            self.nodes = [self.real.nodes[row] for row in self.picked.tolist()]
        elif name == 'resources':
            self.resources = SomeResources(self.real.resources, self.picked)
        elif name == 'rows_of_host':
            self.rows_of_host = {}
            for row, node in enumerate(self.nodes):
                self.rows_of_host.setdefault(node.host, []).append(row)
        else:
            return getattr(self.real, name)
        return vars(self)[name]

    @property
    def pause(self):  # type: ignore[override]
        return self.real.pause

    @property
    def asked_s(self):  # type: ignore[override]
        return self.real.asked_s

    def map_each(self, rows, question, judge):
        real = np.arange(len(self.real))[self.picked][rows]
        return self.real.map_each(real, question, judge)

    def some(self, name):
        """The rows of a column."""
        return getattr(self.real, name)[self.picked]

    def aggregate_number(self, key, default, convert):
        if isinstance(default, np.ndarray):
            return super().aggregate_number(key, default, convert)
        numbers = self.real.aggregate_number(key, default, convert)
        return numbers[self.picked] if isinstance(numbers, np.ndarray) else numbers

    def metric(self, name):
        return self.real.metric(name)[self.picked]

    def has_trait(self, trait):
        return self.real.has_trait(trait)[self.picked]

    def count_instances(self, uuids):
        counts = self.real.count_instances(uuids)[self.picked]
        return sum((more for uuid, more in self.members.items() if uuid in uuids), counts)

    def count_images(self, name, text):
        return self.real.count_images(name, text)[self.picked]

    def growing(self, request, resource_class):
        growths = self.real.growing(request, resource_class)
        rows = np.arange(len(self.real))[self.picked].tolist() if growths else ()
        return {row: growths[real] for row, real in enumerate(rows) if real in growths}


class SomeResources(dict):
    """Some rows of the resource classes, each class made at its first use."""

    def __init__(self, real, rows):
        super().__init__()
        self._real, self._rows = real, rows

    def __missing__(self, name):
        resource = self[name] = self._real[name].view(self._rows)
        return resource

    def __contains__(self, name):
        return name in self._real

    def get(self, name, default=None):
        return self[name] if name in self._real else default
