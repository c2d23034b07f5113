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
"""What the scheduler of the cloud has done with a request."""

import pytest

from nova_sched import errors
from nova_sched.extensions.shadow.choices import PLACED, REFUSED, UNKNOWN, Choice, Choices
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.unit.cloud.doubles import FakeCell, FakeCloud, FakePlacement, node_uuid

A, CHILD = uuid_of('a'), uuid_of('child')


class FakeMirror:
    """Knows these hosts, and for which servers Nova waits."""

    def __init__(self, *hosts):
        self.hosts = {node_uuid(host): host for host in hosts}
        self.waiting = set()

    def host_of(self, uuid):
        return self.hosts.get(uuid)

    def waits_for_host(self, uuids):
        return not self.waiting.isdisjoint(uuids)


class Cloud:
    """Two hosts; host-1 has a child provider, and host-2 is not known to the mirror."""

    def __init__(self):
        self.cell, self.placement = FakeCell(), FakePlacement()
        self.placement.add('host-0', 'host-2')
        self.placement.add('host-1', children=[CHILD])
        self.mirror = FakeMirror('host-0', 'host-1')
        self.choices = Choices(FakeCloud(self.cell), self.placement, self.mirror)

    def find(self, *ignored):
        return self.choices.find(A, frozenset(ignored))


@pytest.fixture
def cloud():
    return Cloud()


@pytest.mark.parametrize(
    'host, choice',
    [
        pytest.param('host-0', Choice(PLACED, node_uuid('host-0'), 'host-0'), id='placed'),
        pytest.param('host-2', Choice(PLACED, node_uuid('host-2')), id='on an unknown host'),
    ],
)
def test_an_allocation_shows_the_host(cloud, host, choice):
    cloud.placement.allocate(A, host, VCPU=1)
    assert cloud.find() == choice


def test_an_allocation_of_a_child_provider_only(cloud):
    tree = cloud.placement.trees[node_uuid('host-1')]
    tree.allocations[CHILD] = {A: {'CUSTOM_MAGIC': 1}}
    assert cloud.find().host == 'host-1'


def test_an_evacuation_has_allocations_on_both_hosts(cloud):
    cloud.placement.allocate(A, 'host-0', VCPU=1)
    cloud.mirror.waiting.add(A)
    assert cloud.find('host-0') is None
    cloud.placement.allocate(A, 'host-1', VCPU=1)
    assert cloud.find('host-0').host == 'host-1'


@pytest.mark.parametrize(
    'server, ignored, choice',
    [
        pytest.param(None, (), Choice(REFUSED), id='no server was made'),
        pytest.param({'host': 'host-0'}, ('host-0',), Choice(REFUSED), id='it stays'),
        pytest.param({'host': 'host-0'}, (), Choice(PLACED, None, 'host-0'), id='it has run'),
        pytest.param({'vm_state': 'error'}, (), Choice(UNKNOWN), id='no build succeeded'),
        pytest.param({'deleted': True}, (), Choice(UNKNOWN), id='it was deleted'),
        pytest.param(
            {'vm_state': 'shelved_offloaded'}, (), Choice(REFUSED), id='it stays shelved'
        ),
    ],
)
def test_without_allocations(cloud, server, ignored, choice):
    if server is not None:
        cloud.cell.serve(A, **server)
    assert cloud.find(*ignored) == choice


def test_nova_has_not_decided_yet(cloud):
    cloud.mirror.waiting.add(A)
    assert cloud.find() is None


def test_placement_does_not_answer(cloud):
    problem = errors.PlacementUnavailable('away')
    with cloud.placement.failing(problem), pytest.raises(errors.PlacementUnavailable):
        cloud.find()
