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
"""Filters: which hosts may take a request. One rule per file, each a mask over all hosts;
``foreign`` adapts rules that were written for Nova, ``extra_specs`` and ``reasons`` serve several.

The contract: ``mask(hosts, request)`` returns a bool for each row, or True for no opinion. It
reads only the columns, the request and options, and of these only the facts that the rule
declares. The verdict on a row depends on other rows by lasting facts at most: the hosts may be a
view of some rows. The methods that Nova calls on its filters are derived from it, so every rule
can also judge a single host state.
"""

import math

import numpy as np

from nova_sched.state.facts import EVERYTHING, LASTING, fact_of
from nova_sched.state.one_host import OneHost
from nova_sched.state.spec import SpecRequest


class Filter:
    """Base of all filters.

    ``run_filter_once_per_request``: for a request for several instances, the rule runs for the
    first one only. ``RUN_ON_REBUILD``: the rule also judges the one host of a rebuild check.
    ``KEPT_WHEN_FORCED``: it also judges a host that an operator names.
    ``for_tenants``: why it removes hosts, for tenants: without amounts, numbers or names of the
    cloud. Empty: the rule's name is explanation enough.

    A rule declares what its verdict depends on, in addition to options. A rule that declares
    nothing may read everything.

    ``host_facts``: what it reads of hosts (``state.facts.HostFacts``).
    ``request_facts``: what it reads of the request (``state.facts.fact_of``). None: everything,
    the message too.
    ``by_class``: it judges each resource class by itself, with ``gives``.
    ``follows_time``: its verdict changes with time alone; ``until_s`` says when.
    """

    run_filter_once_per_request = False
    RUN_ON_REBUILD = False
    KEPT_WHEN_FORCED = False
    for_tenants = ''
    host_facts = EVERYTHING
    request_facts: tuple[str, ...] | None = None
    by_class = False
    follows_time = False
    judges_rows = False  # set here for a rule that has its own ``judge``

    def __init_subclass__(cls, **words):
        super().__init_subclass__(**words)
        cls.judges_rows = cls.judge is not Filter.judge

    @property
    def name(self):
        return type(self).__name__

    def mask(self, hosts, request):
        """Return a bool for each row: whether the host may take the request; True: no opinion."""
        raise NotImplementedError

    def depends_on(self, request):
        """Return the hashable inputs of the verdict in addition to the lasting facts of hosts;
        None: there are more inputs.

        While lasting facts stay, an equal value means an equal mask, which is then cached
        (``state.facts.AnswerCache``). A rule overrides this if its verdict also depends on
        options, or on less than its facts of the request.
        """
        if self.host_facts is not LASTING or self.request_facts is None:
            return None
        return tuple([fact_of(request, name) for name in self.request_facts])

    def gives(self, hosts, resource_class, units):
        """Return which rows give a consumer that many units of a class; for ``by_class``.

        ``units`` is a number, or for a single row an array of them.
        """
        raise NotImplementedError

    def until_s(self, hosts):
        """Return the time from which on the verdict on each row may be another one, if no fact
        of the row changes before; for ``follows_time``. In seconds since the epoch; inf: never."""
        return np.full(hosts.rows, math.inf)

    def host_facts_for(self, request):
        """Return the facts of hosts that the verdict on this request depends on."""
        return self.host_facts if self.depends_on(request) is None else LASTING

    def request_facts_for(self, hosts, request):
        """Return the facts of this request that the verdict on these hosts depends on.

        A rule overrides this if it reads less on some hosts. Requests with equal facts, as
        returned for one of them, have equal verdicts.
        """
        return self.request_facts

    def why(self, hosts, request, rows):
        """Return a text for operators on why the rule refused these rows; of several rows, the
        nearest miss.

        The text has no host names, because callers read it with [explain] tell_callers = all.
        Empty: the rule's name is explanation enough.
        """
        return ''

    def nearest(self, hosts, request, rows):
        """Return the row that came nearest to passing; None if the rule cannot compare rows."""

    def limits(self, hosts, request, row):
        """Return the limits that the compute node of a chosen row checks again: SchedulerLimits'
        fields, by name."""
        return {}

    def judge(self, hosts, request, rows):
        """Return the mask of the surviving rows. A rule that must read each row separately
        overrides this."""
        verdict = self.mask(hosts, request)
        return verdict if verdict is True else verdict[rows]

    # Nova's filter interface.

    def host_passes(self, host_state, filter_properties):
        """Return whether one Nova-like host state passes for a RequestSpec."""
        return bool(np.all(self.mask(OneHost(host_state), SpecRequest(filter_properties))))

    def _filter_one(self, obj, spec_obj):
        if SpecRequest(spec_obj).is_rebuild and not self.RUN_ON_REBUILD:
            return True
        return self.host_passes(obj, spec_obj)

    def filter_all(self, filter_obj_list, spec_obj):
        """Return the host states that pass."""
        return (
            host_state for host_state in filter_obj_list if self._filter_one(host_state, spec_obj)
        )

    def run_filter_for_index(self, index):
        """Return whether the rule runs for the instance at this index of a request."""
        return not (self.run_filter_once_per_request and index > 0)


class RowFilter(Filter):
    """A rule that must read each host separately: it runs on the surviving rows only."""

    def passes(self, host_state, request):
        raise NotImplementedError

    def mask(self, hosts, request):
        return hosts.map_rows(range(hosts.rows), lambda state: self.passes(state, request))

    def judge(self, hosts, request, rows):
        return np.fromiter(
            (self.passes(hosts.state(row), request) for row in rows), dtype=bool, count=len(rows)
        )
