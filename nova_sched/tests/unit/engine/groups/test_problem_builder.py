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
"""Which filters a plan of a group evaluates again, because its own members change the verdict."""

import pytest

from nova_sched.engine.catalog import Rules, always
from nova_sched.engine.groups.problem_builder import unsettled
from nova_sched.filters import Filter
from nova_sched.filters.foreign import ForeignFilter
from nova_sched.state.facts import LASTING, HostFacts
from nova_sched.tests.builders import request
from nova_sched.tests.rules import FILTERS

ALWAYS = {type(rule).__name__ for rule in always()}
EVERY = tuple(make() for name, make in FILTERS.items() if name not in ALWAYS)
COUNTING = {
    'AggregateIoOpsFilter',
    'AggregateNumInstancesFilter',
    'IoOpsFilter',
    'NumInstancesFilter',
}


class Undeclared(Filter):
    """It may read anything."""


class Lasting(Filter):
    host_facts = LASTING


class Counting(Filter):
    host_facts = LASTING | HostFacts.COUNTS


@pytest.mark.parametrize(
    'specs, more',
    [
        pytest.param({}, set(), id='nothing asked'),
        pytest.param({'capabilities:hypervisor_type': 'x', 'ssd': '1'}, set(), id='lasting'),
        pytest.param(
            {'capabilities:num_instances': '<= 3'}, {'ComputeCapabilitiesFilter'}, id='a count'
        ),
    ],
)
def test_built_in_filters_that_read_counts(specs, more):
    found = unsettled(Rules(always(), EVERY, ()), request(extra_specs=specs))
    assert {rule.name for rule in found} == COUNTING | more


def test_a_query_of_the_request_may_read_counts():
    asked = request(hints={'query': ['[">=", "$free_ram_mb", 1]']})
    found = unsettled(Rules(always(), EVERY, ()), asked)
    assert {rule.name for rule in found} == COUNTING | {'JsonFilter'}


def test_plug_ins_that_declare_nothing_or_counts():
    class Theirs:
        pass

    rules = Rules((), (Undeclared(), Lasting(), Counting(), ForeignFilter(Theirs())), ())
    found = [rule.name for rule in unsettled(rules, request())]
    assert found == ['Undeclared', 'Counting', 'Theirs']
