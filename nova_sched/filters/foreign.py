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
"""Filters that were written for Nova, run on the rows that survived."""

import inspect

import numpy as np

from nova_sched.filters import Filter


class ForeignFilter(Filter):
    """A Nova filter object in the filter chain: called for each surviving host state with the
    RequestSpec."""

    def __init__(self, nova_filter):
        self._filter = nova_filter
        self.run_filter_once_per_request = getattr(
            nova_filter, 'run_filter_once_per_request', False
        )
        self.RUN_ON_REBUILD = getattr(nova_filter, 'RUN_ON_REBUILD', False)
        # Very old filters only have a method for all hosts.
        self._whole_list = not hasattr(nova_filter, 'host_passes')

    @property
    def name(self):
        return type(self._filter).__name__

    def host_passes(self, host_state, filter_properties):
        return self._filter.host_passes(host_state, filter_properties)

    def judge(self, hosts, request, rows):
        states = [hosts.state(row) for row in rows]
        if self._whole_list:
            kept = {id(state) for state in self._filter.filter_all(states, request.read_spec())}
            return np.array([id(state) in kept for state in states], dtype=bool)
        return np.array(
            [bool(self._filter.host_passes(state, request.read_spec())) for state in states],
            dtype=bool,
        )

    def mask(self, hosts, request):
        return self.judge(hosts, request, range(hosts.rows))


def adopt(plugin):
    """Return a filter of this project unchanged, and a filter that was written for Nova
    wrapped."""
    rule = plugin() if inspect.isclass(plugin) else plugin
    return rule if isinstance(rule, Filter) else ForeignFilter(rule)
