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
"""Policies that collide on every cluster are found without any."""

import pytest

from nova_sched.groups import ideal, why
from nova_sched.groups.definition import Definition, GroupPolicy, Member, MemberFlavor
from nova_sched.groups.topology import DomainTopology

LEVELS = DomainTopology(orders=['host < power']).levels
STRICT = {('rack', 'room'), ('rack', 'zone'), ('room', 'zone')}
FLAVOR = MemberFlavor(vcpus=1, memory_mb=1)


def definition(*policies, members=3):
    paths = tuple(f'app/{number}' for number in range(members))
    made = (
        GroupPolicy(**{'name': f'{one["kind"]} at {one["level"]}', 'a': paths, **one})
        for one in policies
    )
    return Definition({path: Member(path=path, flavor=FLAVOR) for path in paths}, tuple(made))


def policy(kind, level, **more):
    return {'kind': kind, 'level': level, **more}


@pytest.mark.parametrize(
    'policies, named',
    [
        pytest.param([], [], id='none'),
        pytest.param(
            [policy('anti-affinity', 'host'), policy('affinity', 'rack')], [], id='hosts of a rack'
        ),
        pytest.param(
            [policy('anti-affinity', 'power'), policy('affinity', 'rack')], [], id='no nesting'
        ),
        pytest.param([policy('spread', 'zone', min_domains=3)], [], id='as many zones as members'),
        pytest.param(
            [policy('anti-affinity', 'zone'), policy('affinity', 'rack')],
            ['anti-affinity at zone', 'affinity at rack'],
            id='zones of a rack',
        ),
        pytest.param(
            [policy('anti-affinity', 'power'), policy('affinity', 'host')],
            ['anti-affinity at power', 'affinity at host'],
            id='power feeds of a host',
        ),
        pytest.param(
            [policy('spread', 'rack', min_domains=4)], ['spread at rack'], id='too few members'
        ),
        pytest.param(
            [policy('spread', 'rack', min_domains=4, weight=1.0)], [], id='a wish is no matter'
        ),
    ],
)
def test_contradictions(policies, named):
    words = why.contradiction_anywhere(definition(*policies), LEVELS, STRICT)
    assert bool(words) == bool(named)
    assert all(name in words for name in named)


@pytest.mark.parametrize(
    'policies, nests, is_told',
    [
        pytest.param(
            [policy('anti-affinity', 'zone'), policy('affinity', 'room')],
            set(),
            False,
            id='a room spans zones',
        ),
        pytest.param(
            [policy('anti-affinity', 'zone'), policy('affinity', 'room')],
            {('rack', 'room'), ('rack', 'zone')},
            False,
            id='racks lie in both',
        ),
        pytest.param(
            [policy('anti-affinity', 'zone'), policy('affinity', 'room')],
            {('room', 'zone')},
            True,
            id='rooms lie in zones',
        ),
        pytest.param(
            [policy('anti-affinity', 'zone'), policy('affinity', 'host')],
            set(),
            True,
            id='zones of a host',
        ),
    ],
)
def test_levels_lie_in_each_other_only_where_they_are_said_to(policies, nests, is_told):
    assert bool(why.contradiction_anywhere(definition(*policies), LEVELS, nests)) == is_told


def test_the_cluster_has_all_that_the_group_can_use():
    made = ideal.imagined(
        definition(policy('affinity', 'zone'), policy('apart', 'power', b=())), LEVELS
    )
    assert made.levels == ['host', 'zone', 'power']
    assert [len(set(ids.tolist())) for ids in made.domains] == [27, 3, 3]
    nested = ideal.imagined(
        definition(policy('affinity', 'rack'), policy('affinity', 'room')), LEVELS, STRICT
    )
    assert [len(set(ids.tolist())) for ids in nested.domains] == [27, 9, 3]
    rack_to_room = set(zip(nested.domains[1].tolist(), nested.domains[2].tolist(), strict=True))
    assert len(rack_to_room) == 9  # each rack is in one room


def test_a_group_that_could_use_more_than_can_be_looked_through():
    large = definition(policy('anti-affinity', 'rack'), policy('affinity', 'zone'), members=200)
    assert ideal.imagined(large, LEVELS) is None
    assert why.contradiction_anywhere(large, LEVELS) is None


def test_a_group_without_members_is_not_checked():
    assert (
        why.contradiction_anywhere(
            definition(policy('spread', 'rack', min_domains=2), members=0), LEVELS
        )
        is None
    )
