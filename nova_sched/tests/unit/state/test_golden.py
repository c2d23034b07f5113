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
"""What Nova asked Placement for, and what our requests say of the same calls.

What other rules do is left out: the limit, aggregates of zones, trees of target nodes.
"""

import dataclasses
import urllib.parse

from nova_sched.state.demand import resources_on
from nova_sched.state.report import DISABLED_TRAIT
from nova_sched.state.traits import OWNER
from nova_sched.tests.placement import query
from nova_sched.tests.reference import golden, request_of
from nova_sched.tests.rows import each

ELSEWHERE = ('limit', 'member_of', 'in_tree')

RUNS = {
    run['scenario']: run['placement_queries']
    for run in golden('selections')['runs']
    if run['placement_queries']
}


def recorded(text):
    """The parameters of a recorded query."""
    asked = dict(urllib.parse.parse_qsl(text))
    for name in list(asked):
        if name.startswith(ELSEWHERE):
            del asked[name]
    return {name: value for name, value in asked.items() if value}


@each('name', RUNS)
def test_query(name):
    request, queries = request_of(name).from_nova(), RUNS[name]
    request = dataclasses.replace(
        request,
        root_required=request.root_required | {OWNER},
        root_forbidden=request.root_forbidden | {DISABLED_TRAIT},
    )
    threads = {True: {'HW_CPU_HYPERTHREADING'}, None: set()}[request.sibling_threads]
    found = [query(request, request.resources, request.required_traits | threads)]
    if request.fallback_vcpus:
        found.append(query(request, resources_on(request, {'VCPU'}), request.required_traits))
    assert found == list(map(recorded, queries))


def test_there_are_calls_of_every_kind():
    assert {
        'pci-alias-in-placement',
        'numa-2cells-hugepages-pinned',
        'image-properties',
    } <= RUNS.keys()
    assert len(RUNS) > 20
