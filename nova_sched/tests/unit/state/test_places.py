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
"""Which rows hold which instance, and of which images."""

import collections
import types

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from nova_sched.claim import Claim
from nova_sched.state.places import MAX_SPARE_IMAGES, Places, image_of
from nova_sched.tests.builders import cluster, request, uuid_of
from nova_sched.tests.cases import cases
from nova_sched.tests.rows import table

A, B = uuid_of('a'), uuid_of('b')
INSTANCES, ROWS = ['i', 'j', 'k'], range(4)
PAIRS = [('os_distro', 'ubuntu'), ('os_distro', 'fedora'), ('hw_qemu_guest_agent', 'True')]
instances, rows = st.sampled_from(INSTANCES), st.sampled_from(ROWS)


class PlacesMachine(RuleBasedStateMachine):
    """Places against two plain dicts."""

    def __init__(self):
        super().__init__()
        self.places = Places()
        self.rows, self.images = collections.defaultdict(set), collections.defaultdict(set)

    @initialize(counted=st.booleans())
    def ask(self, counted):
        """From the first question on, counts are kept instead of made."""
        self.counted = counted
        if counted:
            self.places.count_images(PAIRS[0], 4)

    @rule(uuid=instances, row=rows)
    def put(self, uuid, row):
        self.places.put(uuid, row)
        self.rows[uuid].add(row)

    @rule(uuid=instances, row=rows)
    def leave(self, uuid, row):
        self.places.leave(uuid, row)
        self.rows[uuid].discard(row)

    @rule(uuid=instances, old=rows, new=rows)
    def move(self, uuid, old, new):
        if old in self.rows[uuid] and new not in self.rows[uuid]:
            self.places.move(uuid, old, new)
            self.rows[uuid] ^= {old, new}

    @rule(uuid=instances, image=st.sets(st.sampled_from(PAIRS)))
    def learn(self, uuid, image):
        self.places.learn(uuid, dict(image))
        self.images[uuid] = set(dict(image).items())

    @invariant()
    def places_are_those_of_the_model(self):
        assert self.places == {uuid: found for uuid, found in self.rows.items() if found}

    @invariant()
    def images_are_counted(self):
        if not self.counted:
            return
        for pair in PAIRS:
            wanted = [
                sum(row in self.rows[uuid] and pair in self.images[uuid] for uuid in INSTANCES)
                for row in ROWS
            ]
            assert self.places.count_images(pair, 4).tolist() == wanted

    def teardown(self):
        self.counted = True
        self.images_are_counted()


PlacesMachine.TestCase.settings = settings(max_examples=cases(40), stateful_step_count=30)
TestPlaces = PlacesMachine.TestCase


def test_images_are_forgotten_in_the_end_but_not_at_once():
    places = Places()
    places.put('here', 0)
    places.learn('here', {'a': 1})
    for number in range(MAX_SPARE_IMAGES):
        places.learn(f'nowhere {number}', {'a': 1})
    assert places.image('nowhere 0') == places.image('here') == {('a', '1')}
    assert places.image('nowhere 0') is places.image('here')
    for number in range(3):
        places.learn(f'late {number}', {'a': 2})
    assert places.image('nowhere 0') == frozenset()
    assert places.image('here') == {('a', '1')}
    assert places.image('late 2') == {('a', '2')}


def test_a_claim_tells_the_image_at_once_and_for_as_long_as_the_instance_is_there():
    made = cluster(2)
    seen, node = made.hosts, made.hosts.nodes[1]
    asked = request(instance_uuid=A, image_properties={'os_distro': 'ubuntu'})
    consumption = made.consume(node, asked)

    def counts():
        return seen.count_images('os_distro', 'ubuntu').tolist()

    assert counts() == [0, 1]
    made.put(
        node.report, [consumption.held]
    )  # a report takes all claims back and makes them again
    assert counts() == [0, 1]
    made.tell('host-1', [A, B])
    made.drop(consumption.held)
    assert counts() == [0, 1]
    made.tell('host-1', [B])
    assert counts() == [0, 0]
    made.add(Claim(A, made.hosts.nodes[0].uuid, {}))
    assert counts() == [1, 0]
    assert seen.count_images('os_distro', 'fedora').tolist() == [0, 0]


@table(
    'instance, image',
    {
        'none': (None, {}),
        'metadata are not set': (types.SimpleNamespace(uuid=A), {}),
        'as Nova keeps them': (
            types.SimpleNamespace(
                system_metadata={
                    'image_os_distro': 'ubuntu',
                    'image_hw_qemu_guest_agent': 'yes',
                    'image_architecture': 'x86_64',
                    'image_min_disk': '1',
                    'boot_roles': 'member',
                }
            ),
            {'os_distro': 'ubuntu', 'hw_qemu_guest_agent': 'True', 'hw_architecture': 'x86_64'},
        ),
        'nonsense': (
            types.SimpleNamespace(system_metadata={'image_hw_disk_bus': 'no such bus'}),
            {},
        ),
    },
)
def test_image_of(instance, image):
    assert image_of(instance) == image
