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
"""Claims and servers compared with the allocations in Placement."""

import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED, PENDING, Claim
from nova_sched.claims.findings import DOUBLED, MISSING, Snapshot
from nova_sched.cloud import audit
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.cloud.doubles import FakeCell, FakeCloud, FakePlacement, node_uuid

A, MOVE = uuid_of('a'), uuid_of('migration')
ACTIVE = {'host': 'host-0', 'vm_state': 'active'}


def claim(host='host-0', state=CONFIRMED):
    return Claim(A, node_uuid(host), {'VCPU': 1}, state=state)


class Cloud:
    """Two hosts in one cell."""

    def __init__(self):
        self.cell = FakeCell()
        self.cell.add('host-0', 'host-1')
        self.nova, self.placement = FakeCloud(self.cell), FakePlacement()
        self.placement.add('host-0', 'host-1')
        self.claims, self.pauses = [], []

    def read(self):
        return audit.read(self.nova, self.nova, self.placement)

    def differences(self, meanwhile=lambda: None):
        def wait(seconds):
            self.pauses.append(seconds)
            meanwhile()

        found, _ = audit.differences(lambda: Snapshot({}, tuple(self.claims)), self.read, wait)
        return [(one.kind, one.severity, one.consumer_uuid, one.host) for one in found]


@pytest.fixture
def cloud():
    return Cloud()


def running(cloud):
    cloud.cell.serve(A, **ACTIVE)
    cloud.placement.allocate(A, 'host-0', VCPU=1)
    cloud.claims.append(claim())


def test_nodes_that_name_no_host(cloud):
    """Their rows are of computes that have never written them since."""
    for host in ('host-0', 'host-1'):
        cloud.cell.add(host, host=None)
        cloud.placement.allocate(A, host, VCPU=1)
    cloud.cell.serve(A, **ACTIVE)
    found = cloud.differences()
    assert {(kind, consumer) for kind, _, consumer, _ in found} == {(DOUBLED, A), (MISSING, A)}


def moving(cloud):
    cloud.cell.serve(A, **{**ACTIVE, 'host': 'host-1'})
    cloud.cell.moves[MOVE] = A
    cloud.placement.allocate(MOVE, 'host-0', VCPU=1)
    cloud.placement.allocate(A, 'host-1', VCPU=1)
    cloud.claims += [claim('host-0'), claim('host-1')]


def being_built(cloud):
    cloud.nova.build_requests.add(A)
    cloud.placement.allocate(A, 'host-0', VCPU=1)


def claimed(cloud):
    cloud.placement.allocate(A, 'host-0', VCPU=1)
    cloud.claims.append(claim(state=PENDING))


def not_written(cloud):
    cloud.claims.append(claim(state=PENDING))


def deleting(cloud):
    cloud.cell.serve(A, **ACTIVE, task_state='deleting')


@each_afresh(
    'arrange',
    {
        'an empty cloud': lambda cloud: None,
        'a server': running,
        'a server that moves': moving,
        'a server that is being built': being_built,
        'a claim without a server': claimed,
        'a pending claim that is not written': not_written,
        'a server that is being deleted': deleting,
    },
)
def test_a_sound_cloud(cloud, arrange):
    arrange(cloud)
    assert cloud.differences() == []
    assert cloud.pauses == []


def leaked(cloud):
    cloud.placement.allocate(A, 'host-0', VCPU=1)


def leaked_by_a_deleted_server(cloud):
    leaked(cloud)
    cloud.cell.serve(A, **ACTIVE, deleted=True)


def without_allocation(cloud):
    cloud.cell.serve(A, **ACTIVE)


def allocated_elsewhere(cloud):
    cloud.cell.serve(A, **ACTIVE)
    cloud.placement.allocate(A, 'host-1', VCPU=1)


def claim_without_allocation(cloud):
    cloud.claims.append(claim())


def both(cloud):
    without_allocation(cloud)
    claim_without_allocation(cloud)


def doubled(cloud):
    running(cloud)
    cloud.placement.allocate(A, 'host-1', VCPU=1)


def evacuated(cloud):
    doubled(cloud)
    cloud.cell.evacuations.add(A)


@each_afresh(
    'arrange, found',
    {
        'leaked': (leaked, ('leaked', 'error', A, 'host-0')),
        'leaked by a deleted server': (
            leaked_by_a_deleted_server,
            ('leaked', 'error', A, 'host-0'),
        ),
        'a bare server': (without_allocation, ('missing', 'error', A, 'host-0')),
        'elsewhere': (allocated_elsewhere, ('missing', 'error', A, 'host-0')),
        'a claim': (claim_without_allocation, ('missing', 'error', A, 'host-0')),
        'a server and its claim': (both, ('missing', 'error', A, 'host-0')),
        'doubled': (doubled, ('doubled', 'error', A, None)),
        'evacuated': (evacuated, ('doubled', 'note', A, None)),
    },
)
def test_a_finding(cloud, arrange, found):
    arrange(cloud)
    assert cloud.differences() == [found]
    assert cloud.pauses == [audit.AGAIN_S]


def test_what_is_in_order_a_moment_later_is_no_finding(cloud):
    leaked(cloud)
    assert cloud.differences(lambda: cloud.placement.allocate(A, 'host-0')) == []


def test_what_is_new_a_moment_later_is_no_finding(cloud):
    leaked(cloud)
    other = uuid_of('other')
    found = cloud.differences(lambda: cloud.placement.allocate(other, 'host-0', VCPU=1))
    assert [one[2] for one in found] == [A]


def test_a_provider_that_is_gone_meanwhile(cloud):
    running(cloud)
    generations = cloud.placement.provider_trees()
    generations[node_uuid('host-0')] = {'gone': 1, **generations[node_uuid('host-0')]}
    cloud.placement.provider_trees = lambda: generations
    assert cloud.differences() == []


@each_afresh(
    'spoil, error',
    {
        'a cell': (lambda cloud: setattr(cloud.cell, 'is_away', True), errors.StoreUnavailable),
        'Placement': (
            lambda cloud: setattr(
                cloud.placement, 'problem', errors.PlacementUnavailable('timeout')
            ),
            errors.PlacementUnavailable,
        ),
    },
)
def test_a_cloud_that_cannot_be_read_has_no_findings(cloud, spoil, error):
    leaked(cloud)
    spoil(cloud)
    with pytest.raises(error):
        cloud.differences()
