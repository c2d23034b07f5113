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

Left out are what other rules do (the limit, aggregates of zones, trees of target nodes) and the
trait of Nova's own providers, which is every host's here.
"""

import urllib.parse

import pytest

from nova_sched.state.demand import resources_on
from nova_sched.tests.placement import query
from nova_sched.tests.reference import golden, request_of

ELSEWHERE = ('limit', 'member_of', 'in_tree')
EVERY_HOST = {'OWNER_NOVA', '!COMPUTE_STATUS_DISABLED'}
# A request for an accelerator is refused as a whole.
ACCELERATOR = {'root_required': 'COMPUTE_ACCELERATORS'}

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
        elif name.startswith(('required', 'root_required')):
            asked[name] = ','.join(
                word for word in asked[name].split(',') if word not in EVERY_HOST
            )
    return {name: value for name, value in asked.items() if value}


@pytest.mark.parametrize('name', RUNS)
def test_query(name):
    request, queries = request_of(name), RUNS[name]
    threads = {True: {'HW_CPU_HYPERTHREADING'}, None: set()}[request.sibling_threads]
    found = [query(request, request.resources, request.required_traits | threads)]
    if request.fallback_vcpus:
        found.append(query(request, resources_on(request, {'VCPU'}), request.required_traits))
    if name == 'accelerator':
        found = [one | ACCELERATOR for one in found]
    assert found == list(map(recorded, queries))


def test_there_are_calls_of_every_kind():
    assert {
        'pci-alias-in-placement',
        'numa-2cells-hugepages-pinned',
        'image-properties',
    } <= RUNS.keys()
    assert len(RUNS) > 20
