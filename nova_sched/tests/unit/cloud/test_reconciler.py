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
"""Claims and allocations that no server will use."""

import pytest

from nova_sched import errors
from nova_sched.claim import CONFIRMED, PENDING
from nova_sched.cloud.reconciler import EVERY_S, Reconciler
from nova_sched.tests.builders import uuid_of
from nova_sched.tests.rows import each_afresh
from nova_sched.tests.unit.cloud.doubles import node_uuid
from nova_sched.tests.unit.cloud.test_mirror import A, cloud, make

__all__ = ['cloud', 'make']
AGE_S = 60.0
AWAY = {'vm_state': 'shelved_offloaded', 'host': None, 'node': None}


@pytest.fixture
def settle(cloud):
    reconciler = Reconciler(
        cloud.scheduler,
        cloud.nova,
        cloud.nova,
        cloud.placement,
        cloud.mirror,
        AGE_S,
        lambda: cloud.world.now_s,
    )

    def after(seconds):
        cloud.world.now_s += seconds
        reconciler.settle()

    return after


CASES = {
    'killed before it wrote': (False, None, False, {}),
    'killed after it wrote, and Nova gave up': (True, None, False, {}),
    'Nova builds the server': (True, {}, True, CONFIRMED),
    'its server is deleted': (True, {'deleted': True}, False, {}),
    'on its way': (True, {**AWAY, 'task_state': 'unshelving'}, True, CONFIRMED),
    'Nova gave up, and its server stays offloaded': (True, AWAY, False, {}),
    'the conductor took another host': (False, {}, False, {}),
}


@each_afresh('allocated, server, stays, claim', CASES)
@each_afresh('is_read', {'its node was not read': False, 'its node was read since': True})
def test_an_old_claim(cloud, settle, allocated, server, stays, claim, is_read):
    host = cloud.place(A)
    if allocated:
        cloud.placement.allocate(A, host, VCPU=1)
    if server is not None:
        cloud.cell.serve(A, **server)
    if is_read:
        cloud.poll(compare=True, after_s=1.0)
    settle(AGE_S + 1)
    assert cloud.claims() == ({(A, node_uuid(host)): claim} if claim else {})
    assert bool(cloud.placement.allocations_of(A).providers) is stays
    assert cloud.used(host) == bool(claim)


def test_a_server_whose_build_request_is_there_stays(cloud, settle):
    host = cloud.place(A)
    cloud.placement.allocate(A, host, VCPU=1)
    cloud.nova.build_requests.add(A)
    settle(AGE_S + 1)
    assert cloud.claims() == {(A, node_uuid(host)): CONFIRMED}


def test_a_young_claim_is_left_alone(cloud, settle):
    host = cloud.place(A)
    settle(AGE_S - 1)
    assert cloud.claims() == {(A, node_uuid(host)): PENDING}


def test_claims_are_checked_now_and_then(cloud, settle):
    host = cloud.place(A)
    settle(AGE_S - 1)
    settle(2)
    assert cloud.claims() == {(A, node_uuid(host)): PENDING}
    settle(EVERY_S - 2)
    assert cloud.claims() == {}


def test_a_confirmed_claim_whose_allocation_has_gone_is_left_to_the_mirror(cloud, settle):
    """The conductor may have given the allocation to a migration."""
    host = cloud.place(A)
    cloud.placement.allocate(A, host, VCPU=1)
    cloud.poll(compare=True, after_s=1.0)
    cloud.cell.serve(A)
    cloud.placement.allocate(A, host)
    cloud.cell.moves[uuid_of('migration')] = A
    cloud.placement.allocate(uuid_of('migration'), host, VCPU=1)
    settle(AGE_S + 1)
    assert cloud.claims() == {(A, node_uuid(host)): CONFIRMED}


