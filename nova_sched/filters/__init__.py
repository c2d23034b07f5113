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
"""Filters: which hosts may take a request. One rule a file, each a mask over all hosts.

The contract: ``mask(hosts, request)`` returns a bool for each row, or True for no opinion. It
reads the columns and the request, and nothing else but options. From it follow the methods that
Nova calls on its filters, so every rule can be asked about one host state as well.
"""

import numpy as np

from nova_sched.state.one_host import OneHost
from nova_sched.state.spec import SpecRequest


class Filter:
    """Base of all filters.

    ``run_filter_once_per_request``: of a request for several instances, only the first is asked
    about. ``RUN_ON_REBUILD``: the rule also judges the one host of a rebuild check.
    ``KEPT_WHEN_FORCED``: it also judges a host that an operator names.
    """

    run_filter_once_per_request = False
    RUN_ON_REBUILD = False
    KEPT_WHEN_FORCED = False

    @property
    def name(self):
        return type(self).__name__

    def mask(self, hosts, request):
        """Bool for each row: may the host take the request? True: no opinion."""
        raise NotImplementedError

    def depends_on(self, request):
        """What the verdict depends on beside the hosts' lasting facts, as something hashable;
        None: on more.

        Lasting facts are aggregates, traits, texts such as the hypervisor's type, and which hosts
        there are. While they stay, an equal value means an equal mask, which is then kept
        (``state.kept``).
        """
        return None  # noqa: RET501 - the default answer of a question

    def why(self, hosts, request, rows):
        """What these rows, which the rule refused, lack, for people; of several rows the nearest
        miss.

        No host names: users read this. Empty: the rule's name says it all.
        """
        return ''

    def nearest(self, hosts, request, rows):
        """Which of these rows came nearest to passing, where that can be told; else None."""

    def limits(self, hosts, request, row):
        """What the compute node of a chosen row shall check again: SchedulerLimits' fields, by
        name."""
        return {}

    def judge(self, hosts, request, rows):
        """The mask of the surviving rows. A rule that must open each row overrides this."""
        verdict = self.mask(hosts, request)
        return verdict if verdict is True else verdict[rows]

    # Nova's face.

    def host_passes(self, host_state, filter_properties):
        """Whether one Nova-like host state passes for a RequestSpec."""
        return bool(np.all(self.mask(OneHost(host_state), SpecRequest(filter_properties))))

    def _filter_one(self, obj, spec_obj):
        if SpecRequest(spec_obj).is_rebuild and not self.RUN_ON_REBUILD:
            return True
        return self.host_passes(obj, spec_obj)

    def filter_all(self, filter_obj_list, spec_obj):
        """Those of the host states that pass."""
        return (one for one in filter_obj_list if self._filter_one(one, spec_obj))

    def run_filter_for_index(self, index):
        """Whether the rule is asked for the instance at this place of a request."""
        return not (self.run_filter_once_per_request and index > 0)


class RowFilter(Filter):
    """A rule that must look at each host by itself: asked about the surviving rows only."""

    def passes(self, host_state, request):
        raise NotImplementedError

    def mask(self, hosts, request):
        return hosts.map_rows(range(hosts.rows), lambda state: self.passes(state, request))

    def judge(self, hosts, request, rows):
        return np.fromiter(
            (self.passes(hosts.state(row), request) for row in rows), dtype=bool, count=len(rows)
        )
