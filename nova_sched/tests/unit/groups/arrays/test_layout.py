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
"""The live hosts, sorted so that domains are slices."""

from nova_sched.groups.arrays.compile import compile
from nova_sched.tests.groups import policy, problem
from nova_sched.tests.unit.groups.arrays.test_compile import FOUR


def test_only_live_hosts_are_left_and_domains_are_slices():
    group = problem(
        FOUR,
        [0, 5, 0, 0, 5, 5],
        racks=[2, 0, 1, 1, 2, 0],
        zones=[0, 1, 0, 0, 0, 1],
        fixed={'a': 2},
    )
    layout = compile(group).layout
    assert sorted(layout.live.tolist()) == [1, 2, 4, 5]
    for level, ids in zip(layout.levels, group.domains, strict=True):
        assert level.numbers[level.ids].tolist() == ids[layout.live].tolist()
        assert level.order is None
        for domain in range(level.count):
            assert (level.ids[level.rows(domain)] == domain).all()


def test_sums_over_domains_in_pieces():
    """Racks in order make zones that are not in one piece."""
    group = problem(
        FOUR,
        [1, 2, 3, 4],
        policy('affinity', 'rack', 'a b'),
        racks=[0, 0, 1, 1],
        zones=[0, 1, 0, 1],
    )
    layout = compile(group).layout
    rack, zone = layout.levels[1:]
    free = group.free[layout.live, 0]
    assert sorted(rack.sum(free).tolist()) == [3, 7]
    assert sorted(zone.sum(free).tolist()) == [4, 6]
    assert sorted(zone.max(free).tolist()) == [3, 4]
    assert zone.any(free > 3).tolist() == (zone.max(free) > 3).tolist()
