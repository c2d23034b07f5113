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
"""AggregateInstanceExtraSpecsFilter."""

from typing import NamedTuple

import numpy as np

from nova_sched.filters import Filter
from nova_sched.filters.extra_specs import matches
from nova_sched.filters.reasons import listed
from nova_sched.state.facts import LASTING
from nova_sched.state.host_aggregate import values

SCOPE = 'aggregate_instance_extra_specs'


class AggregateSpec(NamedTuple):
    """One extra spec about aggregates: the metadata key, and the condition on its values."""

    spec: str
    key: str
    text: str

    def met_by(self, aggregates):
        """Return whether any value in a host's aggregates meets the condition."""
        return any(matches(value, self.text, self.spec) for value in values(aggregates, self.key))


def wanted(request):
    """Yield the extra specs about aggregates: of the scope `aggregate_instance_extra_specs`, or
    without a scope."""
    for spec, text in request.extra_specs.items():
        scope, colon, key = spec.partition(':')
        if not colon:
            yield AggregateSpec(spec, spec, text)
        elif scope == SCOPE:
            yield AggregateSpec(spec, key, text)


class AggregateInstanceExtraSpecsFilter(Filter):
    """The metadata of the host's aggregates meets the flavor's extra specs.

    Every extra spec without a scope counts, even if it is about something else: a host whose
    aggregates have no such key is refused.
    """

    for_tenants = 'their aggregates do not match the extra specs'
    run_filter_once_per_request = True
    host_facts = LASTING
    request_facts = ('extra_specs',)

    def mask(self, hosts, request):
        fits = True
        for condition in wanted(request):
            if condition.key not in hosts.aggregates.keys:
                return hosts.everywhere(False)
            fits = fits & hosts.aggregates.map(hosts.aggregate_set, condition.met_by)
        return fits

    def depends_on(self, request):
        return tuple(wanted(request))

    def why(self, hosts, request, rows):
        slots = hosts.aggregate_set[rows]
        return '; '.join(
            f'extra spec {condition.spec} asks for {condition.text}, '
            f'{_there(condition, hosts.aggregates, slots)}'
            for condition in wanted(request)
            if not np.all(hosts.aggregates.map(slots, condition.met_by))
        )


def _there(condition, aggregates, slots):
    """Return the values that the aggregates of the refused hosts have instead."""
    present = {value for some in aggregates.distinct(slots) if not condition.met_by(some)
               for value in values(some, condition.key)}  # fmt: skip
    return f'aggregates have {listed(present)}' if present else 'no aggregate has it'