@pytest.mark.parametrize('task, is_restored', [(None, True), ('deleting', False)])
@pytest.mark.parametrize('elsewhere', [False, True], ids=['nowhere', 'on another node'])
def test_a_server_that_runs_has_lost_its_allocations(cloud, settle, task, is_restored, elsewhere):
    """A scheduler stood still for long before it removed those of the server's last stay."""
    host = cloud.place(A)
    (other,) = {'host-0', 'host-1'} - {host}
    cloud.placement.allocate(A, host, VCPU=1)
    cloud.cell.serve(A, host=host, node=host, vm_state='active')
    cloud.poll(compare=True, after_s=1.0)
    cloud.placement.allocate(A, host)
    if elsewhere:
        cloud.placement.allocate(A, other, VCPU=1)
    cloud.cell.add(host)
    cloud.cell.serve(A, host=host, node=host, vm_state='active', task_state=task)
    cloud.poll(after_s=1.0)
    assert (cloud.claims()[A, node_uuid(host)], cloud.used(host)) == (CONFIRMED, 1)
    settle(AGE_S + 1)
    assert (cloud.claims()[A, node_uuid(host)], cloud.used(host)) == (CONFIRMED, 1)
    nodes = {node_uuid(host)} if is_restored else set()
    nodes |= {node_uuid(other)} if elsewhere else set()
    assert set(cloud.placement.allocations_of(A).providers) == nodes


def test_a_server_on_another_node_of_its_host_gets_nothing(cloud, settle):
    """One service has several nodes of bare metal. The claim on the first one is left to a read
    of that node, which ends it."""
    cloud.cell.add('b0', 'b1', host='ironic')
    cloud.placement.add('b0', 'b1')
    cloud.poll(compare=True, after_s=1.0)
    cloud.place(A, force_nodes=frozenset(['b0']))
    cloud.placement.allocate(A, 'b0', VCPU=1)
    cloud.poll(compare=True, after_s=1.0)
    cloud.placement.allocate(A, 'b0')
    cloud.placement.allocate(A, 'b1', VCPU=1)
    cloud.cell.serve(A, host='ironic', node='b1', vm_state='active')
    settle(AGE_S + 1)
    assert set(cloud.placement.allocations_of(A).providers) == {node_uuid('b1')}


def test_allocations_that_placement_does_not_take_again(cloud, settle, caplog):
    """The log says it once. A class of which the claim has nothing is not asked for."""
    host = cloud.place(A)
    cloud.placement.allocate(A, host, VCPU=1)
    cloud.cell.serve(A, host=host, node=host, vm_state='active')
    cloud.poll(compare=True, after_s=1.0)
    cloud.placement.allocate(A, host)
    cloud.cell.add(host)
    cloud.poll(after_s=1.0)
    asked = []

    def refuse(wanted):
        asked.append(wanted)
        raise errors.PlacementRefused('no room', 409)

    cloud.placement.write = refuse
    for _ in range(3):
        settle(AGE_S + 1)
    assert len(asked) == 3
    assert all(asked[0][A].providers[node_uuid(host)].values())
    assert caplog.text.count('without allocations, and gets none') == 1
    assert cloud.claims() == {(A, node_uuid(host)): CONFIRMED}


def test_a_cell_that_another_scheduler_reads_is_left_to_it(cloud, settle):
    host = cloud.place(A)
    cloud.world.context.membership.position_and_count = (1, 2)
    cloud.poll(after_s=1.0)
    settle(AGE_S + 1)
    assert cloud.claims() == {(A, node_uuid(host)): PENDING}


def test_an_allocation_elsewhere_stays(cloud, settle):
    """The conductor has claimed an alternate, as a stock one does."""
    host = cloud.place(A)
    (other,) = {'host-0', 'host-1'} - {host}
    cloud.placement.allocate(A, other, VCPU=1)
    cloud.cell.serve(A)
    settle(AGE_S + 1)
    assert cloud.claims() == {}
    assert set(cloud.placement.allocations_of(A).providers) == {node_uuid(other)}


def test_an_allocation_that_changes_meanwhile_is_left_for_the_next_time(cloud, settle):
    host = cloud.place(A)
    cloud.placement.allocate(A, host, VCPU=1)
    remove = cloud.placement.remove

    def late(consumer, allocations):
        cloud.placement.allocate(A, host, VCPU=1)
        return remove(consumer, allocations)

    cloud.placement.remove = late
    settle(AGE_S + 1)
    assert cloud.claims() == {(A, node_uuid(host)): PENDING}
    cloud.placement.remove = remove
    settle(EVERY_S)
    assert cloud.claims() == {}


def test_other_servers_are_not_touched(cloud, settle):
    cloud.placement.allocate(uuid_of('other'), 'host-0', VCPU=1)
    settle(AGE_S + 1)
    assert cloud.placement.allocations_of(uuid_of('other')).providers
