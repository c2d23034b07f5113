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
"""Groups as their owners see them."""

import pytest

from nova_sched import errors
from nova_sched.engine.groups.reading import Given, ReadingRules
from nova_sched.groups.definition import (
    AFFINITY,
    ANTI_AFFINITY,
    GroupPolicy,
)
from nova_sched.tests.builders import aggregate
from nova_sched.tests.unit.engine.groups.group_cloud import (
    SOURCE,
    WEBS,
    cloud,
    definition,
    members,
    webs,
)

SERVER = {'type': 'OS::Nova::Server', 'properties': {'flavor': {'vcpus': 1, 'ram': 512}}}
ROOM_OF_TWO_ZONES = {
    'heat_template_version': '2021-04-16',
    'resources': {
        **dict.fromkeys(('a', 'b'), SERVER),
        'app': {
            'type': 'OS::NovaSched::Group',
            'properties': {
                'members': ['a', 'b'],
                'policies': [
                    {'type': 'affinity', 'level': 'room'},
                    {'type': 'anti-affinity', 'level': 'zone'},
                ],
            },
        },
    },
}


def contradiction(made):
    rules = ReadingRules(made.groups.levels, 10, {}, {}, 2.0)
    return made.groups.account('p', Given(ROOM_OF_TWO_ZONES), rules)['contradiction']


class TestLooks:
    def test_projects_see_their_own(self, eight):
        group = eight.create(webs())
        assert [one.uuid for one in eight.groups.list('p')] == [group.uuid]
        assert eight.groups.list('q') == []
        with pytest.raises(errors.GroupNotFound):
            eight.groups.show(group.uuid, 'q')

    def test_the_source_is_kept(self, eight):
        assert eight.groups.show(eight.create(webs()).uuid).source == SOURCE

    def test_topology(self, eight):
        assert eight.groups.topology() == {
            'warnings': [],
            'domains': {'host': 8, 'rack': 4, 'room': 2, 'zone': 1},
        }

    def test_a_group_that_was_just_placed_contradicts_nothing(self, eight):
        """Room m0 spans two zones, so that its hosts can keep both policies."""
        zone = aggregate(1, ['h0', 'h1'], availability_zone='z')
        eight.scheduler.call(eight.scheduler.state_sync.set_aggregates, [zone])
        both = (
            GroupPolicy('room', AFFINITY, 'room', WEBS[:2]),
            GroupPolicy('zones', ANTI_AFFINITY, 'zone', WEBS[:2]),
        )
        found = definition(members(*WEBS[:2]), *both)
        assert len(eight.places(eight.create(found))) == 2
        assert contradiction(eight) is None

    def test_policies_that_collide_in_rooms_of_one_zone(self, eight):
        assert 'affinity at room' in contradiction(eight)

    def test_a_node_that_tells_no_rack(self):
        with cloud(0) as made:
            made.join(0, stats={})
            assert '1 node reports no rack: h0' in made.groups.topology()['warnings']
