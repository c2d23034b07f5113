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
"""Shared by tests of the state sync and of the claim service: two small hosts and their facts."""

import pytest

from nova_sched.claim import VCPU
from nova_sched.claims import Placement
from nova_sched.tests.builders import report, request, uuid_of
from nova_sched.tests.unit.engine.stores import Contested
from nova_sched.tests.unit.engine.world import World, fresh, picture

A, B, C = (uuid_of(f'instance {letter}') for letter in 'ABC')


def node(host='host-0'):
    return uuid_of(f'node {host}')


def asks(instance=A, **words):
    return request(instance_uuid=instance, **words)


@pytest.fixture
def world():
    """Two hosts with 4 CPUs each; at the end a scheduler that starts now knows the same."""
    made = World(Contested())
    made.report(report(vcpus=4), report('host-1', vcpus=4))
    yield made
    made.state_sync.refresh()
    assert picture(made.cluster) == picture(fresh(made.store))


def states(world):
    """(consumer, host) -> state of every claim. The cluster and the store agree."""
    held = {
        (one.consumer_uuid, node.host): one.state
        for node in world.cluster
        for one in node.claims.values()
    }
    hosts = {one.uuid: one.host for one in world.cluster}
    stored = {(one.consumer_uuid, hosts[one.node_uuid]): one.state for one in world.store.claims()}
    assert held == stored
    return held


def used(world):
    return world.cluster.hosts.resource(VCPU).used.tolist()


def commit(store, *claims):
    """As another scheduler does it."""
    assert store.commit([Placement(claims)])[0].won
